// SPDX-License-Identifier: Apache-2.0
// What apply() does to tensors: layouts, algebra of rotations, types, strides, positions. Frequencies, accuracy and
// errors have files of their own.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <siattn/position_encoding.hpp>

namespace siattn {
namespace {

constexpr double u = 0x1p-53;

/// One of each, both layouts where the pairing matters. For a head_dim of 16 or more, a multiple of 4.
const std::vector<PositionEncoding> kEncodings = {
    NoEncoding{},
    Rope{},
    Rope{500000, PairLayout::interleaved},
    PartialRope{8},
    PartialRope{8, 10000, PairLayout::interleaved},
    PRope{},
    PRope{0.5, 10000, PairLayout::interleaved},
    HalfTruncatedRope{},
    NtkRope{4},
    DynamicNtkRope{4096, 65536},
    Yarn{16},
    Yarn{.factor = 4, .magnitude = 0.5, .layout = PairLayout::interleaved},
};

template <class T>
T from_double(double x) {
  if constexpr (std::is_same_v<T, bfloat16>)
    return to_bfloat16(x);
  else if constexpr (std::is_same_v<T, float16>)
    return to_float16(x);
  else
    return static_cast<T>(x);
}

template <class T>
double as_double(T x) {
  if constexpr (sizeof(T) == 2)
    return to_float(x);
  else
    return x;
}

template <class T>
std::vector<T> normals(std::size_t n, unsigned seed = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<T> x(n);
  for (T& value : x) value = from_double<T>(normal(random));
  return x;
}

template <class T, class Positions>
std::vector<T> encoded(const PositionEncoding& encoding, const std::vector<T>& x, const Shape4& shape,
                       const Positions& positions) {
  std::vector<T> out(x.size());
  const Status status = apply(encoding, TensorView(x.data(), shape), MutableTensorView(out.data(), shape), positions);
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

constexpr std::int64_t at(std::int64_t position) { return position; }

TEST(PositionEncoding, LayoutsOfRope) {
  // python3 -c 'from mpmath import *; a=[mpf(1),mpf("0.01")]; ...' : the definition with 40 digits
  const std::vector<double> x = {1, 2, 3, 4};
  const std::vector<double> interleaved = {-1.1426396637476533, 1.9220755965441759, 2.9598506679133292,
                                           4.0297995016691611};
  const std::vector<double> half = {-1.9841106485555498, 1.9599006674966639, 2.4623779024123157, 4.0197996683349944};
  const Rope rope_interleaved{10000, PairLayout::interleaved};
  const std::vector<float> x32(x.begin(), x.end());
  const auto y32 = encoded(rope_interleaved, x32, {1, 1, 1, 4}, at(1));
  const auto z32 = encoded(Rope{}, x32, {1, 1, 1, 4}, at(1));
  const auto y = encoded(rope_interleaved, x, {1, 1, 1, 4}, at(1));
  const auto z = encoded(Rope{}, x, {1, 1, 1, 4}, at(1));
  for (std::size_t d = 0; d < 4; ++d) {
    EXPECT_EQ(y32[d], static_cast<float>(interleaved[d])) << d;
    EXPECT_EQ(z32[d], static_cast<float>(half[d])) << d;
    EXPECT_NEAR(y[d], interleaved[d], 7 * u * 7);
    EXPECT_NEAR(z[d], half[d], 7 * u * 7);
  }
}

/// Unit vector e_d at a position: which dimensions it reaches, and how.
std::vector<double> image(const PositionEncoding& encoding, std::size_t head_dim, std::size_t d,
                          std::int64_t position) {
  std::vector<double> x(head_dim);
  x[d] = 1;
  return encoded(encoding, x, {1, 1, 1, static_cast<std::int64_t>(head_dim)}, position);
}

TEST(PositionEncoding, PRopeIsNotPartialRotary) {
  const auto p_rope = image(PRope{0.5, 1e4}, 8, 1, 100);  // pair (1, 5), angle 10
  EXPECT_NEAR(p_rope[1], std::cos(10.0), 8 * u);
  EXPECT_NEAR(p_rope[5], std::sin(10.0), 8 * u);
  EXPECT_EQ(p_rope[3], 0);
  const auto partial = image(PartialRope{4, 1e4}, 8, 1, 100);  // pair (1, 3), angle 1
  EXPECT_NEAR(partial[1], std::cos(1.0), 8 * u);
  EXPECT_NEAR(partial[3], std::sin(1.0), 8 * u);
  EXPECT_EQ(partial[5], 0);
  for (const std::size_t still : {2u, 3u, 6u, 7u}) EXPECT_EQ(image(PRope{0.5, 1e4}, 8, still, 100)[still], 1) << still;
  for (const std::size_t still : {4u, 5u, 6u, 7u}) EXPECT_EQ(image(PartialRope{4}, 8, still, 100)[still], 1) << still;
  // The paper's form pairs as RoPE does: dimension 0 with 4, dimensions 2, 3, 6, 7 stay.
  EXPECT_NEAR(image(HalfTruncatedRope{}, 8, 0, 100)[4], std::sin(100.0), 8 * u);
  EXPECT_EQ(image(HalfTruncatedRope{}, 8, 2, 100)[2], 1);
}

TEST(PositionEncoding, MethodsThatCoincideDoSoBitForBit) {
  const Shape4 shape{1, 2, 9, 32};
  const auto x = normals<float>(2 * 9 * 32);
  for (const PairLayout layout : {PairLayout::half, PairLayout::interleaved}) {
    const auto rope = encoded(Rope{10000, layout}, x, shape, at(12345));
    EXPECT_TRUE(same_bits(rope, encoded(PRope{1, 10000, layout}, x, shape, at(12345))));
    EXPECT_TRUE(same_bits(rope, encoded(PartialRope{32, 10000, layout}, x, shape, at(12345))));
    EXPECT_TRUE(same_bits(rope, encoded(NtkRope{1, 10000, layout}, x, shape, at(12345))));
    EXPECT_TRUE(same_bits(rope, encoded(DynamicNtkRope{4096, 2000, 10000, layout}, x, shape, at(12345))));
    EXPECT_TRUE(same_bits(rope, encoded(Yarn{.factor = 1, .layout = layout}, x, shape, at(12345))));
    EXPECT_TRUE(same_bits(x, encoded(PRope{0, 10000, layout}, x, shape, at(12345))));
    EXPECT_TRUE(same_bits(x, encoded(PartialRope{0, 10000, layout}, x, shape, at(12345))));
  }
  EXPECT_TRUE(same_bits(x, encoded(NoEncoding{}, x, shape, at(12345))));
}

/// Sum over pairs of (|q_x| + |q_y|)(|k_x| + |k_y|) is at most this, for any pairing.
double size_of_product(const std::vector<double>& q, const std::vector<double>& k) {
  double qq = 0;
  double kk = 0;
  for (const double v : q) qq += v * v;
  for (const double v : k) kk += v * v;
  return 2 * std::sqrt(qq * kk);
}

template <class T>
long double dot(const std::vector<T>& a, const std::vector<T>& b) {
  long double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += static_cast<long double>(a[d]) * b[d];
  return sum;
}

template <class T>
void expect_shift_invariant(double component_error) {
  const Shape4 shape{1, 1, 1, 64};
  for (const PositionEncoding& encoding : kEncodings) {
    const double m2 = magnitude(encoding) * magnitude(encoding);
    for (unsigned seed = 0; seed < 20; ++seed) {
      const auto q = normals<T>(64, 2 * seed);
      const auto k = normals<T>(64, 2 * seed + 1);
      // Each of the two rotated members is wrong by e (|x| + |y|), so a pair of products by 4 e (..)(..), once for
      // either position; the dot products themselves are formed in long double.
      const double tolerance =
          8.01 * component_error * m2 * size_of_product({q.begin(), q.end()}, {k.begin(), k.end()});
      const std::int64_t distance = 1 + 997 * static_cast<std::int64_t>(seed);
      const auto here = dot(encoded(encoding, q, shape, at(distance)), encoded(encoding, k, shape, at(0)));
      for (const std::int64_t shift : {1LL, 65536LL, 1000000007LL, -2147483647LL}) {
        const auto there =
            dot(encoded(encoding, q, shape, at(shift + distance)), encoded(encoding, k, shape, at(shift)));
        EXPECT_LE(std::abs(static_cast<double>(there - here)), tolerance) << encoding.index() << ' ' << shift;
      }
    }
  }
}

TEST(PositionEncoding, ProductsDependOnTheDistanceOnly) {
  expect_shift_invariant<double>(11 * u);
  expect_shift_invariant<float>(0x1p-24 + 11 * u);
}

TEST(PositionEncoding, NormsAreKeptUpToTheMagnitude) {
  const auto x = normals<double>(64);
  for (const PositionEncoding& encoding : kEncodings) {
    for (const std::int64_t position : {1LL, 100LL, 1000000LL, 2147483647LL, -2147483647LL}) {
      const auto y = encoded(encoding, x, {1, 1, 1, 64}, position);
      const double m2 = magnitude(encoding) * magnitude(encoding);
      EXPECT_NEAR(static_cast<double>(dot(y, y)), m2 * static_cast<double>(dot(x, x)),
                  4.01 * 11 * u * m2 * size_of_product(x, x));
    }
  }
}

TEST(PositionEncoding, OppositePositionsUndoEachOther) {
  const Shape4 shape{1, 1, 1, 64};
  const auto x = normals<double>(64);
  for (const PositionEncoding& encoding : kEncodings) {
    const double m2 = magnitude(encoding) * magnitude(encoding);
    const auto back = encoded(encoding, encoded(encoding, x, shape, at(123456789)), shape, at(-123456789));
    for (std::size_t d = 0; d < 64; ++d) EXPECT_NEAR(back[d], m2 * x[d], m2 * 64 * u * 6) << encoding.index();
  }
}

template <class T>
void expect_in_place_and_one_rounding() {
  const Shape4 shape{2, 3, 5, 24};
  const auto x = normals<T>(2 * 3 * 5 * 24);
  std::vector<double> wide(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) wide[i] = as_double(x[i]);
  for (const PositionEncoding& encoding : kEncodings) {
    const auto out = encoded(encoding, x, shape, at(-2));  // position 0 among them
    auto in_place = x;
    const MutableTensorView view(in_place.data(), shape);
    ASSERT_TRUE(apply(encoding, view, view, at(-2)).ok());
    EXPECT_TRUE(same_bits(out, in_place)) << encoding.index();
    // In double there is nothing else to round: the narrow result is that one rounded.
    const auto exact = encoded(encoding, wide, shape, at(-2));
    std::vector<T> rounded(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) rounded[i] = from_double<T>(exact[i]);
    EXPECT_TRUE(same_bits(out, rounded)) << encoding.index();
  }
}

TEST(PositionEncoding, InPlaceIsOutOfPlaceAndTypesRoundOnce) {
  expect_in_place_and_one_rounding<float>();
  expect_in_place_and_one_rounding<double>();
  expect_in_place_and_one_rounding<bfloat16>();
  expect_in_place_and_one_rounding<float16>();
}

TEST(PositionEncoding, StridesAreFree) {
  // The same numbers as [batch, len, heads, padded dim], as a broadcast input, and upside down.
  constexpr std::int64_t batch = 2, heads = 3, len = 4, dim = 16, padded = 19;
  const Shape4 shape{batch, heads, len, dim};
  const Shape4 strides{len * heads * padded, padded, heads * padded, 1};
  const auto x = normals<float>(static_cast<std::size_t>(batch * len * heads * padded));
  for (const PositionEncoding& encoding : kEncodings) {
    std::vector<float> dense(static_cast<std::size_t>(batch * heads * len * dim));
    const TensorView in(x.data(), DType::float32, shape, strides);
    ASSERT_TRUE(apply(encoding, in, MutableTensorView(dense.data(), shape), at(7)).ok());
    auto y = x;
    const MutableTensorView out(y.data(), DType::float32, shape, strides);
    ASSERT_TRUE(apply(encoding, out, out, at(7)).ok());
    std::size_t k = 0;
    auto expected = x;  // what lies between the rows stays as it is
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t i = 0; i < len; ++i)
          for (std::int64_t d = 0; d < dim; ++d)
            expected[static_cast<std::size_t>(row_offset(out, b, h, i) + d)] = dense[k++];
    EXPECT_TRUE(same_bits(y, expected)) << encoding.index();
  }
  // Tokens backwards in memory, one vector for all heads.
  const TensorView flipped(x.data() + 3 * dim, DType::float32, {1, 2, 4, dim}, {0, 0, -dim, 1});
  std::vector<float> out(2 * 4 * dim);
  ASSERT_TRUE(apply(Rope{}, flipped, MutableTensorView(out.data(), {1, 2, 4, dim}), at(0)).ok());
  EXPECT_EQ(std::memcmp(out.data(), x.data() + 3 * dim, dim * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(out.data(), out.data() + 4 * dim, 4 * dim * sizeof(float)), 0);
}

TEST(PositionEncoding, EachTokenIsEncodedByItself) {
  // Long enough for several blocks of tables; every token must come out as it does alone, in any company.
  constexpr std::int64_t len = 300, dim = 128;
  const auto x = normals<float>(2 * 2 * len * dim);
  for (const PositionEncoding& encoding :
       {PositionEncoding(Rope{}), PositionEncoding(PRope{0.3}), PositionEncoding(Yarn{8})}) {
    const auto all = encoded(encoding, x, {2, 2, len, dim}, at(1000));
    for (std::int64_t row = 0; row < 2 * 2 * len; row += 37) {
      const std::vector<float> one(x.begin() + row * dim, x.begin() + (row + 1) * dim);
      const auto alone = encoded(encoding, one, {1, 1, 1, dim}, at(1000 + row % len));
      EXPECT_EQ(std::memcmp(alone.data(), all.data() + row * dim, dim * sizeof(float)), 0) << row;
    }
  }
}

TEST(PositionEncoding, ExplicitPositions) {
  const Shape4 shape{2, 2, 3, 16};
  const auto x = normals<float>(2 * 2 * 3 * 16);
  const auto consecutive = encoded(Rope{}, x, shape, at(5));
  EXPECT_TRUE(same_bits(consecutive, encoded(Rope{}, x, shape, std::vector<std::int64_t>{5, 6, 7})));
  EXPECT_TRUE(same_bits(consecutive, encoded(Rope{}, x, shape, std::vector<std::int64_t>{5, 6, 7, 5, 6, 7})));
  const auto ragged = encoded(Rope{}, x, shape, std::vector<std::int64_t>{5, 6, 7, 90, 0, -4});
  const std::size_t sequence = 2 * 3 * 16;
  const std::vector<float> second(x.begin() + sequence, x.end());
  const auto second_alone = encoded(Rope{}, second, {1, 2, 3, 16}, std::vector<std::int64_t>{90, 0, -4});
  EXPECT_EQ(std::memcmp(ragged.data(), consecutive.data(), sequence * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(ragged.data() + sequence, second_alone.data(), sequence * sizeof(float)), 0);
}

TEST(PositionEncoding, WhatDoesNotTurnIsCopiedBitForBit) {
  // A signalling NaN, an infinity and a negative zero survive position 0, and frequency 0 at any position.
  const std::vector<std::uint32_t> odd = {0x7F800001u, 0x7F800000u, 0x80000000u, 1u};
  std::vector<float> x(16);
  for (const std::size_t d : {0u, 4u, 8u, 12u}) std::memcpy(x.data() + d, odd.data(), 16);
  for (const PositionEncoding& encoding : kEncodings) {
    if (magnitude(encoding) != 1) continue;
    EXPECT_TRUE(same_bits(x, encoded(encoding, x, {1, 1, 1, 16}, at(0)))) << encoding.index();
  }
  const auto y = encoded(HalfTruncatedRope{}, x, {1, 1, 1, 16}, at(3));  // pairs 4 .. 7 of (f, f + 8) stay
  EXPECT_EQ(std::memcmp(y.data() + 4, x.data() + 4, 16), 0);
  EXPECT_EQ(std::memcmp(y.data() + 12, x.data() + 12, 16), 0);
}

TEST(PositionEncoding, NanReachesItsPairOnly) {
  for (const PairLayout layout : {PairLayout::half, PairLayout::interleaved}) {
    auto x = normals<float>(2 * 16);
    const auto clean = encoded(Rope{10000, layout}, x, {1, 1, 2, 16}, at(3));
    x[2] = std::numeric_limits<float>::quiet_NaN();
    const auto y = encoded(Rope{10000, layout}, x, {1, 1, 2, 16}, at(3));
    const std::size_t partner = layout == PairLayout::half ? 10 : 3;
    for (std::size_t d = 0; d < y.size(); ++d) {
      if (d == 2 || d == partner)
        EXPECT_TRUE(std::isnan(y[d])) << d;
      else
        EXPECT_EQ(y[d], clean[d]) << d;
    }
  }
}

TEST(PositionEncoding, MagnitudeOfYarn) {
  EXPECT_EQ(magnitude(Yarn{1}), 1);
  EXPECT_NEAR(magnitude(Yarn{16}), 1.2772588722239781, 2 * u);
  EXPECT_EQ(magnitude(Yarn{.factor = 16, .magnitude = 3.5}), 3.5);
  EXPECT_EQ(magnitude(Rope{}), 1);
  const auto y = encoded(Yarn{.factor = 16, .magnitude = 3.5}, std::vector<float>{1, 2, -3, 0.5F}, {1, 1, 1, 4}, at(0));
  EXPECT_EQ(y, (std::vector<float>{3.5F, 7, -10.5F, 1.75F}));
}

TEST(PositionEncoding, OddAndEmpty) {
  const auto x = normals<float>(7);
  EXPECT_TRUE(same_bits(x, encoded(NoEncoding{}, x, {1, 1, 1, 7}, at(9))));
  const auto y = encoded(PartialRope{4}, x, {1, 1, 1, 7}, at(9));  // an odd head_dim, of which 4 turn
  EXPECT_EQ(y[6], x[6]);
  EXPECT_NE(y[3], x[3]);
  const Shape4 no_tokens{2, 2, 0, 16};
  EXPECT_TRUE(apply(Rope{}, TensorView(static_cast<const float*>(nullptr), no_tokens),
                    MutableTensorView(static_cast<float*>(nullptr), no_tokens), at(0))
                  .ok());
  EXPECT_TRUE(apply(Rope{}, TensorView(static_cast<const float*>(nullptr), no_tokens),
                    MutableTensorView(static_cast<float*>(nullptr), no_tokens), std::span<const std::int64_t>{})
                  .ok());
}

}  // namespace
}  // namespace siattn
