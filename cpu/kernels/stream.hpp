// SPDX-License-Identifier: Apache-2.0
// The two products for few query rows (decoding): straight from K and V, each read once for all the rows, since packing
// them would cost more than it saves. As in products.hpp, what a row gets does not depend on the other rows but through
// the keys that all of them see (see stream_weigh), which is a matter of its own sequence.
#ifndef SIATTN_CPU_KERNELS_STREAM_HPP
#define SIATTN_CPU_KERNELS_STREAM_HPP

#include "cpu/kernels.hpp"
#include "cpu/kernels/element.hpp"
#include "cpu/kernels/logits.hpp"
#include "cpu/kernels/pack.hpp"
#include "cpu/kernels/products.hpp"
#include "cpu/kernels/simd.hpp"

namespace siattn::cpu {
namespace {

/// Asks for the cache line that the vector at channel d of a row begins: by hand, as the processor's own prefetcher
/// starts anew with each chunk and does not know pages. Into the second-level cache, which can wait for more lines at a
/// time than the first.
template <class Storage>
SIATTN_INLINE void prefetch_line(const void* row, std::int64_t d) {
  constexpr std::int64_t vectors = 64 / (kLanes * static_cast<std::int64_t>(sizeof(Storage)));  // of a cache line
  if (d / kLanes % vectors == 0) __builtin_prefetch(static_cast<const Storage*>(row) + d, 0, 2);
}

/// Products of `rows` queries with keys key .. key + kLanes / rows, of which n exist, into the logits' place.
template <class T, int rows>
SIATTN_INLINE void stream_dots(const Tile& tile, int r, const KvRows& source, std::int32_t key, std::int64_t n) {
  constexpr int keys = kLanes / rows;
  std::int64_t index[keys];
  const typename T::Storage* k[keys];
  for (int j = 0; j < keys; ++j) {
    index[j] = key + (j < n ? j : n - 1);
    k[j] = row_at<T>(source, index[j], 0);
  }
  const std::int64_t width = whole_vectors(tile.head_dim);
  const float* query = tile.query + r * width;
  Batch dots[kLanes];
  SIATTN_UNROLL
  for (int i = 0; i < kLanes; ++i) dots[i] = Batch(0.0F);
  // The first group of rows asks for the keys of later steps.
  Fetcher fetcher({source.row + key + source.ahead, static_cast<std::int32_t>(n),
                   static_cast<std::int32_t>(tile.head_dim * static_cast<std::int64_t>(sizeof(typename T::Storage)))},
                  static_cast<std::int32_t>((tile.head_dim + kLanes - 1) / kLanes * (keys / (keys < 4 ? keys : 4))));
  constexpr int together = keys < 4 ? keys : 4;
  SIATTN_UNROLL
  for (int first = 0; first < keys; first += together) {
    std::int64_t d = 0;
    const auto step = [&](auto read) SIATTN_ALWAYS {
      if (r == 0) fetcher.step();
      Batch x[together];
      SIATTN_UNROLL
      for (int j = 0; j < together; ++j) x[j] = scaled<T>(read(k[first + j] + d), source, index[first + j]);
      SIATTN_UNROLL
      for (int i = 0; i < rows; ++i) {
        const Batch q = load(query + i * width + d);
        SIATTN_UNROLL
        for (int j = 0; j < together; ++j) {
          dots[i * keys + first + j] = madd(q, x[j], dots[i * keys + first + j]);
        }
      }
    };
    for (; d + kLanes <= tile.head_dim; d += kLanes) step([](const auto* from) SIATTN_ALWAYS { return T::read(from); });
    if (d < tile.head_dim) step([&](const auto* from) SIATTN_ALWAYS { return read_some<T>(from, tile.head_dim - d); });
  }

  alignas(64) float sums[kLanes];
  reduce_each(dots, Add{}).store_aligned(sums);
  for (int i = 0; i < rows; ++i) {
    float* to = tile.logits + (r + i) * kLogitsStride + key;
    for (int j = 0; j < keys; ++j) to[j] = sums[i * keys + j];
  }
}

template <class T, int rows>
void stream_dots_of_rows(const Tile& tile, int r, const KvRows& key, std::int32_t from, std::int32_t to) {
  for (std::int32_t j = from; j < to; j += kLanes / rows) {
    const std::int32_t left = tile.last - j;
    if (left <= 0) return;
    stream_dots<T, rows>(tile, r, key, j, left < kLanes / rows ? left : kLanes / rows);
  }
}

template <class T>
void stream_scores(const Tile& tile, const KvRows& key) {
  clear_chunk_max(tile);
  // kLanes keys at a time, so that their rows of K are still in the first-level cache for the next group of queries.
  const std::int32_t start = tile.first / kLanes * kLanes;
  for (std::int32_t j = start; j < tile.last; j += kLanes) {
    const std::int32_t from = j < tile.first ? tile.first : j;
    int r = 0;
    for (; r + 4 <= tile.rows; r += 4) stream_dots_of_rows<T, 4>(tile, r, key, from, j + kLanes);
    for (; r + 2 <= tile.rows; r += 2) stream_dots_of_rows<T, 2>(tile, r, key, from, j + kLanes);
    for (; r < tile.rows; ++r) stream_dots_of_rows<T, 1>(tile, r, key, from, j + kLanes);
  }
  const Range range = range_of(tile.row, tile.rows);
  for (int r = 0; r < tile.rows; ++r) {
    const float* dots = tile.logits + r * kLogitsStride;
    for (std::int32_t j = start; j < tile.last; j += kLanes) {
      const Batch dot = load(dots + j);
      store_logits(tile, r, j,
                   all_plain(tile, range, j, kLanes) ? plain_logits(tile, tile.row[r], j, dot)
                                                     : masked_logits(tile, tile.row[r], j, dot));
    }
  }
}

/// out = alpha out + P V for rows r .. r + rows, `vectors` vectors of channels from d on, keys first .. last. `read`
/// gets the address of a vector of V.
template <class T, int rows, int vectors, class Read>
SIATTN_INLINE void stream_sums(const Tile& tile, const float* alpha, int r, std::int64_t d,
                               const KvRows& value, std::int32_t first, std::int32_t last, Read read) {
  Batch sums[rows][vectors];
  SIATTN_UNROLL
  for (int i = 0; i < rows; ++i) {
    SIATTN_UNROLL
    for (int v = 0; v < vectors; ++v) sums[i][v] = Batch(0.0F);
  }
  const float* weight = tile.logits + r * kLogitsStride;
  for (std::int64_t j = first; j < last; ++j) {
    const typename T::Storage* from = row_at<T>(value, j, d);
    const void* soon = value.row[j + value.ahead];
    Batch p[rows];
    SIATTN_UNROLL
    for (int i = 0; i < rows; ++i) p[i] = Batch(weight[i * kLogitsStride + j]);
    SIATTN_UNROLL
    for (int v = 0; v < vectors; ++v) {
      if (r == 0) prefetch_line<typename T::Storage>(soon, d + v * kLanes);
      const Batch x = scaled<T>(read(from + v * kLanes), value, j);
      SIATTN_UNROLL
      for (int i = 0; i < rows; ++i) sums[i][v] = madd(p[i], x, sums[i][v]);
    }
  }
  SIATTN_UNROLL
  for (int i = 0; i < rows; ++i) {
    SIATTN_UNROLL
    for (int v = 0; v < vectors; ++v) {
      float* to = tile.out + (r + i) * tile.out_stride + d + v * kLanes;
      store(to, madd(Batch(alpha[r + i]), load(to), sums[i][v]));
    }
  }
}

template <class T, int rows>
void stream_weigh_rows(const Tile& tile, const float* alpha, int r, const KvRows& value, std::int32_t first,
                       std::int32_t last) {
  // As many accumulators as hide the latency of a multiply-add, and no more than there are registers for.
  constexpr int vectors = rows == 1 ? 8 : kBlock >= 8 ? 4 : 8 / rows;
  const auto whole = [](const auto* from) SIATTN_ALWAYS { return T::read(from); };
  std::int64_t d = 0;
  for (; d + vectors * kLanes <= tile.value_dim; d += vectors * kLanes) {
    stream_sums<T, rows, vectors>(tile, alpha, r, d, value, first, last, whole);
  }
  for (; d + kLanes <= tile.value_dim; d += kLanes) {
    stream_sums<T, rows, 1>(tile, alpha, r, d, value, first, last, whole);
  }
  if (d < tile.value_dim) {
    const std::int64_t n = tile.value_dim - d;
    stream_sums<T, rows, 1>(tile, alpha, r, d, value, first, last,
                            [n](const auto* from) SIATTN_ALWAYS { return read_some<T>(from, n); });
  }
}

/// First each row's keys before those that all rows see, then these for all rows together, then each row's keys after
/// them: no weight of 0 ever meets a value that its row does not see.
template <class T>
void stream_weigh(const Tile& tile, const KvRows& value) {
  float alpha[kMaxStreamRows];
  for (int r = 0; r < tile.rows; ++r) alpha[r] = tile.alpha[r];
  const auto alone = [&](int r, std::int32_t first, std::int32_t last) {
    if (first >= last) return;
    stream_weigh_rows<T, 1>(tile, alpha, r, value, first, last);
    alpha[r] = 1.0F;
  };
  const Range range = range_of(tile.row, tile.rows);
  if (range.all_first >= range.all_last) {
    for (int r = 0; r < tile.rows; ++r) alone(r, tile.row[r].first, tile.row[r].last);
    return;
  }
  const std::int32_t first = range.all_first;
  const std::int32_t last = range.all_last;
  for (int r = 0; r < tile.rows; ++r) alone(r, tile.row[r].first, first);
  int r = 0;
  for (; r + 4 <= tile.rows; r += 4) stream_weigh_rows<T, 4>(tile, alpha, r, value, first, last);
  for (; r + 2 <= tile.rows; r += 2) stream_weigh_rows<T, 2>(tile, alpha, r, value, first, last);
  for (; r < tile.rows; ++r) stream_weigh_rows<T, 1>(tile, alpha, r, value, first, last);
  for (float& a : alpha) a = 1.0F;
  for (r = 0; r < tile.rows; ++r) alone(r, last, tile.row[r].last);
}

}  // namespace
}  // namespace siattn::cpu

#endif  // SIATTN_CPU_KERNELS_STREAM_HPP
