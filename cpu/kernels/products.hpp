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

/// The products of rows r .. r + rows with a panel of keys, all of which they see, become logits. What the loop reads is
/// fetched from the tile before it stores anything: a store of a vector may alias all memory.
template <int rows, bool has_factors>
SIATTN_INLINE void store_plain_panel(const Tile& tile, int r, std::int32_t key, const Batch (&dots)[rows][2]) {
  const Row* const row = tile.row + r;
  float* const logits = tile.logits + r * kLogitsStride + key;
  float* const max = tile.chunk_max + r * kLanes;
  SIATTN_UNROLL
  for (int i = 0; i < rows; ++i) {
    const float* const scale = row[i].scale + (row[i].entry + key);
    const float* const shift = row[i].shift + (row[i].entry + key);
    const Batch factor(has_factors ? row[i].factor : 1.0F);
    const Batch low_scale = has_factors ? load(scale) * factor : load(scale);
    const Batch high_scale = has_factors ? load(scale + kLanes) * factor : load(scale + kLanes);
    const Batch low = madd(low_scale, dots[i][0], load(shift));
    const Batch high = madd(high_scale, dots[i][1], load(shift + kLanes));
    store(logits + i * kLogitsStride, low);
    store(logits + i * kLogitsStride + kLanes, high);
    store(max + i * kLanes, larger(load(max + i * kLanes), larger(low, high)));
  }
}

/// The same where masks or sinks may apply.
template <int rows>
SIATTN_INLINE void store_masked_panel(const Tile& tile, int r, std::int32_t key, const Batch (&dots)[rows][2]) {
  SIATTN_UNROLL
  for (int i = 0; i < rows; ++i) {
    const Row& row = tile.row[r + i];
    SIATTN_UNROLL
    for (int v = 0; v < 2; ++v) {
      const std::int32_t at = key + v * kLanes;
      store_logits(tile, r + i, at, masked_logits(tile, row, at, dots[i][v]));
    }
  }
}

/// Logits of query rows r .. r + rows for the panel of keys that starts at `key`.
template <int rows>
void score_panel(const Tile& tile, const Range& range, int r, std::int32_t key, const float* panel) {
  Batch dots[rows][2];
  SIATTN_UNROLL
  for (int i = 0; i < rows; ++i) dots[i][0] = dots[i][1] = Batch(0.0F);
  const float* query = tile.query + r / kBlock * kBlock * tile.head_dim + r % kBlock;
  SIATTN_UNROLL_LOOP
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
  if (!all_plain(tile, range, key, kPanel)) {
    store_masked_panel<rows>(tile, r, key, dots);
  } else if (tile.has_factors) {
    store_plain_panel<rows, true>(tile, r, key, dots);
  } else {
    store_plain_panel<rows, false>(tile, r, key, dots);
  }
}

/// out = alpha out + P V for rows r .. r + rows, one panel of channels, keys first .. last.
template <int rows>
void weigh_panel(const Tile& tile, int r, std::int32_t first, std::int32_t last, const float* panel, float* out) {
  Batch sums[rows][2];
  SIATTN_UNROLL
  for (int i = 0; i < rows; ++i) sums[i][0] = sums[i][1] = Batch(0.0F);
  const float* const weight = tile.logits + r * kLogitsStride;
  const float* const alpha = tile.alpha + r;
  const std::int64_t stride = tile.out_stride;
  SIATTN_UNROLL_LOOP
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
  float* to = out + r * stride;
  SIATTN_UNROLL
  for (int i = 0; i < rows; ++i, to += stride) {
    const Batch a(alpha[i]);
    const Batch low = madd(a, load(to), sums[i][0]);
    const Batch high = madd(a, load(to + kLanes), sums[i][1]);
    store(to, low);
    store(to + kLanes, high);
  }
}

/// Asks for the rows of an Ahead, so many cache lines with each of `steps` steps that all are asked for at the end. The
/// same number each time: a count that varies would be a mispredicted branch between two register tiles.
class Fetcher {
 public:
  SIATTN_INLINE Fetcher(const Ahead& ahead, std::int32_t steps)
      : row_(ahead.row), row_bytes_(ahead.row_bytes), rows_left_(ahead.rows) {
    const std::int32_t lines = ahead.rows * ((ahead.row_bytes + 63) / 64);
    lines_a_step_ = steps > 0 ? (lines + steps - 1) / steps : 0;
  }

