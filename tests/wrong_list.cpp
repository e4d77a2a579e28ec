// SPDX-License-Identifier: Apache-2.0
// The list of backends of siattn_wrong, in place of dispatch/backends.cpp: the real ones and one that is wrong.
#include "dispatch/backends.hpp"
#include "reference/backend.hpp"
#include "tests/wrong_backends.hpp"

namespace siattn::dispatch {

std::vector<const Backend*> all_backends() {
  static const test::WrongBackend wrong("wrong-tau", test::Mistake::tau_one_percent_off);
  std::vector<const Backend*> list;
  const auto add = [&list](std::span<const Backend* const> some) { list.insert(list.end(), some.begin(), some.end()); };
  add(cpu::backends());
  add(reference::backends());
  list.push_back(&wrong);
  return list;
}

}  // namespace siattn::dispatch
