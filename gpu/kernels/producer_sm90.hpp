// SPDX-License-Identifier: Apache-2.0
// prefill_sm90: the warpgroup that fetches.
#ifndef SIATTN_GPU_KERNELS_PRODUCER_SM90_HPP
#define SIATTN_GPU_KERNELS_PRODUCER_SM90_HPP

#include "gpu/kernels/places_sm90.hpp"

namespace siattn::gpu {

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

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_KERNELS_PRODUCER_SM90_HPP
