// SPDX-License-Identifier: Apache-2.0
// Global memory: which bytes kernels may touch.
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>

#include "gpu/emulator/emulator.hpp"
#include "gpu/emulator/memory.hpp"

namespace siattn::gpu::emulator {
namespace {

struct Extent {
  std::size_t bytes;
  bool writable;
  bool ours;
};

std::mutex mutex;
std::map<std::uintptr_t, Extent>& buffers() {
  static std::map<std::uintptr_t, Extent> all;
  return all;
}

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

/// The buffer that holds the address, or the end.
auto holder(std::uintptr_t at) {
  auto next = buffers().upper_bound(at);
  if (next == buffers().begin()) return buffers().end();
  --next;
  return at < next->first + next->second.bytes ? next : buffers().end();
}

}  // namespace

void add_buffer(const void* begin, std::size_t bytes, bool writable) {
  const std::lock_guard lock(mutex);
  if (bytes == 0) return;
  if (!buffers().emplace(number(begin), Extent{bytes, writable, false}).second) {
    throw std::invalid_argument("emulator: a buffer begins there already");
  }
}

void remove_buffer(const void* begin) {
  const std::lock_guard lock(mutex);
  buffers().erase(number(begin));
}

void* allocate(std::size_t bytes) {
  constexpr std::size_t kAlign = 256;
  const std::size_t whole = (bytes == 0 ? 1 : bytes);
  // Of exactly these bytes: an address sanitizer sees the first one past them.
  void* begin = ::operator new (whole, std::align_val_t{kAlign});
  std::memset(begin, 0xff, whole);
  const std::lock_guard lock(mutex);
  buffers().emplace(number(begin), Extent{whole, true, true});
  return begin;
}

bool release(void* begin) {
  {
    const std::lock_guard lock(mutex);
    const auto at = buffers().find(number(begin));
    if (at == buffers().end() || !at->second.ours) return false;
    buffers().erase(at);
  }
  ::operator delete (begin, std::align_val_t{256});
  return true;
}

bool allocated(const void* address) {
  const std::lock_guard lock(mutex);
  const auto at = holder(number(address));
  return at != buffers().end() && at->second.ours;
}

Window window_of(const void* address, std::size_t bytes, bool write) {
  const std::lock_guard lock(mutex);
  const auto at = holder(number(address));
  if (at == buffers().end() || number(address) + bytes > at->first + at->second.bytes) return {};
  if (write && !at->second.writable) return {};
  return {at->first, at->first + at->second.bytes, at->second.writable};
}

}  // namespace siattn::gpu::emulator
