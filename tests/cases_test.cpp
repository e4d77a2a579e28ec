// SPDX-License-Identifier: Apache-2.0
// Failures seen in other attention software, with the answers that are right, and their neighbours.
#include <cmath>

#include "tests/support.hpp"

namespace siattn::test {
namespace {

class Cases : public TargetTest {
 protected:
  ProblemData h_inputs(const AttentionShape& shape, AttentionOptions options = {}) const {
    options.transform = ScaleInvariant{.tau = 1.0};
    options.softmax_scale = 1.0;
    ProblemData data(problem(shape, options));
    data.fill_h_inputs();
    return data;
  }

  /// Row i holds the row of H-inputs whose query stands at `position` before keys 0 .. position.
  void expect_h_row(ProblemData& data, const std::array<std::int64_t, 3>& at, int position) const {
    constexpr std::pair<double, double> rows[] = {{0, 0},
                                                  {4.0 / 5, .22314355131420976},
                                                  {81.0 / 49, .30830135965451661},
                                                  {104.0 / 41, .35319667956240757},
                                                  {18125.0 / 5269, .38090674576508441}};
    expect_row(backend(), data, at, rows[position].first, rows[position].second);
  }
};

/// Elsewhere: NaN.
TEST_P(Cases, RowsBeforeTheFirstKeyAreZero) {
  ProblemData data = h_inputs({1, 1, 1, 5, 2, 8, 8});  // query_offset is -3
  ASSERT_TRUE(right(backend(), data));
  for (const std::int64_t i : {0, 1, 2}) expect_row(backend(), data, {0, 0, i}, 0, -kInfinity);
  expect_h_row(data, {0, 0, 3}, 0);
  expect_h_row(data, {0, 0, 4}, 1);
}

/// Elsewhere: a mask aligned to the top left, by which one query sees key 0 alone.
TEST_P(Cases, OneQuerySeesAllKeysThatWereThereBefore) {
  for (const std::int64_t n : {1, 2, 3, 4, 5}) {
    ProblemData data = h_inputs({1, 1, 1, 1, n, 8, 8});
    ASSERT_TRUE(right(backend(), data));
    expect_h_row(data, {0, 0, 0}, static_cast<int>(n - 1));
  }
}

/// Elsewhere: 2.65306, the row of a window of 3.
TEST_P(Cases, WindowOfTwoIsTheQueryAndTheKeyBefore) {
  for (const std::int64_t queries : {1, 4}) {
    ProblemData data = h_inputs({1, 1, 1, queries, 4, 8, 8}, {.window = 2});
    ASSERT_TRUE(right(backend(), data));
    expect_row(backend(), data, {0, 0, queries - 1}, 2.8, .22314355131420976);
  }
}

/// Elsewhere: the oldest key lost at one of them.
TEST_P(Cases, WindowsAsLongAsTheSequence) {
  for (const std::int64_t queries : {1, 257}) {
    const auto bits = [&](std::optional<std::int64_t> window) {
      ProblemData data = h_inputs({1, 1, 1, queries, 257, 8, 8}, {.window = window});
      EXPECT_TRUE(right(backend(), data));
      return bits_of(data);
    };
    EXPECT_EQ(bits(257), bits(std::nullopt));
    EXPECT_NE(bits(256), bits(std::nullopt));
  }
}

/// Elsewhere: NaN everywhere.
TEST_P(Cases, NanInKeyThreeStaysInRowsThreeAndFour) {
  for (const double poison : {std::nan(""), kInfinity}) {
    ProblemData data = h_inputs({1, 1, 1, 5, 5, 8, 8});
    for (std::int64_t d = 0; d < 8; ++d) {
      data.key.set(0, 0, 3, d, poison);  // 0 times infinity is NaN too
      data.value.set(0, 0, 3, d, poison);
    }
    ASSERT_TRUE(run(backend(), data).ok());
    for (const int i : {0, 1, 2}) {
      // The bound needs the row alone, which sees nothing of this.
      expect_h_row(data, {0, 0, i}, i);
    }
    for (const std::int64_t i : {3, 4}) {
      for (std::int64_t d = 0; d < 8; ++d) EXPECT_TRUE(std::isnan(data.out.get(0, 0, i, d)));
      EXPECT_TRUE(std::isnan(data.lse.get(0, 0, i, 0)));
    }
  }
}

/// Elsewhere: a bogus shape error, a crash.
TEST_P(Cases, SequenceWithoutQueriesAmongOthers) {
  ProblemData data = h_inputs({3, 9, 3, 1, 5, 64, 64});
  data.query_lengths = {1, 0, 1};
  data.kv_lengths = {3, 0, 5};
  ASSERT_TRUE(right(backend(), data));
  for (std::int64_t h = 0; h < 9; ++h) {
    expect_h_row(data, {0, h, 0}, 2);
    expect_row(backend(), data, {1, h, 0}, 0, -kInfinity);
    expect_h_row(data, {2, h, 0}, 4);
  }
}

/// Elsewhere: +infinity, a division by zero.
TEST_P(Cases, NoKeysAtAll) {
  for (const Mask mask : {Mask::causal, Mask::bidirectional}) {
    ProblemData data = h_inputs({1, 9, 3, 2, 0, 64, 64}, {.mask = mask});
    ASSERT_TRUE(right(backend(), data));
    for (const std::int64_t i : {0, 1}) expect_row(backend(), data, {0, 8, i}, 0, -kInfinity);
  }
}

/// The only nonzero dimension is the last. Elsewhere: 0.8, the answer without it.
TEST_P(Cases, LastDimensionOfTheHead) {
  for (const std::int64_t d : {1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 80, 96, 127, 128, 129, 256, 512}) {
    const double key = 0.89741525801397862;  // L_1 = a_1 k - 2 ln 2 equals L_0 = 0
    ProblemData data = h_inputs({1, 1, 1, 2, 2, d, 1});
    data.query.set(0, 0, 1, d - 1, 1);
    data.key.set(0, 0, 0, d - 1, key);
    ASSERT_TRUE(right(backend(), data));
    // The type of the key rounds it: by that much of a logit, of which 1/4 and 1/2 reach out and lse.
    const double rounded = 1.6 * std::abs(data.key.get(0, 0, 0, d - 1) - key);
    const verify::RowBound bound = bound_of(backend(), data, 0, 0, 1);
    EXPECT_NEAR(data.out.get(0, 0, 1, 0), 0.5, bound.out[0].total() + rounded / 4) << d;
    EXPECT_NEAR(data.lse.get(0, 0, 1, 0), .69314718055994531, bound.lse.total() + rounded / 2) << d;
  }
}

/// Elsewhere: zeros, from a maximum that starts at a large negative number.
TEST_P(Cases, AllLogitsFarBelowZero) {
  for (const double logit : {-1000.0, -60000.0}) {
    for (const std::int64_t queries : {1, 4}) {
      ProblemData data(problem({1, 1, 1, queries, 4, 1, 1},
                               {.transform = ScaleInvariant{.tau = 1.0}, .softmax_scale = -logit / 1000}));
      data.fill([](auto...) { return 1.0; }, [](auto...) { return -1000.0; },
                [](auto, auto, std::int64_t j, auto) { return static_cast<double>(j); });
      ASSERT_TRUE(right(backend(), data));
      expect_row(backend(), data, {0, 0, queries - 1}, 3.0, logit);
    }
  }
}

/// Elsewhere: flushed to zero by a library that was linked with fast arithmetic.
TEST_P(Cases, SubnormalValueOfTheOnlyKey) {
  if (dtype() != DType::float32) return;
  ProblemData data = h_inputs({1, 1, 1, 1, 1, 1, 1});
  data.value.set(0, 0, 0, 0, 1e-40);
  ASSERT_TRUE(run(backend(), data).ok());
  EXPECT_EQ(std::bit_cast<std::uint32_t>(static_cast<float>(data.out.get(0, 0, 0, 0))), 0x000116c2u);
}

/// Elsewhere: one head too few, read out of bounds.
TEST_P(Cases, HeadsThatDoNotDivideAreAnError) {
  for (const auto& [heads, kv_heads] : {std::pair{3, 2}, {33, 2}, {2, 3}, {4, 0}}) {
    ProblemData data(problem({1, heads, kv_heads, 2, 2, 8, 8}));
    const Bits before = bits_of(data);
    const Status status = run(backend(), data);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_NE(status.message().find("kv_heads = " + std::to_string(kv_heads)), std::string::npos) << status.message();
    EXPECT_EQ(bits_of(data), before);
  }
}

SIATTN_FOR_EVERY_TARGET(Cases);

/// Elsewhere: a first slope of 1 where heads are no power of two.
TEST(AlibiSlopes, ArePublishedOnes) {
  EXPECT_EQ(alibi_slopes(6), (std::vector<double>{1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256, 1.0 / 2, 1.0 / 8}));
  EXPECT_EQ(alibi_slopes(8), (std::vector<double>{.5, .25, .125, .0625, .03125, .015625, .0078125, .00390625}));
  EXPECT_EQ(alibi_slopes(1), std::vector<double>{0x1p-8});
  EXPECT_TRUE(alibi_slopes(0).empty());
  const std::vector<double> twelve = alibi_slopes(12);
  ASSERT_EQ(twelve.size(), 12u);
  for (int h = 0; h < 12; ++h) EXPECT_NEAR(twelve[h], std::exp2(h < 8 ? -(h + 1) : -(h - 8) - 0.5), 1e-16) << h;
}

}  // namespace
}  // namespace siattn::test
