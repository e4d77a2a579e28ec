// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_ATTENTION_HPP
#define SIATTN_ATTENTION_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <siattn/export.h>
#include <siattn/logit_transform.hpp>
#include <siattn/status.hpp>
#include <siattn/tensor_view.hpp>

/// # The problem
///
/// For every sequence b, query head h and query i (whose position is p_i), over the keys j that it sees:
///
///     S_ij   = softmax_scale * sum_d query[b, h, i, d] * key[b, g, j, d]      g = h / (query_heads / kv_heads)
///     S'_ij  = (S_ij - mean_h) / standard_deviation_h                         0 and 1 unless a Calibration is given
///     L_ij   = r_i a_t S'_ij + m_t                                          t = p_i - j   (Eq. 14; |t| bidirectional)
///     lse_i  = log sum_j exp(L_ij)
///     out_i  = sum_j exp(L_ij - lse_i) value[b, g, j, :]
///
/// a, m and r come from a LogitTransform; for scale-invariant attention r = 1 and a, m are Eq. 16 of the paper.
///
/// # The contract
///
/// Shapes. query [batch, query_heads, query_len, head_dim], key [batch, kv_heads, kv_len, head_dim], value [batch,
///   kv_heads, kv_len, value_dim], out [batch, query_heads, query_len, value_dim], lse [batch, query_heads, query_len,
///   1] (natural log; optional). Strides in elements are free but for the innermost, which is 1. Any alignment of the
///   element type. query_heads is a multiple of kv_heads (grouped-query and multi-query attention). Any of batch,
///   query_len and kv_len may be 0.
/// Types. query, key, value and out are all float32, bfloat16 or float16 (or float64, in the reference backend); lse
///   is float32 (float64 where they are). key and value may be int8 instead (kv_dtype), each row of a head with a scale:
///   element = key_scale[.., j, 0] * key[.., j, d]. Scores, transform, softmax and accumulation are float32 or wider.
///   With 16-bit inputs a backend may round the weights to that type before they meet the values. One rounding at the
///   end.
/// Ragged batches. With cu_query, query, out and lse are [1, query_heads, tokens, ..] and hold the sequences behind each
///   other; cu_kv says the same of key and value. Tokens past the last sequence are written as rows that see no key.
///   Prompts and single tokens may stand in one batch.
/// Pages. With a PageTable, key is [pages, kv_heads, page_size, head_dim] and value [pages, kv_heads, page_size,
///   value_dim], strides free: a cache of which each sequence has the pages that the table names and kv_lengths[b] keys.
///   Slots and pages that hold no key may hold anything.
/// Buckets. For ragged and paged batches the shape of the problem is the most that a run may bring: at most `batch`
///   sequences of at most query_len queries and kv_len keys each.
/// Positions. Query i stands at query_offset + i, key j at j. query_offset is by default kv_len - query_len of that
///   sequence, so that decoding one token and prefilling in chunks are right as they stand; query_offsets gives each
///   sequence its own, within the distances that the plan has tables for. Positions reach up to 2^31 - 1 on either side
///   of zero.
/// Masks. Causal: t >= 0. Bidirectional: every key, distance |t|. A window w keeps distances t < w. kv_lengths and
///   query_lengths end each sequence of a batch early. A masked key has weight exactly 0 and is never read into a
///   product: NaN or infinity behind a mask does not leak.
/// Rows that see no key, or none whose logit is above -infinity, give out = 0 and lse = -infinity.
/// NaN in a visible query or key gives NaN in out and lse of exactly the rows that see it; NaN in a visible value, in
///   that channel of out of exactly those rows.
/// Sinks. The first n_sink keys may be left untransformed (L = S, not calibrated either): the theory excludes the
///   attention sink (App. J). Masks apply to them as to every key.
/// Range. Scores, logits and sums are formed in float32: where sum_d |q_d||k_d|, |L| log2(e) or, over the keys that a
///   row sees, sum_j |v_j| reaches 2^127, or an infinite value meets a weight below 2^-126, nothing is promised.
/// Agreement. Prefill, chunked prefill and token-by-token decoding agree; dense, ragged and paged give the same bits;
///   grouped heads equal repeated kv heads. All backends agree within the bound of verify/bounds.hpp.
/// Determinism. The same bits for any number of threads, any other sequences in the batch, any alignment, every run.
/// Errors are values. What is wrong is found before any output is touched; the message names the argument and its
///   value. An output that overlaps an input, or itself, is an error.
/// No global state. Floating-point control words, OpenMP settings and the allocator are left as found. run() allocates
///   nothing; a plan may be used from several threads at once, inside a parallel region of the caller's, and after a
///   fork (where each run starts a thread, since OpenMP's own do not survive it).
namespace siattn SIATTN_EXPORT {

enum class Mask : std::uint8_t { causal, bidirectional };

/// The extents of a problem. All >= 0; heads and dims >= 1; query_heads a multiple of kv_heads; below 2^31 each, and no
/// tensor of 2^60 elements or more.
struct AttentionShape {
  std::int64_t batch = 1;
  std::int64_t query_heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t query_len = 0;
  std::int64_t kv_len = 0;
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;
};

/// What is computed, besides the shapes.
struct AttentionOptions {
  LogitTransform transform = ScaleInvariant{};
  Calibration calibration = {};  ///< Of the base logits, before the transform.
  Mask mask = Mask::causal;
  std::optional<std::int64_t> window = std::nullopt;  ///< >= 1: keys at distance t < window only. Absent: no limit.
  std::optional<std::int64_t> query_offset =
      std::nullopt;  ///< Position of query 0. Absent: kv length - query length, per sequence.
  std::optional<double> softmax_scale = std::nullopt;  ///< Finite. Absent: 1 / sqrt(head_dim).
  std::int64_t n_sink = 0;  ///< >= 0: so many keys, from position 0 on, are left untransformed.
};

struct AttentionProblem {
  AttentionShape shape;
  DType dtype = DType::float32;
  AttentionOptions options;
  std::optional<DType> kv_dtype = std::nullopt;  ///< Of key and value: dtype, or int8. Absent: dtype.
};

/// The tensors of one run. Shapes as above: exactly those of the problem, but for ragged and paged batches. All arrays
/// of lengths, offsets and page numbers are in host memory, also where the tensors are not.
struct AttentionTensors {
  TensorView query;
  TensorView key;
  TensorView value;
  MutableTensorView out;
  MutableTensorView lse;  ///< data == nullptr: not wanted.

