// SPDX-License-Identifier: Apache-2.0
#include "dispatch/table_cache.hpp"

#include <algorithm>
#include <bit>
#include <mutex>
#include <vector>

#include "dispatch/tables.hpp"

namespace siattn {

/// The tables of one kind; a table that reaches further takes the place of a shorter one, which plans may still hold.
struct TableCache::Tables {
  struct Kind {
    LogBase base;
    double softmax_scale;
    LogitTransform transform;
    Calibration calibration;
    std::int64_t query_heads;  ///< ALiBi's slopes depend on them
    std::int64_t head_dim;     ///< InfoScale's factors do

    bool operator==(const Kind&) const = default;
  };
  struct Entry {
    Kind kind;
    std::shared_ptr<const LogitTables> tables;
  };

  std::mutex mutex;
  std::vector<Entry> entries;
};

TableCache::TableCache() noexcept {
  try {
    tables_ = std::make_shared<Tables>();
  } catch (...) {
    tables_ = nullptr;
  }
}

namespace dispatch {
namespace {

bool covers(const LogitTables& tables, const TableExtent& extent) {
  const bool distances = extent.distances.last < extent.distances.first ||
                         (tables.t_min <= extent.distances.first && tables.t_max >= extent.distances.last);
  return distances && (tables.row_factors.empty() || tables.row_factor_count > extent.most_visible_keys);
}

/// The least power of two above x >= 0.
std::int64_t power_above(std::int64_t x) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(x) + 1));
}

/// So far from distance 0 that tables from there on would become long for nothing.
bool is_far(const DistanceRange& range) {
  return range.first <= range.last && (range.last < 0 || range.first > power_above(range.last) / 2);
}

/// Up to the next powers of two, from distance 0 on: so n plans of growing length build tables log n times.
TableExtent grown(const TableExtent& extent) {
  TableExtent more = extent;
  more.most_visible_keys = power_above(extent.most_visible_keys);
  const DistanceRange& range = extent.distances;
  if (range.first > range.last || is_far(range)) return more;
  more.distances.first = range.first < 0 ? -power_above(-range.first) : 0;
  more.distances.last = power_above(range.last);
  return more;
}

/// With what these tables have: plans of two kinds in turn (long prompts, long caches) share what serves both.
TableExtent joined(const TableExtent& extent, const LogitTables& tables) {
  TableExtent all = extent;
  all.most_visible_keys = std::max(extent.most_visible_keys, tables.row_factor_count - 1);
  if (tables.t_max < tables.t_min) return all;
  if (extent.distances.first > extent.distances.last) {
    all.distances = {tables.t_min, tables.t_max};
  } else {
    all.distances = {std::min(extent.distances.first, tables.t_min), std::max(extent.distances.last, tables.t_max)};
  }
  return all;
}

Result<std::shared_ptr<const LogitTables>> compile(const PreparedAttention& problem, LogBase base,
                                                   const TableExtent& extent) {
  auto tables = compile_tables(problem, base, extent);
  if (!tables) return tables.status();
  return std::shared_ptr<const LogitTables>(std::make_shared<LogitTables>(*std::move(tables)));
}

}  // namespace

Result<std::shared_ptr<const LogitTables>> shared_tables(TableCache::Tables* cache, const PreparedAttention& problem,
                                                         LogBase base) {
  const TableExtent extent = table_extent(problem.shape, problem.options);
  if (cache == nullptr) return compile(problem, base, extent);
  const TableCache::Tables::Kind kind{base,
                                      problem.softmax_scale,
                                      problem.options.transform,
                                      problem.options.calibration,
                                      problem.shape.query_heads,
                                      problem.shape.head_dim};
  const std::lock_guard lock(cache->mutex);
  const auto found = std::find_if(cache->entries.begin(), cache->entries.end(),
                                  [&kind](const TableCache::Tables::Entry& entry) { return entry.kind == kind; });
  if (found != cache->entries.end() && covers(*found->tables, extent)) return found->tables;
  const bool near = !is_far(extent.distances);
  const bool found_near = found != cache->entries.end() && !is_far({found->tables->t_min, found->tables->t_max});
  // An entry that float32 cannot hold may lie beyond what this problem needs.
  auto tables = compile(problem, base, near && found_near ? joined(grown(extent), *found->tables) : grown(extent));
  if (!tables) return compile(problem, base, extent);
  if (found != cache->entries.end()) {
    if (near || !found_near) found->tables = *tables;  // far ones are of use to few
  } else {
    cache->entries.push_back({kind, *tables});
  }
  return tables;
}

}  // namespace dispatch
}  // namespace siattn
