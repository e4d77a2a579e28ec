// SPDX-License-Identifier: Apache-2.0
// The transform and the masks: products <q, k> of one row with a vector of keys become logits.
#ifndef SIATTN_CPU_KERNELS_LOGITS_HPP
#define SIATTN_CPU_KERNELS_LOGITS_HPP

#include "cpu/kernels.hpp"
#include "cpu/kernels/simd.hpp"

namespace siattn::cpu {
namespace {

/// Which keys some rows see: any of them first <= j < last, all of them all_first <= j < all_last.
struct Range {
  std::int32_t first;
  std::int32_t last;
  std::int32_t all_first;
  std::int32_t all_last;

  SIATTN_INLINE bool empty() const { return first >= last; }
  SIATTN_INLINE bool same() const { return first == all_first && last == all_last; }
};

SIATTN_INLINE Range range_of(const Row* row, int rows) {
  Range range{0x7FFFFFFF, 0, 0, 0x7FFFFFFF};
  for (int r = 0; r < rows; ++r) {
    if (row[r].first < row[r].last) {
      range.first = row[r].first < range.first ? row[r].first : range.first;
      range.last = row[r].last > range.last ? row[r].last : range.last;
    }
    range.all_first = row[r].first > range.all_first ? row[r].first : range.all_first;
    range.all_last = row[r].last < range.all_last ? row[r].last : range.all_last;
  }
  return range;
}

/// (factor scale[t]) <q, k> + shift[t] for kLanes keys from key on, one of which at least the row sees.
SIATTN_INLINE Batch plain_logits(const Tile& tile, const Row& row, std::int32_t key, const Batch& dot) {
  Batch scale = load(row.scale + (row.entry + key));
  if (tile.has_factors) scale = scale * Batch(row.factor);
  return madd(scale, dot, load(row.shift + (row.entry + key)));
}

/// The same where masks or sinks may apply. What the row does not see becomes -infinity whatever the product was, and
/// the tables are not read where it sees nothing.
SIATTN_INLINE Batch masked_logits(const Tile& tile, const Row& row, std::int32_t key, const Batch& dot) {
  if (key >= row.last || key + kLanes <= row.first) return Batch(-kInfinity);
  const Batch number = lane_numbers() + Batch(static_cast<float>(key));  // small integers: exact
  Batch logits = plain_logits(tile, row, key, dot);
  if (key < tile.sinks) {
    logits = xsimd::select(number < Batch(static_cast<float>(tile.sinks)), dot * Batch(tile.sink_scale), logits);
  }
  const auto visible =
      (number >= Batch(static_cast<float>(row.first))) & (number < Batch(static_cast<float>(row.last)));
  return xsimd::select(visible, logits, Batch(-kInfinity));
}

/// Do all the rows of this range see all of keys `key` .. `key + n`, none of them a sink?
SIATTN_INLINE bool all_plain(const Tile& tile, const Range& range, std::int32_t key, std::int32_t n) {
  return key >= range.all_first && key + n <= range.all_last && key >= tile.sinks;
}

SIATTN_INLINE void clear_chunk_max(const Tile& tile) {
  for (std::int64_t r = 0; r < whole_vectors(tile.rows); ++r) store(tile.chunk_max + r * kLanes, Batch(-kInfinity));
}

/// Stores a vector of logits and takes it into the row's lane-wise maximum.
SIATTN_INLINE void store_logits(const Tile& tile, int r, std::int32_t key, const Batch& logits) {
  store(tile.logits + r * kLogitsStride + key, logits);
  float* max = tile.chunk_max + r * kLanes;
  store(max, larger(load(max), logits));
}

}  // namespace
}  // namespace siattn::cpu

#endif  // SIATTN_CPU_KERNELS_LOGITS_HPP
