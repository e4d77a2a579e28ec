// SPDX-License-Identifier: Apache-2.0
// What base logits are measured by: rows of logits and decades against the reference, marginal laws against logits
// whose law is known, and against planted departures from it. Seeds are fixed; levels are what a new seed would risk.
#include "verify/gaussian.hpp"

#include <omp.h>

#include <cmath>
#include <map>
#include <numeric>

#include "reference/attention.hpp"
#include "tests/support.hpp"
#include "verify/decades.hpp"
#include "verify/random.hpp"

namespace siattn::test {
namespace {

using verify::GaussianOptions;
using verify::GaussianReport;
using verify::LogitRows;

/// Logits [batch, heads, queries, keys] from a formula.
struct Matrix {
  Shape4 shape;
  std::vector<double> values;

  template <class Formula>
  Matrix(const Shape4& s, const Formula& formula) : shape(s) {
    for (std::int64_t b = 0; b < s[0]; ++b) {
      for (std::int64_t h = 0; h < s[1]; ++h) {
        for (std::int64_t i = 0; i < s[2]; ++i) {
          for (std::int64_t j = 0; j < s[3]; ++j) values.push_back(formula(b, h, i, j));
        }
      }
    }
  }
  LogitRows rows() const { return LogitRows::of_logits(TensorView(values.data(), shape)); }
};

/// Independent standard normal numbers, one for each index.
double normal_at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
  static const verify::Random random(5, 9);
  return random.gaussian(static_cast<std::uint64_t>(((b * 16 + h) * 4096 + i) * 4096 + j));
}

TEST(LogitRows, AreTheReferencesToTheLastBit) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float64}) {
    ProblemData data({{2, 4, 2, 5, 9, 7, 3}, dtype, {}}, {.heads_inside = true, .row_padding = 3});
    data.fill_gaussian(1);
    const AttentionTensors tensors = data.tensors();
    const AttentionProblem& problem = data.problem();
    const auto rows = LogitRows::of_tensors(tensors.query, tensors.key, 1 / std::sqrt(7.0));
    const reference::Transform<double> transform(problem.options, problem.shape);
    std::vector<double> scores(9), logits(9), row(9);
    for (std::int64_t r = 0; r < 2 * 4 * 5; ++r) {
      const std::int64_t b = r / 20, h = r / 5 % 4, i = r % 5;
      reference::Row<double> expected{scores, logits, {}, {}};
      reference::row_logits(problem.shape, problem.options, transform, tensors, b, h, i, expected);
      rows.read(b, h, i, row);
      for (std::int64_t j = 0; j <= 4 + i; ++j)
        EXPECT_EQ(row[static_cast<std::size_t>(j)], scores[static_cast<std::size_t>(j)]) << name_of(dtype);
    }
  }
}

