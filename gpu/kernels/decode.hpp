// SPDX-License-Identifier: Apache-2.0
// Forward attention of a few queries before many keys on tensor cores, for sm_80 and newer: bound by memory bandwidth.
// The query rows of a kv head, all heads of its group, are packed into 16 rows, so that each key is read once for them.
// A block of threads has one split of the keys; its warps take steps of 16 keys in turn, each with an attention state and
// a pipeline of copies of its own, and wait for one another only at the end, when their states are merged in order.
// The states of several splits are merged by combine.hpp.
//
// Bits. The keys of a warp follow from where the split begins, and that from the sequence alone.
// Not finite: see prefill.hpp; here each warp decides for itself.
#ifndef SIATTN_GPU_KERNELS_DECODE_HPP
#define SIATTN_GPU_KERNELS_DECODE_HPP

#include "gpu/kernels/tiles.hpp"

namespace siattn::gpu {

template <class T, int kWidth>
struct Decode {
  using Shape = DecodeShape<kWidth>;
  static constexpr int kKeyBlocks = Shape::kKeys / 8;
  static constexpr int kStepBytes = 2 * kWidth * Shape::kKeys;  ///< of K or V
  static constexpr int kStep = Shape::kWarps * Shape::kKeys;    ///< keys from one step of a warp to its next
  // At the end the pipelines' memory holds the warps' states: maxima and sums, then out.
  static constexpr int kStateBytes = 4 * kPackedRows * (kWidth + 2);
  static_assert(Shape::kWarps * kStateBytes <= Shape::kSharedBytes - 2 * kWidth * kPackedRows);

  const Forward& f;
  const PackedItem& item;
  int warp;
  SharedAddress query_tile, pipelines;
  std::int64_t key_base, value_base;  ///< row 0 of the kv head
  QueryRow row[2];                    ///< rows g and g + 8
  KeyRange seen[2];                   ///< their keys

  float maximum[2];
  float sum[2];
  float out[1][kWidth / 8][4];

  SIATTN_DEVICE Decode(const Forward& forward, const PackedItem& it) : f(forward), item(it) {
    warp = warp_index();
    query_tile = shared_memory();
    pipelines = query_tile + 2 * kWidth * kPackedRows;
    key_base = item.s.key + item.kv_head * f.key.head_stride;
    value_base = item.s.value + item.kv_head * f.value.head_stride;
    SIATTN_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int r = lane_index() / 4 + 8 * half;
      row[half] = item.valid(r) ? query_row(f, item.s, item.head(r), item.query(r)) : QueryRow{{}, 0, 1.0F};
      seen[half] = row[half].keys;
    }
  }

  SIATTN_DEVICE void copy_queries() const {
    constexpr int kChunks = kWidth / 8;
    for (int n = thread_index(); n < kPackedRows * kChunks; n += Shape::kThreads) {
      const int r = n / kChunks;
      const bool valid = item.valid(r);
      const std::int64_t at =
          valid ? item.s.query + item.head(r) * f.query.head_stride + item.query(r) * f.query.row_stride : 0;
      copy_chunk(chunk_at<kWidth>(query_tile, r, n % kChunks), f.query, at, n % kChunks, f.head_dim, valid);
    }
  }

  SIATTN_DEVICE int first_key(int step) const { return item.begin + step * kStep + warp * Shape::kKeys; }
  SIATTN_DEVICE SharedAddress key_tile(int step) const {
    return pipelines + (warp * Shape::kStages + step % Shape::kStages) * 2 * kStepBytes;
  }
  SIATTN_DEVICE SharedAddress value_tile(int step) const { return key_tile(step) + kStepBytes; }

  /// Begins the copies of a step, if the warp has it, and closes their group.
  SIATTN_DEVICE void copy_step(int step) const {
    if (first_key(step) < item.end) {
      copy_keys<kWidth, Shape::kKeys, 32>(key_tile(step), f, f.key, item.s.pages, key_base, f.head_dim, first_key(step),
                                          item.end, lane_index());
      copy_keys<kWidth, Shape::kKeys, 32>(value_tile(step), f, f.value, item.s.pages, value_base, f.value_dim,
                                          first_key(step), item.end, lane_index());
    }
    cp_async_commit();
  }

  /// Products become logits; the rows belong to different heads and queries, so each reads entries of its own.
  SIATTN_DEVICE void transform(float (&s)[kKeyBlocks][4], int key) const {
    SIATTN_UNROLL
    for (int block = 0; block < kKeyBlocks; ++block) {
      SIATTN_UNROLL
      for (int e = 0; e < 4; ++e) {
        const QueryRow& mine = row[e / 2];
        const int j = key + 8 * block + 2 * (lane_index() % 4) + e % 2;
        Entry entry = {};
        if (j >= mine.keys.first && j < mine.keys.last) {
          const Float2 both = load_global(reinterpret_cast<const Float2*>(f.tables + mine.entry + j));
          entry = {both.x, both.y};
        }
        s[block][e] = logit(f, mine.keys, mine.factor, j, entry, s[block][e]);
      }
    }
  }

