// SPDX-License-Identifier: Apache-2.0
// The two products over packed operands, in register tiles of `rows` x two vectors. What a row gets does not depend on
// the rows that it shares a tile with: every dot product adds its channels in ascending order, every output its keys.
#ifndef SIATTN_CPU_KERNELS_PRODUCTS_HPP
#define SIATTN_CPU_KERNELS_PRODUCTS_HPP

#include "cpu/kernels.hpp"
#include "cpu/kernels/logits.hpp"
#include "cpu/kernels/simd.hpp"

namespace siattn::cpu {
namespace {

/// Logits of query rows r .. r + rows for the panel of keys that starts at `key`.
template <int rows>
void score_panel(const Tile& tile, const Range& range, int r, std::int32_t key, const float* panel) {
  Batch dots[rows][2];
  SIATTN_UNROLL
  for (int i = 0; i < rows; ++i) dots[i][0] = dots[i][1] = Batch(0.0F);
  const float* query = tile.query + r / kBlock * kBlock * tile.head_dim + r % kBlock;
  for (std::int64_t d = 0; d < tile.head_dim; ++d) {
    const Batch k0 = Batch::load_aligned(panel);
    const Batch k1 = Batch::load_aligned(panel + kLanes);
    SIATTN_UNROLL
    for (int i = 0; i < rows; ++i) {
      const Batch q(query[i]);
      dots[i][0] = madd(q, k0, dots[i][0]);
      dots[i][1] = madd(q, k1, dots[i][1]);
    }
    query += kBlock;
    panel += kPanel;
  }
  const bool plain = all_plain(tile, range, key, kPanel);
  SIATTN_UNROLL
  for (int i = 0; i < rows; ++i) {
    const Row& row = tile.row[r + i];
    SIATTN_UNROLL
    for (int v = 0; v < 2; ++v) {
      const std::int32_t at = key + v * kLanes;
      store_logits(tile, r + i, at,
                   plain ? plain_logits(tile, row, at, dots[i][v]) : masked_logits(tile, row, at, dots[i][v]));
    }
  }
}

/// out = alpha out + P V for rows r .. r + rows, one panel of channels, keys first .. last.
template <int rows>
void weigh_panel(const Tile& tile, int r, std::int32_t first, std::int32_t last, const float* panel, float* out) {
  Batch sums[rows][2];
  SIATTN_UNROLL
  for (int i = 0; i < rows; ++i) sums[i][0] = sums[i][1] = Batch(0.0F);
  const float* weight = tile.logits + r * kLogitsStride;
  for (std::int64_t j = first; j < last; ++j) {
    const Batch v0 = Batch::load_aligned(panel + j * kPanel);
    const Batch v1 = Batch::load_aligned(panel + j * kPanel + kLanes);
    SIATTN_UNROLL
    for (int i = 0; i < rows; ++i) {
      const Batch p(weight[i * kLogitsStride + j]);
      sums[i][0] = madd(p, v0, sums[i][0]);
      sums[i][1] = madd(p, v1, sums[i][1]);
    }
  }
  SIATTN_UNROLL
  for (int i = 0; i < rows; ++i) {
    const Batch alpha(tile.alpha[r + i]);
    float* to = out + (r + i) * tile.out_stride;
    SIATTN_UNROLL
    for (int v = 0; v < 2; ++v) store(to + v * kLanes, madd(alpha, load(to + v * kLanes), sums[i][v]));
  }
}

/// Asks for the part of `ahead` that belongs to step `step` of `steps`.
SIATTN_INLINE void prefetch(const Ahead& ahead, std::int32_t step, std::int32_t steps) {
  for (std::int32_t i = ahead.rows * step / steps; i < ahead.rows * (step + 1) / steps; ++i) {
    const char* row = ahead.at + i * ahead.stride;
    for (std::int32_t byte = 0; byte < ahead.row_bytes; byte += 64) __builtin_prefetch(row + byte, 0, 2);
  }
}

/// Rows first .. first + n of a block in as few register tiles as there are sizes for.
template <class Whole, class Four, class One>
SIATTN_INLINE void by_rows(int r, int n, Whole whole, Four four, One one) {
  if (n == kBlock) return whole(r);
  for (; n >= 4; n -= 4, r += 4) four(r);
  for (; n > 0; --n, ++r) one(r);
}

SIATTN_INLINE int rows_of_block(const Tile& tile, int r) { return tile.rows - r < kBlock ? tile.rows - r : kBlock; }

/// Q K^T, transform and masks. The panel of keys stays in the first-level cache while all query rows pass by.
void scores(const Tile& tile, const float* packed_key) {
  clear_chunk_max(tile);
  Range ranges[kMaxTileRows / kBlock];
  for (int r = 0; r < tile.rows; r += kBlock) ranges[r / kBlock] = range_of(tile.row + r, rows_of_block(tile, r));
  const std::int32_t start = tile.first / kPanel * kPanel;
  const std::int32_t blocks = (tile.rows + kBlock - 1) / kBlock;
  const std::int32_t steps = (tile.last - start + kPanel - 1) / kPanel * blocks;
  std::int32_t step = 0;
  for (std::int32_t key = start; key < tile.last; key += kPanel) {
    const float* panel = packed_key + key * tile.head_dim;
    for (int r = 0; r < tile.rows; r += kBlock) {
      prefetch(tile.next_key, step, steps);
      ++step;
      const Range& range = ranges[r / kBlock];
      if (key >= range.last || key + kPanel <= range.first) continue;
      by_rows(
          r, rows_of_block(tile, r), [&](int at) { score_panel<kBlock>(tile, range, at, key, panel); },
          [&](int at) { score_panel<4>(tile, range, at, key, panel); },
          [&](int at) { score_panel<1>(tile, range, at, key, panel); });
    }
  }
}

/// P V. Rows of a block share the keys that any of them sees, since what a row does not see has weight 0 there: right
/// while the values are finite. Where they are not, 0 times infinity would leak, and each row goes by itself.
void weigh(const Tile& tile, const float* packed_value, std::int64_t capacity, bool finite) {
  const std::int32_t blocks = (tile.rows + kBlock - 1) / kBlock;
  const std::int32_t steps = static_cast<std::int32_t>((tile.value_dim + kPanel - 1) / kPanel) * blocks;
  std::int32_t step = 0;
  for (std::int64_t d = 0; d < tile.value_dim; d += kPanel) {
    const float* panel = packed_value + d * capacity;
    float* out = tile.out + d;
    for (int r = 0; r < tile.rows; r += kBlock) {
      prefetch(tile.next_value, step, steps);
      ++step;
      const int n = rows_of_block(tile, r);
      const Range range = range_of(tile.row + r, n);
      if (range.empty()) continue;
      if (finite || range.same()) {
        const std::int32_t first = range.first;
        const std::int32_t last = range.last;
        by_rows(
            r, n, [&](int at) { weigh_panel<kBlock>(tile, at, first, last, panel, out); },
            [&](int at) { weigh_panel<4>(tile, at, first, last, panel, out); },
            [&](int at) { weigh_panel<1>(tile, at, first, last, panel, out); });
      } else {
        for (int i = r; i < r + n; ++i) weigh_panel<1>(tile, i, tile.row[i].first, tile.row[i].last, panel, out);
      }
    }
  }
}

}  // namespace
}  // namespace siattn::cpu

#endif  // SIATTN_CPU_KERNELS_PRODUCTS_HPP