/// Mass and entropy of each decade from the weights of the reference, one pair at a time.
TEST(Decades, AgreeWithTheReference) {
  const Calibration calibration{.mean = {-1, 0.5, 2}, .standard_deviation = {0.5, 2, 1}};
  const AttentionOptions all[] = {{},
                                  {.transform = NoTransform{}, .n_sink = 3},
                                  {.transform = LogN{}, .window = 14},
                                  {.transform = Alibi{}, .mask = Mask::bidirectional, .n_sink = 1},
                                  {.calibration = calibration, .n_sink = 1},
                                  {.calibration = calibration, .mask = Mask::bidirectional, .query_offset = -30}};
  for (const AttentionOptions& options : all) {
    ProblemData data({{2, 3, 1, 20, 130, 8, 1}, DType::float64, options});
    data.fill_gaussian(2);
    const AttentionProblem& problem = data.problem();
    const AttentionTensors tensors = data.tensors();
    std::map<std::int64_t, std::vector<double>> masses, entropies;  // by decade, a value for each row
    std::vector<double> scores(130), logits(130), weights(130), out(1);
    double sink_mass = 0, entropy = 0;
    for (std::int64_t r = 0; r < 2 * 3 * 20; ++r) {
      const std::int64_t b = r / 60, h = r / 20 % 3, i = r % 20;
      reference::Row<double> row{scores, logits, weights, out};
      const reference::Transform<double> transform(options, problem.shape);
      reference::attention_row(problem.shape, options, transform, tensors, b, h, i, row);
      std::map<std::int64_t, std::vector<double>> ranges;
      const std::int64_t offset = options.query_offset.value_or(110);
      for (std::int64_t j = 0; j < 130; ++j) {
        const double w = weights[static_cast<std::size_t>(j)];
        if (w > 0) entropy -= w * std::log(w);
        if (j < options.n_sink) {
          sink_mass += w;
        } else if (w > 0) {
          const std::int64_t t = std::abs(offset + i - j);
          ranges[t == 0 ? 0 : t < 10 ? 1 : t < 100 ? 10 : 100].push_back(w);
        }
      }
      for (const auto& [first, ws] : ranges) {
        double z = 0, h_range = 0;
        for (const double w : ws) z += w;
        for (const double w : ws) h_range -= w / z * std::log(w / z);
        masses[first].push_back(z);
        entropies[first].push_back(z * h_range);
      }
    }
    const auto rows = LogitRows::of_tensors(tensors.query, tensors.key, 1 / std::sqrt(8.0));
    const auto table = verify::attention_by_decade(rows, problem.shape, {&options, 1}, 0).front();
    ASSERT_EQ(table.decades.size(), masses.size()) << text_of(problem);
    EXPECT_EQ(table.rows, 120);
    EXPECT_NEAR(table.sink_mass, sink_mass / 120, 1e-13);
    EXPECT_NEAR(table.entropy, entropy / 120, 1e-12);
    std::size_t k = 0;
    for (const auto& [first, list] : masses) {
      const double mass = std::accumulate(list.begin(), list.end(), 0.0);
      const double weighted = std::accumulate(entropies[first].begin(), entropies[first].end(), 0.0);
      EXPECT_NEAR(table.decades[k].mass, mass / 120, 1e-13) << text_of(problem) << first;
      EXPECT_NEAR(table.decades[k].entropy, weighted / mass, 1e-12) << text_of(problem) << first;
      EXPECT_GT(table.decades[k++].pairs, 0);
    }
    // The check can fail: one number of the transform off shows.
    AttentionOptions wrong = options;
    wrong.calibration.standard_deviation.values.front() *= 1.01;
    const auto other = verify::attention_by_decade(rows, problem.shape, {&wrong, 1}, 0).front();
    EXPECT_GT(std::abs(other.entropy - table.entropy), 1e-6) << text_of(problem);
  }
}

/// Independent N(-9, 3^2) behind a sink and below a diagonal of what may not be read: 124 750 pairs.
GaussianReport measured(const std::function<double(double z, std::int64_t i, std::int64_t j)>& logit,
                        std::int64_t n_sink = 1) {
  const Matrix matrix({1, 1, 500, 500}, [&](auto b, auto h, auto i, auto j) {
    if (j > i) return std::nan("");
    return j == 0 ? 1000.0 : logit(normal_at(b, h, i, j), i, j);
  });
  const auto report = verify::measure_gaussian(matrix.rows(), {.n_sink = n_sink});
  EXPECT_TRUE(report.ok()) << report.status().message();
  return *report;
}

