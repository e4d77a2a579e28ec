// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_GUARDED_MEMORY_HPP
#define SIATTN_VERIFY_GUARDED_MEMORY_HPP

#include <cstddef>
#include <cstdint>
#include <span>

namespace siattn::verify {

/// What lies around a buffer.
enum class Guard : std::uint8_t {
  bytes,        ///< bytes that hold NaN: a write shows afterwards, a read where its value counts
  page_behind,  ///< the last byte is followed by a page that nobody may touch: a read is a crash that names the buffer
  page_before,  ///< the same before the first byte
};

/// Bytes between guards. All start as 0xFF, a NaN in every floating-point type. Guard pages need Linux: elsewhere they
/// are guard bytes. A copy has guards of its own.
class GuardedMemory {
 public:
  GuardedMemory() = default;
  /// `name` (a literal) is what a crash calls it. With guard bytes the data misses a 64-byte boundary by
  /// `misalignment` bytes; with pages it lies where the page wants it.
  GuardedMemory(const char* name, std::size_t bytes, Guard guard, std::size_t misalignment = 0);
  GuardedMemory(const GuardedMemory& other);
  GuardedMemory(GuardedMemory&& other) noexcept { swap(other); }
  GuardedMemory& operator=(GuardedMemory other) noexcept {
    swap(other);
    return *this;
  }
  ~GuardedMemory();

  std::byte* data() const noexcept { return base_ + start_; }
  std::size_t start() const noexcept { return start_; }  ///< of the data in all()
  /// The data and the guard bytes on either side.
  std::span<std::byte> all() const noexcept { return {base_, size_}; }

 private:
  void swap(GuardedMemory& other) noexcept;

  const char* name_ = nullptr;
  Guard guard_ = Guard::bytes;
  std::byte* base_ = nullptr;
  std::size_t size_ = 0;
  std::size_t start_ = 0;
};

/// While it lives, a touch of a guard page prints one line that names the buffer, how far outside it, and `what` was
/// going on. Then the process crashes as it would have. One at a time.
class NamedCrashes {
 public:
  explicit NamedCrashes(const char* what);
  ~NamedCrashes();
  NamedCrashes(const NamedCrashes&) = delete;
  NamedCrashes& operator=(const NamedCrashes&) = delete;
};

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_GUARDED_MEMORY_HPP