  SIATTN_INLINE void step() {
    for (std::int32_t i = 0; i < lines_a_step_; ++i) {
      __builtin_prefetch(static_cast<const char*>(*row_) + byte_, 0, 2);
      byte_ += 64;
      const bool row_ends = byte_ >= row_bytes_;
      rows_left_ -= row_ends ? 1 : 0;
      row_ += row_ends && rows_left_ > 0 ? 1 : 0;  // the last row again and again rather than one past the list
      byte_ = row_ends ? 0 : byte_;
    }
  }

 private:
  const void* const* row_;
  std::int32_t row_bytes_;
  std::int32_t rows_left_;
  std::int32_t byte_ = 0;
  std::int32_t lines_a_step_;
};

/// Rows r .. r + n of a block in as few register tiles as there are sizes for: call.operator()<rows>(first row).
template <class Call>
SIATTN_INLINE void by_rows(int r, int n, Call call) {
  if (n == kBlock) return call.template operator()<kBlock>(r);
  if constexpr (kBlock > 8) {
    for (; n >= 8; n -= 8, r += 8) call.template operator()<8>(r);
  }
  for (; n >= 4; n -= 4, r += 4) call.template operator()<4>(r);
  for (; n > 0; --n, ++r) call.template operator()<1>(r);
}

SIATTN_INLINE int rows_of_block(const Tile& tile, int r) { return tile.rows - r < kBlock ? tile.rows - r : kBlock; }

SIATTN_INLINE void block_ranges(const Tile& tile, Range (&ranges)[kMaxTileRows / kBlock]) {
  for (int r = 0; r < tile.rows; r += kBlock) ranges[r / kBlock] = range_of(tile.row + r, rows_of_block(tile, r));
}

/// Q K^T, transform and masks. Some panels of keys stay in the first-level cache while all query rows pass by.
void scores(const Tile& tile, const float* packed_key) {
  clear_chunk_max(tile);
  Range ranges[kMaxTileRows / kBlock];
  block_ranges(tile, ranges);
  const std::int32_t start = tile.first / kPanel * kPanel;
  const std::int32_t blocks = (tile.rows + kBlock - 1) / kBlock;
  constexpr std::int32_t kTogether = 2 * kPanel;
  Fetcher fetcher(tile.next_key, (tile.last - start + kTogether - 1) / kTogether * blocks);
  for (std::int32_t together = start; together < tile.last; together += kTogether) {
    for (int r = 0; r < tile.rows; r += kBlock) {
      fetcher.step();
      const Range& range = ranges[r / kBlock];
      const std::int32_t last = together + kTogether < range.last ? together + kTogether : range.last;
      for (std::int32_t key = together; key < last; key += kPanel) {
        if (key + kPanel <= range.first) continue;
        const float* panel = packed_key + key * tile.head_dim;
        by_rows(r, rows_of_block(tile, r), [&]<int rows>(int at) { score_panel<rows>(tile, range, at, key, panel); });
      }
    }
  }
}

/// P V. Rows of a block share the keys that any of them sees, since what a row does not see has weight 0 there: right
/// while the values are finite. Where they are not, 0 times infinity would leak, and each row goes by itself.
void weigh(const Tile& tile, const float* packed_value, std::int64_t capacity, bool finite) {
  const std::int32_t blocks = (tile.rows + kBlock - 1) / kBlock;
  Fetcher fetcher(tile.next_value, static_cast<std::int32_t>((tile.value_dim + kPanel - 1) / kPanel) * blocks);
  Range ranges[kMaxTileRows / kBlock];
  block_ranges(tile, ranges);
  for (std::int64_t d = 0; d < tile.value_dim; d += kPanel) {
    const float* panel = packed_value + d * capacity;
    float* out = tile.out + d;
    for (int r = 0; r < tile.rows; r += kBlock) {
      fetcher.step();
      const int n = rows_of_block(tile, r);
      const Range& range = ranges[r / kBlock];
      if (range.empty()) continue;
      if (finite || range.same()) {
        const std::int32_t first = range.first;
        const std::int32_t last = range.last;
        by_rows(r, n, [&]<int rows>(int at) { weigh_panel<rows>(tile, at, first, last, panel, out); });
      } else {
        for (int i = r; i < r + n; ++i) weigh_panel<1>(tile, i, tile.row[i].first, tile.row[i].last, panel, out);
      }
    }
  }
}

}  // namespace
}  // namespace siattn::cpu

#endif  // SIATTN_CPU_KERNELS_PRODUCTS_HPP
