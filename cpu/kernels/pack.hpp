// SPDX-License-Identifier: Apache-2.0
// Tensors of any element type and stride into float32 blocks that the register tiles read from one end to the other.
// Each element is converted once, here.
#ifndef SIATTN_CPU_KERNELS_PACK_HPP
#define SIATTN_CPU_KERNELS_PACK_HPP

#include "cpu/kernels/element.hpp"
#include "cpu/kernels/simd.hpp"

namespace siattn::cpu {
namespace {

/// One row of a block, or the part of a block that is not whole, element by element.
template <class T>
void pack_query_row(const typename T::Storage* row, std::int64_t head_dim, float* to) {
  alignas(64) float wide[kLanes];
  for (std::int64_t d = 0; d < head_dim; d += kLanes) {
    const std::int64_t n = head_dim - d < kLanes ? head_dim - d : kLanes;
    store(wide, n == kLanes ? T::read(row + d) : read_some<T>(row + d, n));
    for (std::int64_t i = 0; i < n; ++i) to[(d + i) * kBlock] = wide[i];
  }
}

/// A whole block by transposition, kLanes of its rows at most at a time.
template <class T>
void pack_query_block(const typename T::Storage* rows, std::int64_t stride, std::int64_t head_dim, float* to) {
  for (int first = 0; first < kBlock; first += kLanes) {
    constexpr int kAtATime = kBlock < kLanes ? kBlock : kLanes;
    for (std::int64_t d = 0; d < head_dim; d += kLanes) {
      const std::int64_t n = head_dim - d < kLanes ? head_dim - d : kLanes;
      Batch x[kLanes];
      SIATTN_UNROLL
      for (int i = 0; i < kLanes; ++i) {
        const auto* row = rows + (first + i) * stride + d;
        x[i] = i >= kAtATime ? Batch(0.0F) : n == kLanes ? T::read(row) : read_some<T>(row, n);
      }
      transpose(x);
      for (std::int64_t c = 0; c < n; ++c) {
        float* at = to + (d + c) * kBlock + first;
        if (kAtATime == kLanes || d + c + 1 < head_dim) {
          store(at, x[c]);  // what it writes past the block's rows, the next channel's rows overwrite
        } else {
          write_some<Float32>(at, x[c], kAtATime);
        }
      }
    }
  }
}

/// [block of kBlock rows][head_dim][row in the block].
template <class T>
void pack_query(const void* query, std::int64_t stride, std::int64_t rows, std::int64_t head_dim, std::int64_t at,
                float* packed) {
  static_assert(kBlock % kLanes == 0 || kBlock < kLanes);
  const auto* source = static_cast<const typename T::Storage*>(query);
  for (std::int64_t r = 0; r < rows;) {
    float* to = packed + (at + r) / kBlock * kBlock * head_dim + (at + r) % kBlock;
    if ((at + r) % kBlock == 0 && rows - r >= kBlock) {
      pack_query_block<T>(source + r * stride, stride, head_dim, to);
      r += kBlock;
    } else {
      pack_query_row<T>(source + r * stride, head_dim, to);
      ++r;
    }
  }
}

/// Key j from channel d on.
template <class T>
SIATTN_INLINE const typename T::Storage* row_at(const KvRows& rows, std::int64_t j, std::int64_t d) {
  return static_cast<const typename T::Storage*>(rows.row[j]) + d;
}

/// kLanes keys from j on (the first n of them exist), channels d .. d + kLanes, as lanes.
template <class T>
SIATTN_INLINE void read_keys(const KvRows& key, std::int64_t j, std::int64_t n, std::int64_t d, std::int64_t head_dim,
                             Batch (&x)[kLanes]) {
  const std::int64_t channels = head_dim - d;
  if (n == kLanes && channels >= kLanes) {
    SIATTN_UNROLL
    for (int i = 0; i < kLanes; ++i) x[i] = scaled<T>(T::read(row_at<T>(key, j + i, d)), key, j + i);
  } else {
    for (int i = 0; i < kLanes; ++i) {
      x[i] = i >= n               ? Batch(0.0F)
             : channels >= kLanes ? scaled<T>(T::read(row_at<T>(key, j + i, d)), key, j + i)
                                  : scaled<T>(read_some<T>(row_at<T>(key, j + i, d), channels), key, j + i);
    }
  }
  transpose(x);
}

/// [panel of kPanel keys][head_dim][key in the panel].
template <class T>
void pack_key(const KvRows& key, std::int64_t keys, std::int64_t head_dim, float* packed) {
  const std::int64_t whole = (keys + kPanel - 1) / kPanel * kPanel;
  for (std::int64_t j = 0; j < whole; j += kLanes) {
    float* to = packed + j / kPanel * kPanel * head_dim + j % kPanel;
    const std::int64_t n = keys - j;  // may be <= 0: a vector of padding
    for (std::int64_t d = 0; d < head_dim; d += kLanes) {
      Batch x[kLanes];
      read_keys<T>(key, j, n < kLanes ? n : kLanes, d, head_dim, x);
      const std::int64_t channels = head_dim - d < kLanes ? head_dim - d : kLanes;
      for (std::int64_t i = 0; i < channels; ++i) x[i].store_aligned(to + (d + i) * kPanel);
    }
  }
}

/// [panel of kPanel channels][capacity keys][channel in the panel].
template <class T>
bool pack_value(const KvRows& value, std::int64_t keys, std::int64_t value_dim, std::int64_t capacity, float* packed) {
  const Batch zero(0.0F);
  Batch check = zero;  // 0 x is NaN for infinities and NaN, and a NaN stays in the sum
  const std::int64_t whole = (value_dim + kPanel - 1) / kPanel * kPanel;
  for (std::int64_t j = 0; j < keys; ++j) {
    const auto* row = row_at<T>(value, j, 0);
    for (std::int64_t d = 0; d < whole; d += kLanes) {
      float* to = packed + (d / kPanel * capacity + j) * kPanel + d % kPanel;
      const std::int64_t n = value_dim - d;
      const Batch stored = n >= kLanes ? T::read(row + d) : n > 0 ? read_some<T>(row + d, n) : zero;
      const Batch x = scaled<T>(stored, value, j);
      check = madd(x, zero, check);
      x.store_aligned(to);
    }
  }
  alignas(64) float lanes[kLanes];
  check.store_aligned(lanes);
  bool finite = true;
  for (const float lane : lanes) finite = finite && lane == lane;
  return finite;
}

}  // namespace
}  // namespace siattn::cpu

#endif  // SIATTN_CPU_KERNELS_PACK_HPP
