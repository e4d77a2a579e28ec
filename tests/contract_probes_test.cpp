// SPDX-License-Identifier: Apache-2.0
// Inputs made to show one mistake each, with answers that are known without the reference. Gaussian data of ordinary
// length passes with the oldest key dropped or a maximum that starts at 0.
#include <cmath>

#include "tests/support.hpp"

namespace siattn::test {
namespace {

class Probes : public TargetTest {};

/// Exact out and lse of H-inputs (Q = K = 0, V_j = j, tau = 1): the weight at distance t is 1 / (t + 1)^2.
struct HRow {
  double numerator = 0, sum = 0;
  HRow(std::int64_t position, std::int64_t first_key, std::int64_t last_key) {
    for (std::int64_t j = first_key; j < last_key; ++j) {
      const double w = 1 / std::pow(static_cast<double>(std::abs(position - j) + 1), 2);
      numerator += w * static_cast<double>(j);
      sum += w;
    }
  }
  double out() const { return numerator / sum; }
  double lse() const { return std::log(sum); }
};

AttentionOptions h_options() { return {.transform = ScaleInvariant{.tau = 1.0}, .softmax_scale = 1.0}; }

/// The first rows as fractions, in case the formula above and the library share a mistake.
TEST_P(Probes, HInputsGiveExactFractions) {
  const std::pair<double, double> rows[] = {{0, 0},
                                            {4.0 / 5, .22314355131420976},
                                            {81.0 / 49, .30830135965451661},
                                            {104.0 / 41, .35319667956240757},
                                            {18125.0 / 5269, .38090674576508441}};
  for (const std::int64_t queries : {1, 2, 5}) {
    for (const std::int64_t dim : {1, 8, 33}) {
      ProblemData data(problem({1, 2, 1, queries, 5, dim, dim}, h_options()));
      data.fill_h_inputs();
      ASSERT_TRUE(right(backend(), data));
      for (std::int64_t i = 0; i < queries; ++i) {
        const auto& [out, lse] = rows[5 - queries + i];
        expect_row(backend(), data, {0, 1, i}, out, lse);
      }
    }
  }
}

TEST_P(Probes, HInputsOfSeveralTiles) {
  for (const Mask mask : {Mask::causal, Mask::bidirectional}) {
    for (const std::int64_t queries : {1, 7, 150}) {
      AttentionOptions options = h_options();
      options.mask = mask;
      ProblemData data(problem({1, 1, 1, queries, 150, 4, 4}, options));
      data.fill_h_inputs();
      ASSERT_TRUE(right(backend(), data));
      for (std::int64_t i = 0; i < queries; ++i) {
        const std::int64_t position = 150 - queries + i;
        const HRow row(position, 0, mask == Mask::causal ? position + 1 : 150);
        expect_row(backend(), data, {0, 0, i}, row.out(), row.lse());
      }
    }
  }
}

TEST_P(Probes, NeedleOnOneKeyIsFound) {
  for (const std::int64_t n : {2, 17, 64, 65, 129, 300}) {
    for (const std::int64_t needle : {std::int64_t{0}, std::int64_t{1}, n / 2, n - 2, n - 1}) {
      for (const std::int64_t queries : {std::int64_t{1}, n}) {
        // Against 0 for the others, e^64 outweighs a_t and m_t at any distance here.
        ProblemData data(problem({1, 1, 1, queries, n, 1, 1}, {.softmax_scale = 1.0}));
        data.fill([](auto...) { return 8.0; },
                  [needle](auto, auto, std::int64_t j, auto) { return j == needle ? 8.0 : 0.0; },
                  [needle](auto, auto, std::int64_t j, auto) { return j == needle ? 1.0 : -1.0; });
        ASSERT_TRUE(right(backend(), data));
        EXPECT_NEAR(data.out.get(0, 0, queries - 1, 0), 1, 1e-6) << "key " << needle << " of " << n;
        if (queries == 1 || needle == 0) continue;
        EXPECT_NEAR(data.out.get(0, 0, needle - 1, 0), -1, 1e-2) << "key " << needle << " seen by the query before it";
      }
    }
  }
}

/// V one-hot: out is the weight of one key, however small; a key that is dropped or taken twice shows as 0 or 2 w.
TEST_P(Probes, OneHotValuesReadOffSingleWeights) {
  for (const std::int64_t n : {2, 3, 16, 33, 65, 128, 257}) {
    const std::int64_t keys[] = {0, std::min<std::int64_t>(1, n - 1), n / 2, n - 2, n - 1};
    for (const std::int64_t queries : {std::int64_t{1}, n}) {
      AttentionOptions options = h_options();
      ProblemData data(problem({1, 1, 1, queries, n, 1, 5}, options));
      const auto zero = [](auto...) { return 0.0; };
      data.fill(zero, zero, [&](auto, auto, std::int64_t j, std::int64_t c) { return j == keys[c] ? 1.0 : 0.0; });
      ASSERT_TRUE(right(backend(), data));
      const HRow row(n - 1, 0, n);
      for (std::int64_t c = 0; c < 5; ++c) {
        const double weight = 1 / std::pow(static_cast<double>(n - keys[c]), 2) / row.sum;
        const double bound = bound_of(backend(), data, 0, 0, queries - 1).out[static_cast<std::size_t>(c)].total();
        EXPECT_NEAR(data.out.get(0, 0, queries - 1, c), weight, bound) << "key " << keys[c] << " of " << n;
        EXPECT_LT(bound, 0.1 * weight);  // or a dropped key would pass
      }
    }
  }
}

/// Every dimension of query and key takes part in the score, every channel of value in out.
TEST_P(Probes, EveryDimensionCounts) {
  for (const std::int64_t d : {1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 80, 96, 127, 128, 129, 256}) {
    for (const std::int64_t place : {std::int64_t{0}, d / 2, d - 1}) {
      ProblemData data(problem({1, 1, 1, 2, 2, d, d}, {.transform = NoTransform{}, .softmax_scale = 1.0}));
      data.fill([&](auto, auto, auto, std::int64_t e) { return e == place ? 1.0 : 0.0; },
                [&](auto, auto, std::int64_t j, std::int64_t e) { return j == 0 && e == place ? 3.0 : 0.0; },
                [&](auto, auto, std::int64_t j, std::int64_t e) { return j == 0 && e == place ? 1.0 : 0.0; });
      ASSERT_TRUE(right(backend(), data));
      const double weight = std::exp(3) / (1 + std::exp(3));
      const double bound = bound_of(backend(), data, 0, 0, 1).out[static_cast<std::size_t>(place)].total();
      EXPECT_NEAR(data.out.get(0, 0, 1, place), weight, bound) << "dimension " << place << " of " << d;
    }
  }
}

/// Weights that are all alike: rounding, or a sum kept in a narrow type, shows as a drift with n.
TEST_P(Probes, EqualWeightsOfManyKeys) {
  for (const std::int64_t n : {4096, 65536}) {
    if (backend().family() == "reference" && dtype() != DType::float32 && n > 4096) continue;  // one type is enough
    ProblemData data(problem({1, 1, 1, 1, n, 1, 1}, {.transform = ScaleInvariant{.tau = 1e30}}));
    const auto zero = [](auto...) { return 0.0; };
    data.fill(zero, zero, [](auto...) { return 1.0; });
    ASSERT_TRUE(right(backend(), data));
    expect_row(backend(), data, {0, 0, 0}, 1, std::log(static_cast<double>(n)));
    if (size_of(dtype()) == 2) {
      EXPECT_EQ(data.out.get(0, 0, 0, 0), 1.0);
    }
  }
}

SIATTN_FOR_EVERY_TARGET(Probes);

}  // namespace
}  // namespace siattn::test
