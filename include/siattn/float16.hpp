// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_FLOAT16_HPP
#define SIATTN_FLOAT16_HPP

#include <bit>
#include <cstdint>

namespace siattn {

/// IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction bits. Storage only.
struct float16 {
  std::uint16_t bits = 0;
  friend bool operator==(float16, float16) = default;  // compares bits
};

/// The upper half of a binary32: 1 sign, 8 exponent, 7 fraction bits. Storage only.
struct bfloat16 {
  std::uint16_t bits = 0;
  friend bool operator==(bfloat16, bfloat16) = default;  // compares bits
};

namespace detail {

/// Rounds a double to a binary format of `exponent_bits` and `fraction_bits`, to nearest, ties to even, once: going
/// through float first would round twice. Overflow gives infinity, NaN a quiet NaN, small values subnormals.
template <int exponent_bits, int fraction_bits>
constexpr std::uint16_t round_to_16(double value) noexcept {
  constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  constexpr std::uint64_t infinity = ((std::uint64_t{1} << exponent_bits) - 1) << fraction_bits;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 63) << 15);
  const std::uint64_t magnitude = bits & 0x7FFFFFFFFFFFFFFFull;
  if (magnitude > 0x7FF0000000000000ull) {
    return static_cast<std::uint16_t>(sign | infinity | (1u << (fraction_bits - 1)));
  }
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  if (magnitude == 0 || exponent < -bias - fraction_bits) return sign;  // below half of the least subnormal
  if (exponent > bias) return static_cast<std::uint16_t>(sign | infinity);
  const bool normal = exponent >= 1 - bias;
  const std::uint64_t fraction = (magnitude & 0xFFFFFFFFFFFFFull) | 0x10000000000000ull;  // with the leading one
  const int shift = (52 - fraction_bits) + (normal ? 0 : (1 - bias) - exponent);
  std::uint64_t kept = fraction >> shift;
  const std::uint64_t rest = fraction & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  // A carry out of the fraction moves into the exponent by itself, up to infinity.
  if (normal) kept += static_cast<std::uint64_t>(exponent + bias - 1) << fraction_bits;
  return static_cast<std::uint16_t>(sign | kept);
}

}  // namespace detail

/// Exact.
constexpr float to_float(bfloat16 x) noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }

/// Exact, subnormals included.
constexpr float to_float(float16 x) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (x.bits >> 10) & 0x1Fu;
  const std::uint32_t fraction = x.bits & 0x3FFu;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | (fraction << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
}

/// To nearest, ties to even, in one rounding; overflow to infinity; NaN stays NaN.
constexpr bfloat16 to_bfloat16(double x) noexcept { return {detail::round_to_16<8, 7>(x)}; }
constexpr float16 to_float16(double x) noexcept { return {detail::round_to_16<5, 10>(x)}; }

}  // namespace siattn

#endif  // SIATTN_FLOAT16_HPP