TEST(Gaussian, NormalLogitsAreFoundNormal) {
  const GaussianReport report = measured([](double z, auto, auto) { return -9 + 3 * z; });
  const verify::HeadMarginals& head = report.heads[0];
  EXPECT_EQ(head.moments.count, 499 * 500 / 2);
  EXPECT_EQ(report.rows_left_out, 0);
  const auto near = [](const verify::Estimate& e, double value) {
    return std::abs(e.value - value) < 6 * e.standard_error;
  };
  EXPECT_TRUE(near(head.moments.mean, -9));  // each 2e-9
  EXPECT_TRUE(near(head.moments.standard_deviation, 3));
  EXPECT_TRUE(near(head.moments.skewness, 0));
  EXPECT_TRUE(near(head.moments.excess_kurtosis, 0));
  EXPECT_GT(head.p_value, 1e-7);
  EXPECT_LT(head.from_fitted.kolmogorov.distance, report.band);
  EXPECT_NEAR(head.from_standard.kolmogorov.distance, 0.97889, 0.002);  // Phi((x + 9) / 3) - Phi(x) at x = -2.598
  EXPECT_LT(head.least, -9 - 3 * 3);
  const Calibration calibration = report.calibration();
  EXPECT_EQ(calibration.mean.values, std::vector<double>{head.moments.mean.value});
  EXPECT_EQ(calibration.standard_deviation.values, std::vector<double>{head.moments.standard_deviation.value});
  for (const verify::QuantilePoint& q : head.quantiles) {
    EXPECT_LE(q.low, q.theoretical + 0.01);
    EXPECT_GE(q.high, q.theoretical - 0.01);
  }
}

TEST(Gaussian, SinkIsLeftOutAndNothingElse) {
  const auto normal = [](double z, auto, auto) { return z; };
  EXPECT_NEAR(measured(normal).heads[0].moments.mean.value, 0, 0.02);
  const GaussianReport with_sink = measured(normal, 0);
  EXPECT_EQ(with_sink.heads[0].moments.count, 500 * 501 / 2);
  EXPECT_NEAR(with_sink.heads[0].moments.mean.value, 1000 * 500.0 / (500 * 501 / 2), 0.1);
  const GaussianReport without_two = measured([](double z, auto, auto j) { return j == 1 ? 500 : z; }, 2);
  EXPECT_NEAR(without_two.heads[0].moments.mean.value, 0, 0.02);
}

/// Departures of the size that models have, each seen by the figure that is there for it.
TEST(Gaussian, PlantedDepartures) {
  const auto skewed = measured([](double z, auto, auto) { return std::expm1(0.15 * z) / 0.15; }).heads[0];
  EXPECT_GT(skewed.moments.skewness.value, 0.4);
  EXPECT_LT(skewed.p_value, 1e-9);
  const auto heavy = measured([](double z, auto, auto) { return z * (1 + 0.05 * z * z); }).heads[0];
  EXPECT_GT(heavy.moments.excess_kurtosis.value, 0.5);
  EXPECT_LT(heavy.p_value, 1e-9);
  const auto two_points = measured([](double z, auto i, auto) { return z + (i % 2 == 0 ? 1.2 : -1.2); }).heads[0];
  EXPECT_LT(two_points.moments.excess_kurtosis.value, -0.5);
  EXPECT_GT(two_points.from_fitted.kolmogorov.distance, 0.02);
}

TEST(Gaussian, ByDistance) {
  // A logit that tells its decade: 0 at t = 0, 1 in [1, 10), 2 in [10, 100), 3 beyond.
  const auto report = measured([](double, auto i, auto j) {
    const auto t = i - j;
    return t == 0 ? 0.0 : t < 10 ? 1 : t < 100 ? 2 : 3;
  });
  ASSERT_EQ(report.by_distance.size(), 4u);
  const double mean = report.heads[0].moments.mean.value, sd = report.heads[0].moments.standard_deviation.value;
  const std::pair<std::int64_t, std::int64_t> ranges[] = {{0, 1}, {1, 10}, {10, 100}, {100, 499}};
  double pairs = 0;
  for (std::size_t k = 0; k < 4; ++k) {
    const verify::DistanceMoments& d = report.by_distance[k];
    EXPECT_EQ(std::pair(d.first, d.last), ranges[k]);
    EXPECT_NEAR(d.calibrated.mean(), (static_cast<double>(k) - mean) / sd, 1e-12);
    EXPECT_NEAR(d.calibrated.standard_deviation(), 0, 1e-12);
    pairs += d.calibrated.count();
  }
  EXPECT_EQ(pairs, 499 * 500 / 2);
  EXPECT_EQ(report.by_distance[1].calibrated.count(), 9 * 499 - 45);  // query i has min(9, i - 1)
}

