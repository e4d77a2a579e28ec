// SPDX-License-Identifier: Apache-2.0
// The two products for few query rows (decoding): straight from K and V, each read once for all the rows, since packing
// them would cost more than it saves. As in products.hpp, what a row gets does not depend on the other rows but through
// the keys that all of them see (see stream_weigh), which is a matter of its own sequence.
#ifndef SIATTN_CPU_KERNELS_STREAM_HPP
#define SIATTN_CPU_KERNELS_STREAM_HPP

#include "cpu/kernels.hpp"
#include "cpu/kernels/element.hpp"
#include "cpu/kernels/logits.hpp"
#include "cpu/kernels/simd.hpp"

namespace siattn::cpu {
namespace {

/// How far ahead, in elements, to ask for rows of K or V: by hand, as the processor's own prefetcher starts anew with
/// each chunk. Into the second-level cache, which can wait for more lines at a time than the first. Addresses past the
/// end of the tensor do no harm.
template <class T>
SIATTN_INLINE std::int64_t reach(std::int64_t stride, std::int64_t dim) {
  constexpr std::int64_t bytes = 24576;
  const std::int64_t row = dim * static_cast<std::int64_t>(sizeof(typename T::Storage));
  return stride * (row < bytes ? bytes / row : 1);
}

/// Asks for the cache line `ahead` elements behind the one that the vector at channel d begins.
template <class Storage>
SIATTN_INLINE void prefetch_line(const Storage* from, std::int64_t d, std::int64_t ahead) {
  constexpr std::int64_t vectors = 64 / (kLanes * static_cast<std::int64_t>(sizeof(Storage)));  // of a cache line
  if (d / kLanes % vectors != 0) return;
  const auto address = reinterpret_cast<std::uintptr_t>(from) + static_cast<std::uintptr_t>(ahead) * sizeof(Storage);
  __builtin_prefetch(reinterpret_cast<const void*>(address), 0, 2);
}

/// Products of `rows` queries with keys key .. key + kLanes / rows, of which n exist, into the logits' place.
template <class T, int rows>
SIATTN_INLINE void stream_dots(const Tile& tile, int r, const typename T::Storage* source, std::int64_t stride,
                               std::int32_t key, std::int64_t n) {
  constexpr int keys = kLanes / rows;
  const typename T::Storage* k[keys];
  for (int j = 0; j < keys; ++j) k[j] = source + (key + (j < n ? j : n - 1)) * stride;
  const std::int64_t width = whole_vectors(tile.head_dim);
  const float* query = tile.query + r * width;
  Batch dots[kLanes];
  SIATTN_UNROLL
  for (int i = 0; i < kLanes; ++i) dots[i] = Batch(0.0F);
  // The first group of rows asks for the keys of later steps.
  const std::int64_t ahead = reach<T>(stride, tile.head_dim);
  std::int64_t d = 0;
  const auto step = [&](auto read) SIATTN_ALWAYS {
    Batch x[keys];
    SIATTN_UNROLL
    for (int j = 0; j < keys; ++j) {
      if (r == 0) prefetch_line(k[j] + d, d, ahead);
      x[j] = read(k[j] + d);
    }
    SIATTN_UNROLL
    for (int i = 0; i < rows; ++i) {
      const Batch q = load(query + i * width + d);
      SIATTN_UNROLL
      for (int j = 0; j < keys; ++j) dots[i * keys + j] = madd(q, x[j], dots[i * keys + j]);
    }
  };
  for (; d + kLanes <= tile.head_dim; d += kLanes) step([](const auto* from) SIATTN_ALWAYS { return T::read(from); });
  if (d < tile.head_dim) step([&](const auto* from) SIATTN_ALWAYS { return read_some<T>(from, tile.head_dim - d); });

  alignas(64) float sums[kLanes];
  reduce_each(dots, Add{}).store_aligned(sums);
  for (int i = 0; i < rows; ++i) {
    float* to = tile.logits + (r + i) * kLogitsStride + key;
    for (int j = 0; j < keys; ++j) to[j] = sums[i * keys + j];
  }
}

template <class T, int rows>
void stream_dots_of_rows(const Tile& tile, int r, const void* key, std::int64_t stride, std::int32_t from,
                         std::int32_t to) {
  const auto* source = static_cast<const typename T::Storage*>(key);
  for (std::int32_t j = from; j < to; j += kLanes / rows) {
    const std::int32_t left = tile.last - j;
    if (left <= 0) return;
    stream_dots<T, rows>(tile, r, source, stride, j, left < kLanes / rows ? left : kLanes / rows);
  }
}

template <class T>
void stream_scores(const Tile& tile, const void* key, std::int64_t stride) {
  clear_chunk_max(tile);
  // kLanes keys at a time, so that their rows of K are still in the first-level cache for the next group of queries.
  const std::int32_t start = tile.first / kLanes * kLanes;
  for (std::int32_t j = start; j < tile.last; j += kLanes) {
    const std::int32_t from = j < tile.first ? tile.first : j;
    int r = 0;
    for (; r + 4 <= tile.rows; r += 4) stream_dots_of_rows<T, 4>(tile, r, key, stride, from, j + kLanes);
    for (; r + 2 <= tile.rows; r += 2) stream_dots_of_rows<T, 2>(tile, r, key, stride, from, j + kLanes);
    for (; r < tile.rows; ++r) stream_dots_of_rows<T, 1>(tile, r, key, stride, from, j + kLanes);
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
                               const typename T::Storage* value, std::int64_t stride, std::int32_t first,
                               std::int32_t last, Read read) {
  Batch sums[rows][vectors];
  SIATTN_UNROLL
  for (int i = 0; i < rows; ++i) {
    SIATTN_UNROLL
    for (int v = 0; v < vectors; ++v) sums[i][v] = Batch(0.0F);
  }
  const float* weight = tile.logits + r * kLogitsStride;
  const typename T::Storage* from = value + first * stride + d;
  const std::int64_t ahead = reach<T>(stride, tile.value_dim);
  for (std::int64_t j = first; j < last; ++j, from += stride) {
    Batch p[rows];
    SIATTN_UNROLL
    for (int i = 0; i < rows; ++i) p[i] = Batch(weight[i * kLogitsStride + j]);
    SIATTN_UNROLL
    for (int v = 0; v < vectors; ++v) {
      if (r == 0) prefetch_line(from + v * kLanes, d + v * kLanes, ahead);
      const Batch x = read(from + v * kLanes);
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
void stream_weigh_rows(const Tile& tile, const float* alpha, int r, const void* value, std::int64_t stride,
                       std::int32_t first, std::int32_t last) {
  // As many accumulators as hide the latency of a multiply-add, and no more than there are registers for.
  constexpr int vectors = rows == 1 ? 8 : kBlock >= 8 ? 4 : 8 / rows;
  const auto* source = static_cast<const typename T::Storage*>(value);
  const auto whole = [](const auto* from) SIATTN_ALWAYS { return T::read(from); };
  std::int64_t d = 0;
  for (; d + vectors * kLanes <= tile.value_dim; d += vectors * kLanes) {
    stream_sums<T, rows, vectors>(tile, alpha, r, d, source, stride, first, last, whole);
  }
  for (; d + kLanes <= tile.value_dim; d += kLanes) {
    stream_sums<T, rows, 1>(tile, alpha, r, d, source, stride, first, last, whole);
  }
  if (d < tile.value_dim) {
    const std::int64_t n = tile.value_dim - d;
    stream_sums<T, rows, 1>(tile, alpha, r, d, source, stride, first, last,
                            [n](const auto* from) SIATTN_ALWAYS { return read_some<T>(from, n); });
  }
}

/// First each row's keys before those that all rows see, then these for all rows together, then each row's keys after
/// them: no weight of 0 ever meets a value that its row does not see.
template <class T>
void stream_weigh(const Tile& tile, const void* value, std::int64_t stride) {
  float alpha[kMaxStreamRows];
  for (int r = 0; r < tile.rows; ++r) alpha[r] = tile.alpha[r];
  const auto alone = [&](int r, std::int32_t first, std::int32_t last) {
    if (first >= last) return;
    stream_weigh_rows<T, 1>(tile, alpha, r, value, stride, first, last);
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
  for (; r + 4 <= tile.rows; r += 4) stream_weigh_rows<T, 4>(tile, alpha, r, value, stride, first, last);
  for (; r + 2 <= tile.rows; r += 2) stream_weigh_rows<T, 2>(tile, alpha, r, value, stride, first, last);
  for (; r < tile.rows; ++r) stream_weigh_rows<T, 1>(tile, alpha, r, value, stride, first, last);
  for (float& a : alpha) a = 1.0F;
  for (r = 0; r < tile.rows; ++r) alone(r, last, tile.row[r].last);
}

}  // namespace
}  // namespace siattn::cpu

#endif  // SIATTN_CPU_KERNELS_STREAM_HPP
