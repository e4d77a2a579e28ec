// SPDX-License-Identifier: Apache-2.0
// Forward attention of many queries on tensor cores, for sm_80 and newer. A block of threads owns a tile of queries of
// one head before all keys that any of them sees, which pass by in tiles, in ascending order:
//
//     S = Q K^T,   L = a S + m (masked),   P = exp2(L - max),   out = alpha out + P V
//
// Each warp owns whole rows: 16 of them, or twice that. Copies run ahead: V of a tile while its scores are computed, K
// and the table's slice of the next tile during the rest. So K and V need one buffer each, the slices two.
//
// Bits. A row's result depends on its own keys only: tiles begin at multiples of kKeyAlignment, and a tile of which the
// row sees nothing multiplies its state by exactly 1 and adds exactly 0.
//
// Not finite. Masked logits are set, not computed. But on a tensor core a weight of 0 times a value that is not finite
// is NaN, in rows that do not see that value too. So where any output is not finite at the end the tile of queries is
// computed again, carefully: such values count as 0 in the products and are then added to the rows that see them, and to
// no others. The other rows get the same bits either way, and finite data pay nothing.
#ifndef SIATTN_GPU_KERNELS_PREFILL_HPP
#define SIATTN_GPU_KERNELS_PREFILL_HPP

#include "gpu/kernels/tiles.hpp"

namespace siattn::gpu {

/// What a block of threads does.
struct PrefillItem {
  std::int64_t b;
  int head;
  int kv_head;
  int first_query;
  int last_query;
};

/// Late queries, which see the most keys, come first; heads that share keys are neighbours. False: nothing to do.
template <int kQueries>
SIATTN_DEVICE bool prefill_item(const Forward& f, PrefillItem& item) {
  std::int64_t index = block_x();
  item.head = static_cast<int>(index % f.query_heads);
  index /= f.query_heads;
  const int group = f.query_heads / f.kv_heads;
  item.kv_head = item.head / group;
  item.b = index % f.batch;
  item.first_query = (f.query_tiles - 1 - static_cast<int>(index / f.batch)) * kQueries;
  const int query_len = load_global(&f.sequences[item.b].query_len);
  item.last_query = smaller(item.first_query + kQueries, query_len) - 1;
  return !decodes(query_len, group) && item.first_query < query_len;
}

template <class T, int kWidth>
struct Prefill {
  using Shape = PrefillShape<kWidth>;
  static constexpr int kTiles = Shape::kWarpTiles;
  static constexpr int kKeyBlocks = Shape::kKeys / 8;
  static constexpr int kEntrySliceBytes = Shape::kEntries * static_cast<int>(sizeof(Entry));

  const Forward& f;
  const PrefillItem& item;
  int warp;
  SharedAddress query_tile, key_tile, value_tile, slices;
  std::int64_t key_base, value_base;  ///< row 0 of the kv head
  std::int64_t pages;
  std::int64_t slice_base;   ///< the entry of the last query of a whole tile before key 0
  int begin, end;            ///< keys that any of the queries sees, from a multiple of kKeyAlignment on
  KeyRange all;              ///< keys that every query sees
  KeyRange rows[kTiles][2];  ///< what rows g and g + 8 of each of the warp's tiles see

  float maximum[kTiles][2];
  float sum[kTiles][2];
  float out[kTiles][kWidth / 8][4];

  SIATTN_DEVICE Prefill(const Forward& forward, const PrefillItem& it) : f(forward), item(it) {
    warp = warp_index();
    query_tile = shared_memory();
    key_tile = query_tile + 2 * kWidth * Shape::kQueries;
    value_tile = key_tile + 2 * kWidth * Shape::kKeys;
    slices = value_tile + 2 * kWidth * Shape::kKeys;
    const Sequence s = load_sequence(f, item.b);
    key_base = s.key + item.kv_head * f.key.head_stride;
    value_base = s.value + item.kv_head * f.value.head_stride;
    pages = s.pages;
    slice_base = entry_of_key_0(f, s, item.head, item.first_query + Shape::kQueries - 1);
    const KeyRange first = visible_keys(f.causal, f.window, s, item.first_query);
    const KeyRange last = visible_keys(f.causal, f.window, s, item.last_query);
    begin = first.first / kKeyAlignment * kKeyAlignment;
    end = last.last;
    all = {last.first, first.last};
    SIATTN_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      SIATTN_UNROLL
      for (int half = 0; half < 2; ++half) {
        rows[tile][half] = visible_keys(f.causal, f.window, s, query(tile, half));
      }
    }
  }

