// SPDX-License-Identifier: Apache-2.0
// Forward attention of many queries for sm_90a: the same steps as prefill.hpp, with tensor copies and wgmma. A block has
// three warpgroups. The first fetches: one thread K and V of a tile of keys, one warp the table's slice; it runs up to
// two tiles ahead. The other two own 64 queries each before all keys, and overlap by being two: while one is at its
// softmax the other is at its products.
//
// Tensors that tensor copies cannot take are copied by all threads of the first warpgroup, into the same tiles.
//
//     full_k  K and the slice of a stage have come        empty_k  every warp is done with them
//     full_v  V of a stage has come                       empty_v  every warp is done with it
//
// Bits, and what is not finite: as in prefill.hpp, but that tiles of keys begin at multiples of kKeys, and that rows
// beyond a sequence's end are whatever lies there. Where such a row of V is not finite the tile of queries is computed
// twice.
#ifndef SIATTN_GPU_KERNELS_PREFILL_SM90_HPP
#define SIATTN_GPU_KERNELS_PREFILL_SM90_HPP

#include "gpu/kernels/prefill.hpp"
#include "gpu/ptx_sm90.hpp"

namespace siattn::gpu {

/// What a block does: queries of one head before the keys begin <= j < end, all that any of them sees; begin is a multiple
/// of kKeys.
struct ItemSm90 {
  Sequence s;
  std::int64_t b;
  int head;
  int kv_head;
  int first_query;
  int begin;
  int end;
};

/// False: nothing to do.
template <class Shape>
SIATTN_DEVICE bool item_sm90(const Forward& f, ItemSm90& item) {
  PrefillItem base;
  if (!prefill_item<Shape::kQueries>(f, base)) return false;
  item.s = load_sequence(f, base.b);
  item.b = base.b;
  item.head = base.head;
  item.kv_head = base.kv_head;
  item.first_query = base.first_query;
  item.begin = visible_keys(f.causal, f.window, item.s, base.first_query).first / Shape::kKeys * Shape::kKeys;
  item.end = visible_keys(f.causal, f.window, item.s, base.last_query).last;
  return true;
}

/// Where things are in shared memory. Tiles are halves of 64 channels, one behind the other, rows of 128 bytes.
template <int kWidth>
struct PlacesSm90 {
  using Shape = PrefillSm90Shape<kWidth>;
  static constexpr int kBarrierBytes = 8;

  SharedAddress base = shared_memory();

  SIATTN_DEVICE SharedAddress full_query() const { return base; }
  SIATTN_DEVICE SharedAddress full_k(int stage) const { return base + kBarrierBytes * (1 + stage); }
  SIATTN_DEVICE SharedAddress full_v(int stage) const { return full_k(Shape::kStages + stage); }
  SIATTN_DEVICE SharedAddress empty_k(int stage) const { return full_k(2 * Shape::kStages + stage); }
  SIATTN_DEVICE SharedAddress empty_v(int stage) const { return full_k(3 * Shape::kStages + stage); }
  SIATTN_DEVICE SharedAddress queries() const { return base + 1024; }
  SIATTN_DEVICE SharedAddress keys(int stage) const {
    return queries() + 2 * kWidth * Shape::kQueries + stage * Shape::kTileBytes;
  }
  SIATTN_DEVICE SharedAddress values(int stage) const { return keys(Shape::kStages + stage); }
  SIATTN_DEVICE SharedAddress slice(int stage) const { return keys(2 * Shape::kStages) + stage * Shape::kSliceBytes; }
};

/// The tiles of a block in turn, over both passes: stage and parity of the n-th.
struct Turn {
  int n = 0;
  template <int kStages>
  SIATTN_DEVICE int stage() const {
    return n % kStages;
  }
  /// What a wait for `full` waits for; one for `empty` waits for the other one, and the first time round for nothing.
  template <int kStages>
  SIATTN_DEVICE int parity() const {
    return n / kStages % 2;
  }
};

/// Who arrives at a barrier `full`: who asks for the copies, or all threads that copy.
SIATTN_DEVICE int fetchers(const ForwardSm90& p, bool with_slice) {
  if (!p.tensor_copies) return 128;
  return with_slice ? 1 + 32 : 1;
}

/// The row of a packed tensor at which a sequence begins.
SIATTN_DEVICE int packed_row(std::int64_t offset, std::int64_t row_stride) {
  return row_stride == 0 ? 0 : static_cast<int>(offset / row_stride);
}

/// The warpgroup that fetches.
template <int kWidth>
struct ProducerSm90 {
  using Shape = PrefillSm90Shape<kWidth>;
  static constexpr int kStages = Shape::kStages;

