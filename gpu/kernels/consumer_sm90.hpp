// SPDX-License-Identifier: Apache-2.0
// prefill_sm90: a warpgroup that computes.
#ifndef SIATTN_GPU_KERNELS_CONSUMER_SM90_HPP
#define SIATTN_GPU_KERNELS_CONSUMER_SM90_HPP

#include "gpu/kernels/places_sm90.hpp"

namespace siattn::gpu {

/// 64 queries before all keys: one of the warpgroups that compute.
template <class T, int kWidth>
struct ConsumerSm90 {
  using Shape = PrefillSm90Shape<kWidth>;
  static constexpr int kStages = Shape::kStages;
  static constexpr int kKeyBlocks = Shape::kKeys / 8;
  static constexpr int kGroupBytes = 8 * 128;  ///< from eight rows of a tile to the next eight
  static constexpr int kHalfBytes = Shape::kKeys * 128;

  const Forward& f;
  const ItemSm90& item;
  int group;    ///< which of them
  int own_row;  ///< row g of the warp, counted from the block's first
  PlacesSm90<kWidth> at;
  Turn turn;
  KeyRange rows[2];  ///< what rows g and g + 8 of the warp see
  KeyRange all;      ///< keys that every query of the warpgroup sees

  float maximum[2];
  float sum[2];
  float out[kWidth / 8][4];

  SIATTN_DEVICE ConsumerSm90(const Forward& forward, const ItemSm90& it, int which)
      : f(forward), item(it), group(which) {
    own_row = 64 * group + warp_index() % 4 * 16 + lane_index() / 4;
    rows[0] = visible_keys(f.causal, f.window, item.s, query(0));
    rows[1] = visible_keys(f.causal, f.window, item.s, query(1));
    const int first = item.first_query + 64 * group;
    all.first = visible_keys(f.causal, f.window, item.s, smaller(first + 64, item.s.query_len) - 1).first;
    all.last = visible_keys(f.causal, f.window, item.s, first).last;
  }

  SIATTN_DEVICE int row(int half) const { return own_row + 8 * half; }
  SIATTN_DEVICE int query(int half) const { return item.first_query + row(half); }

  template <int kBlocks>
  SIATTN_DEVICE static float (&flat(float (&x)[kBlocks][4]))[4 * kBlocks] {
    return reinterpret_cast<float(&)[4 * kBlocks]>(x);
  }