  /// The warp's first row, counted from the block's first.
  SIATTN_DEVICE int warp_row() const { return warp * kTiles * 16; }
  /// Row g + 8 half of one of the warp's tiles.
  SIATTN_DEVICE int row(int tile, int half) const { return warp_row() + tile * 16 + lane_index() / 4 + 8 * half; }
  SIATTN_DEVICE int query(int tile, int half) const { return item.first_query + row(tile, half); }

  SIATTN_DEVICE void copy_queries() const {
    constexpr int kChunks = kWidth / 8;
    const std::int64_t base = load_global(&f.sequences[item.b].query) + item.head * f.query.head_stride;
    for (int n = thread_index(); n < Shape::kQueries * kChunks; n += Shape::kThreads) {
      const std::int64_t i = item.first_query + n / kChunks;
      copy_chunk(chunk_at<kWidth>(query_tile, n / kChunks, n % kChunks), f.query, base + i * f.query.row_stride,
                 n % kChunks, f.head_dim, i <= item.last_query);
    }
  }

  /// Entry n of a tile's slice is that of row kQueries - 1 before its first key, plus n: row r before key j reads entry
  /// kQueries - 1 - r + j. Entries that no visible pair has may lie outside the tables: they become 0.
  SIATTN_DEVICE void copy_slice(SharedAddress slice, int first_key) const {
    const std::int64_t head = f.tables_per_head ? item.head * f.entries : 0;
    for (int n = thread_index(); n < Shape::kEntries; n += Shape::kThreads) {
      const std::int64_t at = slice_base + first_key + n;
      const bool there = at >= head && at < head + f.entries;
      cp_async<8>(slice + n * static_cast<int>(sizeof(Entry)), there ? f.tables + at : f.tables, there ? 8 : 0);
    }
  }

  SIATTN_DEVICE SharedAddress slice_of(int first_key) const {
    return slices + (first_key / Shape::kKeys % 2) * kEntrySliceBytes;
  }

  SIATTN_DEVICE void copy_keys_and_slice(int first_key) const {
    copy_keys<kWidth, Shape::kKeys, Shape::kThreads>(key_tile, f, f.key, pages, key_base, f.head_dim, first_key, end,
                                                     thread_index());
    copy_slice(slice_of(first_key), first_key);
  }

  /// Products become logits. The entry of (row + 8, key + 8) is that of (row, key): two of them are read for each block
  /// of keys, the others remembered. `plain`: every row sees every key, none of which is a sink, and factors are 1.
  template <bool plain>
  SIATTN_DEVICE void transform(float (&s)[kTiles][kKeyBlocks][4], int first_key) const {
    const int column = 2 * (lane_index() % 4);
    const SharedAddress slice =
        slice_of(first_key) + (Shape::kQueries - 1 - row(0, 0) + column) * static_cast<int>(sizeof(Entry));
    constexpr int kHalves = 2 * kTiles;
    float factor[kHalves];
    SIATTN_UNROLL
    for (int half = 0; half < kHalves; ++half) {
      factor[half] = plain ? 1.0F : row_factor(f, item.head, rows[half / 2][half % 2]);
    }
    Entry entries[kHalves][2];  // of block n at [n % kHalves]
    SIATTN_UNROLL
    for (int block = 1 - kHalves; block < kKeyBlocks; ++block) {
      SIATTN_UNROLL
      for (int e = 0; e < 2; ++e) {
        entries[(block + kHalves) % kHalves][e] =
            load_shared<Entry>(slice + (8 * block + e) * static_cast<int>(sizeof(Entry)));
      }
      if (block < 0) continue;
      SIATTN_UNROLL
      for (int half = 0; half < kHalves; ++half) {
        SIATTN_UNROLL
        for (int e = 0; e < 2; ++e) {
          float& x = s[half / 2][block][2 * (half % 2) + e];
          const Entry entry = entries[(block - half + kHalves) % kHalves][e];
          if constexpr (plain) {
            x = fused_multiply_add(entry.scale, x, entry.shift);
          } else {
            x = logit(f, rows[half / 2][half % 2], factor[half], first_key + 8 * block + column + e, entry, x);
          }
        }
      }
    }
  }

