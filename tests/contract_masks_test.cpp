// SPDX-License-Identifier: Apache-2.0
// The contract, "Masks" and "Sinks": which keys a query sees, and that those it does not see leave no trace.
#include "tests/support.hpp"

namespace siattn::test {
namespace {

class Masks : public TargetTest {};

constexpr AttentionShape square(std::int64_t n) { return {1, 1, 1, n, n, 8, 8}; }

TEST_P(Masks, BidirectionalSeesEveryKeyByAbsoluteDistance) {
  for (const auto& [queries, keys] : {std::pair{1, 1}, {1, 40}, {2, 2}, {17, 40}, {40, 17}, {65, 130}}) {
    for (const int transform : {0, 1, 8}) {
      EXPECT_TRUE(right(backend(), problem({1, 2, 1, queries, keys, 8, 8}, {.transform = transform_choice(transform, 2),
                                                                            .mask = Mask::bidirectional})));
    }
  }
}

TEST_P(Masks, WindowKeepsDistancesBelowIt) {
  for (const Mask mask : {Mask::causal, Mask::bidirectional}) {
    for (const std::int64_t n : {1, 2, 33, 97}) {
      for (const std::int64_t window : {1, 2, 3, 8, 15, 16, 17, 32, 33, 96, 97, 98}) {
        EXPECT_TRUE(right(backend(), problem(square(n), {.mask = mask, .window = window})));
      }
    }
  }
}

/// One query, whose window leaves the first keys, the first tiles, or all but one key behind.
TEST_P(Masks, WindowOfOneQueryBeforeManyKeys) {
  for (const std::int64_t window : {1, 2, 16, 17, 100, 129, 255, 256, 257, 299, 300, 301}) {
    EXPECT_TRUE(right(backend(), problem({1, 2, 1, 1, 300, 8, 8}, {.window = window})));
  }
}

TEST_P(Masks, WindowAtLeastAsLongAsTheSequenceIsNoWindow) {
  for (const Mask mask : {Mask::causal, Mask::bidirectional}) {
    for (const std::int64_t queries : {1, 5, 129}) {
      const auto bits = [&](std::optional<std::int64_t> window) {
        ProblemData data(problem({1, 1, 1, queries, 129, 8, 8}, {.mask = mask, .window = window}));
        data.fill_gaussian(1);
        EXPECT_TRUE(right(backend(), data));
        return bits_of(data);
      };
      const Bits without = bits(std::nullopt);
      for (const std::int64_t window :
           {std::int64_t{129}, std::int64_t{130}, kLastPosition, std::numeric_limits<std::int64_t>::max()}) {
        EXPECT_EQ(bits(window), without) << "window " << window;
      }
    }
  }
}

TEST_P(Masks, LengthsEndEachSequenceOfABatchEarly) {
  for (const Mask mask : {Mask::causal, Mask::bidirectional}) {
    for (const std::int64_t queries : {1, 9, 33}) {
      ProblemData data(problem({6, 2, 1, queries, 70, 8, 8}, {.mask = mask}));
      data.fill_gaussian(1);
      data.kv_lengths = {70, 69, 33, 1, 0, 64};
      EXPECT_TRUE(right(backend(), data));
      data.query_lengths = {queries, queries - 1, 1, queries / 2, queries, 0};
      EXPECT_TRUE(right(backend(), data));
      data.kv_lengths = {};
      EXPECT_TRUE(right(backend(), data));
    }
  }
}

TEST_P(Masks, RowsPastTheQueryLengthAreWrittenAsRowsThatSeeNoKey) {
  for (const std::int64_t queries : {5, 40}) {
    ProblemData data(problem({2, 1, 1, queries, 40, 8, 8}));
    data.fill_gaussian(1);
    data.query_lengths = {3, 0};
    ASSERT_TRUE(right(backend(), data));
    for (std::int64_t i = 3; i < queries; ++i) expect_row(backend(), data, {0, 0, i}, 0, -kInfinity);
    for (std::int64_t i = 0; i < queries; ++i) expect_row(backend(), data, {1, 0, i}, 0, -kInfinity);
  }
}

/// The result with NaN and infinities wherever nothing may be read is, bit by bit, the result with ordinary numbers.
TEST_P(Masks, NanOrInfinityBehindAMaskDoesNotLeak) {
  const double poisons[] = {std::nan(""), kInfinity, -kInfinity};
  for (const std::int64_t queries : {1, 5, 33}) {
    for (const std::int64_t window : {4, 1000}) {
      ProblemData data(problem({2, 2, 1, queries, 70, 8, 24}, {.window = window, .query_offset = 30 - queries}));
      data.query_lengths = {queries, queries - 1};
      data.kv_lengths = {70, 21};
      data.fill_gaussian(1);
      ASSERT_TRUE(right(backend(), data));
      const Bits clean = bits_of(data);
      for (const double poison : poisons) {
        for (std::int64_t d = 0; d < 24; ++d) {
          const auto poison_key = [&](std::int64_t b, std::int64_t j) {
            if (d < 8) data.key.set(b, 0, j, d, poison);
            data.value.set(b, 0, j, d, poison);
          };
          for (std::int64_t j = 30; j < 70; ++j) poison_key(0, j);                     // after the last query
          for (std::int64_t j = 0; j <= 30 - queries - window; ++j) poison_key(0, j);  // before the first window
          for (std::int64_t j = 21; j < 70; ++j) poison_key(1, j);                     // past the sequence's keys
          if (d < 8) data.query.set(1, 1, queries - 1, d, poison);                     // past its queries
        }
        ASSERT_TRUE(run(backend(), data).ok());
        EXPECT_EQ(bits_of(data), clean) << poison << ", " << text_of(data.problem());
      }
    }
  }
}

/// Queries of one tile see different keys: what is behind the mask of one row may be in front of another's.
TEST_P(Masks, NanReachesExactlyTheRowsThatSeeIt) {
  for (const std::int64_t bad : {0, 3, 15, 16, 39}) {
    ProblemData data(problem(square(40), {.window = 20}));
    data.fill_gaussian(1);
    data.key.set(0, 0, bad, 7, std::nan(""));
    ASSERT_TRUE(right(backend(), data));
    for (std::int64_t i = 0; i < 40; ++i) {
      const bool sees = bad <= i && i - bad < 20;
      EXPECT_EQ(std::isnan(data.lse.get(0, 0, i, 0)), sees) << "key " << bad << ", row " << i;
      for (std::int64_t c = 0; c < 8; ++c) EXPECT_EQ(std::isnan(data.out.get(0, 0, i, c)), sees) << "row " << i;
    }
  }
}

/// A NaN in a value belongs to no logit: it reaches its channel of out, in the rows that see it, and nothing else. So
/// does an infinity.
TEST_P(Masks, NanOrInfinityInAValueReachesItsChannel) {
  for (const double bad : {std::nan(""), kInfinity}) {
    for (const std::int64_t queries : {1, 5, 40}) {
      ProblemData data(problem({1, 1, 1, queries, 40, 8, 40}, {.window = 20}));
      data.fill_gaussian(1);
      const std::int64_t key = 39 - queries / 2;
      data.value.set(0, 0, key, 33, bad);
      ASSERT_TRUE(right(backend(), data));
      for (std::int64_t i = 0; i < queries; ++i) {
        const std::int64_t t = 40 - queries + i - key;
        for (std::int64_t c = 0; c < 40; ++c) {
          const bool reached = c == 33 && t >= 0 && t < 20;
          EXPECT_EQ(!std::isfinite(data.out.get(0, 0, i, c)), reached) << bad << ", row " << i << ", channel " << c;
        }
        EXPECT_TRUE(std::isfinite(data.lse.get(0, 0, i, 0)));
      }
    }
  }
}

TEST_P(Masks, NanInAQueryReachesItsRow) {
  for (const std::int64_t queries : {1, 5, 40}) {
    for (const std::int64_t bad : {std::int64_t{0}, queries / 2, queries - 1}) {
      ProblemData data(problem({1, 2, 1, queries, 40, 8, 8}));
      data.fill_gaussian(1);
      data.query.set(0, 1, bad, 5, std::nan(""));
      ASSERT_TRUE(right(backend(), data));
      for (std::int64_t i = 0; i < queries; ++i) {
        EXPECT_EQ(std::isnan(data.out.get(0, 1, i, 0)), i == bad);
        EXPECT_FALSE(std::isnan(data.lse.get(0, 0, i, 0)));
      }
    }
  }
}

TEST_P(Masks, SinksAreTheFirstKeysUntransformed) {
  for (const std::int64_t sinks : {1, 2, 5, 15, 16, 17, 40, 41, 1000}) {
    for (const std::int64_t queries : {1, 5, 40}) {
      for (const int transform : {0, 2, 6, 9}) {
        EXPECT_TRUE(right(backend(), problem({1, 2, 1, queries, 40, 8, 8},
                                             {.transform = transform_choice(transform, 2), .n_sink = sinks})));
      }
    }
  }
}

/// More of them than a tile of keys holds, or than are computed in one piece.
TEST_P(Masks, ManySinks) {
  for (const std::int64_t sinks : {200, 257, 300, 1100}) {
    for (const std::int64_t queries : {1, 12}) {
      EXPECT_TRUE(right(backend(), problem({1, 1, 1, queries, 1300, 4, 4}, {.n_sink = sinks})));
    }
  }
}

TEST_P(Masks, ApplyToSinksAsToEveryKey) {
  for (const Mask mask : {Mask::causal, Mask::bidirectional}) {
    for (const std::int64_t window : {1, 10, 30}) {
      ProblemData data(
          problem({2, 2, 1, 40, 40, 8, 8}, {.mask = mask, .window = window, .query_offset = -3, .n_sink = 6}));
      data.fill_gaussian(1);
      data.kv_lengths = {40, 4};
      EXPECT_TRUE(right(backend(), data));
    }
  }
}

TEST_P(Masks, SinksForAllKeysEqualNoTransform) {
  for (const std::int64_t queries : {1, 40}) {
    ProblemData sinks(problem({1, 1, 1, queries, 40, 8, 8}, {.n_sink = 40}));
    sinks.fill_gaussian(1);
    ASSERT_TRUE(right(backend(), sinks));
    ProblemData plain(problem(sinks.problem().shape, {.transform = NoTransform{}}));
    plain.fill_gaussian(1);
    // Judged against the plain problem's reference.
    for (std::int64_t i = 0; i < queries; ++i) {
      for (std::int64_t c = 0; c < 8; ++c) plain.out.set(0, 0, i, c, sinks.out.get(0, 0, i, c));
      plain.lse.set(0, 0, i, 0, sinks.lse.get(0, 0, i, 0));
    }
    EXPECT_TRUE(agrees(backend(), plain));
  }
}

SIATTN_FOR_EVERY_TARGET(Masks);

}  // namespace
}  // namespace siattn::test
