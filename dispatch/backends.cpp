// SPDX-License-Identifier: Apache-2.0
// THE list of backends, best first. Adding a backend is a folder and a line in all_backends(). Nothing else is in this
// file: a program that defines this function itself has its own list (tests/wrong_list.cpp).
#include "dispatch/backends.hpp"

#include "cpu/backend.hpp"
#if defined(SIATTN_HAS_ONEDNN)
#include "cpu/onednn/backend.hpp"
#endif
#include "gpu/backend.hpp"
#include "reference/backend.hpp"

namespace siattn::dispatch {

std::vector<const Backend*> all_backends() {
  std::vector<const Backend*> list;
  const auto add = [&list](std::span<const Backend* const> some) { list.insert(list.end(), some.begin(), some.end()); };
  add(gpu::backends());
#if defined(SIATTN_HAS_ONEDNN)
  add(cpu::onednn_backends());
#endif
  add(cpu::backends());
  add(reference::backends());
  return list;
}

}  // namespace siattn::dispatch
