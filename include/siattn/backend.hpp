// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_BACKEND_HPP
#define SIATTN_BACKEND_HPP

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <siattn/attention.hpp>
#include <siattn/export.h>

/// What a backend is given and what it owes. Data flows: attention.hpp -> dispatch/ (validates, builds the tables) ->
/// a backend. A backend may rely on everything that dispatch has validated.
namespace siattn SIATTN_EXPORT {

/// The base in which a backend wants its logits. In base two the tables carry a factor log2(e) and the backend
/// computes weights with exp2; lse is owed in natural log either way.
enum class LogBase : std::uint8_t { natural, two };

/// The transform, compiled. For a key at distance t from the query (|t| when bidirectional), with `dot` = <q, k>:
///
///     L = (row_factor * scale[t]) * dot + shift[t]                  (a key j < n_sink: L = sink_scale * dot)
///
/// softmax_scale, the calibration, and log2(e) in base two, are folded into scale, shift and sink_scale, each rounded
/// once to float32: scale[t] = a_t softmax_scale / standard_deviation, shift[t] = m_t - a_t mean / standard_deviation.
///
/// Storage is by signed distance t = query position - key position, *descending* from t_max to t_min, so that the keys
/// of one row, in ascending order, read ascending addresses: entry of t is [t_max - t], and the entry of key j for the
/// query at position p is at (t_max - p) + j. Covers every pair of the problem whose distance can be visible, and
/// `padding` further entries (0, -infinity) at each end, so that a kernel may load whole vectors past either end.
struct LogitTables {
  static constexpr std::int64_t padding = 64;

  LogBase base = LogBase::natural;
  std::int64_t t_min = 0;
  std::int64_t t_max = -1;  ///< t_max < t_min: no pair can be visible, the tables are empty.
  float sink_scale = 0;

  std::vector<float> scales;  ///< [heads or 1][entries]
  std::vector<float> shifts;  ///< [heads or 1][entries]
  bool scales_per_head = false;
  bool shifts_per_head = false;

  /// Factor by number of visible keys n, [heads or 1][row_factor_count]; empty: always 1.
  std::vector<float> row_factors;
  bool row_factors_per_head = false;
  std::int64_t row_factor_count = 0;  ///< one more than the keys that a query can see, where there are factors

  std::int64_t entries() const noexcept { return std::max<std::int64_t>(t_max - t_min + 1, 0) + 2 * padding; }

  /// The entry of distance t_max for this head; entry of distance t is at [t_max - t].
  const float* scale(std::int64_t head) const noexcept {
    return scales.data() + (scales_per_head ? head * entries() : 0) + padding;
  }
  const float* shift(std::int64_t head) const noexcept {
    return shifts.data() + (shifts_per_head ? head * entries() : 0) + padding;
  }
  /// For a query that sees n keys, 0 <= n < row_factor_count.
  float row_factor(std::int64_t head, std::int64_t n) const noexcept {
    if (row_factors.empty()) return 1.0F;
    return row_factors[static_cast<std::size_t>((row_factors_per_head ? head * row_factor_count : 0) + n)];
  }
};

/// A validated problem, with every default filled in but the query_offset, which may depend on lengths known at run.
struct PreparedAttention {
  AttentionShape shape;
  DType dtype = DType::float32;
  AttentionOptions options;  ///< softmax_scale has a value; query_offset only if it was given
  double softmax_scale = 1;
  int threads = 1;
  bool verbose = false;  ///< SIATTN_VERBOSE: a line on stderr for each run
  DType kv_dtype = DType::float32;
  std::shared_ptr<const LogitTables> tables;  ///< perhaps those of other plans too: they cover at least this problem
  std::shared_ptr<const void> state;  ///< what Backend::prepare() made
};

/// How many sequences a run brings: what the problem says, or fewer in a ragged batch.
inline std::int64_t sequences(const PreparedAttention& problem, const AttentionTensors& tensors) noexcept {
  return tensors.cu_query.empty() ? problem.shape.batch : tensors.cu_query.sequences();
}

/// The lengths and first position of one sequence of the batch.
struct SequenceBounds {
  std::int64_t query_len = 0;
  std::int64_t kv_len = 0;
  std::int64_t query_offset = 0;
};

inline SequenceBounds sequence_bounds(const PreparedAttention& problem, const AttentionTensors& tensors,
                                      std::int64_t b) noexcept {
  const auto length = [b](const CumulativeLengths& cumulative, std::span<const std::int64_t> lengths,
                          std::int64_t all) noexcept {
    const auto at = static_cast<std::size_t>(b);
    return !cumulative.empty() ? cumulative[at + 1] - cumulative[at] : lengths.empty() ? all : lengths[at];
  };
  SequenceBounds s;
  s.query_len = length(tensors.cu_query, tensors.query_lengths, problem.shape.query_len);
  s.kv_len = length(tensors.cu_kv, tensors.kv_lengths, problem.shape.kv_len);
  s.query_offset = tensors.query_offsets.empty() ? problem.options.query_offset.value_or(s.kv_len - s.query_len)
                                                 : tensors.query_offsets[static_cast<std::size_t>(b)];
  return s;
}

/// Where rows of one (sequence, head) lie in a tensor: row i begins `offset(i)` elements behind its data.
struct RowOffsets {
  std::int64_t base = 0;
  std::int64_t stride = 0;
  std::int64_t page_stride = 0;
  const std::int32_t* pages = nullptr;  ///< nullptr: not paged
  std::int32_t page_shift = 0;          ///< log2 of the page size

