// SPDX-License-Identifier: Apache-2.0
// Forward attention without tensor cores: float32, and any type beyond the widths that prefill and decode take. A block
// of threads has 16 packed rows of a kv head (as decode has) before all keys, or one split of them, 32 keys at a time. Each
// warp owns four rows; a lane has one key of the scores, and one channel in 32 of out. K and V pass through shared memory
// in slabs of some channels, as float32.
//
// A masked key never meets its value: nothing that is not finite leaks.
#ifndef SIATTN_GPU_KERNELS_PLAIN_HPP
#define SIATTN_GPU_KERNELS_PLAIN_HPP

#include "gpu/kernels/rows.hpp"

namespace siattn::gpu {

/// kWidth: value_dim, at most.
template <class T, int kWidth>
struct Plain {
  using Shape = PlainShape;
  static constexpr int kRows = kPackedRows / Shape::kWarps;  ///< of a warp
  static constexpr int kSlabLanes = Shape::kSlab / 32;       ///< channels of a slab for each lane

  const Forward& f;
  const PackedItem& item;
  int warp;
  SharedAddress query_tile, slab_tile, weight_tile;
  int query_width;  ///< floats from a row of the queries to the next
  QueryRow row[kRows];

  float maximum[kRows];
  float sum[kRows];  ///< this lane's part
  float out[kWidth / Shape::kSlab][kSlabLanes][kRows];

  SIATTN_DEVICE Plain(const Forward& forward, const PackedItem& it) : f(forward), item(it) {
    query_width = divide_up(f.head_dim, Shape::kSlab) * Shape::kSlab;
    warp = warp_index();
    query_tile = shared_memory();
    slab_tile = query_tile + 4 * kPackedRows * query_width;
    weight_tile = slab_tile + 4 * Shape::kKeys * Shape::kSlabStride;
    SIATTN_UNROLL
    for (int n = 0; n < kRows; ++n) {
      const int r = warp * kRows + n;
      row[n] = item.valid(r) ? query_row(f, item.s, item.head(r), item.query(r)) : QueryRow{{}, 0, 1.0F};
      maximum[n] = minus_infinity();
      sum[n] = 0.0F;
    }
    SIATTN_UNROLL
    for (int slab = 0; slab < kWidth / Shape::kSlab; ++slab) {
      SIATTN_UNROLL
      for (int e = 0; e < kSlabLanes * kRows; ++e) out[slab][e / kRows][e % kRows] = 0.0F;
    }
  }

  SIATTN_DEVICE void load_queries() const {
    for (int n = thread_index(); n < kPackedRows * query_width; n += Shape::kThreads) {
      const int r = n / query_width;
      const int d = n % query_width;
      float x = 0.0F;
      if (item.valid(r) && d < f.head_dim) {
        x = load_element<T>(f.query.data,
                            item.s.query + item.head(r) * f.query.head_stride + item.query(r) * f.query.row_stride + d);
      }
      store_shared(query_tile + 4 * n, x);
    }
  }

  /// Channels slab * kSlab + .. of keys first_key + .. of K or V; 0 beyond either end.
  SIATTN_DEVICE void load_slab(const Rows& x, std::int64_t base, int dim, int first_key, int slab) const {
    for (int n = thread_index(); n < Shape::kKeys * Shape::kSlab; n += Shape::kThreads) {
      const int j = first_key + n / Shape::kSlab;
      const int d = slab * Shape::kSlab + n % Shape::kSlab;
      const float value =
          j < item.end && d < dim ? load_element<T>(x.data, kv_row(f, x, item.s.pages, base, j) + d) : 0.0F;
      store_shared(slab_tile + 4 * (n / Shape::kSlab * Shape::kSlabStride + n % Shape::kSlab), value);
    }
  }

  /// products[n] = <row n of the warp, key first_key + lane>. Barriers: nobody is reading the slab before; it has come.
  SIATTN_DEVICE void scores(float (&products)[kRows], int first_key) const {
    const std::int64_t base = item.s.key + item.kv_head * f.key.head_stride;
    const SharedAddress mine = slab_tile + 4 * lane_index() * Shape::kSlabStride;
    const SharedAddress queries = query_tile + 4 * warp * kRows * query_width;
    for (int slab = 0; slab * Shape::kSlab < f.head_dim; ++slab) {
      sync_threads();
      load_slab(f.key, base, f.head_dim, first_key, slab);
      sync_threads();
      const int channels = smaller(f.head_dim - slab * Shape::kSlab, Shape::kSlab);
      for (int d = 0; d < channels; ++d) {
        const float k = load_shared<float>(mine + 4 * d);
        SIATTN_UNROLL
        for (int n = 0; n < kRows; ++n) {
          const float q = load_shared<float>(queries + 4 * (n * query_width + slab * Shape::kSlab + d));
          products[n] = fused_multiply_add(q, k, products[n]);
        }
      }
    }
  }

