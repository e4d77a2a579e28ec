// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_GPU_EMULATOR_MEMORY_HPP
#define SIATTN_GPU_EMULATOR_MEMORY_HPP

#include <cstddef>
#include <cstdint>

namespace siattn::gpu::emulator {

/// A buffer, remembered by a launch so that most accesses need no search.
struct Window {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool writable = false;
};

/// The buffer that holds all of these bytes and may be read (or written); empty where there is none.
Window window_of(const void* address, std::size_t bytes, bool write);

}  // namespace siattn::gpu::emulator

#endif  // SIATTN_GPU_EMULATOR_MEMORY_HPP