  /// All keys of the warp once. Before a step the warp waits until its copies have come, which also says that all lanes
  /// are done with the step before, whose memory the copies begun now will overwrite.
  SIATTN_DEVICE void pass(bool careful) {
    SIATTN_UNROLL
    for (int half = 0; half < 2; ++half) {
      maximum[half] = minus_infinity();
      sum[half] = 0.0F;
    }
    SIATTN_UNROLL
    for (int block = 0; block < kWidth / 8; ++block) {
      SIATTN_UNROLL
      for (int e = 0; e < 4; ++e) out[0][block][e] = 0.0F;
    }
    for (int step = 0; step < Shape::kStages - 1; ++step) copy_step(step);
    for (int step = 0; first_key(step) < item.end; ++step) {
      cp_async_wait<Shape::kStages - 2>();
      sync_warp();
      copy_step(step + Shape::kStages - 1);
      float s[1][kKeyBlocks][4] = {};
      scores<T, kWidth>(s, query_tile, 0, key_tile(step));
      transform(s[0], first_key(step));
      float alpha[2];
      softmax(s[0], maximum, sum, alpha);
      rescale(out[0], alpha);
      const bool bad = weigh<T, kWidth>(out, s, value_tile(step), careful);
      if (careful && warp_any(bad)) {
        add_not_finite<T, kWidth, Shape::kKeys>(out[0], seen, value_tile(step), first_key(step));
      }
    }
    sync_warp();  // another pass begins with copies
  }

  // Where the states of the warps lie.
  SIATTN_DEVICE SharedAddress state(int of) const { return pipelines + of * kStateBytes; }
  SIATTN_DEVICE SharedAddress maximum_at(int of, int r) const { return state(of) + 4 * r; }
  SIATTN_DEVICE SharedAddress sum_at(int of, int r) const { return state(of) + 4 * (kPackedRows + r); }
  SIATTN_DEVICE SharedAddress out_at(int of, int r, int channel) const {
    return state(of) + 4 * (2 * kPackedRows + r * kWidth + channel);
  }

  SIATTN_DEVICE void share() const {
    SIATTN_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int r = lane_index() / 4 + 8 * half;
      const int column = 2 * (lane_index() % 4);
      const float total = over_lanes(sum[half]);
      if (column == 0) {
        store_shared(maximum_at(warp, r), maximum[half]);
        store_shared(sum_at(warp, r), total);
      }
      SIATTN_UNROLL
      for (int block = 0; block < kWidth / 8; ++block) {
        store_shared(out_at(warp, r, 8 * block + column), Float2{out[0][block][2 * half], out[0][block][2 * half + 1]});
      }
    }
  }

  /// Merges the warps' states, row by row, and writes them: out and lse, or the state of this split.
  SIATTN_DEVICE void merge() const {
    for (int r = warp; r < kPackedRows && item.valid(r); r += Shape::kWarps) {
      float highest = minus_infinity();
      for (int n = 0; n < Shape::kWarps; ++n) highest = max_of(highest, load_shared<float>(maximum_at(n, r)));
      float weights[Shape::kWarps];
      float total = 0.0F;
      SIATTN_UNROLL
      for (int n = 0; n < Shape::kWarps; ++n) {
        weights[n] = exp2_approx(load_shared<float>(maximum_at(n, r)) - reference_of(highest));
        total += weights[n] * load_shared<float>(sum_at(n, r));
      }
      const PackedRow to(f, item, r);
      if (lane_index() == 0) to.store_end(highest, total);
      for (int channel = lane_index(); channel < f.value_dim; channel += 32) {
        float x = 0.0F;
        SIATTN_UNROLL
        for (int n = 0; n < Shape::kWarps; ++n) x += weights[n] * load_shared<float>(out_at(n, r, channel));
        to.template store<T>(channel, x, total);
      }
    }
  }

  SIATTN_DEVICE void run() {
    copy_queries();
    cp_async_commit();
    cp_async_wait<0>();
    sync_threads();
    pass(false);
    if (warp_any(!all_finite(out[0]))) pass(true);
    sync_threads();  // the states take the place of all pipelines
    share();
    sync_threads();
    merge();
  }
};

template <class T, int kWidth>
SIATTN_DEVICE void decode(const Forward& f) {
  PackedItem item;
  if (!packed_item(f, item) || !decodes(item.s.query_len, item.group)) return;
  Decode<T, kWidth>(f, item).run();
}

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_KERNELS_DECODE_HPP
