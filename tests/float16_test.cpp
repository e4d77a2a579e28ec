// SPDX-License-Identifier: Apache-2.0
// The 16-bit types: known bit patterns, the ends of the ranges, and doubles that a second rounding would get wrong.
// float16_full_test.cpp goes through every float.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <siattn/float16.hpp>

namespace {

using siattn::bfloat16;
using siattn::float16;
using siattn::to_bfloat16;
using siattn::to_float;
using siattn::to_float16;

constexpr double infinity = std::numeric_limits<double>::infinity();

float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// Usable in constant expressions.
static_assert(to_float16(1.0).bits == 0x3C00);
static_assert(to_bfloat16(-2.0).bits == 0xC000);
static_assert(to_float(float16{0x3C00}) == 1.0f);

/// A 16-bit format, by its definition, with nothing taken from the header under test.
struct Format {
  int exponent_bits;
  int fraction_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint16_t infinity_bits() const {
    return static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << fraction_bits);
  }
  /// The value of a pattern without its sign, read on past the largest finite one as if the exponent went on.
  double value(std::uint32_t pattern) const {
    const int exponent = static_cast<int>(pattern >> fraction_bits);
    const int fraction = static_cast<int>(pattern & ((1u << fraction_bits) - 1));
    return exponent == 0 ? std::ldexp(fraction, 1 - bias() - fraction_bits)
                         : std::ldexp((1 << fraction_bits) + fraction, exponent - bias() - fraction_bits);
  }
};

constexpr Format binary16{5, 10};
constexpr Format brain16{8, 7};

TEST(Float16, BfloatKnownPatterns) {
  EXPECT_EQ(to_bfloat16(float_of(0x3E89CCD5)).bits, 0x3E8A);
  EXPECT_EQ(to_bfloat16(float_of(0x3F808000)).bits, 0x3F80) << "a tie goes to the even pattern";
  EXPECT_EQ(to_bfloat16(float_of(0x3F818000)).bits, 0x3F82) << "a tie goes to the even pattern";
  EXPECT_EQ(to_bfloat16(float_of(0x7F7FFFFF)).bits, 0x7F80) << "the largest float overflows";
  EXPECT_EQ(to_bfloat16(float_of(0x7F7F7FFF)).bits, 0x7F7F);
  EXPECT_EQ(to_bfloat16(float_of(0xFF7F8000)).bits, 0xFF80);
}

TEST(Float16, NanStaysNan) {
  for (const std::uint32_t bits : {0x7F800001u, 0xFF800001u, 0x7FC00000u, 0xFFFFFFFFu, 0x7F80FFFFu, 0x7FBFFFFFu}) {
    const double nan = float_of(bits);
    EXPECT_TRUE(std::isnan(to_float(to_bfloat16(nan)))) << std::hex << bits;
    EXPECT_TRUE(std::isnan(to_float(to_float16(nan)))) << std::hex << bits;
    EXPECT_EQ(to_bfloat16(nan).bits >> 15, bits >> 31) << std::hex << bits;
    EXPECT_EQ(to_float16(nan).bits >> 15, bits >> 31) << std::hex << bits;
  }
  // A double's NaN whose payload lies below the bits that are kept.
  const auto low_payload = std::bit_cast<double>(std::uint64_t{0x7FF0000000000001});
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(low_payload))));
  EXPECT_TRUE(std::isnan(to_float(to_float16(low_payload))));
}

TEST(Float16, HalfAtTheEndsOfItsRange) {
  EXPECT_EQ(to_float16(65504.0).bits, 0x7BFF);
  EXPECT_EQ(to_float16(65519.99).bits, 0x7BFF);
  EXPECT_EQ(to_float16(std::nextafter(65520.0, 0.0)).bits, 0x7BFF);
  EXPECT_EQ(to_float16(65520.0).bits, 0x7C00);
  EXPECT_EQ(to_float16(-65520.0).bits, 0xFC00);
  EXPECT_EQ(to_float16(1e300).bits, 0x7C00);
  EXPECT_EQ(to_float16(infinity).bits, 0x7C00);
  EXPECT_EQ(to_float16(-infinity).bits, 0xFC00);
  EXPECT_EQ(to_float16(0x1p-14).bits, 0x0400) << "the least normal number";
  EXPECT_EQ(to_float16(0x1p-24).bits, 0x0001) << "the least subnormal number";
  EXPECT_EQ(to_float16(0x1p-25).bits, 0x0000) << "half of it, a tie, goes to zero";
  EXPECT_EQ(to_float16(std::nextafter(0x1p-25, 1.0)).bits, 0x0001);
  EXPECT_EQ(to_float16(-0x1p-25).bits, 0x8000);
  EXPECT_EQ(to_float16(0x3p-25).bits, 0x0002) << "one and a half of it, a tie, goes to two";
  EXPECT_EQ(to_float16(0x1p-1074).bits, 0x0000);
  EXPECT_EQ(to_float16(0x1.FFCp-15).bits, 0x0400) << "a carry from the subnormal numbers into the normal ones";
  EXPECT_EQ(to_float16(0.0).bits, 0x0000);
  EXPECT_EQ(to_float16(-0.0).bits, 0x8000);
}

