// SPDX-License-Identifier: Apache-2.0
// Moments, distances, tests and quantiles of samples: against values of other programs, against each other, and against
// planted errors. Seeds are fixed, so nothing here fails by chance; the level of a check is what a new seed would risk.
#include "verify/marginals.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "verify/normal_law.hpp"
#include "verify/random.hpp"

namespace siattn::verify {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> sorted(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<double> gaussians(std::uint64_t seed, std::size_t n) {
  const Random random(seed, 77);
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = random.gaussian(i);
  return values;
}

/// 60 values with ties, skewed.
std::vector<double> example() {
  std::vector<double> values;
  for (int i = 0; i < 60; ++i) {
    const double square = (i * 13 % 7) * (i * 13 % 7);
    values.push_back(i * 37 % 101 / 10.0 - 5 + square / 9);
  }
  return values;
}

TEST(NormalLaw, LogarithmsOfTheTails) {  // mpmath 1.2, 40 digits: log(erfc(-x / sqrt(2)) / 2)
  const std::pair<double, double> golden[] = {
      {-1e10, -50000000000000000024.0}, {-300, -45006.62273211866336},   {-40, -804.60844201375378817},
      {-37, -689.0305855768905936},     {-36.9, -685.33288316535066463}, {-20, -203.91715537109726394},
      {-5, -15.064998393988725736},     {-1, -1.8410216450092635058},    {-1e-3, -0.69394538346696517877},
      {0.5, -0.36894641528865639307},   {3, -0.0013508099647481937988},  {8, -6.2209605742717860585e-16},
      {20, -2.7536241186062336951e-89}};
  for (const auto& [x, expected] : golden) EXPECT_NEAR(log_normal_cdf(x) / expected, 1, 1e-13) << x;
  EXPECT_EQ(log_normal_cdf(-kInfinity), -kInfinity);
  EXPECT_EQ(log_normal_cdf(kInfinity), 0);
  EXPECT_TRUE(std::isnan(log_normal_cdf(std::nan(""))));
  for (double x = -36.5; x > -37.5; x -= 0.1) EXPECT_LT(log_normal_cdf(x - 0.1), log_normal_cdf(x)) << x;
}

TEST(NormalLaw, Quantiles) {  // mpmath 1.2: root of log Phi(x) = log p
  const std::pair<double, double> golden[] = {{1e-300, -37.047096299361199237},
                                              {1e-9, -5.9978070150076868716},
                                              {0.01, -2.3263478740408411009},
                                              {0.4, -0.2533471031357997988},
                                              {0.75, 0.6744897501960817432}};
  for (const auto& [p, expected] : golden) EXPECT_NEAR(normal_quantile(p) / expected, 1, 1e-13) << p;
  EXPECT_EQ(normal_quantile(0.5), 0);
  EXPECT_EQ(normal_quantile(0), -kInfinity);
  EXPECT_EQ(normal_quantile(1), kInfinity);
  for (const double p : {-0.1, 1.1, std::nan("")}) EXPECT_TRUE(std::isnan(normal_quantile(p))) << p;
}

TEST(Moments, AsAnotherProgramHasThem) {  // scipy 1.17.1: var(ddof=1), skew, kurtosis
  Moments moments;
  moments.add(example());
  EXPECT_EQ(moments.count(), 60);
  EXPECT_NEAR(moments.mean(), 1.4424074074074076, 1e-14);
  EXPECT_NEAR(moments.variance(), 11.194708063053637, 1e-13);
  EXPECT_NEAR(moments.skewness(), 0.050535537895332959, 1e-14);
  EXPECT_NEAR(moments.excess_kurtosis(), -0.76332130684886446, 1e-14);
}

TEST(Moments, FarFromZeroAndInManyPieces) {
  // 1e8 + x for 10^6 values in blocks of every size: what a sum of squares would lose entirely.
  const std::vector<double> values = gaussians(1, 1'000'000);
  Moments plain;
  plain.add(values);
  Moments shifted;
  std::vector<double> block;
  for (std::size_t i = 0, size = 1; i < values.size(); i += size, size = size * 7 % 4001 + 1) {
    block.clear();
    for (std::size_t k = i; k < std::min(i + size, values.size()); ++k) block.push_back(1e8 + values[k]);
    shifted.add(block);
  }
  EXPECT_EQ(shifted.count(), plain.count());
  // The shift rounds each value to 2^-27, at random, so that the moments differ by about 2^-27 / 1000; the mean, on its
  // return, by half a unit in the last place of 1e8.
  EXPECT_NEAR(shifted.mean() - 1e8, plain.mean(), 8e-9);
  EXPECT_NEAR(shifted.standard_deviation(), plain.standard_deviation(), 1e-10);
  EXPECT_NEAR(shifted.skewness(), plain.skewness(), 1e-10);
  EXPECT_NEAR(shifted.excess_kurtosis(), plain.excess_kurtosis(), 1e-10);
}

RC_GTEST_PROP(Moments, MergedPiecesAreTheWhole, (const std::vector<std::int32_t>& integers, std::size_t cut)) {
  std::vector<double> values(integers.begin(), integers.end());
  values.insert(values.end(), {1.0, 5.0, -3.0});
  cut %= values.size() + 1;
  Moments whole, left, right, one_by_one;
  whole.add(values);
  left.add(std::span(values).first(cut));
  right.add(std::span(values).subspan(cut));
  for (const double x : values) one_by_one.add(x);
  left.merge(right);
  for (const Moments& m : {left, one_by_one}) {
    RC_ASSERT(m.count() == whole.count());
    const double sd = whole.standard_deviation();
    RC_ASSERT(std::abs(m.mean() - whole.mean()) <= 1e-13 * (std::abs(whole.mean()) + sd));
    RC_ASSERT(std::abs(m.variance() - whole.variance()) <= 1e-12 * whole.variance());
    RC_ASSERT(std::abs(m.skewness() - whole.skewness()) <= 1e-10);
    RC_ASSERT(std::abs(m.excess_kurtosis() - whole.excess_kurtosis()) <= 1e-9);
  }
}

TEST(Moments, TooFewOrAllEqual) {
  Moments moments;
  EXPECT_TRUE(std::isnan(moments.variance()));
  moments.add(3.0);
  EXPECT_EQ(moments.mean(), 3);
  EXPECT_TRUE(std::isnan(moments.variance()));
  moments.add(3.0);
  EXPECT_EQ(moments.variance(), 0);
  EXPECT_TRUE(std::isnan(moments.skewness()) && std::isnan(moments.excess_kurtosis()));
}

TEST(Moments, StandardErrorsAreThoseOfRepeatedSamples) {
  // 4000 samples of 200: the spread of each figure over the samples is known to sqrt(1/8000), 1.1 %; five of these.
  Moments means, deviations, skewness, kurtosis, stated_deviation;
  MomentSummary summary;
  for (std::uint64_t s = 0; s < 4000; ++s) {
    Moments m;
    m.add(gaussians(1000 + s, 200));
    summary = summary_of(m);
    means.add(summary.mean.value);
    deviations.add(summary.standard_deviation.value);
    skewness.add(summary.skewness.value);
    kurtosis.add(summary.excess_kurtosis.value);
    stated_deviation.add(summary.standard_deviation.standard_error);
  }
  EXPECT_NEAR(means.standard_deviation() * std::sqrt(200.0), 1, 0.055);
  EXPECT_NEAR(deviations.standard_deviation() / stated_deviation.mean(), 1, 0.055 + 0.02);  // and the next order, 3/n
  EXPECT_NEAR(skewness.standard_deviation() / summary.skewness.standard_error, 1, 0.055);
  // This figure is itself skewed and heavy-tailed, so that its spread is known less well.
  EXPECT_NEAR(kurtosis.standard_deviation() / summary.excess_kurtosis.standard_error, 1, 0.11);
}

TEST(Dkw, HalfWidthAndSampleSize) {
  EXPECT_EQ(dkw_sample_size(0.01, 1e-9, 1e-9), 428'329);
  const double n = 428'329;
  EXPECT_NEAR(2 * std::exp(-2 * n * std::pow(dkw_half_width(n, 1e-9), 2)), 1e-9, 1e-18);
  EXPECT_NEAR(dkw_half_width(n, 1e-9), 0.005, 1e-8);
}

TEST(Distances, AsAnotherProgramHasThem) {  // scipy 1.17.1: kstest; the sum of A^2 from norm.logcdf and norm.logsf
  EXPECT_NEAR(kolmogorov_distance(sorted(example()), normal_law(1.5, 3)), 0.092649230596451915, 1e-14);
  EXPECT_NEAR(anderson_darling(sorted(example()), normal_law(1.5, 3)), 0.69871177980058263, 1e-12);
}

TEST(AndersonDarling, NearTheEnds) {
  const std::vector<double> far{-50, 0, 50};  // Phi(-50) is no double
  const double a2 = anderson_darling(far, normal_law());
  EXPECT_TRUE(a2 > 800 && a2 < 900) << a2;
  const Law uniform{[](double x) { return std::log(std::clamp(x, 0.0, 1.0)); },
                    [](double x) { return std::log1p(-std::clamp(x, 0.0, 1.0)); }};
  EXPECT_EQ(anderson_darling(std::vector<double>{-1, 0.5}, uniform), kInfinity);
  EXPECT_TRUE(std::isnan(anderson_darling(std::vector<double>{0.0, std::nan("")}, normal_law())));
}

TEST(AndersonDarling, PValues) {
  // Case 0 of Stephens, "EDF Statistics for Goodness of Fit" (1974), table 1: upper points, printed to three places.
  const std::pair<double, double> table[] = {
      {0.15, 1.610}, {0.10, 1.933}, {0.05, 2.492}, {0.025, 3.070}, {0.01, 3.857}};
  for (const auto& [p, point] : table) EXPECT_NEAR(anderson_darling_p_value(point), p, 2.5e-2 * p) << point;
  EXPECT_EQ(anderson_darling_p_value(0), 1);
  EXPECT_EQ(anderson_darling_p_value(1e6), 0);
  EXPECT_TRUE(std::isnan(anderson_darling_p_value(std::nan(""))));
  double before = 1;
  for (double a2 = 0.01; a2 < 600; a2 *= 1.1) {
    const double p = anderson_darling_p_value(a2);
    EXPECT_LE(p, before + 1e-12) << a2;
    before = p;
    // The first interval's end decides the far tail: p ~ sqrt(c / x) exp(-x).
    if (a2 > 20) {
      EXPECT_NEAR(std::log(p) / -a2, 1, 0.2) << a2;
    }
  }
}

TEST(AndersonDarling, PValuesAreUniformUnderTheLaw) {
  // 5000 samples of 20: each share below p is binomial, and within 5 standard errors (6e-7 each, both sides).
  constexpr int samples = 5'000;
  std::vector<double> p_values;
  for (std::uint64_t s = 0; s < samples; ++s) {
    p_values.push_back(anderson_darling_p_value(anderson_darling(sorted(gaussians(50'000 + s, 20)), normal_law())));
  }
  for (const double p : {0.001, 0.01, 0.1, 0.5, 0.9}) {
    const auto below =
        static_cast<double>(std::count_if(p_values.begin(), p_values.end(), [p](double x) { return x <= p; }));
    EXPECT_NEAR(below / samples, p, 5 * std::sqrt(p * (1 - p) / samples) + 0.002 * p) << p;
  }
}

TEST(Distances, SeeThePlantedErrors) {
  // Each law is 1 % of distance away or more, or differs in its tails; n from level 1e-9 and miss 1e-9.
  const auto n = static_cast<std::size_t>(dkw_sample_size(0.01, 1e-9, 1e-9));
  const double half_width = dkw_half_width(static_cast<double>(n), 1e-9);
  const std::vector<double> right = sorted(gaussians(3, n));
  EXPECT_LE(kolmogorov_distance(right, normal_law()), half_width);
  EXPECT_GT(anderson_darling_p_value(anderson_darling(right, normal_law())), 1e-9);
  EXPECT_GT(kolmogorov_distance(right, normal_law(0.026)), half_width);     // distance 0.0104
  EXPECT_GT(kolmogorov_distance(right, normal_law(0, 1.043)), half_width);  // distance 0.0101
  EXPECT_LT(anderson_darling_p_value(anderson_darling(right, normal_law(0.026))), 1e-9);
  EXPECT_LT(anderson_darling_p_value(anderson_darling(right, normal_law(0, 1.043))), 1e-9);
  // 2000 values moved out to 7: the distance is 0.0023, inside the band; A^2 sees the tails.
  std::vector<double> heavy = gaussians(3, n);
  for (std::size_t k = 0; k < 2000; ++k) heavy[k] = k % 2 == 0 ? 7 : -7;
  std::sort(heavy.begin(), heavy.end());
  EXPECT_LE(kolmogorov_distance(heavy, normal_law()), half_width);
  EXPECT_LT(anderson_darling_p_value(anderson_darling(heavy, normal_law())), 1e-9);
}

TEST(Quantiles, OfASmallSample) {
  const std::vector<double> values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const std::vector<double> probabilities{0.05, 0.5, 0.95};
  const auto points = quantile_points(values, probabilities, 0.15);
  EXPECT_EQ(points[0].sample, 1);
  EXPECT_EQ(points[1].sample, 5);
  EXPECT_EQ(points[2].sample, 10);
  EXPECT_EQ(points[0].low, -kInfinity);
  EXPECT_EQ(points[0].high, 3);  // the law's quantile at 0.05 lies below x_3 where F_n is at most 0.15 off
  EXPECT_EQ(points[1].low, 4);
  EXPECT_EQ(points[1].high, 7);
  EXPECT_EQ(points[2].high, kInfinity);
  EXPECT_NEAR(points[1].theoretical, 0, 1e-15);
}

TEST(Quantiles, TheBandHoldsAsOftenAsItSays) {
  // Level 0.2, 2000 samples of 200: at least 80 % of the bands hold everywhere, but for 5 standard errors; and the
  // bound is tight enough that at 200 values not more than 90 % do.
  int held = 0;
  const std::vector<double> probabilities = plot_probabilities(400, 201);
  for (std::uint64_t s = 0; s < 2000; ++s) {
    const auto points = quantile_points(sorted(gaussians(90'000 + s, 200)), probabilities, dkw_half_width(200, 0.2));
    held += std::all_of(points.begin(), points.end(),
                        [](const QuantilePoint& q) { return q.low <= q.theoretical && q.theoretical <= q.high; });
  }
  EXPECT_GE(held, 2000 * (0.8 - 5 * std::sqrt(0.16 / 2000)));
  EXPECT_LE(held, 2000 * 0.9);
}

TEST(Histogram, AgreesWithTheSortedSample) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{7}, std::size_t{1000}, std::size_t{200'000}}) {
    for (const double scale : {1.0, 3.0}) {
      std::vector<double> z = gaussians(n, n);
      StandardHistogram first, second;
      for (std::size_t i = 0; i < n; ++i) (i % 3 == 0 ? first : second).add(z[i]);
      first.merge(second);
      EXPECT_EQ(first.count(), n);
      std::vector<double> x;
      for (const double value : z) x.push_back(-0.1 + scale * value);
      std::sort(x.begin(), x.end());
      const auto [distance, resolution] = first.kolmogorov_distance(-0.1, scale);
      const double exact = kolmogorov_distance(x, normal_law());
      EXPECT_LE(distance, exact + 1e-12);
      EXPECT_GE(distance + resolution, exact);
      const double a2 = anderson_darling(x, normal_law());
      EXPECT_NEAR(first.anderson_darling(-0.1, scale), a2, std::max(2e-3, 1e-3 * a2)) << n << ' ' << scale;
      std::sort(z.begin(), z.end());
      const auto probabilities = plot_probabilities(static_cast<double>(n), 41);
      const auto expected = quantile_points(z, probabilities, 0.01);
      const auto points = first.quantile_points(probabilities, 0.01);
      for (std::size_t k = 0; k < points.size(); ++k) {
        EXPECT_NEAR(points[k].sample, expected[k].sample, 0.001);
        if (std::isinf(expected[k].low))
          EXPECT_EQ(points[k].low, expected[k].low);
        else
          EXPECT_NEAR(points[k].low, expected[k].low, 0.001);
        if (std::isinf(expected[k].high))
          EXPECT_EQ(points[k].high, expected[k].high);
        else
          EXPECT_NEAR(points[k].high, expected[k].high, 0.001);
      }
    }
  }
}

TEST(Histogram, WhatLiesFarOutCounts) {
  StandardHistogram histogram;
  for (const double z : {-1e300, -41.0, 0.0, 39.99, 1e300}) histogram.add(z);
  EXPECT_EQ(histogram.count(), 5);
  EXPECT_NEAR(histogram.kolmogorov_distance().distance, 0.4, 1e-3);
  EXPECT_GT(histogram.anderson_darling(), 100);
}

}  // namespace
}  // namespace siattn::verify
