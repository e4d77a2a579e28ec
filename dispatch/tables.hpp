// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_DISPATCH_TABLES_HPP
#define SIATTN_DISPATCH_TABLES_HPP

#include <siattn/backend.hpp>

namespace siattn::dispatch {

/// Signed distances, first to last, of the pairs that a problem can make visible; last < first: none.
struct DistanceRange {
  std::int64_t first = 0;
  std::int64_t last = -1;
};
DistanceRange visible_distances(const AttentionShape& shape, const AttentionOptions& options) noexcept;

/// Compiles the transform of a validated problem into tables in this base. An entry that float32 cannot hold (an
/// enormous softmax_scale or slope) is an error naming the distance.
Result<LogitTables> compile_tables(const PreparedAttention& problem, LogBase base);

}  // namespace siattn::dispatch

#endif  // SIATTN_DISPATCH_TABLES_HPP
