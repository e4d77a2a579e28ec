// SPDX-License-Identifier: Apache-2.0
// Vectors of float32: xsimd's batches, plus what xsimd 8.1 lacks or does in two steps. Included by kernels.cpp only.
#ifndef SIATTN_CPU_KERNELS_SIMD_HPP
#define SIATTN_CPU_KERNELS_SIMD_HPP

#include <cstdint>
#include <limits>

#include <xsimd/xsimd.hpp>

#define SIATTN_INLINE inline __attribute__((always_inline))
#define SIATTN_ALWAYS __attribute__((always_inline))
/// SIATTN_UNROLL for loops over a register tile: an array that is not fully unrolled lives in memory. SIATTN_UNROLL_LOOP
/// for the loops around them: fewer branches, and short enough counts for the predictor to see the end coming.
#if defined(__clang__)
#define SIATTN_UNROLL _Pragma("clang loop unroll(full)")
#define SIATTN_UNROLL_LOOP _Pragma("clang loop unroll_count(4)")
#else
#define SIATTN_UNROLL _Pragma("GCC unroll 32")
#define SIATTN_UNROLL_LOOP _Pragma("GCC unroll 4")
#endif

namespace siattn::cpu {
namespace {

using Batch = xsimd::batch<float, SIATTN_CPU_ARCH>;
constexpr int kLanes = static_cast<int>(Batch::size);
constexpr int kPanel = 2 * kLanes;

// Query rows of a register tile: kBlock x 2 accumulators, two vectors of K or V and a broadcast must fit the registers.
#if defined(__AVX512F__)
constexpr int kBlock = 12;  // of 32 registers
#elif defined(__AVX2__)
constexpr int kBlock = 6;  // of 16
#elif defined(__aarch64__)
constexpr int kBlock = 8;  // of 32
#else
constexpr int kBlock = 4;  // of 16, without a fused multiply-add
#endif
constexpr int kTileRows = 96;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The same bits seen as GCC vectors, for shuffles and conversions.
typedef float FloatVector __attribute__((vector_size(4 * kLanes)));
typedef std::uint32_t Uint32Vector __attribute__((vector_size(4 * kLanes)));
typedef std::int32_t Int32Vector __attribute__((vector_size(4 * kLanes)));
typedef std::uint16_t Uint16Vector __attribute__((vector_size(2 * kLanes)));

SIATTN_INLINE FloatVector floats(const Batch& x) { return (FloatVector)(Batch::register_type)x; }
SIATTN_INLINE Uint32Vector bits(const Batch& x) { return (Uint32Vector)(Batch::register_type)x; }
SIATTN_INLINE Batch batch(FloatVector x) { return Batch((Batch::register_type)x); }
SIATTN_INLINE Batch batch_of_bits(Uint32Vector x) { return Batch((Batch::register_type)x); }

/// a b + c. Fused wherever the instruction set can: xsimd's own is a multiply and an add on AVX-512.
SIATTN_INLINE Batch madd(const Batch& a, const Batch& b, const Batch& c) {
#if defined(__AVX512F__)
  return Batch(_mm512_fmadd_ps(a, b, c));
#elif defined(__FMA__)
  return Batch(_mm256_fmadd_ps(a, b, c));
#elif defined(__aarch64__)
  return Batch(vfmaq_f32(c, a, b));
#else
  return a * b + c;
#endif
}

/// The larger; b where either is NaN (x86) or NaN (AArch64). So a NaN in b always stays.
SIATTN_INLINE Batch larger(const Batch& a, const Batch& b) { return xsimd::max(a, b); }

SIATTN_INLINE Batch load(const float* from) { return Batch::load_unaligned(from); }
SIATTN_INLINE void store(float* to, const Batch& x) { x.store_unaligned(to); }

/// 0, 1, 2 ...
SIATTN_INLINE Batch lane_numbers() {
  alignas(64) static constexpr float numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return Batch::load_aligned(numbers);
}

/// a_0 b_0 a_1 b_1 ... of the lower and of the upper halves.
SIATTN_INLINE Batch zip_low(const Batch& a, const Batch& b) {
#if defined(__AVX512F__)
  return batch(__builtin_shufflevector(floats(a), floats(b), 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
#elif defined(__AVX2__)
  return batch(__builtin_shufflevector(floats(a), floats(b), 0, 8, 1, 9, 2, 10, 3, 11));
#else
  return batch(__builtin_shufflevector(floats(a), floats(b), 0, 4, 1, 5));
#endif
}
SIATTN_INLINE Batch zip_high(const Batch& a, const Batch& b) {
#if defined(__AVX512F__)
  return batch(
      __builtin_shufflevector(floats(a), floats(b), 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31));
#elif defined(__AVX2__)
  return batch(__builtin_shufflevector(floats(a), floats(b), 4, 12, 5, 13, 6, 14, 7, 15));
#else
  return batch(__builtin_shufflevector(floats(a), floats(b), 2, 6, 3, 7));
#endif
}

/// x[i] lane j becomes x[j] lane i, by log2(kLanes) perfect shuffles.
SIATTN_INLINE void transpose(Batch (&x)[kLanes]) {
  SIATTN_UNROLL
  for (int width = 1; width < kLanes; width *= 2) {
    Batch y[kLanes];
    SIATTN_UNROLL
    for (int i = 0; i < kLanes / 2; ++i) {
      y[2 * i] = zip_low(x[i], x[i + kLanes / 2]);
      y[2 * i + 1] = zip_high(x[i], x[i + kLanes / 2]);
    }
    SIATTN_UNROLL
    for (int i = 0; i < kLanes; ++i) x[i] = y[i];
  }
}

struct Add {
  SIATTN_INLINE Batch operator()(const Batch& a, const Batch& b) const { return a + b; }
};
struct Larger {
  SIATTN_INLINE Batch operator()(const Batch& a, const Batch& b) const { return larger(a, b); }
};

/// Lane i of the result: all lanes of x[i] combined, in an order that is the same for every i.
template <class Combine>
SIATTN_INLINE Batch reduce_each(Batch (&x)[kLanes], Combine combine) {
  SIATTN_UNROLL
  for (int n = kLanes / 2; n > 0; n /= 2) {
    SIATTN_UNROLL
    for (int i = 0; i < n; ++i) x[i] = combine(zip_low(x[i], x[i + n]), zip_high(x[i], x[i + n]));
  }
  return x[0];
}

SIATTN_INLINE std::int64_t whole_vectors(std::int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

}  // namespace
}  // namespace siattn::cpu

#endif  // SIATTN_CPU_KERNELS_SIMD_HPP