  std::int64_t offset(std::int64_t i) const noexcept {
    if (pages == nullptr) return base + i * stride;
    return base + pages[i >> page_shift] * page_stride + (i & ((std::int64_t{1} << page_shift) - 1)) * stride;
  }
};

/// Of query, out or lse.
template <class Void>
RowOffsets query_rows(const AttentionTensors& tensors, const BasicTensorView<Void>& x, std::int64_t b,
                      std::int64_t h) noexcept {
  const bool ragged = !tensors.cu_query.empty();
  return {.base = row_offset(x, ragged ? 0 : b, h, ragged ? tensors.cu_query[static_cast<std::size_t>(b)] : 0),
          .stride = x.strides[2]};
}

/// Of key, value or their scales; h is a kv head.
inline RowOffsets kv_rows(const AttentionTensors& tensors, const TensorView& x, std::int64_t b,
                          std::int64_t h) noexcept {
  if (!tensors.pages.empty()) {
    return {.base = h * x.strides[1],
            .stride = x.strides[2],
            .page_stride = x.strides[0],
            .pages = tensors.pages.pages + b * tensors.pages.stride,
            .page_shift = std::countr_zero(static_cast<std::uint64_t>(tensors.pages.page_size))};
  }
  const bool ragged = !tensors.cu_kv.empty();
  return {.base = row_offset(x, ragged ? 0 : b, h, ragged ? tensors.cu_kv[static_cast<std::size_t>(b)] : 0),
          .stride = x.strides[2]};
}

/// What a backend promises about its arithmetic: the constants of the error bound in verify/bounds.hpp.
struct Numerics {
  double unit_roundoff = 0;        ///< of scores, transform, softmax and accumulation; 2^-24 for float32
  double score_unit_roundoff = 0;  ///< of the products in Q K^T where a narrower unit forms them, else as above
  double weight_roundoff = 0;      ///< of the weights where they are rounded before P V, else 0
  double exp_relative_error = 0;   ///< of exp (or exp2) over the range used, proved or exhaustively measured
  double least_normal = 0;         ///< results of exp below this may be flushed to 0
  double underflow = 0;            ///< products q_d k_d and p_j v_j, and sums of them, below this may be flushed to 0
  bool flushes_operands = false;   ///< subnormal elements of Q, K and V may count as 0 in these products
};

/// One way to compute attention. Implementations are immutable and live for the whole program.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const noexcept = 0;    ///< unique: "cpu-avx2"
  virtual std::string_view family() const noexcept = 0;  ///< "cpu"
  virtual std::string_view description() const noexcept = 0;

  /// Good, or why this backend cannot run here and now (instruction set, environment, driver).
  virtual Status available() const = 0;
  /// Good, or which part of this (valid) problem the backend cannot do.
  virtual Status supports(const AttentionProblem& problem) const = 0;

  virtual LogBase log_base() const noexcept = 0;
  /// False: a backend further down the list is faster for this problem; then this one is used only when asked for.
  virtual bool wins(const AttentionProblem& /*problem*/) const noexcept { return true; }
  /// True: run() allocates after all, inside a library that it calls.
  virtual bool allocates() const noexcept { return false; }

  /// False: this backend evaluates the transform itself and gets empty tables.
  virtual bool uses_tables() const noexcept { return true; }
  virtual Numerics numerics(DType dtype) const noexcept = 0;

  /// Threads that a run would use when nobody asked for a number; >= 1.
  virtual int default_threads() const noexcept = 0;
  virtual std::size_t workspace_bytes(const PreparedAttention& problem) const noexcept = 0;
  /// What this backend wants to keep with the plan, beside the tables; made once, as run() allocates nothing.
  virtual Result<std::shared_ptr<const void>> prepare(const PreparedAttention& /*problem*/) const {
    return std::shared_ptr<const void>();
  }

  /// Computes out (and lse). Everything has been validated, and strides that no element needs are 0; the workspace has
  /// the bytes asked for, at any alignment.
  virtual Status run(const PreparedAttention& problem, const AttentionTensors& tensors,
                     std::span<std::byte> workspace) const noexcept = 0;

  /// A share of it, in this thread alone: AttentionPlan::run_slice. What is given here makes the first share all of it.
  virtual Status run_slice(const PreparedAttention& problem, const AttentionTensors& tensors,
                           std::span<std::byte> workspace, Slice slice) const noexcept {
    return slice.index == 0 ? run(problem, tensors, workspace) : Status{};
  }
};

/// Every backend that was built, best first, available or not. The list is dispatch/backends.cpp.
std::span<const Backend* const> backends() noexcept;

/// The backend that this name or family means ("cpu-avx2", "cpu"); empty: the best available that supports the
/// problem, after the environment variable SIATTN_BACKEND. The error names the candidates and why each was refused.
Result<const Backend*> choose_backend(std::string_view name, const AttentionProblem& problem);

}  // namespace siattn

#endif  // SIATTN_BACKEND_HPP