  /// Per sequence of the batch: how many queries and keys count, 0 <= length <= query_len (kv_len). Empty: all of
  /// them. Rows past query_lengths[b] are written as rows that see no key.
  std::span<const std::int64_t> query_lengths = {};
  std::span<const std::int64_t> kv_lengths = {};

  /// Ragged batches: in place of query_lengths and kv_lengths.
  CumulativeLengths cu_query = {};
  CumulativeLengths cu_kv = {};

  /// Paged keys and values; kv_lengths says how many keys each sequence has.
  PageTable pages = {};

  /// Position of query 0 of each sequence, in place of AttentionOptions::query_offset. Empty: that one.
  std::span<const std::int64_t> query_offsets = {};

  /// For key and value of type int8: float32, shaped like these but for one element a row.
  TensorView key_scale = {};
  TensorView value_scale = {};

  /// A CUDA stream for tensors in device memory (nullptr: the default stream); other backends do not look at it.
  void* stream = nullptr;
};

/// Tables that plans share, for a process that plans often: plans made with the same cache, transform, calibration and
/// softmax_scale use the same tables, which grow by doubling as distances do. Safe to use from several threads; copies
/// are the same cache. Tables live as long as the cache or a plan that uses them.
class TableCache {
 public:
  TableCache() noexcept;  ///< Without memory it is a cache that keeps nothing.

  struct Tables;
  Tables* tables() const noexcept { return tables_.get(); }

 private:
  std::shared_ptr<Tables> tables_;
};

/// How it is computed. The environment variables SIATTN_BACKEND and SIATTN_NUM_THREADS stand in for what is left open
/// here, SIATTN_MAX_CPU_ISA limits the instruction sets that CPU backends may use, and with SIATTN_VERBOSE=1 at planning
/// each run prints a line on stderr: shape, type, backend, threads, time. A value that means nothing is an error of
/// planning where the variable is consulted.
struct ExecutionOptions {
  std::string backend;  ///< A backend's name or its family ("cpu-avx2", "cpu", "reference"). Empty: the best available.
  int threads = 0;      ///< 1 .. 1024. 0: as many as OpenMP would use.
  std::optional<TableCache> table_cache = std::nullopt;  ///< Absent: this plan gets tables of its own.
};

/// A share of a run, for callers with threads of their own: see AttentionPlan::run_slice.
struct Slice {
  int index = 0;  ///< 0 .. count - 1
  int count = 1;  ///< 1 .. the plan's threads
};

struct PreparedAttention;  // backend.hpp
class Backend;             // backend.hpp

/// A problem that has been validated, whose tables are built and whose backend is chosen. Copies share the tables.
class AttentionPlan {
 public:
  /// Validates the problem and builds its tables: O(query_len + kv_len) at most, for each query head where the transform
  /// differs by head.
  static Result<AttentionPlan> create(const AttentionProblem& problem, const ExecutionOptions& execution = {});

  /// The same on this very backend, which need not be in the list that backends() gives but must outlive the plan;
  /// execution.backend is not looked at.
  static Result<AttentionPlan> create_on(const Backend& backend, const AttentionProblem& problem,
                                         const ExecutionOptions& execution = {});

  const Backend& backend() const noexcept { return *backend_; }
  const PreparedAttention& prepared() const noexcept { return *prepared_; }

  /// Bytes that run() needs, of any alignment.
  std::size_t workspace_bytes() const noexcept { return workspace_bytes_; }

  /// Validates the tensors against the problem, then computes out (and lse) in full. Allocates nothing on success,
  /// unless Backend::allocates() says so (onednn). The workspace overlaps no tensor.
  Status run(const AttentionTensors& tensors, std::span<std::byte> workspace) const;

  /// The slice.index-th of slice.count shares of run(), in the calling thread alone, for a caller with a pool of
  /// threads: all shares together, in any order or at once, with one workspace, give what run() gives, bit by bit. A
  /// share is made of whole kv heads of sequences while decoding, of blocks of queries otherwise. Each share validates
  /// for itself. count is at most the plan's number of threads.
  Status run_slice(const AttentionTensors& tensors, std::span<std::byte> workspace, Slice slice) const;

 private:
  Status run_shares(const AttentionTensors& tensors, std::span<std::byte> workspace, const Slice* slice) const;

  AttentionPlan() = default;
  const Backend* backend_ = nullptr;
  std::shared_ptr<const PreparedAttention> prepared_;
  std::size_t workspace_bytes_ = 0;
};

/// The shape and types that these tensors have, for ragged and paged batches the tightest bucket; the extents are taken
/// as they are, AttentionPlan::create judges them.
AttentionProblem problem_of(const AttentionTensors& tensors, const AttentionOptions& options = {});

/// Plans and runs once, on a workspace of its own. Shapes and type are those of the tensors.
Status attention(const AttentionTensors& tensors, const AttentionOptions& options = {},
                 const ExecutionOptions& execution = {});

}  // namespace siattn

#endif  // SIATTN_ATTENTION_HPP
