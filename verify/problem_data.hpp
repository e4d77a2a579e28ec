// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_PROBLEM_DATA_HPP
#define SIATTN_VERIFY_PROBLEM_DATA_HPP

#include <functional>
#include <vector>

#include <siattn/attention.hpp>

#include "verify/guarded_memory.hpp"

namespace siattn::verify {

/// How tensors lie in memory.
struct Placement {
  bool heads_inside = false;      ///< [batch, len, heads, dim] in place of [batch, heads, len, dim]
  std::int64_t row_padding = 0;   ///< elements between the rows, which hold NaN
  std::int64_t misalignment = 0;  ///< elements by which the data misses a 64-byte boundary (with guard bytes)
  Guard guard = Guard::bytes;     ///< around each tensor, the lengths and the workspace
};

/// One tensor with guards around it: elements that nobody may write, and gaps that hold NaN, so that a value read from
/// where there is none shows.
class GuardedTensor {
 public:
  GuardedTensor() = default;
  /// `name` is what a crash at a guard page calls it.
  GuardedTensor(DType dtype, const Shape4& shape, const Placement& placement, const char* name = "a tensor");

  MutableTensorView view() noexcept;
  TensorView view() const noexcept { return const_cast<GuardedTensor*>(this)->view(); }
  /// Rounds once to the tensor's type.
  void set(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d, double value);
  double get(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) const;
  /// NaN in every element.
  void clear();
  /// Nothing outside the elements has been written.
  bool intact() const;
  /// The elements in logical order, as bytes: to compare two results bit by bit.
  std::vector<std::byte> bits() const;

 private:
  template <class Visit>
  void for_each_row(Visit visit) const;

  DType dtype_ = DType::float32;
  Shape4 shape_{};
  Shape4 strides_{};
  GuardedMemory memory_;
};

/// The tensors of one problem, owned.
class ProblemData {
 public:
  /// (b, h, i, d) -> value
  using Fill = std::function<double(std::int64_t, std::int64_t, std::int64_t, std::int64_t)>;

  ProblemData(const AttentionProblem& problem, const Placement& placement = {});

  void fill(const Fill& query, const Fill& key, const Fill& value);
  /// Independent standard normal entries.
  void fill_gaussian(std::uint64_t seed);
  /// Q = K = 0, V_j = j: weights follow from the transform alone, and out is a ratio of small integers when tau = 1.
  void fill_h_inputs();

  /// Views of all of it; lengths between guard pages are good until the next call.
  AttentionTensors tensors();
  void clear_outputs();
  /// No guard byte of any tensor was written.
  bool intact() const;

  const AttentionProblem& problem() const noexcept { return problem_; }
  Guard guard() const noexcept { return guard_; }

  GuardedTensor query, key, value, out, lse;
  std::vector<std::int64_t> query_lengths, kv_lengths;

 private:
  AttentionProblem problem_;
  Guard guard_;
  GuardedMemory guarded_query_lengths_, guarded_kv_lengths_;  ///< what tensors() hands out where pages are the guards
};

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_PROBLEM_DATA_HPP
