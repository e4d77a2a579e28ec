// SPDX-License-Identifier: Apache-2.0
// Every one of the 2^32 floats through both conversions. What is right is told by intervals, without any arithmetic on
// bits: the floats nearer to a 16-bit number than to its neighbours are those between the two midpoints, which are
// floats themselves; a midpoint goes to the even pattern.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include <siattn/float16.hpp>

namespace {

struct Format {
  int exponent_bits;
  int fraction_bits;

  std::uint32_t infinity_bits() const { return ((1u << exponent_bits) - 1) << fraction_bits; }
  double value(std::uint32_t pattern) const {
    const int least = 2 - (1 << (exponent_bits - 1)) - fraction_bits;  // the exponent of the least subnormal number
    const int exponent = static_cast<int>(pattern >> fraction_bits);
    const int fraction = static_cast<int>(pattern & ((1u << fraction_bits) - 1));
    if (exponent == 0) return std::ldexp(fraction, least);
    return std::ldexp((1 << fraction_bits) + fraction, least + exponent - 1);
  }
  /// The bits of the float halfway between a finite pattern and the next one up.
  std::uint32_t midpoint_bits(std::uint32_t pattern) const {
    const double midpoint = (value(pattern) + value(pattern + 1)) / 2;
    const auto as_float = static_cast<float>(midpoint);
    EXPECT_EQ(static_cast<double>(as_float), midpoint);
    return std::bit_cast<std::uint32_t>(as_float);
  }
};

constexpr std::uint32_t float_infinity = 0x7F800000;
constexpr std::uint32_t sign_bit = 0x80000000;

/// How many floats with bits from `begin` up to, not including, `end` do not become `expected`; both signs.
template <class Convert>
std::uint64_t count_wrong(std::uint32_t begin, std::uint32_t end, std::uint32_t expected, Convert convert) {
  std::uint64_t wrong = 0;
  for (std::uint32_t bits = begin; bits < end; ++bits) {
    wrong += convert(std::bit_cast<float>(bits)).bits != expected;
    wrong += convert(std::bit_cast<float>(bits | sign_bit)).bits != (expected | 0x8000u);
  }
  return wrong;
}

template <class Convert>
void check_every_float(const Format& format, Convert convert) {
  std::uint32_t begin = 0;
  for (std::uint32_t pattern = 0; pattern < format.infinity_bits(); ++pattern) {
    const std::uint32_t midpoint = format.midpoint_bits(pattern);
    const std::uint32_t end = midpoint + (pattern % 2 == 0 ? 1 : 0);  // an even pattern has its upper midpoint
    ASSERT_LT(begin, end);
    ASSERT_EQ(count_wrong(begin, end, pattern, convert), 0u) << "of pattern " << std::hex << pattern;
    begin = end;
  }
  ASSERT_LT(begin, float_infinity);
  ASSERT_EQ(count_wrong(begin, float_infinity + 1, format.infinity_bits(), convert), 0u) << "of infinity";
  std::uint64_t wrong = 0;
  for (std::uint32_t bits = float_infinity + 1; bits < sign_bit; ++bits) {
    for (const std::uint32_t sign : {0u, sign_bit}) {
      const std::uint32_t result = convert(std::bit_cast<float>(bits | sign)).bits;
      wrong += (result & 0x7FFF) <= format.infinity_bits() || (result >> 15) != (sign >> 31);
    }
  }
  EXPECT_EQ(wrong, 0u) << "of NaN";
}

TEST(Float16Full, EveryFloatToBfloat) {
  check_every_float({8, 7}, [](float x) { return siattn::to_bfloat16(x); });
}

TEST(Float16Full, EveryFloatToHalf) {
  check_every_float({5, 10}, [](float x) { return siattn::to_float16(x); });
}

}  // namespace
