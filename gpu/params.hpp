// SPDX-License-Identifier: Apache-2.0
// What the kernels are given: one plain struct by value, and one per sequence in device memory. Compiled by the host's
// compiler and by nvcc (with --expt-relaxed-constexpr), so that both cut a problem by the very same functions.
#ifndef SIATTN_GPU_PARAMS_HPP
#define SIATTN_GPU_PARAMS_HPP

#include <cstdint>

namespace siattn::gpu {

/// Query rows of a block of rows that share a kv head, ordered by head, then query: what one instruction takes.
inline constexpr int kPackedRows = 16;
/// Sequences of so few queries, or so few rows for each kv head, decode: a warp holds all rows and the keys are split.
inline constexpr int kDecodeQueries = 8;
/// Keys of a split, at least; a power of two times this where the keys are more than kMaxSplits such splits.
inline constexpr int kSplitKeys = 512;
inline constexpr int kMaxSplits = 32;
/// Splits and tiles of keys begin at multiples of this.
inline constexpr int kKeyAlignment = 64;
/// A window wider than any distance.
inline constexpr std::int64_t kNoWindow = std::int64_t{1} << 40;

/// One entry of the tables: in base two, for <q, k> itself: L = (factor scale) <q, k> + shift.
struct alignas(8) Entry {
  float scale;  ///< a_t softmax_scale log2(e)
  float shift;  ///< m_t log2(e)
};

/// A tensor of rows: (sequence offset) + head * head_stride + i * row_stride is row i, in elements, innermost stride 1.
/// With pages row j is at page[j / page_size] * page_stride + head * head_stride + (j % page_size) * row_stride.
struct Rows {
  const void* data = nullptr;
  std::int64_t head_stride = 0;
  std::int64_t row_stride = 0;
  std::int64_t page_stride = 0;
  bool aligned = false;  ///< every row is whole vectors of 16 bytes at addresses that are multiples of 16
};
struct MutableRows {
  void* data = nullptr;  ///< nullptr: not wanted
  std::int64_t head_stride = 0;
  std::int64_t row_stride = 0;
  bool aligned = false;  ///< every row begins at a multiple of 4 bytes, and has an even number of elements
};

/// One sequence. Offsets are in elements from each tensor's data to row 0 of head 0.
struct Sequence {
  std::int64_t query = 0;
  std::int64_t key = 0;
  std::int64_t value = 0;
  std::int64_t out = 0;
  std::int64_t lse = 0;
  std::int64_t pages = 0;         ///< index of its first entry in Forward::pages
  std::int64_t query_offset = 0;  ///< position of query 0
  std::int32_t query_len = 0;     ///< queries that count
  std::int32_t query_rows = 0;    ///< rows of out and lse: those from query_len on are written as seeing no key
  std::int32_t kv_len = 0;
  std::int32_t reserved = 0;
};

/// Everything about a forward run. All pointers are device memory.
struct Forward {
  Rows query, key, value;
  MutableRows out, lse;  ///< lse: float, row_stride counts rows
  const Sequence* sequences = nullptr;
  std::int32_t batch = 0;
  std::int32_t query_heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t value_dim = 0;

  const std::int32_t* pages = nullptr;  ///< nullptr: not paged
  std::int32_t page_shift = 0;          ///< log2 of the page size

  bool causal = true;
  std::int64_t window = kNoWindow;  ///< distances below this are seen
  std::int32_t sinks = 0;           ///< keys below this: L = sink_scale <q, k>
  float sink_scale = 0;             ///< softmax_scale log2(e)

  // LogitTables without its padding: the entry of key j for the query at position p is [t_max - p + j], and is there
  // for every visible pair.
  const Entry* tables = nullptr;  ///< [heads or 1][entries]
  std::int64_t entries = 0;
  std::int64_t t_max = -1;
  bool tables_per_head = false;

  const float* row_factors = nullptr;  ///< [heads or 1][row_factor_count], by number of visible keys; nullptr: all 1
  std::int64_t row_factor_count = 0;
  bool row_factors_per_head = false;

  // How this run is cut: extents of the grids.
  std::int32_t query_tiles = 0;  ///< prefill: tiles of queries of the longest sequence; 0: none prefills
  std::int32_t row_blocks = 0;   ///< decode, plain: blocks of kPackedRows rows, at most; 0: none decodes
  std::int32_t max_splits = 1;   ///< decode, plain: of a sequence, at most; above 1 combine follows
  std::int32_t fill_rows = 0;    ///< fill: query_rows, at most, where any exceeds its query_len

  // Attention states of splits, at ((b * query_heads + h) * state_rows + i) * max_splits + split, of the sequences that
  // have more than one split.
  float* state_max = nullptr;  ///< base two
  float* state_sum = nullptr;
  float* state_out = nullptr;   ///< [..][value_dim]: sum of exp2(L - max) v
  std::int32_t state_rows = 0;  ///< queries of a sequence that decodes, at most
};

template <class T>
constexpr T smaller(T a, T b) noexcept {
  return a < b ? a : b;
}
template <class T>
constexpr T larger(T a, T b) noexcept {
  return a < b ? b : a;
}
template <class T>
constexpr T divide_up(T n, T by) noexcept {
  return (n + by - 1) / by;
}

/// Keys first <= j < last; first == last: none. Both ends grow with the query's position.
struct KeyRange {
  std::int32_t first = 0;
  std::int32_t last = 0;
};

/// What query i of a sequence sees, given the two members of Forward that masks are made of.
constexpr KeyRange visible_keys(bool causal, std::int64_t window, const Sequence& s, std::int64_t i) noexcept {
  if (i >= s.query_len) return {};
  const std::int64_t position = s.query_offset + i;
  const std::int64_t kv_len = s.kv_len;
  const std::int64_t last = smaller(larger(position + (causal ? 1 : window), std::int64_t{0}), kv_len);
  const std::int64_t first = smaller(larger(position - window + 1, std::int64_t{0}), last);
  return {static_cast<std::int32_t>(first), static_cast<std::int32_t>(last)};
}

/// A matter of the sequence alone, so that its bits do not depend on what else is in the batch.
constexpr bool decodes(std::int64_t query_len, std::int64_t group) noexcept {
  return query_len <= kDecodeQueries || query_len * group <= kPackedRows;
}

/// The splits of a sequence that decodes: split n holds the keys begin + n size <= j < begin + (n + 1) size. Again a
/// matter of the sequence alone. A sequence that does not decode has one of all its keys.
struct Splits {
  std::int64_t begin = 0;
  std::int64_t size = 0;
  std::int32_t count = 1;
};

constexpr Splits splits_of(bool causal, std::int64_t window, const Sequence& s, std::int64_t group) noexcept {
  if (!decodes(s.query_len, group)) return {0, larger(s.kv_len, 1), 1};
  const std::int64_t begin = visible_keys(causal, window, s, 0).first / kKeyAlignment * kKeyAlignment;
  const std::int64_t keys = visible_keys(causal, window, s, larger(s.query_len, 1) - 1).last - begin;
  std::int64_t size = kSplitKeys;
  while (keys > size * kMaxSplits) size *= 2;
  return {begin, size, static_cast<std::int32_t>(larger(divide_up(keys, size), std::int64_t{1}))};
}

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_PARAMS_HPP