  const ForwardSm90& p;
  const Forward& f;
  const ItemSm90& item;
  PlacesSm90<kWidth> at;
  Turn turn;

  SIATTN_DEVICE ProducerSm90(const ForwardSm90& params, const ItemSm90& it) : p(params), f(params.f), item(it) {}

  // ---- by tensor copies: one thread asks ----

  SIATTN_DEVICE void fetch(const TensorMap& map, SharedAddress to, SharedAddress barrier, int rows, int row, int head,
                           int b) const {
    mbarrier_arrive_expect(barrier, 2 * kWidth * rows);
    SIATTN_UNROLL
    for (int half = 0; half < kWidth / kBoxChannels; ++half) {
      tensor_load(to + half * rows * 128, map, barrier, half * kBoxChannels, row, head, b);
    }
  }
  SIATTN_DEVICE void fetch_queries() const {
    const int row = p.query_packed ? packed_row(item.s.query, f.query.row_stride) : 0;
    fetch(p.query, at.queries(), at.full_query(), Shape::kQueries, row + item.first_query, item.head,
          p.query_packed ? 0 : static_cast<int>(item.b));
  }
  SIATTN_DEVICE void fetch_keys_and_values() {
    const int row = p.key_packed ? packed_row(item.s.key, f.key.row_stride) : 0;
    const int value_row = p.key_packed ? packed_row(item.s.value, f.value.row_stride) : 0;
    const int b = p.key_packed ? 0 : static_cast<int>(item.b);
    for (int first_key = item.begin; first_key < item.end; first_key += Shape::kKeys, ++turn.n) {
      const int stage = turn.stage<kStages>();
      const int free = 1 - turn.parity<kStages>();
      mbarrier_wait(at.empty_k(stage), free);
      fetch(p.key, at.keys(stage), at.full_k(stage), Shape::kKeys, row + first_key, item.kv_head, b);
      mbarrier_wait(at.empty_v(stage), free);
      fetch(p.value, at.values(stage), at.full_v(stage), Shape::kKeys, value_row + first_key, item.kv_head, b);
    }
  }

  /// By `threads` threads. Entry n of a slice as in Prefill::copy_slice.
  SIATTN_DEVICE void copy_slice(int first_key, int stage, int thread, int threads) const {
    const Entry* const table = f.tables + (f.tables_per_head ? item.head * f.entries : 0);
    const std::int64_t first = f.t_max - (item.s.query_offset + item.first_query + Shape::kQueries - 1) + first_key;
    SIATTN_NO_UNROLL
    for (int n = thread; n < Shape::kEntries; n += threads) {
      Entry entry{0.0F, 0.0F};
      if (first + n >= 0 && first + n < f.entries) entry = load_global(table + first + n);
      store_shared(at.slice(stage) + n * static_cast<int>(sizeof(Entry)), entry);
    }
  }
  SIATTN_DEVICE void fetch_slices() {
    for (int first_key = item.begin; first_key < item.end; first_key += Shape::kKeys, ++turn.n) {
      const int stage = turn.stage<kStages>();
      mbarrier_wait(at.empty_k(stage), 1 - turn.parity<kStages>());
      copy_slice(first_key, stage, lane_index(), 32);
      mbarrier_arrive(at.full_k(stage));
    }
  }

  // ---- by all threads of the warpgroup ----

