// SPDX-License-Identifier: Apache-2.0
// A list of backends in place of dispatch/backends.cpp, for the command that tools/device_check.sh runs.
#include "cpu/backend.hpp"
#include "dispatch/backends.hpp"
#include "reference/backend.hpp"
#include "tests/device_backends.hpp"

namespace siattn::dispatch {

std::vector<const Backend*> all_backends() {
  static const test::OnDeviceBackend in_place(*gpu::backends().front());
  std::vector<const Backend*> list;
  const auto add = [&list](std::span<const Backend* const> some) { list.insert(list.end(), some.begin(), some.end()); };
  add(gpu::backends());
  list.push_back(&in_place);
  add(cpu::backends());
  add(reference::backends());
  return list;
}

}  // namespace siattn::dispatch