TEST(Float16, BfloatAtTheEndsOfItsRange) {
  EXPECT_EQ(to_bfloat16(0x1.FEp127).bits, 0x7F7F);
  EXPECT_EQ(to_bfloat16(0x1.FFp127).bits, 0x7F80);
  EXPECT_EQ(to_bfloat16(std::nextafter(0x1.FFp127, 0.0)).bits, 0x7F7F);
  EXPECT_EQ(to_bfloat16(1e300).bits, 0x7F80);
  EXPECT_EQ(to_bfloat16(-infinity).bits, 0xFF80);
  EXPECT_EQ(to_bfloat16(0x1p-126).bits, 0x0080);
  EXPECT_EQ(to_bfloat16(0x1p-133).bits, 0x0001);
  EXPECT_EQ(to_bfloat16(0x1p-134).bits, 0x0000);
  EXPECT_EQ(to_bfloat16(std::nextafter(0x1p-134, 1.0)).bits, 0x0001);
  EXPECT_EQ(to_bfloat16(-0.0).bits, 0x8000);
}

TEST(Float16, DoublesBesideTiesAreRoundedOnce) {
  // 1 + 2^-11 is the tie between 1 and 1 + 2^-10; by way of float the tail would be lost first and the tie go to 1.
  EXPECT_EQ(to_float16(1.0 + 0x1p-11 + 0x1p-40).bits, 0x3C01);
  EXPECT_EQ(to_float16(1.0 + 0x1p-11).bits, 0x3C00);
  EXPECT_EQ(to_float16(1.0 + 0x3p-11 - 0x1p-40).bits, 0x3C01);
  EXPECT_EQ(to_bfloat16(1.0 + 0x1p-8 + 0x1p-40).bits, 0x3F81);
  EXPECT_EQ(to_bfloat16(1.0 + 0x1p-8).bits, 0x3F80);
  EXPECT_EQ(to_bfloat16(1.0 + 0x3p-8 - 0x1p-40).bits, 0x3F81);
}

/// Each finite pattern, the tie between it and the next one up, and the doubles next to that tie.
template <class Convert>
void check_every_tie(const Format& format, Convert convert) {
  for (std::uint32_t pattern = 0; pattern < format.infinity_bits(); ++pattern) {
    const double tie = (format.value(pattern) + format.value(pattern + 1)) / 2;
    const std::uint32_t even = pattern + (pattern & 1);
    for (const std::uint32_t sign : {0u, 0x8000u}) {
      const double s = sign == 0 ? 1.0 : -1.0;
      ASSERT_EQ(convert(s * format.value(pattern)).bits, sign | pattern) << std::hex << pattern;
      ASSERT_EQ(convert(s * tie).bits, sign | even) << std::hex << pattern;
      ASSERT_EQ(convert(s * std::nextafter(tie, 0.0)).bits, sign | pattern) << std::hex << pattern;
      ASSERT_EQ(convert(s * std::nextafter(tie, infinity)).bits, sign | (pattern + 1)) << std::hex << pattern;
    }
  }
}

TEST(Float16, EveryTieOfHalf) { check_every_tie(binary16, to_float16); }
TEST(Float16, EveryTieOfBfloat) { check_every_tie(brain16, to_bfloat16); }

template <class T, class Convert>
void check_every_pattern(const Format& format, Convert convert) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const T x{static_cast<std::uint16_t>(bits)};
    const std::uint32_t magnitude = bits & 0x7FFF;
    const float wide = to_float(x);
    if (magnitude > format.infinity_bits()) {
      ASSERT_TRUE(std::isnan(wide)) << std::hex << bits;
      ASSERT_TRUE(std::isnan(to_float(convert(wide)))) << std::hex << bits;
      continue;
    }
    const double value = magnitude == format.infinity_bits() ? infinity : format.value(magnitude);
    ASSERT_EQ(std::fabs(wide), value) << std::hex << bits;
    ASSERT_EQ(std::signbit(wide), bits >= 0x8000) << std::hex << bits;
    ASSERT_EQ(convert(wide).bits, bits) << std::hex << bits;
  }
}

TEST(Float16, EveryHalfComesBack) { check_every_pattern<float16>(binary16, to_float16); }
TEST(Float16, EveryBfloatComesBack) { check_every_pattern<bfloat16>(brain16, to_bfloat16); }

}  // namespace