TEST(Gaussian, HeadsAreMeasuredApartAndPooled) {
  const Matrix matrix({2, 3, 40, 60}, [](auto b, auto h, auto i, auto j) {
    return static_cast<double>(h) * 10 + (1 + static_cast<double>(h)) * normal_at(b, h, i, j);
  });
  const auto report = verify::measure_gaussian(matrix.rows(), {.n_sink = 1, .query_offset = 20});
  ASSERT_TRUE(report.ok());
  for (std::size_t h = 0; h < 3; ++h) {
    EXPECT_EQ(report->heads[h].moments.count, 2 * (40 * 20 + 39 * 40 / 2));
    EXPECT_NEAR(report->heads[h].moments.mean.value, 10.0 * static_cast<double>(h), 0.3);
    EXPECT_NEAR(report->heads[h].moments.standard_deviation.value, 1 + static_cast<double>(h), 0.15);
  }
  EXPECT_NEAR(report->pooled.mean.value, 10, 0.2);
  EXPECT_NEAR(report->pooled_calibrated.moments.mean.value, 0, 1e-12);
  EXPECT_NEAR(report->pooled_calibrated.moments.standard_deviation.value, 1, 1e-3);
  EXPECT_EQ(report->pooled_calibrated.moments.count, 3 * report->heads[0].moments.count);
  EXPECT_GT(report->pooled_calibrated.p_value, 1e-7);
}

TEST(Gaussian, ThreadsChangeNoBit) {
  const Matrix matrix({1, 5, 90, 90}, [](auto b, auto h, auto i, auto j) { return normal_at(b, h, i, j); });
  const int before = omp_get_max_threads();
  std::vector<GaussianReport> reports;
  for (const int threads : {1, 3}) {
    omp_set_num_threads(threads);
    reports.push_back(*verify::measure_gaussian(matrix.rows(), {}));
  }
  omp_set_num_threads(before);
  EXPECT_EQ(reports[0].calibration().mean.values, reports[1].calibration().mean.values);
  EXPECT_EQ(reports[0].pooled.excess_kurtosis.value, reports[1].pooled.excess_kurtosis.value);
  EXPECT_EQ(reports[0].pooled_calibrated.from_fitted.anderson_darling,
            reports[1].pooled_calibrated.from_fitted.anderson_darling);
}

TEST(Gaussian, RowsThatAreNotFiniteAreLeftOut) {
  const Matrix matrix({1, 1, 50, 50}, [](auto b, auto h, auto i, auto j) {
    return i == 17 && j == 4 ? std::nan("") : i == 20 && j == 20 ? -HUGE_VAL : normal_at(b, h, i, j);
  });
  const auto report = verify::measure_gaussian(matrix.rows(), {});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->rows_left_out, 2);
  EXPECT_EQ(report->heads[0].moments.count, 49 * 50 / 2 - 17 - 20);
}

TEST(Gaussian, WhatCannotBeMeasured) {
  const auto message = [](const Shape4& shape, double value, GaussianOptions options = {}) {
    const Matrix matrix(shape, [value](auto...) { return value; });
    return verify::measure_gaussian(matrix.rows(), options).status().message();
  };
  EXPECT_EQ(message({1, 2, 20, 20}, 3), "all base logits of head 0 are 3: there is nothing to calibrate");
  EXPECT_NE(message({1, 2, 20, 20}, std::nan("")).find("head 0 has 0 pairs"), std::string::npos);
  EXPECT_NE(message({1, 1, 20, 20}, 3, {.n_sink = 20}).find("has 0 pairs"), std::string::npos);
  EXPECT_NE(message({1, 1, 4, 4}, 3).find("has 6 pairs"), std::string::npos);
  EXPECT_NE(message({1, 1, 9, 9}, 3, {.query_offset = -100}).find("has 0 pairs"), std::string::npos);
  const Matrix huge({1, 1, 20, 20}, [](auto, auto, auto i, auto j) { return (i + j) % 2 == 0 ? 1e200 : -1e200; });
  EXPECT_NE(verify::measure_gaussian(huge.rows(), {}).status().message().find("overflow"), std::string::npos);
}

}  // namespace
}  // namespace siattn::test
