// SPDX-License-Identifier: Apache-2.0
// From the logits of a chunk to its weights: the step of the online softmax that everything else is linear around.
#ifndef SIATTN_CPU_KERNELS_SOFTMAX_HPP
#define SIATTN_CPU_KERNELS_SOFTMAX_HPP

#include "cpu/kernels.hpp"
#include "cpu/kernels/exp2.hpp"
#include "cpu/kernels/logits.hpp"
#include "cpu/kernels/simd.hpp"

namespace siattn::cpu {
namespace {

/// What is subtracted from logits: the maximum, or 0 while no key has a logit above -infinity, so that weights become 0
/// instead of exp2(-infinity + infinity) = NaN. A maximum of +infinity or NaN makes the row NaN, as it should.
SIATTN_INLINE Batch subtrahend(const Batch& maximum) {
  return xsimd::select(maximum == Batch(-kInfinity), Batch(0.0F), maximum);
}

/// put(row, key, weights of a vector of keys) for all keys that any row of a block sees, in ascending order. A NaN among
/// the logits need not survive in the maximum: the weight that it becomes is NaN either way.
template <class Put>
SIATTN_INLINE void soften(const Tile& tile, Put put) {
  alignas(64) float base[kMaxTileRows];
  for (int r = 0; r < tile.rows; r += kLanes) {
    Batch lanes[kLanes];
    SIATTN_UNROLL
    for (int i = 0; i < kLanes; ++i) lanes[i] = load(tile.chunk_max + (r + i) * kLanes);
    const Batch before = load(tile.maximum + r);
    const Batch after = larger(before, reduce_each(lanes, Larger{}));
    const Batch subtracted = subtrahend(after);
    store(tile.maximum + r, after);
    store(tile.alpha + r, exp2_nonpositive(before - subtracted));
    subtracted.store_aligned(base + r);
  }
  for (int block = 0; block < tile.rows; block += kBlock) {
    const int rows = tile.rows - block < kBlock ? tile.rows - block : kBlock;
    const Range range = range_of(tile.row + block, rows);
    if (range.empty()) continue;
    for (int r = block; r < block + rows; ++r) {
      const float* logits = tile.logits + r * tile.logits_stride;
      const Batch subtracted(base[r]);
      Batch sum(0.0F);
      for (std::int64_t j = range.first / kLanes * kLanes; j < range.last; j += kLanes) {
        const Batch weight = exp2_nonpositive(load(logits + j) - subtracted);
        put(r, j, weight);
        sum = sum + weight;
      }
      float* total = tile.sum + r * kLanes;
      store(total, madd(Batch(tile.alpha[r]), load(total), sum));
    }
  }
}

void softmax(const Tile& tile) {
  soften(tile, [&tile](std::int64_t r, std::int64_t j, const Batch& weight) {
    store(tile.logits + r * tile.logits_stride + j, weight);
  });
}

}  // namespace
}  // namespace siattn::cpu

#endif  // SIATTN_CPU_KERNELS_SOFTMAX_HPP
