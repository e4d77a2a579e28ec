// SPDX-License-Identifier: Apache-2.0
// The compiled tables against the equations in 50 digits, entry by entry.
#include <cmath>

#include "dispatch/tables.hpp"
#include "reference/real.hpp"
#include "reference/transform.hpp"
#include "tests/support.hpp"

namespace siattn::test {
namespace {

using reference::Real50;

PreparedAttention prepared(const AttentionShape& shape, const AttentionOptions& options) {
  PreparedAttention p;
  p.shape = shape;
  p.options = options;
  p.softmax_scale = options.softmax_scale.value_or(1 / std::sqrt(static_cast<double>(shape.head_dim)));
  return p;
}

/// `entry` is `exact` rounded to float32; where exact is within a millionth of an ulp of a tie, either neighbour will
/// do: the tables are computed in double. `lost` is what a difference of larger terms has lost there.
bool is_rounding_of(float entry, const Real50& exact, const Real50& lost = 0) {
  if (exact == 0) return abs(Real50(entry)) <= lost;
  const float up = std::nextafter(entry, HUGE_VALF);
  const float down = std::nextafter(entry, -HUGE_VALF);
  const Real50 ulp = (Real50(up) - Real50(down)) / 2;
  const Real50 slack = ulp / 1000000 + lost;
  return exact >= (Real50(down) + Real50(entry)) / 2 - slack && exact <= (Real50(up) + Real50(entry)) / 2 + slack;
}

class Tables : public ::testing::TestWithParam<int> {};

/// scale[t_max - t] = a_t softmax_scale / sd, shift[t_max - t] = m_t - a_t mean / sd, each times log2(e) in base two,
/// rounded once.
TEST_P(Tables, EntriesAreTheEquationsRoundedOnce) {
  for (const LogBase base : {LogBase::natural, LogBase::two}) {
    int calibration = 0;
    for (const std::optional<double> softmax_scale : {std::optional<double>{}, {1.0}, {-0.37}, {2.5}}) {
      const AttentionShape shape{1, 3, 3, 40, 60, 80, 8};
      AttentionOptions options{
          .transform = transform_choice(GetParam(), 3), .mask = Mask::bidirectional, .softmax_scale = softmax_scale};
      const reference::Transform<Real50> exact(options, shape);  // calibrated below, by hand
      options.calibration = calibration_choice(calibration++, options.transform, 3);
      const auto result = dispatch::compile_tables(prepared(shape, options), base);
      ASSERT_TRUE(result.ok()) << result.status().message();
      const LogitTables& tables = *result;
      const Real50 fold = base == LogBase::two ? 1 / log(Real50(2)) : Real50(1);
      const Real50 scale = softmax_scale ? Real50(*softmax_scale) : 1 / sqrt(Real50(80));
      EXPECT_EQ(tables.base, base);
      EXPECT_TRUE(is_rounding_of(tables.sink_scale, scale * fold));
      for (std::int64_t h = 0; h < 3; ++h) {
        const Real50 mean(options.calibration.mean.at(static_cast<std::size_t>(h)));
        const Real50 sd(options.calibration.standard_deviation.at(static_cast<std::size_t>(h)));
        for (std::int64_t t = tables.t_min; t <= tables.t_max; ++t) {
          const Real50 a = exact.scale(h, std::abs(t)) / sd;
          const Real50 m = exact.shift(h, std::abs(t)) - a * mean;
          EXPECT_TRUE(is_rounding_of(tables.scale(h)[tables.t_max - t], a * scale * fold)) << t;
          const Real50 lost = mean == 0 ? 0 : Real50(0x1p-50) * (abs(m) + 2 * abs(a * mean));
          EXPECT_TRUE(is_rounding_of(tables.shift(h)[tables.t_max - t], m * fold, lost * fold)) << t;
        }
        for (std::int64_t n = 0; n <= 60; ++n) {
          EXPECT_TRUE(is_rounding_of(tables.row_factor(h, n), exact.row_factor(h, n))) << n;
        }
      }
    }
  }
}

TEST_P(Tables, PaddingHasNoWeight) {
  const AttentionShape shape{1, 3, 3, 4, 6, 8, 8};
  const auto tables =
      *dispatch::compile_tables(prepared(shape, {.transform = transform_choice(GetParam(), 3)}), LogBase::two);
  for (std::int64_t h = 0; h < 3; ++h) {
    for (std::int64_t k = 1; k <= LogitTables::padding; ++k) {
      for (const std::int64_t at : {-k, tables.t_max - tables.t_min + k}) {
        EXPECT_EQ(tables.scale(h)[at], 0.0F);
        EXPECT_EQ(tables.shift(h)[at], -HUGE_VALF);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transform, Tables, ::testing::Range(0, kTransformChoices));

/// Published numbers of Eq. 16 at tau = 10.
TEST(ScaleInvariantTable, HasTheGoldenValues) {
  const AttentionShape shape{1, 1, 1, 1, 65537, 1, 1};
  const auto tables = *dispatch::compile_tables(prepared(shape, {}), LogBase::natural);
  const std::tuple<std::int64_t, double, double> golden[] = {
      {0, 1, 0},
      {1, 1.091155515776119659939373, -0.1906203596086497200879042},
      {100, 2.407444816729293400258778, -4.795790545596741088123887},
      {65536, 4.309970387883275512272877, -17.57584474443071237269689}};
  for (const auto& [t, a, m] : golden) {
    EXPECT_EQ(tables.scale(0)[tables.t_max - t], static_cast<float>(a));
    EXPECT_EQ(tables.shift(0)[tables.t_max - t], static_cast<float>(m));
  }
}

TEST(TableRange, CoversTheDistancesThatCanBeVisibleAndNoMore) {
  const auto range = [](std::int64_t queries, std::int64_t keys, AttentionOptions options) {
    const auto tables = *dispatch::compile_tables(prepared({1, 1, 1, queries, keys, 8, 8}, options), LogBase::natural);
    return std::pair(tables.t_min, tables.t_max);
  };
  using Range = std::pair<std::int64_t, std::int64_t>;
  // By default the last query stands beside the last key.
  EXPECT_EQ(range(3, 7, {}), Range(0, 6));
  EXPECT_EQ(range(7, 3, {}), Range(0, 2));
  EXPECT_EQ(range(3, 7, {.mask = Mask::bidirectional}), Range(-2, 6));
  EXPECT_EQ(range(3, 7, {.window = 4}), Range(0, 3));
  EXPECT_EQ(range(3, 7, {.mask = Mask::bidirectional, .window = 2}), Range(-1, 1));
  // Queries at 100, 101, 102 before keys 0 .. 6.
  EXPECT_EQ(range(3, 7, {.query_offset = 100}), Range(94, 102));
  EXPECT_EQ(range(3, 7, {.window = 98, .query_offset = 100}), Range(94, 97));
  EXPECT_EQ(range(3, 7, {.mask = Mask::bidirectional, .query_offset = -5}), Range(-11, -3));
  // Nothing can be visible: t_max < t_min.
  for (const auto& [first, last] : {range(3, 7, {.query_offset = -3}), range(3, 7, {.window = 94, .query_offset = 100}),
                                    range(0, 7, {}), range(3, 0, {})}) {
    EXPECT_LT(last, first);
  }
}

/// Positions far out cost no memory: only the distances that occur have entries.
TEST(TableRange, HugeOffsetCostsNothing) {
  for (const std::int64_t offset : {kLastPosition - 4, -kLastPosition}) {
    const AttentionOptions options{.mask = Mask::bidirectional, .query_offset = offset};
    const auto tables = *dispatch::compile_tables(prepared({1, 1, 1, 5, 7, 8, 8}, options), LogBase::natural);
    EXPECT_EQ(tables.entries(), 5 + 7 - 1 + 2 * LogitTables::padding);
    const reference::Transform<Real50> exact(AttentionOptions{}, {1, 1, 1, 5, 7, 8, 8});
    for (std::int64_t t = tables.t_min; t <= tables.t_max; ++t) {
      EXPECT_TRUE(is_rounding_of(tables.shift(0)[tables.t_max - t], exact.shift(0, std::abs(t))));
    }
  }
}

TEST(TableSize, IsSharedByHeadsThatDoNotDiffer) {
  const AttentionShape shape{1, 3, 3, 40, 60, 80, 8};
  const auto tables = [&](const LogitTransform& transform) {
    return *dispatch::compile_tables(prepared(shape, {.transform = transform}), LogBase::natural);
  };
  EXPECT_FALSE(tables(ScaleInvariant{}).scales_per_head);
  EXPECT_TRUE(tables(ScaleInvariant{.tau = {1, 2, 3}}).scales_per_head);
  EXPECT_FALSE(tables(Alibi{}).scales_per_head);
  EXPECT_TRUE(tables(Alibi{}).shifts_per_head);
  EXPECT_FALSE(tables(Alibi{0.5}).shifts_per_head);
  EXPECT_TRUE(tables(NoTransform{}).row_factors.empty());
  EXPECT_TRUE(tables(LogN{{1, 2, 3}}).row_factors_per_head);
  const auto calibrated = [&](const LogitTransform& transform, const Calibration& calibration) {
    const auto result = *dispatch::compile_tables(prepared(shape, {.transform = transform, .calibration = calibration}),
                                                  LogBase::natural);
    return std::pair(result.scales_per_head, result.shifts_per_head);
  };
  EXPECT_EQ(calibrated(ScaleInvariant{}, {.mean = 1.0, .standard_deviation = 2.0}), std::pair(false, false));
  EXPECT_EQ(calibrated(ScaleInvariant{}, {.standard_deviation = {1, 2, 3}}), std::pair(true, false));
  EXPECT_EQ(calibrated(ScaleInvariant{}, {.mean = {1, 2, 3}}), std::pair(false, true));
  EXPECT_EQ(calibrated(ScaleInvariant{}, {.mean = 1.0, .standard_deviation = {1, 2, 3}}), std::pair(true, true));
  EXPECT_EQ(calibrated(ScaleInvariant{.tau = {1, 2, 3}}, {.mean = 1.0}), std::pair(true, true));
}

}  // namespace
}  // namespace siattn::test
