// SPDX-License-Identifier: Apache-2.0
// A list of backends in place of dispatch/backends.cpp, in which cuda runs on the emulator: all else of the program that
// is linked with it is what it was.
#include <cstdlib>

#include "cpu/backend.hpp"
#include "dispatch/backends.hpp"
#include "reference/backend.hpp"
#include "tests/emulated_backends.hpp"

namespace siattn::dispatch {

std::vector<const Backend*> all_backends() {
  // The device to emulate: 80 or 90. Each has kernels of its own.
  if (const char* const capability = std::getenv("SIATTN_EMULATED_CAPABILITY")) {
    gpu::emulator::driver_control().capability = std::atoi(capability);
  }
  std::vector<const Backend*> list;
  const auto add = [&list](std::span<const Backend* const> some) { list.insert(list.end(), some.begin(), some.end()); };
  add(test::emulated_backends());
  add(cpu::backends());
  add(reference::backends());
  return list;
}

}  // namespace siattn::dispatch
