// SPDX-License-Identifier: Apache-2.0
// Frequencies of every method against numbers from another program. They come from Python's mpmath with 40 digits,
// once, by the definitions of the articles:
//
//   from mpmath import *; mp.dps = 40
//   rope = lambda b, d: [mpf(b) ** (-mpf(2 * f) / d) for f in range(d // 2)]
//   half_truncated = lambda d: [mpf(1024) ** (-mpf(k) / (d // 4 - 1)) for k in range(d // 4)]
//   ntk = lambda s, d: rope(mpf(10000) * mpf(s) ** (mpf(d) / (d - 2)), d)
//   def yarn(d, b, s, L, fast, slow):
//       index = lambda r: d * log(L / (2 * pi * r)) / (2 * log(b))
//       lo, hi = max(floor(index(mpf(fast))), 0), min(ceil(index(mpf(slow))), d - 1)
//       g = [min(max((f - lo) / (hi - lo), 0), 1) for f in range(d // 2)]
//       return [w * (1 - g) + w / s * g for w, g in zip(rope(b, d), g)]
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include <siattn/position_encoding.hpp>

namespace siattn {
namespace {

std::vector<double> frequencies(const PositionEncoding& encoding, std::int64_t head_dim) {
  auto result = pair_frequencies(encoding, head_dim);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result ? *std::move(result) : std::vector<double>(static_cast<std::size_t>(head_dim), NAN);
}

/// The numbers are the nearest doubles to mpmath's.
void expect_at(const std::vector<double>& w, const std::vector<std::pair<std::size_t, double>>& expected) {
  for (const auto& [f, value] : expected) EXPECT_EQ(w[f], value) << "pair " << f;
}

TEST(PositionEncodingFrequencies, Rope) {
  const auto w = frequencies(Rope{}, 64);
  ASSERT_EQ(w.size(), 32u);
  expect_at(w, {{0, 1.0},
                {1, 0.74989420933245583},
                {2, 0.56234132519034908},
                {15, 0.01333521432163324},
                {16, 0.01},
                {31, 0.0001333521432163324}});
  EXPECT_EQ(frequencies(Rope{}, 2), std::vector<double>{1});
  EXPECT_EQ(frequencies(Rope{1}, 6), (std::vector<double>{1, 1, 1}));
  EXPECT_TRUE(frequencies(NoEncoding{}, 7).empty());
}

TEST(PositionEncodingFrequencies, PRopeKeepsTheHighest) {
  EXPECT_EQ(frequencies(PRope{0.5, 1e4}, 8), (std::vector<double>{1, 0.1, 0, 0}));
  EXPECT_EQ(frequencies(PRope{0}, 8), (std::vector<double>{0, 0, 0, 0}));
  EXPECT_EQ(frequencies(PRope{1}, 64), frequencies(Rope{}, 64));
  EXPECT_EQ(frequencies(PRope{0.49}, 8), (std::vector<double>{1, 0, 0, 0}));  // floor(1.96) pairs
  // 0.29 * 100 is a little below 29 in double: it means 29 pairs all the same.
  const auto w = frequencies(PRope{0.29}, 200);
  EXPECT_GT(w[28], 0);
  EXPECT_EQ(w[29], 0);
}

TEST(PositionEncodingFrequencies, PartialRotaryHasFrequenciesOfItsOwn) {
  EXPECT_EQ(frequencies(PartialRope{4, 1e4}, 8), (std::vector<double>{1, 0.01}));
  EXPECT_EQ(frequencies(PartialRope{64}, 100), frequencies(Rope{}, 64));
  EXPECT_TRUE(frequencies(PartialRope{0}, 8).empty());
}

TEST(PositionEncodingFrequencies, HalfTruncated) {
  std::vector<double> expected = {1.0,         0.62996052494743658,   0.39685026299204987,
                                  0.25,        0.15749013123685915,   0.09921256574801247,
                                  0.0625,      0.039372532809214786,  0.024803141437003117,
                                  0.015625,    0.0098431332023036966, 0.0062007853592507792,
                                  0.00390625,  0.0024607833005759241, 0.0015501963398126948,
                                  0.0009765625};
  expected.resize(32, 0.0);
  EXPECT_EQ(frequencies(HalfTruncatedRope{}, 64), expected);
  expect_at(frequencies(HalfTruncatedRope{}, 128),
            {{1, 0.79963823111658402}, {31, 0.0009765625}, {32, 0.0}, {63, 0.0}});
  EXPECT_EQ(frequencies(HalfTruncatedRope{}, 8), (std::vector<double>{1, 0.0009765625, 0, 0}));
  EXPECT_EQ(frequencies(HalfTruncatedRope{}, 4), (std::vector<double>{1, 0}));
}

TEST(PositionEncodingFrequencies, Ntk) {
  expect_at(frequencies(NtkRope{4}, 64), {{0, 1.0},
                                          {1, 0.71709832810481259},
                                          {2, 0.51423001217071745},
                                          {15, 0.0068183713307479814},
                                          {16, 0.0048894426816771636},
                                          {30, 4.6490187603965998e-5},
                                          {31, 3.3338035804083101e-5}});
  expect_at(frequencies(DynamicNtkRope{4096, 65536}, 128), {{1, 0.82868024238467958},
                                                            {2, 0.68671094411873131},
                                                            {31, 0.0029511855547515078},
                                                            {32, 0.0024455891608336445},
                                                            {62, 8.7094961785739647e-6},
                                                            {63, 7.2173874043091136e-6}});
  EXPECT_EQ(frequencies(DynamicNtkRope{4096, 65536}, 128), frequencies(NtkRope{16}, 128));
  // Unchanged up to the length of training, and at once different beyond it.
  EXPECT_EQ(frequencies(DynamicNtkRope{4096, 4096}, 128), frequencies(Rope{}, 128));
  EXPECT_EQ(frequencies(DynamicNtkRope{4096, 1}, 128), frequencies(Rope{}, 128));
  EXPECT_LT(frequencies(DynamicNtkRope{4096, 4097}, 128)[63], frequencies(Rope{}, 128)[63]);
  // The lowest frequency is divided by the factor.
  EXPECT_NEAR(frequencies(NtkRope{4}, 64)[31] * 4 / frequencies(Rope{}, 64)[31], 1, 0x1p-51);
  EXPECT_EQ(frequencies(NtkRope{4}, 4), (std::vector<double>{1, 0.0025}));
}

TEST(PositionEncodingFrequencies, Yarn) {
  expect_at(frequencies(Yarn{16}, 128), {{0, 1.0},
                                         {1, 0.86596432336006535},
                                         {20, 0.056234132519034908},
                                         {21, 0.046940859997959401},
                                         {33, 0.0046004354678503472},
                                         {45, 0.00015177160473182493},
                                         {46, 8.3345089510207752e-5},
                                         {63, 7.2173874043091136e-6}});
  const Yarn other{.factor = 8, .train_length = 8192, .beta_fast = 24, .beta_slow = 2, .base = 500000};
  expect_at(frequencies(other, 64), {{8, 0.037606030930863936},
                                     {9, 0.024955408670558693},
                                     {12, 0.0045579154607606932},
                                     {15, 0.00053277988422799134},
                                     {16, 0.00017677669529663688},
                                     {31, 3.7673226901739639e-7}});
  EXPECT_EQ(frequencies(Yarn{1}, 128), frequencies(Rope{}, 128));
}

TEST(PositionEncodingFrequencies, YarnAtTheEndsOfItsRamp) {
  const auto rope = frequencies(Rope{}, 64);
  // Trained so long that every pair makes more than beta_fast rotations: all kept.
  EXPECT_EQ(frequencies(Yarn{.factor = 4, .train_length = 2147483647}, 64), rope);
  // So short that none makes beta_slow: all but pair 0, at which the ramp starts, divided.
  const auto divided = frequencies(Yarn{.factor = 4, .train_length = 1}, 64);
  EXPECT_EQ(divided[0], 1);
  for (std::size_t f = 1; f < 32; ++f) EXPECT_EQ(divided[f], rope[f] / 4) << f;
}

}  // namespace
}  // namespace siattn
