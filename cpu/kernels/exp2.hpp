// SPDX-License-Identifier: Apache-2.0
// 2^x for x <= 0.
#ifndef SIATTN_CPU_KERNELS_EXP2_HPP
#define SIATTN_CPU_KERNELS_EXP2_HPP

#include "cpu/kernels/element.hpp"
#include "cpu/kernels/simd.hpp"

namespace siattn::cpu {
namespace {

/// The relative error of exp2_nonpositive over every float in [-126, 0]: measured, tests/cpu_exp_full_test.cpp.
#if defined(__FMA__) || defined(__aarch64__)
constexpr double kExp2RelativeError = 7.19e-8;  // 7.1831e-8 at -0x1.00eb0ep-1
#else
constexpr double kExp2RelativeError = 8.91e-8;  // 8.8991e-8 at -0x1.fce4cp-2, without a fused multiply-add
#endif

/// p 2^n for an integer n in [-200, 0], with one rounding (below 2^-126); shifted = n + 1.5 2^23.
SIATTN_INLINE Batch scaled(const Batch& p, [[maybe_unused]] const Batch& n, [[maybe_unused]] const Batch& shifted) {
#if defined(__AVX512F__)
  return Batch(_mm512_scalef_ps(p, n));
#else
  // In two halves, since 2^n itself may be too small for a float; the first product is exact.
  const Int32Vector whole = (Int32Vector)bits(shifted) - 0x4B400000;
  const Int32Vector half = whole >> 1;
  const Uint32Vector first = (Uint32Vector)(half + 127) << 23;
  const Uint32Vector second = (Uint32Vector)(whole - half + 127) << 23;
  return (p * batch_of_bits(first)) * batch_of_bits(second);
#endif
}

/// 2^x for x <= 0 (and for x up to 127, should anybody ask): exactly 1 at 0, gradually to 0 through the subnormals,
/// 0 at -infinity, NaN at NaN. The constant term is exactly 1: an error in it would be compounded by each rescaling of
/// the accumulators. Below -126 the result is within 2^-149, one least subnormal.
SIATTN_INLINE Batch exp2_nonpositive(const Batch& argument) {
#if defined(__AVX512F__)
  const Batch f(_mm512_reduce_ps(argument, 0));  // x - (nearest integer), exact, in [-1/2, 1/2]; 0 at -infinity
  const Batch n = argument - f;
  const Batch& shifted = n;  // not needed there
#else
  // NaN passes: it is the second operand. -200 is far below where results round to 0.
  const Batch x = larger(Batch(-200.0F), argument);
  const Batch shift(0x1.8p23F);  // adding it rounds to the nearest integer
  const Batch shifted = x + shift;
  const Batch n = shifted - shift;
  const Batch f = x - n;  // exact, in [-1/2, 1/2]
#endif
  // (2^f - 1) / f, minimax in the relative error of 2^f (1.97e-9 before rounding), coefficients then moved by some
  // units in the last place to the least error of the float evaluation.
  Batch p = madd(Batch(0x1.41fbbcp-13F), f, Batch(0x1.5f3e52p-10F));
  p = madd(p, f, Batch(0x1.3b2d4cp-7F));
  p = madd(p, f, Batch(0x1.c6aee8p-5F));
  p = madd(p, f, Batch(0x1.ebfbd6p-3F));
  p = madd(p, f, Batch(0x1.62e43p-1F));
  p = madd(p, f, Batch(1.0F));
  return scaled(p, n, shifted);
}

void exp2_array(const float* from, float* to, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(to + i, exp2_nonpositive(load(from + i)));
  if (i < n) write_some<Float32>(to + i, exp2_nonpositive(read_some<Float32>(from + i, n - i)), n - i);
}

}  // namespace
}  // namespace siattn::cpu

#endif  // SIATTN_CPU_KERNELS_EXP2_HPP
