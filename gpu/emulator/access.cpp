// SPDX-License-Identifier: Apache-2.0
// Accesses of shared and global memory, and cp.async.
#include <algorithm>

#include "gpu/emulator/machine.hpp"

namespace siattn::gpu::emulator {

std::byte* Machine::shared(std::uint32_t at, std::size_t bytes, std::size_t align, const Where& where) {
  if (at < kSharedBegin || offset(at) + bytes > shared_bytes_) {
    fail(std::to_string(bytes) + " bytes at " + std::to_string(static_cast<std::int64_t>(at) - kSharedBegin) +
             " of shared memory, out of bounds: it has " + std::to_string(shared_bytes_),
         where);
  }
  if (at % align != 0)
    fail("shared byte " + std::to_string(offset(at)) + " is not at a multiple of " + std::to_string(align), where);
  return shared_.get() + offset(at);
}

void Machine::check_global(const void* at, std::size_t bytes, std::size_t align, bool write, const Where& where) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  if (address % align != 0) fail("a global address not at a multiple of " + std::to_string(align), where);
  for (const Window& window : windows_) {
    if (address >= window.begin && address + bytes <= window.end && (!write || window.writable)) return;
  }
  const Window window = window_of(at, bytes, write);
  if (window.end == 0) {
    fail(std::string(write ? "writes " : "reads ") + std::to_string(bytes) +
             " bytes of global memory out of bounds: in no buffer" + (write ? " that may be written" : ""),
         where);
  }
  windows_[next_window_++ % windows_.size()] = window;
}

void Machine::copy(const Copy& copy, const Where& where) {
  const auto whole = static_cast<std::size_t>(copy.whole);
  std::byte* to = shared(copy.to, whole, whole, where);
  if (copy.bytes < 0 || copy.bytes > copy.whole) fail("cp.async of " + std::to_string(copy.bytes) + " bytes", where);
  if (copy.bytes > 0) check_global(copy.from, static_cast<std::size_t>(copy.bytes), whole, false, where);
  if (schedule_.races) {
    fail_if(
        races_.start_write(thread_, races_.copies_of(thread_), copy.group, false, offset(copy.to), whole, where.line()),
        where);
  }
  if (at_once()) return perform(copy);
  std::memset(to, 0xff, whole);
  copies_[static_cast<std::size_t>(thread_)].push_back(copy);
}

void Machine::perform(const Copy& copy) {
  std::byte* to = shared_.get() + offset(copy.to);
  std::memset(to, 0, static_cast<std::size_t>(copy.whole));
  if (copy.bytes > 0) std::memcpy(to, copy.from, static_cast<std::size_t>(copy.bytes));
}

void Machine::wait_copies(std::uint32_t done) {
  std::vector<Copy>& mine = copies_[static_cast<std::size_t>(thread_)];
  const auto rest =
      std::stable_partition(mine.begin(), mine.end(), [&](const Copy& copy) { return copy.group <= done; });
  for (auto copy = mine.begin(); copy != rest; ++copy) perform(*copy);
  mine.erase(mine.begin(), rest);
  if (schedule_.races) races_.learn(thread_, races_.copies_of(thread_), done);
}

}  // namespace siattn::gpu::emulator
