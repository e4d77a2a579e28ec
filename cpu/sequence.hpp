// SPDX-License-Identifier: Apache-2.0
// Which keys a query row sees, and the row as the kernels want it.
#ifndef SIATTN_CPU_SEQUENCE_HPP
#define SIATTN_CPU_SEQUENCE_HPP

#include <algorithm>
#include <cstdint>

#include <siattn/backend.hpp>

#include "cpu/kernels.hpp"

namespace siattn::cpu {

/// Keys first <= j < last; first == last when there are none. What a query sees is always such a range, and both of
/// its ends grow with the query's position.
struct KeyRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

inline KeyRange visible_keys(const AttentionOptions& options, const SequenceBounds& s, std::int64_t i) noexcept {
  // Positions and lengths lie below 2^32: a wider window is no window, and nothing overflows.
  const std::int64_t window = std::min(options.window.value_or(std::int64_t{1} << 40), std::int64_t{1} << 40);
  const std::int64_t position = s.query_offset + i;
  const std::int64_t reach = options.mask == Mask::causal ? 1 : window;
  const std::int64_t last = std::clamp<std::int64_t>(position + reach, 0, s.kv_len);
  const std::int64_t first = std::clamp<std::int64_t>(position - window + 1, 0, last);
  return {first, last};
}

/// A query row before all keys of its sequence.
struct QueryRow {
  const float* scale;
  const float* shift;
  std::int64_t entry;  ///< of key 0
  KeyRange keys;
  float factor;
};

inline QueryRow query_row(const PreparedAttention& problem, const SequenceBounds& s, std::int64_t head,
                          std::int64_t i) noexcept {
  const LogitTables& tables = *problem.tables;
  const KeyRange keys = visible_keys(problem.options, s, i);
  return {tables.scale(head), tables.shift(head), tables.t_max - (s.query_offset + i), keys,
          tables.row_factor(head, keys.last - keys.first)};
}

/// The same row before the `count` keys from `chunk` on.
inline Row row_in_chunk(const QueryRow& row, std::int64_t chunk, std::int64_t count) noexcept {
  const auto first = static_cast<std::int32_t>(std::clamp<std::int64_t>(row.keys.first - chunk, 0, count));
  const auto last = static_cast<std::int32_t>(std::clamp<std::int64_t>(row.keys.last - chunk, 0, count));
  const bool sees = first < last;
  return {row.scale, row.shift, row.entry + chunk, row.factor, sees ? first : 0, sees ? last : 0};
}

/// Sets the tile's rows and the keys that they see between them. False: none.
inline bool set_rows(Tile& tile, Row* rows, const QueryRow* query_rows, std::int32_t n, std::int64_t chunk,
                     std::int64_t count) noexcept {
  tile.row = rows;
  tile.rows = n;
  tile.first = static_cast<std::int32_t>(count);
  tile.last = 0;
  for (std::int32_t r = 0; r < n; ++r) {
    rows[r] = row_in_chunk(query_rows[r], chunk, count);
    if (rows[r].first == rows[r].last) continue;
    tile.first = std::min(tile.first, rows[r].first);
    tile.last = std::max(tile.last, rows[r].last);
  }
  return tile.first < tile.last;
}

/// Sinks among the `count` keys from `chunk` on.
inline std::int32_t sinks_in_chunk(const AttentionOptions& options, std::int64_t chunk, std::int64_t count) noexcept {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(options.n_sink - chunk, 0, count));
}

/// Few enough rows share a kv head for K and V to be read as they are, each key once. A matter of the sequence alone,
/// so that its bits do not depend on what else is in the batch.
inline bool streams(const PreparedAttention& problem, const SequenceBounds& s) noexcept {
  const std::int64_t group = problem.shape.query_heads / problem.shape.kv_heads;
  return group * s.query_len <= kMaxStreamRows;
}

}  // namespace siattn::cpu

#endif  // SIATTN_CPU_SEQUENCE_HPP