  /// All keys once. Barriers: the first says that K and the slice have come and that everybody is done with V of the tile
  /// before, the second that V has come and that everybody is done with K.
  SIATTN_DEVICE void pass(bool careful) {
    SIATTN_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      SIATTN_UNROLL
      for (int half = 0; half < 2; ++half) {
        maximum[tile][half] = minus_infinity();
        sum[tile][half] = 0.0F;
      }
      SIATTN_UNROLL
      for (int block = 0; block < kWidth / 8; ++block) {
        SIATTN_UNROLL
        for (int e = 0; e < 4; ++e) out[tile][block][e] = 0.0F;
      }
    }
    if (begin >= end) return;
    copy_queries();
    copy_keys_and_slice(begin);
    cp_async_commit();
    for (int first_key = begin; first_key < end; first_key += Shape::kKeys) {
      cp_async_wait<0>();
      sync_threads();
      copy_keys<kWidth, Shape::kKeys, Shape::kThreads>(value_tile, f, f.value, pages, value_base, f.value_dim,
                                                       first_key, end, thread_index());
      cp_async_commit();
      float s[kTiles][kKeyBlocks][4] = {};
      scores<T, kWidth>(s, query_tile, warp_row(), key_tile);
      cp_async_wait<0>();
      sync_threads();
      if (first_key + Shape::kKeys < end) copy_keys_and_slice(first_key + Shape::kKeys);
      cp_async_commit();
      if (first_key >= all.first && first_key + Shape::kKeys <= all.last && first_key >= f.sinks &&
          f.row_factors == nullptr) {
        transform<true>(s, first_key);
      } else {
        transform<false>(s, first_key);
      }
      SIATTN_UNROLL
      for (int tile = 0; tile < kTiles; ++tile) {
        float alpha[2];
        softmax(s[tile], maximum[tile], sum[tile], alpha);
        rescale(out[tile], alpha);
      }
      const bool bad = weigh<T, kWidth>(out, s, value_tile, careful);
      if (careful && warp_any(bad)) {
        SIATTN_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) {
          add_not_finite<T, kWidth, Shape::kKeys>(out[tile], rows[tile], value_tile, first_key);
        }
      }
    }
  }

  SIATTN_DEVICE void store() const {
    const Sequence s = load_sequence(f, item.b);
    SIATTN_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      SIATTN_UNROLL
      for (int half = 0; half < 2; ++half) {
        const float total = over_lanes(sum[tile][half]);
        const int i = query(tile, half);
        if (i > item.last_query) continue;
        if (lane_index() % 4 == 0) store_lse(f, s, item.head, i, maximum[tile][half], total);
        store_pairs<T>(f, out_row(f, s, item.head, i), out[tile], half, total);
      }
    }
  }

  SIATTN_DEVICE void run() {
    bool careful = false;
    SIATTN_NO_UNROLL
    for (;;) {  // one copy of the pass: fewer registers than two
      pass(careful);
      bool good = true;
      SIATTN_UNROLL
      for (int tile = 0; tile < kTiles; ++tile) good = good && all_finite(out[tile]);
      if (!sync_threads_or(!careful && !good)) break;
      careful = true;
    }
    store();
  }
};

template <class T, int kWidth>
SIATTN_DEVICE void prefill(const Forward& f) {
  PrefillItem item;
  if (!prefill_item<PrefillShape<kWidth>::kQueries>(f, item)) return;
  Prefill<T, kWidth>(f, item).run();
}

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_KERNELS_PREFILL_HPP