  SIATTN_DEVICE void scores(float (&s)[kKeyBlocks][4], int stage) const {
    const SharedAddress queries = at.queries() + 64 * 128 * group;
    wgmma_fence();
    SIATTN_UNROLL
    for (int k = 0; k < kWidth / 16; ++k) {
      const int within = k % 4 * 32;
      const std::uint64_t a =
          matrix_descriptor(queries + k / 4 * Shape::kQueries * 128 + within, kGroupBytes, kGroupBytes);
      const std::uint64_t b = matrix_descriptor(at.keys(stage) + k / 4 * kHalfBytes + within, kGroupBytes, kGroupBytes);
      wgmma_shared<T, Shape::kKeys>(flat(s), a, b, k > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
    hold_registers(flat(s));
  }

  /// Products become logits: as Prefill::transform.
  template <bool plain>
  SIATTN_DEVICE void transform(float (&s)[kKeyBlocks][4], int first_key, int stage) const {
    const int column = 2 * (lane_index() % 4);
    const SharedAddress slice =
        at.slice(stage) + (Shape::kQueries - 1 - row(0) + column) * static_cast<int>(sizeof(Entry));
    float factor[2] = {1.0F, 1.0F};
    if constexpr (!plain) {
      factor[0] = row_factor(f, item.head, rows[0]);
      factor[1] = row_factor(f, item.head, rows[1]);
    }
    // Of this block of keys for the row g, and of the one before, which are this block's for the row g + 8.
    Entry before[2], now[2];
    SIATTN_UNROLL
    for (int block = -1; block < kKeyBlocks; ++block) {
      SIATTN_UNROLL
      for (int e = 0; e < 2; ++e) {
        before[e] = now[e];
        now[e] = load_shared<Entry>(slice + (8 * block + e) * static_cast<int>(sizeof(Entry)));
        if (block < 0) continue;
        SIATTN_UNROLL
        for (int half = 0; half < 2; ++half) {
          float& x = s[block][2 * half + e];
          const Entry entry = half == 0 ? now[e] : before[e];
          if constexpr (plain) {
            x = fused_multiply_add(entry.scale, x, entry.shift);
          } else {
            x = logit(f, rows[half], factor[half], first_key + 8 * block + column + e, entry, x);
          }
        }
      }
    }
  }

  /// out += P V, with the weights rounded to T in registers.
  SIATTN_DEVICE void weigh(const float (&weights)[kKeyBlocks][4], int stage) {
    std::uint32_t p[Shape::kKeys / 16][4];
    SIATTN_UNROLL
    for (int k = 0; k < Shape::kKeys / 16; ++k) {
      SIATTN_UNROLL
      for (int n = 0; n < 4; ++n) {
        const float(&block)[4] = weights[2 * k + n / 2];
        p[k][n] = pack<T>(block[n % 2 * 2], block[n % 2 * 2 + 1]);
      }
    }
    hold_registers(flat(out));
    wgmma_fence();
    SIATTN_UNROLL
    for (int k = 0; k < Shape::kKeys / 16; ++k) {
      wgmma_registers<T, kWidth>(flat(out), p[k],
                                 matrix_descriptor(at.values(stage) + k * 2 * kGroupBytes, kHalfBytes, kGroupBytes));
    }
    wgmma_commit();
    wgmma_wait<0>();
    hold_registers(flat(out));
  }

  /// By both warpgroups together: what is not finite in the tile of values becomes 0. Whether there was any.
  SIATTN_DEVICE bool clean(int stage) const {
    bool bad = false;
    for (int n = thread_index() - 128; n < Shape::kTileBytes / 16; n += 128 * Shape::kConsumers) {
      const SharedAddress here = at.values(stage) + 16 * n;
      const auto x = load_shared<Uint4>(here);
      const Uint4 good{only_finite<T>(x.x), only_finite<T>(x.y), only_finite<T>(x.z), only_finite<T>(x.w)};
      if (good.x == x.x && good.y == x.y && good.z == x.z && good.w == x.w) continue;
      bad = true;
      store_shared(here, good);
    }
    fence_async_proxy();
    return named_barrier_or(1, 128 * Shape::kConsumers, bad);
  }

  /// Adds to the rows that see them the values that clean() took out, from where they came.
  SIATTN_DEVICE void add_back(int first_key) {
    const std::int64_t base = item.s.value + item.kv_head * f.value.head_stride;
    const int last_key = smaller(first_key + Shape::kKeys, item.end);
    SIATTN_NO_UNROLL
    for (int key = first_key; key < last_key; ++key) {
      const bool sees[2] = {key >= rows[0].first && key < rows[0].last, key >= rows[1].first && key < rows[1].last};
      const std::int64_t row = kv_row(f, f.value, item.s.pages, base, key);
      SIATTN_UNROLL
      for (int n = 0; n < kWidth / 4; ++n) {
        const int channel = n / 2 * 8 + 2 * (lane_index() % 4) + n % 2;
        if (channel >= f.value_dim) continue;
        const float v = load_element<T>(f.value.data, row + channel);
        if (finite(v)) continue;
        if (sees[0]) out[n / 2][n % 2] += v;
        if (sees[1]) out[n / 2][2 + n % 2] += v;
      }
    }
  }

  /// This warp is done with what the barrier stands for.
  SIATTN_DEVICE void release(SharedAddress barrier) const {
    sync_warp();
    if (lane_index() == 0) mbarrier_arrive(barrier);
  }

  /// All keys once.
  SIATTN_DEVICE void pass(bool careful) {
    SIATTN_UNROLL
    for (int half = 0; half < 2; ++half) {
      maximum[half] = minus_infinity();
      sum[half] = 0.0F;
    }
    SIATTN_UNROLL
    for (int n = 0; n < kWidth / 2; ++n) flat(out)[n] = 0.0F;
    SIATTN_NO_UNROLL
    for (int first_key = item.begin; first_key < item.end; first_key += Shape::kKeys, ++turn.n) {
      const int stage = turn.stage<kStages>();
      float s[kKeyBlocks][4];
      mbarrier_wait(at.full_k(stage), turn.parity<kStages>());
      scores(s, stage);
      if (first_key >= all.first && first_key + Shape::kKeys <= all.last && first_key >= f.sinks &&
          f.row_factors == nullptr) {
        transform<true>(s, first_key, stage);
      } else {
        transform<false>(s, first_key, stage);
      }
      release(at.empty_k(stage));
      float alpha[2];
      softmax(s, maximum, sum, alpha);
      rescale(out, alpha);
      mbarrier_wait(at.full_v(stage), turn.parity<kStages>());
      const bool bad = careful && clean(stage);
      weigh(s, stage);
      release(at.empty_v(stage));
      if (bad) add_back(first_key);
    }
  }

  SIATTN_DEVICE void run() {
    mbarrier_wait(at.full_query(), 0);
    SIATTN_NO_UNROLL
    for (bool careful = false;; careful = true) {
      pass(careful);
      if (!sync_threads_or(!careful && !all_finite(out)) || careful) break;
    }
    SIATTN_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float total = over_lanes(sum[half]);
      if (query(half) >= item.s.query_len) continue;
      if (lane_index() % 4 == 0) store_lse(f, item.s, item.head, query(half), maximum[half], total);
      store_pairs<T>(f, out_row(f, item.s, item.head, query(half)), out, half, total);
    }
  }
};

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_KERNELS_CONSUMER_SM90_HPP