  SIATTN_DEVICE float logit_of(const QueryRow& mine, int j, float product) const {
    if (j < mine.keys.first || j >= mine.keys.last) return minus_infinity();
    const Float2 entry = load_global(reinterpret_cast<const Float2*>(f.tables + mine.entry + j));
    return logit(f, mine.keys, mine.factor, j, {entry.x, entry.y}, product);
  }

  /// Products become weights, in shared memory: [row of the block][key].
  SIATTN_DEVICE void softmax(float (&products)[kRows], int first_key) {
    SIATTN_UNROLL
    for (int n = 0; n < kRows; ++n) {
      const float x = logit_of(row[n], first_key + lane_index(), products[n]);
      float highest = x;
      SIATTN_UNROLL
      for (int mask = 1; mask < 32; mask *= 2) highest = max_of(highest, shuffle_xor(highest, mask));
      highest = max_of(highest, maximum[n]);
      const float alpha = exp2_approx(maximum[n] - reference_of(highest));
      const float weight = exp2_approx(x - reference_of(highest));
      maximum[n] = highest;
      sum[n] = fused_multiply_add(sum[n], alpha, weight);
      SIATTN_UNROLL
      for (int slab = 0; slab < kWidth / Shape::kSlab; ++slab) {
        SIATTN_UNROLL
        for (int e = 0; e < kSlabLanes; ++e) out[slab][e][n] *= alpha;
      }
      store_shared(weight_tile + 4 * ((warp * kRows + n) * Shape::kKeys + lane_index()), weight);
    }
    sync_warp();
  }

  SIATTN_DEVICE void weigh(int first_key) {
    const std::int64_t base = item.s.value + item.kv_head * f.value.head_stride;
    const SharedAddress weights = weight_tile + 4 * warp * kRows * Shape::kKeys;
    SIATTN_UNROLL
    for (int slab = 0; slab < kWidth / Shape::kSlab; ++slab) {
      if (slab * Shape::kSlab >= f.value_dim) break;
      sync_threads();
      load_slab(f.value, base, f.value_dim, first_key, slab);
      sync_threads();
      SIATTN_NO_UNROLL
      for (int j = 0; j < Shape::kKeys; ++j) {
        SIATTN_UNROLL
        for (int e = 0; e < kSlabLanes; ++e) {
          const float v = load_shared<float>(slab_tile + 4 * (j * Shape::kSlabStride + 32 * e + lane_index()));
          SIATTN_UNROLL
          for (int n = 0; n < kRows; ++n) {
            if (first_key + j < row[n].keys.first || first_key + j >= row[n].keys.last) continue;
            const float weight = load_shared<float>(weights + 4 * (n * Shape::kKeys + j));
            out[slab][e][n] = fused_multiply_add(weight, v, out[slab][e][n]);
          }
        }
      }
    }
  }

  SIATTN_DEVICE void store() const {
    SIATTN_UNROLL
    for (int n = 0; n < kRows; ++n) {
      float total = sum[n];
      SIATTN_UNROLL
      for (int mask = 1; mask < 32; mask *= 2) total += shuffle_xor(total, mask);
      const int r = warp * kRows + n;
      if (!item.valid(r)) continue;
      const PackedRow to(f, item, r);
      if (lane_index() == 0) to.store_end(maximum[n], total);
      SIATTN_UNROLL
      for (int slab = 0; slab < kWidth / Shape::kSlab; ++slab) {
        SIATTN_UNROLL
        for (int e = 0; e < kSlabLanes; ++e) {
          const int channel = slab * Shape::kSlab + 32 * e + lane_index();
          if (channel < f.value_dim) to.template store<T>(channel, out[slab][e][n], total);
        }
      }
    }
  }

  SIATTN_DEVICE void run() {
    load_queries();  // read after the first barrier of scores()
    for (int first_key = item.begin; first_key < item.end; first_key += Shape::kKeys) {
      float products[kRows] = {};
      scores(products, first_key);
      softmax(products, first_key);
      weigh(first_key);
    }
    store();
  }
};

template <class T, int kWidth>
SIATTN_DEVICE void plain(const Forward& f) {
  PackedItem item;
  if (packed_item(f, item)) Plain<T, kWidth>(f, item).run();
}

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_KERNELS_PLAIN_HPP
