// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_FAR_TENSORS_HPP
#define SIATTN_VERIFY_FAR_TENSORS_HPP

#include <cstddef>
#include <vector>

#include <siattn/attention.hpp>

namespace siattn::verify {

/// The same tensors with rows so far apart that the offsets of late ones, and of late ones within 256 rows of another,
/// exceed 2^31 elements. Behind the last row begins a page that cannot be read or written: a program that goes on
/// reading ends there. Address space is reserved and, but for the rows, never touched: megabytes of memory.
class FarTensors {
 public:
  /// Copies the rows of the inputs. The tensors have to stay.
  explicit FarTensors(const AttentionTensors& near);
  ~FarTensors();
  FarTensors(const FarTensors&) = delete;
  FarTensors& operator=(const FarTensors&) = delete;

  /// False: the machine did not give the address space.
  bool mapped() const noexcept { return mapped_; }
  const AttentionTensors& tensors() const noexcept { return far_; }
  /// Copies the rows of out and lse back.
  void copy_outputs();

 private:
  struct Mapping {
    void* at;
    std::size_t bytes;
  };
  /// Moves this view to memory of its own, with a large stride between rows.
  template <class View>
  void spread(View& view);

  AttentionTensors near_;
  AttentionTensors far_;
  std::vector<Mapping> mappings_;
  bool mapped_ = true;
};

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_FAR_TENSORS_HPP
