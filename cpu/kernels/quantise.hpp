// SPDX-License-Identifier: Apache-2.0
// Rows of a cache to int8.
#ifndef SIATTN_CPU_KERNELS_QUANTISE_HPP
#define SIATTN_CPU_KERNELS_QUANTISE_HPP

#include "cpu/kernels/element.hpp"
#include "cpu/kernels/simd.hpp"

namespace siattn::cpu {
namespace {

/// max(largest, |from[i]|); NaN where any is NaN or infinite.
float largest(const float* from, std::int64_t n, float largest) {
  Batch most(largest);
  Batch check(0.0F);  // 0 x is NaN for infinities and NaN, and a NaN stays in the sum
  const auto take = [&](const Batch& x) SIATTN_ALWAYS {
    most = larger(most, xsimd::abs(x));
    check = madd(x, Batch(0.0F), check);
  };
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) take(load(from + i));
  if (i < n) take(read_some<Float32>(from + i, n - i));
  alignas(64) float lanes[kLanes];
  (most + check).store_aligned(lanes);
  float result = lanes[0];
  for (int lane = 1; lane < kLanes; ++lane) {
    if (!(lanes[lane] <= result)) result = result != result ? result : lanes[lane];
  }
  return result;
}

/// The integers nearest to from / scale, by the reciprocal, whose rounding moves a tie at most; 0 where the scale is 0 or
/// NaN.
void quantise(const float* from, float scale, std::int8_t* to, std::int64_t n) {
  typedef std::int8_t Int8Vector __attribute__((vector_size(kLanes)));
  const bool zero = !(scale > 0.0F);
  const Batch reciprocal(zero ? 0.0F : 1.0F / scale);
  const Batch magic(0x1.8p23F);  // adding it rounds to an integer, which its low bits then hold
  const auto convert = [&](const Batch& x) SIATTN_ALWAYS {
    const Batch rounded = (zero ? Batch(0.0F) : x * reciprocal) + magic;
    const Int32Vector integers = (Int32Vector)bits(rounded) - (Int32Vector)bits(magic);
    return __builtin_convertvector(integers, Int8Vector);
  };
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Int8Vector narrow = convert(load(from + i));
    std::memcpy(to + i, &narrow, sizeof(narrow));
  }
  if (i == n) return;
  const Int8Vector narrow = convert(read_some<Float32>(from + i, n - i));
  for (std::int64_t k = 0; i + k < n; ++k) to[i + k] = narrow[k];
}

}  // namespace
}  // namespace siattn::cpu

#endif  // SIATTN_CPU_KERNELS_QUANTISE_HPP
