// SPDX-License-Identifier: Apache-2.0
// Sampled and integrated laws of Z and H. How they agree over decades of t: claim sampled-ranges.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/closed_forms.hpp"
#include "verify/range_distribution.hpp"
#include "verify/range_sampling.hpp"

namespace siattn::verify {
namespace {

const LogitTransform kPublished = ScaleInvariant{};

bool same(const std::vector<RangeSample>& a, const std::vector<RangeSample>& b) {
  return std::ranges::equal(
      a, b, [](const RangeSample& x, const RangeSample& y) { return x.total == y.total && x.entropy == y.entropy; });
}

double normal_below(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

TEST(AffineMap, IsThatOfTheTransform) {
  const auto p = reference::parameters_of<double>(ScaleInvariant{.tau = 3.0});
  const AffineMap map = affine_map(ScaleInvariant{.tau = 3.0}, 100, 1000);
  EXPECT_EQ(map.a, reference::scale(100.0, p));
  EXPECT_EQ(map.m, reference::shift(100.0, p));
  EXPECT_EQ(affine_map(NoTransform{}, 5, 6).a, 1);
  EXPECT_EQ(affine_map(LogN{}, 5, 1000).a, 0.4 * std::log(1000.0));
  EXPECT_EQ(affine_map(Alibi{0.5}, 6, 7).m, -3);
  EXPECT_THROW(affine_map(InfoScale{}, 5, 6), std::invalid_argument);
  EXPECT_THROW(affine_map(Alibi{}, 5, 6), std::invalid_argument);
}

TEST(SampleRange, ThreadsChangeNoBit) {
  const RangeSampling sampling{{100, 20000}, 7};
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto direct = sample_range(std::span(&kPublished, 1), sampling).front();
  const auto extremes = sample_range_by_extremes(kPublished, sampling, 100);
  omp_set_num_threads(3);
  EXPECT_TRUE(same(direct, sample_range(std::span(&kPublished, 1), sampling).front()));
  EXPECT_TRUE(same(extremes, sample_range_by_extremes(kPublished, sampling, 100)));
  omp_set_num_threads(before);
}

TEST(SampleRange, SeedStreamAndRepetitionGiveOtherDraws) {
  const auto first = [](std::uint64_t seed, std::uint32_t stream) {
    return sample_range(std::span(&kPublished, 1), {{0, 5}, 2, seed, stream}).front();
  };
  const auto one = first(1, 0);
  EXPECT_NE(one[0].total, one[1].total);
  EXPECT_NE(one[0].total, first(2, 0)[0].total);
  EXPECT_NE(one[0].total, first(1, 1)[0].total);
}

TEST(SampleRange, TransformsShareTheirBaseLogits) {
  const LogitTransform list[] = {NoTransform{}, ScaleInvariant{}, ScaleInvariant{}};
  // At t = 0 the published map is the identity.
  const auto samples = sample_range(list, {{0, 1}, 20});
  EXPECT_TRUE(same(samples[0], samples[1]));
  EXPECT_TRUE(same(samples[1], samples[2]));
  EXPECT_NEAR(samples[0][0].entropy, 0, 1e-15) << "one token";
}

TEST(SampleRange, BadArgumentsAreRefused) {
  EXPECT_THROW(sample_range(std::span(&kPublished, 1), {{5, 5}, 1}), std::invalid_argument);
  EXPECT_THROW(sample_range(std::span(&kPublished, 1), {{-1, 5}, 1}), std::invalid_argument);
  const LogitTransform unfit = InfoScale{};
  EXPECT_THROW(sample_range(std::span(&unfit, 1), {{0, 5}, 1}), std::invalid_argument);
  EXPECT_THROW(sample_range_by_extremes(kPublished, {{10, 100}, 1}, 90), std::invalid_argument);
  EXPECT_THROW(sample_range_by_extremes(kPublished, {{10, 100}, 1}, 1), std::invalid_argument);
  EXPECT_THROW(sample_range_by_extremes(unfit, {{10, 100}, 1}, 5), std::invalid_argument);
}

/// However few are drawn one by one, the rest counts with its mean: leaving it out would lose a third at 20 of 9000. Nine
/// standard errors: 2e-19.
TEST(SampleByExtremes, TheRestCounts) {
  const RangeDistribution law(kPublished, {1000, 10000});
  const double median = law.quantile(0.5);
  for (const std::size_t largest : {20, 1000}) {
    const auto samples = sample_range_by_extremes(kPublished, {{1000, 10000}, 2000}, largest);
    const auto below = static_cast<double>(
        std::ranges::count_if(samples, [&](const RangeSample& s) { return s.total <= median; }));
    // With 20 the neglected spread of the rest moves the share below the median by less than 0.03.
    EXPECT_NEAR(below / 2000, 0.5, 9 * 0.5 / std::sqrt(2000.0) + (largest == 20 ? 0.03 : 0)) << largest;
  }
  EXPECT_GT(neglected_spread(kPublished, {1000, 10000}, 20).of_mean, neglected_spread(kPublished, {1000, 10000}, 2000).of_mean);
  EXPECT_LT(neglected_spread(kPublished, {1e12, 1e13}, 5000).of_mean, 1e-3);
}

/// Nearly all logits of a range drawn as order statistics: then the sum of the spacings that are not drawn matters.
TEST(SampleByExtremes, OrderStatisticsAreThoseOfTheWholeRange) {
  const RangeDistribution law(kPublished, {100, 400});
  const double median = law.quantile(0.5);
  const auto samples = sample_range_by_extremes(kPublished, {{100, 400}, 2000}, 280);
  const auto below = static_cast<double>(
      std::ranges::count_if(samples, [&](const RangeSample& s) { return s.total <= median; }));
  EXPECT_NEAR(below / 2000, 0.5, 9 * 0.5 / std::sqrt(2000.0));
}

TEST(RangeDistribution, OfOneTokenIsLogNormal) {
  const RangeDistribution law(kPublished, {7, 8});
  const AffineMap map = affine_map(kPublished, 7, 8);
  for (const double z : {0.05, 0.3, 1.0, 4.0}) {
    EXPECT_NEAR(law.below(z), normal_below((std::log(z) - map.m) / map.a), 1e-7) << z;
  }
  EXPECT_NEAR(law.quantile(0.5), std::exp(map.m), 1e-5 * std::exp(map.m));
  EXPECT_NEAR(law.mean_entropy(), 0, 1e-12);
}

/// Two tokens: E[H] by the trapezoidal rule in the plane.
TEST(RangeDistribution, MeanEntropyOfTwoTokens) {
  const AffineMap first = affine_map(kPublished, 40, 42), second = affine_map(kPublished, 41, 42);
  double mean = 0;
  constexpr double h = 0.125;
  for (double x = -9; x <= 9; x += h) {
    for (double y = -9; y <= 9; y += h) {
      const double difference = second.a * y + second.m - first.a * x - first.m;
      const double share = 1 / (1 + std::exp(difference));
      const double entropy = -share * std::log(share) - (1 - share) * std::log1p(-share);
      mean += h * h / (2 * std::numbers::pi) * std::exp(-(x * x + y * y) / 2) * (std::isfinite(entropy) ? entropy : 0);
    }
  }
  EXPECT_NEAR(RangeDistribution(kPublished, {40, 42}).mean_entropy(), mean, 1e-9);
}

TEST(RangeDistribution, HasTheMeanOfTheClosedForm) {
  for (const ScaleInvariant& s : {ScaleInvariant{}, {0.5, 1, 1}, {1000.0, 0.5, 0.25}}) {
    const auto p = reference::parameters_of<double>(s);
    EXPECT_NEAR(RangeDistribution(s, {0, 90}).mean_total() / reference::expected_total<double>(0, 90, p), 1, 1e-12);
    EXPECT_NEAR(RangeDistribution(s, {1e3, 1e6}).mean_total() / reference::expected_total<double>(1e3, 1e6, p), 1, 1e-7);
    EXPECT_NEAR(RangeDistribution(s, {1e300, 1e301}).mean_total() / (p.alpha * p.tau * std::log(10.0)), 1, 1e-10);
  }
}

/// Unscaled logits of a long range all but fill it: H = log n - 1/2 (E[log A~] under its tilt is 1, log E[A~] = 1/2).
TEST(RangeDistribution, EntropyOfUnscaledLogits) {
  EXPECT_NEAR(RangeDistribution(NoTransform{}, {1e12, 1e13}).mean_entropy(), std::log(9e12) - 0.5, 1e-9);
}

TEST(RangeDistribution, BelowAndQuantileAreInverse) {
  const RangeDistribution law(kPublished, {10, 100});
  for (const double p : {0.001, 0.1, 0.5, 0.9, 0.999}) EXPECT_NEAR(law.below(law.quantile(p)), p, 2e-6);
}

}  // namespace
}  // namespace siattn::verify
