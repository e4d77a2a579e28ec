// SPDX-License-Identifier: Apache-2.0
// The contract, "Types" and the transforms: logits of any size, every transform, every softmax_scale.
#include "tests/support.hpp"

namespace siattn::test {
namespace {

class Numbers : public TargetTest {
 protected:
  /// head_dim 1 and query 1: the keys are the scores.
  ProblemData scores(std::int64_t queries, const std::vector<double>& keys, AttentionOptions options = {}) const {
    options.softmax_scale = options.softmax_scale.value_or(1.0);
    const auto n = static_cast<std::int64_t>(keys.size());
    ProblemData data(problem({1, 1, 1, queries, n, 1, 1}, options));
    data.fill([](auto...) { return 1.0; },
              [&](auto, auto, std::int64_t j, auto) { return keys[static_cast<std::size_t>(j)]; },
              [](auto, auto, std::int64_t j, auto) { return static_cast<double>(j); });
    return data;
  }
};

TEST_P(Numbers, EveryTransform) {
  for (int choice = 0; choice < kTransformChoices; ++choice) {
    for (const std::int64_t queries : {1, 6, 34}) {
      for (const Mask mask : {Mask::causal, Mask::bidirectional}) {
        EXPECT_TRUE(right(backend(), problem({1, 3, 3, queries, 34, 16, 8},
                                             {.transform = transform_choice(choice, 3), .mask = mask})));
      }
    }
  }
}

TEST_P(Numbers, EveryTau) {
  for (const double tau : {1e-290, 1e-30, 1e-3, 0.3, 1.0, 10.0, 1e4, 1e30, 1e300}) {
    for (const std::int64_t queries : {1, 40}) {
      EXPECT_TRUE(right(backend(), problem({1, 1, 1, queries, 40, 8, 8}, {.transform = ScaleInvariant{.tau = tau}})));
    }
  }
}

TEST_P(Numbers, AlphaAndBeta) {
  for (const auto& [alpha, beta] :
       {std::pair{1.0, 1.0}, {1.0, 1e-6}, {0.1, 2.0}, {5.0, 9.0}, {std::exp(1.0), std::exp(1.0)}}) {
    EXPECT_TRUE(right(backend(),
                      problem({1, 1, 1, 40, 40, 8, 8}, {.transform = ScaleInvariant{.alpha = alpha, .beta = beta}})));
  }
}

/// LogN and InfoScale count the keys that a query sees: behind a window, a length or an offset they are fewer.
TEST_P(Numbers, RowFactorsCountVisibleKeys) {
  for (const int choice : {5, 6, 7}) {
    for (const auto& options : {AttentionOptions{.window = 7},
                                {.mask = Mask::bidirectional, .window = 7},
                                {.query_offset = 3},
                                {.query_offset = 100, .n_sink = 2}}) {
      AttentionOptions with = options;
      with.transform = transform_choice(choice, 2);
      ProblemData data(problem({2, 2, 1, 40, 40, 8, 8}, with));
      data.fill_gaussian(1);
      data.kv_lengths = {40, 11};
      EXPECT_TRUE(right(backend(), data));
    }
  }
}

TEST_P(Numbers, SoftmaxScaleIsAnyFiniteNumber) {
  for (const double scale : {0.0, -0.0, 1.0, -1.0, 0.125, -3.0, 30.0, 1000.0, 1e-30, -1e-30}) {
    for (const std::int64_t queries : {1, 5, 40}) {
      EXPECT_TRUE(right(backend(), problem({1, 2, 1, queries, 40, 16, 8}, {.softmax_scale = scale})));
    }
  }
}

TEST_P(Numbers, DefaultSoftmaxScaleIsOneOverTheRootOfHeadDim) {
  ProblemData data(problem({1, 1, 1, 1, 2, 4, 1}, {.transform = NoTransform{}}));
  data.fill([](auto...) { return 1.0; }, [](auto, auto, std::int64_t j, auto) { return static_cast<double>(j); },
            [](auto, auto, std::int64_t j, auto) { return static_cast<double>(j); });
  ASSERT_TRUE(right(backend(), data));
  // Scores 0 and 4 / sqrt(4) = 2.
  expect_row(backend(), data, {0, 0, 0}, std::exp(2) / (1 + std::exp(2)), std::log1p(std::exp(2)));
}

/// A maximum that starts at 0, or at a large negative number in place of -infinity, shows where all logits lie below.
TEST_P(Numbers, LogitsFarBelowZero) {
  for (const double logit : {-80.0, -90.0, -1000.0, -60000.0}) {
    for (const std::int64_t n : {1, 4, 17, 130}) {
      for (const std::int64_t queries : {std::int64_t{1}, n}) {
        // The scale makes the logit, so that every type holds the keys exactly.
        ProblemData data = scores(queries, std::vector<double>(static_cast<std::size_t>(n), -1),
                                  {.transform = NoTransform{}, .softmax_scale = -logit});
        ASSERT_TRUE(right(backend(), data));
        expect_row(backend(), data, {0, 0, queries - 1}, static_cast<double>(n - 1) / 2,
                   logit + std::log(static_cast<double>(n)));
      }
    }
  }
}

TEST_P(Numbers, LogitsFarAboveZero) {
  for (const double logit : {80.0, 1000.0, 60000.0}) {
    for (const int choice : {0, 4}) {
      for (const std::int64_t queries : {1, 5, 40}) {
        EXPECT_TRUE(right(backend(), problem({1, 1, 1, queries, 40, 8, 8},
                                             {.transform = transform_choice(choice, 1), .softmax_scale = logit})));
      }
    }
  }
}

/// The running maximum rises at each key, falls at each, or rises once, at the last key, by more than exp can span.
TEST_P(Numbers, RunningMaximumRises) {
  for (const std::int64_t n : {4, 33, 200}) {
    for (const auto& score : {+[](std::int64_t j, std::int64_t) { return static_cast<double>(j); },
                              +[](std::int64_t j, std::int64_t) { return static_cast<double>(-j); },
                              +[](std::int64_t j, std::int64_t count) { return j == count - 1 ? 100.0 : -100.0; },
                              +[](std::int64_t j, std::int64_t) { return j % 2 == 0 ? -5 : 1.5; }}) {
      std::vector<double> keys;
      for (std::int64_t j = 0; j < n; ++j) keys.push_back(score(j, n));
      for (const int choice : {0, 4}) {
        ProblemData data = scores(1, keys, {.transform = transform_choice(choice, 1)});
        EXPECT_TRUE(right(backend(), data));
        ProblemData prefill = scores(n, keys, {.transform = transform_choice(choice, 1)});
        EXPECT_TRUE(right(backend(), prefill));
      }
    }
  }
}

/// Weights down to the smallest numbers and past them, each read off by itself: out = e^x / (1 + e^x) and log(1 + e^x).
TEST_P(Numbers, WeightsOverTheWholeRangeOfExp) {
  for (const double x :
       {0.0, -0.5, -1.0, -17.0, -18.0, -80.0, -87.0, -87.5, -88.0, -88.5, -100.0, -104.0, -1000.0, 88.5}) {
    ProblemData data = scores(1, {0, x}, {.transform = NoTransform{}});
    EXPECT_TRUE(right(backend(), data)) << x;
  }
}

TEST_P(Numbers, KeyOfMinusInfinityHasNoWeight) {
  for (const std::int64_t n : {2, 40}) {
    std::vector<double> keys(static_cast<std::size_t>(n), 0.0);
    keys[0] = -kInfinity;
    ProblemData data = scores(1, keys, {.transform = NoTransform{}});
    ASSERT_TRUE(right(backend(), data));
    expect_row(backend(), data, {0, 0, 0}, static_cast<double>(n) / 2, std::log(static_cast<double>(n - 1)));
    ProblemData all =
        scores(n, std::vector<double>(static_cast<std::size_t>(n), -kInfinity), {.transform = NoTransform{}});
    ASSERT_TRUE(right(backend(), all));
    expect_row(backend(), all, {0, 0, n - 1}, 0, -kInfinity);
  }
}

TEST_P(Numbers, SmallAndLargeInputs) {
  const bool is_half = dtype() == DType::float16;
  for (const double size : {is_half ? 1e-7 : 1e-40, is_half ? 1e-4 : 1e-20, is_half ? 1e4 : 1e30}) {
    for (const std::int64_t queries : {1, 40}) {
      ProblemData data(problem({1, 1, 1, queries, 40, 8, 8}, {.softmax_scale = 1.0}));
      data.fill_gaussian(1);
      for (std::int64_t j = 0; j < 40; ++j) {
        for (std::int64_t d = 0; d < 8; ++d) data.value.set(0, 0, j, d, data.value.get(0, 0, j, d) * size);
        for (std::int64_t d = 0; d < 8 && size < 1; ++d) data.key.set(0, 0, j, d, data.key.get(0, 0, j, d) * size);
      }
      EXPECT_TRUE(right(backend(), data)) << size;
    }
  }
}

/// The only key has weight 1: out is its value exactly, subnormal numbers included.
TEST_P(Numbers, OneKeyGivesItsValue) {
  for (const double value : {1.0, 1e-40, 3e-8, -1.0 / 3, 65504.0}) {
    ProblemData data = scores(1, {0.25});
    data.value.set(0, 0, 0, 0, value);
    ASSERT_TRUE(right(backend(), data));
    EXPECT_EQ(data.out.bits(), data.value.bits()) << value;
  }
}

SIATTN_FOR_EVERY_TARGET(Numbers);

}  // namespace
}  // namespace siattn::test