  /// Rows first .. first + kRows, those from `end` on as 0; row i is row_at(i).
  template <int kRows, class RowAt>
  SIATTN_DEVICE void copy_rows(SharedAddress tile, const Rows& x, int dim, int first, int end, RowAt row_at) const {
    constexpr int kChunks = kWidth / 8;
    SIATTN_NO_UNROLL
    for (int n = thread_index(); n < kRows * kChunks; n += 128) {
      const int row = n / kChunks;
      const int chunk = n % kChunks;
      const SharedAddress to = tile + chunk / 8 * kRows * 128 + row * 128 + ((chunk ^ row) & 7) * 16;
      const bool valid = first + row < end;
      copy_chunk(to, x, valid ? row_at(first + row) : 0, chunk, dim, valid);
    }
  }
  /// What this thread has copied has come, also for wgmma.
  SIATTN_DEVICE void copied(SharedAddress barrier) const {
    cp_async_commit();
    cp_async_wait<0>();
    fence_async_proxy();
    mbarrier_arrive(barrier);
  }
  SIATTN_DEVICE void copy_queries() const {
    const std::int64_t base = item.s.query + item.head * f.query.head_stride;
    copy_rows<Shape::kQueries>(at.queries(), f.query, f.head_dim, item.first_query, item.s.query_len,
                               [&](int i) { return base + i * f.query.row_stride; });
    copied(at.full_query());
  }
  SIATTN_DEVICE void copy_keys_and_values() {
    const std::int64_t key = item.s.key + item.kv_head * f.key.head_stride;
    const std::int64_t value = item.s.value + item.kv_head * f.value.head_stride;
    for (int first_key = item.begin; first_key < item.end; first_key += Shape::kKeys, ++turn.n) {
      const int stage = turn.stage<kStages>();
      const int free = 1 - turn.parity<kStages>();
      mbarrier_wait(at.empty_k(stage), free);
      copy_rows<Shape::kKeys>(at.keys(stage), f.key, f.head_dim, first_key, item.end,
                              [&](int j) { return kv_row(f, f.key, item.s.pages, key, j); });
      copy_slice(first_key, stage, thread_index(), 128);
      copied(at.full_k(stage));
      mbarrier_wait(at.empty_v(stage), free);
      copy_rows<Shape::kKeys>(at.values(stage), f.value, f.value_dim, first_key, item.end,
                              [&](int j) { return kv_row(f, f.value, item.s.pages, value, j); });
      copied(at.full_v(stage));
    }
  }

  /// Both passes, the second only if any row asks for it.
  SIATTN_DEVICE void run() {
    const bool asks = p.tensor_copies && thread_index() == 0;
    const bool slices = p.tensor_copies && warp_index() == 1;
    if (asks) fetch_queries();
    if (!p.tensor_copies) copy_queries();
    SIATTN_NO_UNROLL
    for (bool careful = false;; careful = true) {
      if (asks) fetch_keys_and_values();
      if (slices) fetch_slices();
      if (!p.tensor_copies) copy_keys_and_values();
      sync_warp();
      if (!sync_threads_or(false) || careful) break;
    }
  }
};

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

template <class T, int kWidth>
SIATTN_DEVICE void prefill_sm90(const ForwardSm90& p) {
  using Shape = PrefillSm90Shape<kWidth>;
  ItemSm90 item;
  if (!item_sm90<Shape>(p.f, item)) return;
  const PlacesSm90<kWidth> at;
  if (thread_index() == 0) {
    mbarrier_init(at.full_query(), fetchers(p, false));
    for (int stage = 0; stage < Shape::kStages; ++stage) {
      mbarrier_init(at.full_k(stage), fetchers(p, true));
      mbarrier_init(at.full_v(stage), fetchers(p, false));
      mbarrier_init(at.empty_k(stage), 4 * Shape::kConsumers);
      mbarrier_init(at.empty_v(stage), 4 * Shape::kConsumers);
    }
    fence_mbarrier_init();
  }
  sync_threads();
  const int group = warp_index() / 4;
  if (group == 0) {
    lower_registers<Shape::kProducerRegisters>();
    ProducerSm90<kWidth>(p, item).run();
  } else {
    raise_registers<Shape::kConsumerRegisters>();
    ConsumerSm90<T, kWidth>(p.f, item, group - 1).run();
  }
}

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_KERNELS_PREFILL_SM90_HPP
