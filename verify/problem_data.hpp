// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_PROBLEM_DATA_HPP
#define SIATTN_VERIFY_PROBLEM_DATA_HPP

#include <functional>
#include <span>
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

/// How sequences lie in the tensors: each beside the others, as long as the longest, unless said otherwise.
struct Batching {
  bool ragged_queries = false;      ///< behind each other, with cumulative lengths
  bool ragged_keys = false;
  std::int64_t spare_tokens = 0;    ///< rows behind the last sequence of a ragged tensor
  std::int64_t page_size = 0;       ///< above 0: keys in pages, which are handed out in no order, some to nobody
  bool shared_pages = false;        ///< sequences share the pages that the shortest with keys fills
  std::vector<std::int64_t> query_offsets = {};
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
  /// The row that begins `offset` elements behind the data. int8: as multiples of *scale, which is chosen here.
  void set_row(std::int64_t offset, double* scale, const std::function<double(std::int64_t)>& value);
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

/// The tensors of one problem, owned. What no sequence owns, rows behind the last, unused slots and pages, holds NaN.
class ProblemData {
 public:
  /// (b, h, i, d) -> value, of row i of sequence b
  using Fill = std::function<double(std::int64_t, std::int64_t, std::int64_t, std::int64_t)>;

  ProblemData(const AttentionProblem& problem, const Placement& placement = {});
  /// With lengths of each sequence; empty: as long as can be.
  ProblemData(const AttentionProblem& problem, const Placement& placement, const Batching& batching,
              std::vector<std::int64_t> query_lengths, std::vector<std::int64_t> kv_lengths);

  /// Rows that count, in all but dense tensors; there all rows. Keys and values of type int8 are scaled by row.
  void fill(const Fill& query, const Fill& key, const Fill& value);
  /// Independent standard normal entries; the same for a sequence whatever the batching.
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

  /// out and lse of what each sequence has, in the order [b][h][i], bit by bit: to compare batchings.
  std::vector<std::byte> output_bits();

  GuardedTensor query, key, value, key_scale, value_scale, out, lse;
  std::vector<std::int64_t> query_lengths, kv_lengths;

 private:
  std::int64_t query_len(std::int64_t b) const;
  std::int64_t kv_len(std::int64_t b) const;
  void hand_out_pages();
  template <class T>
  std::span<const T> between_guards(const char* name, const std::vector<T>& values);

  AttentionProblem problem_;
  Guard guard_;
  Batching batching_;
  std::vector<std::int64_t> cu_query_;
  std::vector<std::int32_t> cu_kv_;  ///< the other width
  std::vector<std::int32_t> pages_;
  std::int64_t pages_a_sequence_ = 0;
  std::int64_t page_count_ = 0;
  std::vector<GuardedMemory> guarded_;  ///< what tensors() hands out where guards are asked for
};

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_PROBLEM_DATA_HPP
