// SPDX-License-Identifier: Apache-2.0
// Reading and writing the element types of tensors: vectors of float32 on one side, 32 or 16-bit storage on the other.
#ifndef SIATTN_CPU_KERNELS_ELEMENT_HPP
#define SIATTN_CPU_KERNELS_ELEMENT_HPP

#include <cstring>

#include "cpu/kernels.hpp"
#include "cpu/kernels/simd.hpp"

namespace siattn::cpu {
namespace {

/// (condition ? a : b) in every lane; the condition's lanes are all ones or all zeros.
SIATTN_INLINE Uint32Vector choose(Int32Vector condition, Uint32Vector a, Uint32Vector b) {
  return ((Uint32Vector)condition & a) | (~(Uint32Vector)condition & b);
}

// GCC 12 compiles its generic conversion to 512 bits in halves, at half the speed.
SIATTN_INLINE Uint32Vector uint32_of(const std::uint16_t* from) {
#if defined(__AVX512F__)
  return (Uint32Vector)_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__AVX2__)
  return (Uint32Vector)_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
  Uint16Vector narrow;
  std::memcpy(&narrow, from, sizeof(narrow));
  return __builtin_convertvector(narrow, Uint32Vector);
#endif
}
SIATTN_INLINE void store_uint16(std::uint16_t* to, Uint32Vector x) {
  const Uint16Vector narrow = __builtin_convertvector(x, Uint16Vector);
  std::memcpy(to, &narrow, sizeof(narrow));
}

struct Float32 {
  using Storage = float;
  static SIATTN_INLINE Batch read(const float* from) { return load(from); }
  static SIATTN_INLINE void write(float* to, const Batch& x) { store(to, x); }
};

struct Bfloat16 {
  using Storage = std::uint16_t;
  static SIATTN_INLINE Batch read(const std::uint16_t* from) { return batch_of_bits(uint32_of(from) << 16); }
  static SIATTN_INLINE void write(std::uint16_t* to, const Batch& x) {
    const Uint32Vector u = bits(x);
    const Uint32Vector rounded = (u + 0x7FFF + ((u >> 16) & 1)) >> 16;  // to nearest, ties to even
    const Uint32Vector quiet = (u >> 16) | 0x40;
    const Int32Vector is_nan = (u & 0x7FFFFFFF) > (Uint32Vector{} + 0x7F800000);
    store_uint16(to, choose(is_nan, quiet, rounded));
  }
};

struct Float16 {
  using Storage = std::uint16_t;

#if defined(__AVX512F__)
  static SIATTN_INLINE Batch read(const std::uint16_t* from) {
    return Batch(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
  }
  static SIATTN_INLINE void write(std::uint16_t* to, const Batch& x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
#elif defined(__F16C__)
  static SIATTN_INLINE Batch read(const std::uint16_t* from) {
    return Batch(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }
  static SIATTN_INLINE void write(std::uint16_t* to, const Batch& x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
#else
  // By integers: hardware without the conversion, and one that does not depend on the control word.
  static SIATTN_INLINE Batch read(const std::uint16_t* from) {
    const Uint32Vector h = uint32_of(from);
    const Uint32Vector magnitude = h & 0x7FFF;
    const Uint32Vector normal = (magnitude << 13) + (112U << 23);
    const Uint32Vector special = normal + (112U << 23);  // infinity and NaN: the largest exponent
    const FloatVector scaled = __builtin_convertvector((Int32Vector)magnitude, FloatVector) * 0x1p-24F;
    const Uint32Vector subnormal = (Uint32Vector)scaled;
    const Int32Vector is_special = magnitude > (Uint32Vector{} + 0x7BFF);
    const Int32Vector is_subnormal = magnitude < (Uint32Vector{} + 0x400);
    const Uint32Vector result = choose(is_special, special, choose(is_subnormal, subnormal, normal));
    return batch_of_bits(result | ((h & 0x8000) << 16));
  }
  static SIATTN_INLINE std::uint32_t narrowed(std::uint32_t u) {
    const std::uint32_t sign = (u >> 16) & 0x8000;
    const std::uint32_t magnitude = u & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return sign | 0x7E00 | ((magnitude >> 13) & 0x3FF);
    if (magnitude >= 0x47800000) return sign | 0x7C00;  // 65536 and above
    if (magnitude < 0x33000000) return sign;            // below half of the least subnormal
    // A fraction of 24 bits, of which `shift` are rounded away: 13, and more below the least normal number.
    const std::uint32_t exponent = magnitude >> 23;
    const std::uint32_t shift = exponent >= 113 ? 13 : 126 - exponent;
    const std::uint32_t fraction = (magnitude & 0x7FFFFF) | 0x800000;
    const std::uint32_t half = (1U << (shift - 1)) - 1 + ((fraction >> shift) & 1);  // ties to even
    const std::uint32_t kept = (fraction + half) >> shift;
    // A carry moves into the exponent by itself, up to infinity.
    return sign | (exponent >= 113 ? kept + ((exponent - 113) << 10) : kept);
  }
  static SIATTN_INLINE void write(std::uint16_t* to, const Batch& x) {
    const Uint32Vector u = bits(x);
    for (int i = 0; i < kLanes; ++i) to[i] = static_cast<std::uint16_t>(narrowed(u[i]));
  }
#endif
};

/// Keys and values of a cache; each row has a scale.
struct Int8 {
  using Storage = std::int8_t;
  static SIATTN_INLINE Batch read(const std::int8_t* from) {
#if defined(__AVX512F__)
    return Batch(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))));
#elif defined(__AVX2__)
    return Batch(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)))));
#else
    typedef std::int8_t Int8Vector __attribute__((vector_size(kLanes)));
    Int8Vector narrow;
    std::memcpy(&narrow, from, sizeof(narrow));
    return Batch(__builtin_convertvector(__builtin_convertvector(narrow, Int32Vector), FloatVector));
#endif
  }
};

/// A vector of a row of K or V, as `read` gives it, times the scale of that row.
template <class T>
SIATTN_INLINE Batch scaled(const Batch& x, const KvRows& rows, std::int64_t key) {
  if constexpr (sizeof(typename T::Storage) == 1) return x * Batch(rows.scale[key]);
  return x;
}

/// The first n < kLanes elements, 0 behind them; reads no further.
template <class T>
SIATTN_INLINE Batch read_some(const typename T::Storage* from, std::int64_t n) {
  typename T::Storage some[kLanes] = {};
  for (std::int64_t i = 0; i < n; ++i) some[i] = from[i];
  return T::read(some);
}

template <class T>
SIATTN_INLINE void write_some(typename T::Storage* to, const Batch& x, std::int64_t n) {
  typename T::Storage some[kLanes];
  T::write(some, x);
  for (std::int64_t i = 0; i < n; ++i) to[i] = some[i];
}

template <class T>
void widen(const void* from, float* to, std::int64_t n) {
  const auto* source = static_cast<const typename T::Storage*>(from);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(to + i, T::read(source + i));
  if (i < n) write_some<Float32>(to + i, read_some<T>(source + i, n - i), n - i);
}

template <class T>
void narrow(const float* from, void* to, std::int64_t n) {
  auto* target = static_cast<typename T::Storage*>(to);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) T::write(target + i, load(from + i));
  if (i < n) write_some<T>(target + i, read_some<Float32>(from + i, n - i), n - i);
}

}  // namespace
}  // namespace siattn::cpu

#endif  // SIATTN_CPU_KERNELS_ELEMENT_HPP
