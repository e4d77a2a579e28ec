// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_DISPATCH_TABLES_HPP
#define SIATTN_DISPATCH_TABLES_HPP

#include <cstdint>
#include <optional>

#include <siattn/backend.hpp>

namespace siattn::dispatch {

/// Signed distances, first to last, of the pairs that a problem can make visible; last < first: none. query_offset
/// absent: the last query stands beside the last key.
struct DistanceRange {
  std::int64_t first = 0;
  std::int64_t last = -1;
};
DistanceRange visible_distances(const AttentionShape& shape, const AttentionOptions& options,
                                std::optional<std::int64_t> query_offset) noexcept;
inline DistanceRange visible_distances(const AttentionShape& shape, const AttentionOptions& options) noexcept {
  return visible_distances(shape, options, options.query_offset);
}

/// How far tables reach.
struct TableExtent {
  DistanceRange distances;
  std::int64_t most_visible_keys = 0;  ///< by one query
};
/// What the problem needs.
TableExtent table_extent(const AttentionShape& shape, const AttentionOptions& options) noexcept;

/// Compiles the transform of a validated problem into tables in this base, so far. An entry that float32 cannot hold (an
/// enormous softmax_scale or slope) is an error naming the distance.
Result<LogitTables> compile_tables(const PreparedAttention& problem, LogBase base, const TableExtent& extent);
inline Result<LogitTables> compile_tables(const PreparedAttention& problem, LogBase base) {
  return compile_tables(problem, base, table_extent(problem.shape, problem.options));
}

}  // namespace siattn::dispatch

#endif  // SIATTN_DISPATCH_TABLES_HPP
