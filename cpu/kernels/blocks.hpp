// SPDX-License-Identifier: Apache-2.0
// What remains of a tile for the kernels where whole blocks of both products are formed elsewhere.
#ifndef SIATTN_CPU_KERNELS_BLOCKS_HPP
#define SIATTN_CPU_KERNELS_BLOCKS_HPP

#include "cpu/kernels.hpp"
#include "cpu/kernels/element.hpp"
#include "cpu/kernels/logits.hpp"
#include "cpu/kernels/pack.hpp"
#include "cpu/kernels/products.hpp"
#include "cpu/kernels/simd.hpp"
#include "cpu/kernels/softmax.hpp"

namespace siattn::cpu {
namespace {

/// Products become logits, for the vectors of keys that softmax will take up: those that any row of a block sees.
void transform(const Tile& tile) {
  Fetcher fetcher(tile.next_key, tile.rows);
  for (int block = 0; block < tile.rows; block += kBlock) {
    const int rows = rows_of_block(tile, block);
    const Range range = range_of(tile.row + block, rows);
    for (int r = block; r < block + rows; ++r) {
      fetcher.step();
      const Row& row = tile.row[r];
      float* const logits = tile.logits + r * tile.logits_stride;
      Batch max(-kInfinity);
      for (std::int32_t key = range.first / kLanes * kLanes; key < range.last; key += kLanes) {
        const Batch dot = load(logits + key);
        const Batch logit =
            all_plain(tile, range, key, kLanes) ? plain_logits(tile, row, key, dot) : masked_logits(tile, row, key, dot);
        store(logits + key, logit);
        max = larger(max, logit);
      }
      store(tile.chunk_max + r * kLanes, max);
    }
  }
}

struct WeightFloat32 {
  using Storage = float;
  static SIATTN_INLINE void write(float* to, const Batch& x) { store(to, x); }
};

/// A weight lies in [0, 1], or the row's sum is NaN and makes all of the row NaN, whatever becomes of this one.
struct WeightBfloat16 {
  using Storage = std::uint16_t;
  static SIATTN_INLINE void write(std::uint16_t* to, const Batch& x) { store_uint16(to, (bits(x) + 0x8000) >> 16); }
};

template <class T>
SIATTN_INLINE void clear(typename T::Storage* to, std::int64_t first, std::int64_t last) {
  for (std::int64_t j = first; j < last; j += kLanes) T::write(to + j, Batch(0.0F));
}

template <class T>
void spread(const Tile& tile, void* weights, std::int64_t keys) {
  auto* const to = static_cast<typename T::Storage*>(weights);
  Fetcher fetcher(tile.next_value, tile.rows);
  soften(tile, [=](std::int64_t r, std::int64_t j, const Batch& weight) { T::write(to + r * keys + j, weight); });
  for (int block = 0; block < tile.rows; block += kBlock) {
    const int rows = rows_of_block(tile, block);
    const Range range = range_of(tile.row + block, rows);
    for (int r = block; r < block + rows; ++r) {
      clear<T>(to + r * keys, 0, range.empty() ? keys : range.first / kLanes * kLanes);
      if (!range.empty()) clear<T>(to + r * keys, whole_vectors(range.last), keys);
      fetcher.step();
      if (tile.alpha[r] == 1.0F) continue;
      const Batch alpha(tile.alpha[r]);
      float* const out = tile.out + r * tile.out_stride;
      for (std::int64_t d = 0; d < tile.out_stride; d += kLanes) store(out + d, alpha * load(out + d));
    }
  }
}

SIATTN_INLINE Uint32Vector some_uint16(const std::uint16_t* from, std::int64_t n) {
  if (n >= kLanes) return uint32_of(from);
  std::uint16_t some[kLanes] = {};
  for (std::int64_t i = 0; i < n; ++i) some[i] = from[i];
  return uint32_of(some);
}

void pack_value_pairs(const KvRows& value, std::int64_t keys, std::int64_t value_dim, std::int64_t capacity,
                      void* packed) {
  const std::int64_t whole = (value_dim + kPanel - 1) / kPanel * kPanel;
  for (std::int64_t j = 0; j < capacity; j += 2) {
    const auto* const even = j < keys ? row_at<Bfloat16>(value, j, 0) : nullptr;
    const auto* const odd = j + 1 < keys ? row_at<Bfloat16>(value, j + 1, 0) : nullptr;
    for (std::int64_t d = 0; d < whole; d += kLanes) {
      auto* const to = static_cast<float*>(packed) + (d / kPanel * (capacity / 2) + j / 2) * kPanel + d % kPanel;
      const std::int64_t n = value_dim - d;
      const Uint32Vector low = even != nullptr && n > 0 ? some_uint16(even + d, n) : Uint32Vector{};
      const Uint32Vector high = odd != nullptr && n > 0 ? some_uint16(odd + d, n) : Uint32Vector{};
      batch_of_bits(low | high << 16).store_aligned(to);
    }
  }
}

bool bfloat16_finite(const KvRows& from, std::int64_t rows, std::int64_t n) {
  Uint16Vector bad{};
  const auto check = [&](const std::uint16_t* at) {
    Uint16Vector x;
    std::memcpy(&x, at, sizeof(x));
    bad |= (Uint16Vector)((x & 0x7FFF) >= 0x7F80);
  };
  for (std::int64_t j = 0; j < rows; ++j) {
    const auto* const row = row_at<Bfloat16>(from, j, 0);
    std::int64_t d = 0;
    for (; d + kLanes <= n; d += kLanes) check(row + d);
    if (d == n) continue;
    std::uint16_t some[kLanes] = {};
    for (std::int64_t i = d; i < n; ++i) some[i - d] = row[i];
    check(some);
  }
  std::uint16_t any = 0;
  for (int i = 0; i < kLanes; ++i) any |= bad[i];
  return any == 0;
}

}  // namespace
}  // namespace siattn::cpu

#endif  // SIATTN_CPU_KERNELS_BLOCKS_HPP
