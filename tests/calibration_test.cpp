// SPDX-License-Identifier: Apache-2.0
// The contract's S' = (S - mean) / standard_deviation: what follows from it on every backend and type, and that a
// backend which does something else is seen.
#include <cmath>

#include "tests/support.hpp"

namespace siattn::test {
namespace {

class Calibrated : public TargetTest {
 protected:
  ProblemData computed(const AttentionShape& shape, const AttentionOptions& options) const {
    ProblemData data(problem(shape, options));
    data.fill_gaussian(3);
    const Status status = run(backend(), data);
    EXPECT_TRUE(status.ok()) << status.message();
    return data;
  }
};

constexpr AttentionShape kShape{2, 4, 2, 19, 83, 16, 9};

/// A power of two moves from the standard deviation into the softmax scale without a bit changing; any other number
/// rounds otherwise, within the bound.
TEST_P(Calibrated, StandardDeviationDividesTheSoftmaxScale) {
  for (int choice = 0; choice < kTransformChoices; ++choice) {
    AttentionOptions calibrated{.transform = transform_choice(choice, 4)};
    AttentionOptions scaled = calibrated;
    calibrated.calibration.standard_deviation = 4.0;
    scaled.softmax_scale = 0.0625;
    EXPECT_EQ(bits_of(computed(kShape, calibrated)), bits_of(computed(kShape, scaled))) << choice;
    calibrated.calibration.standard_deviation = {3, 0.3, 1, 7};
    ProblemData data = computed(kShape, calibrated);
    EXPECT_TRUE(agrees(backend(), data)) << choice;
    // One head of it, alone, with the softmax scale of that head.
    for (const std::int64_t h : {0, 1, 3}) {
      AttentionOptions one{.transform = transform_choice(choice, 4)};
      one.softmax_scale = 0.25 / calibrated.calibration.standard_deviation.at(static_cast<std::size_t>(h));
      ProblemData expected = computed(kShape, one);
      for (std::int64_t i = 0; i < kShape.query_len; ++i) {
        const verify::RowBound bound = bound_of(backend(), expected, 1, h, i);
        EXPECT_NEAR(data.lse.get(1, h, i, 0), expected.lse.get(1, h, i, 0), 2 * bound.lse.total() + 1e-15);
        for (std::int64_t c = 0; c < kShape.value_dim; ++c) {
          EXPECT_NEAR(data.out.get(1, h, i, c), expected.out.get(1, h, i, c),
                      2 * bound.out[static_cast<std::size_t>(c)].total() + 1e-15);
        }
      }
    }
  }
}

/// A mean alone moves every logit of a row by -mean where a_t = 1.
TEST_P(Calibrated, MeanMovesLseAloneWhereNothingIsScaled) {
  for (const LogitTransform& transform : {LogitTransform(NoTransform{}), LogitTransform(Alibi{})}) {
    ProblemData plain = computed(kShape, {.transform = transform});
    ProblemData moved = computed(kShape, {.transform = transform, .calibration = {.mean = {-9, 0, 2.5, 30}}});
    const double means[] = {-9, 0, 2.5, 30};
    for (std::int64_t h = 0; h < 4; ++h) {
      for (std::int64_t i = 0; i < kShape.query_len; ++i) {
        const verify::RowBound before = bound_of(backend(), plain, 0, h, i);
        const verify::RowBound after = bound_of(backend(), moved, 0, h, i);
        EXPECT_NEAR(moved.lse.get(0, h, i, 0), plain.lse.get(0, h, i, 0) - means[h],
                    before.lse.total() + after.lse.total() + 1e-15);
        for (std::int64_t c = 0; c < kShape.value_dim; ++c) {
          const auto k = static_cast<std::size_t>(c);
          EXPECT_NEAR(moved.out.get(0, h, i, c), plain.out.get(0, h, i, c),
                      before.out[k].total() + after.out[k].total() + 1e-15);
        }
      }
    }
  }
}

/// The control: under the scale-invariant map a mean is no shift of the row, and beside sinks it never is.
TEST_P(Calibrated, MeanMovesOutWhereLogitsAreScaledOrSinksAreNot) {
  for (const auto& options : {AttentionOptions{}, AttentionOptions{.transform = NoTransform{}, .n_sink = 2}}) {
    AttentionOptions with_mean = options;
    with_mean.calibration.mean = 4.0;
    ProblemData plain = computed(kShape, options);
    ProblemData moved = computed(kShape, with_mean);
    EXPECT_TRUE(agrees(backend(), moved));
    double most = 0;
    for (std::int64_t c = 0; c < kShape.value_dim; ++c)
      most = std::max(most, std::abs(plain.out.get(0, 0, 18, c) - moved.out.get(0, 0, 18, c)));
    EXPECT_GT(most, 0.1);
  }
}

TEST_P(Calibrated, SinksAreLeftAlone) {
  // All keys are sinks: no calibration reaches any of them.
  AttentionOptions options{.n_sink = 83};
  ProblemData plain = computed(kShape, options);
  options.calibration = {.mean = -9.0, .standard_deviation = 3.0};
  EXPECT_EQ(bits_of(computed(kShape, options)), bits_of(plain));
}

/// What the method is for: logits of mean -9 and deviation 3, calibrated, are as logits of mean 0 and deviation 1.
TEST_P(Calibrated, UndoesAnAffineMapOfTheScores) {
  if (dtype() == DType::bfloat16 || dtype() == DType::float16) GTEST_SKIP() << "the keys would be rounded";
  const AttentionShape shape{1, 1, 1, 20, 60, 1, 3};
  AttentionOptions options{.softmax_scale = 1.0};
  ProblemData standard(problem(shape, options));
  options.calibration = {.mean = -8.0, .standard_deviation = 4.0};
  ProblemData affine(problem(shape, options));
  const auto one = [](auto...) { return 1.0; };
  const auto score = [](std::int64_t j) { return static_cast<double>(j * 37 % 41 - 20) / 16; };
  const auto value = [](auto, auto, std::int64_t j, auto c) { return static_cast<double>((j + c) % 7); };
  standard.fill(
      one, [&](auto, auto, std::int64_t j, auto) { return score(j); }, value);
  affine.fill(
      one, [&](auto, auto, std::int64_t j, auto) { return -8 + 4 * score(j); }, value);
  EXPECT_TRUE(right(backend(), standard));
  EXPECT_TRUE(right(backend(), affine));
  for (std::int64_t i = 0; i < 20; ++i) {
    const double allowed =
        bound_of(backend(), standard, 0, 0, i).lse.total() + bound_of(backend(), affine, 0, 0, i).lse.total();
    EXPECT_NEAR(affine.lse.get(0, 0, i, 0), standard.lse.get(0, 0, i, 0), allowed + 1e-14);
  }
}

SIATTN_FOR_EVERY_TARGET(Calibrated);

}  // namespace
}  // namespace siattn::test
