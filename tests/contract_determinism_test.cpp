// SPDX-License-Identifier: Apache-2.0
// The contract, "Determinism": the same bits for any number of threads, any other sequences in the batch, every run.
#include "tests/support.hpp"

namespace siattn::test {
namespace {

class Determinism : public TargetTest {
 protected:
  /// The only sequence of `alone` becomes sequence `place` of `batch`; what the batch has beyond it stays.
  static void put(const ProblemData& alone, ProblemData& batch, std::int64_t place) {
    const auto copy = [place](const verify::GuardedTensor& from, verify::GuardedTensor& to) {
      const Shape4 shape = from.view().shape;
      for (std::int64_t h = 0; h < shape[1]; ++h) {
        for (std::int64_t i = 0; i < shape[2]; ++i) {
          for (std::int64_t d = 0; d < shape[3]; ++d) to.set(place, h, i, d, from.get(0, h, i, d));
        }
      }
    };
    copy(alone.query, batch.query);
    copy(alone.key, batch.key);
    copy(alone.value, batch.value);
  }

  /// Out and lse of the first `rows` queries of one sequence.
  static std::vector<double> results(const ProblemData& data, std::int64_t b, std::int64_t rows) {
    std::vector<double> values;
    const AttentionShape& s = data.problem().shape;
    for (std::int64_t h = 0; h < s.query_heads; ++h) {
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t c = 0; c < s.value_dim; ++c) values.push_back(data.out.get(b, h, i, c));
        values.push_back(data.lse.get(b, h, i, 0));
      }
    }
    return values;
  }
};

TEST_P(Determinism, ThreadsChangeNoBit) {
  const auto expect_same_bits = [this](const AttentionShape& shape, const AttentionOptions& options) {
    ProblemData data(problem(shape, options));
    data.fill_gaussian(1);
    ASSERT_TRUE(run(backend(), data, 1).ok());
    const Bits alone = bits_of(data);
    for (const int threads : {2, 3, 7}) {
      ASSERT_TRUE(run(backend(), data, threads).ok());
      EXPECT_EQ(bits_of(data), alone) << threads << " threads, " << text_of(data.problem());
    }
  };
  for (const AttentionShape& shape : {AttentionShape{1, 1, 1, 1, 1000, 64, 64},
                                      {1, 4, 2, 1, 300, 64, 64},
                                      {1, 1, 1, 5, 1000, 16, 16},
                                      {1, 2, 1, 130, 130, 16, 16},
                                      {3, 3, 3, 7, 65, 9, 17},
                                      {7, 2, 2, 1, 5000, 4, 4}}) {
    expect_same_bits(shape, {});
  }
  // Queries enough to be cut differently for each number of threads, and windows that begin anywhere in a tile of keys.
  expect_same_bits({1, 1, 1, 700, 700, 8, 8}, {.window = 300});
  expect_same_bits({1, 2, 1, 400, 700, 8, 8}, {.mask = Mask::bidirectional, .window = 100});
}

TEST_P(Determinism, ThirtyRunsGiveTheSameBits) {
  for (const std::int64_t queries : {1, 40}) {
    ProblemData data(problem({2, 2, 1, queries, 300, 16, 16}));
    data.fill_gaussian(1);
    ASSERT_TRUE(run(backend(), data, 3).ok());
    const Bits first = bits_of(data);
    for (int k = 0; k < 30; ++k) {
      ASSERT_TRUE(run(backend(), data, 3).ok());
      ASSERT_EQ(bits_of(data), first) << "run " << k;
    }
  }
}

/// One sequence of 1000 keys: alone, and in the first, a middle and the last place of a batch of 64.
TEST_P(Determinism, OtherSequencesOfTheBatchChangeNoBit) {
  const AttentionShape shape{1, 2, 1, 1, 1000, 64, 64};
  ProblemData alone(problem(shape));
  alone.fill_gaussian(1);
  ASSERT_TRUE(run(backend(), alone).ok());
  AttentionShape many = shape;
  many.batch = backend().family() == "reference" ? 8 : 64;
  ProblemData batch(problem(many));
  batch.fill([](auto...) { return 0.5; }, [](auto...) { return 1.0; }, [](auto...) { return std::nan(""); });
  for (const std::int64_t place : {std::int64_t{0}, many.batch / 2, many.batch - 1}) put(alone, batch, place);
  ASSERT_TRUE(run(backend(), batch).ok());
  for (const std::int64_t place : {std::int64_t{0}, many.batch / 2, many.batch - 1}) {
    EXPECT_EQ(results(batch, place, 1), results(alone, 0, 1)) << "place " << place;
  }
}

/// A sequence alone, and the same beside longer ones, behind padding that holds NaN.
TEST_P(Determinism, PaddingOfShorterSequencesChangesNoBit) {
  for (const std::int64_t queries : {1, 3, 40}) {
    for (const std::int64_t keys : {1, 17, 64, 100}) {
      for (const Mask mask : {Mask::causal, Mask::bidirectional}) {
        ProblemData alone(problem({1, 2, 1, queries, keys, 16, 16}, {.mask = mask}));
        alone.fill_gaussian(1);
        ASSERT_TRUE(run(backend(), alone).ok());
        ProblemData padded(problem({3, 2, 1, queries + 9, 300, 16, 16}, {.mask = mask}));
        padded.fill([](auto...) { return std::nan(""); }, [](auto...) { return std::nan(""); },
                    [](auto...) { return std::nan(""); });
        put(alone, padded, 1);
        padded.query_lengths = {queries + 9, queries, 1};
        padded.kv_lengths = {300, keys, 2};
        ASSERT_TRUE(run(backend(), padded).ok());
        EXPECT_EQ(results(padded, 1, queries), results(alone, 0, queries)) << text_of(alone.problem());
      }
    }
  }
}

SIATTN_FOR_EVERY_TARGET(Determinism);

}  // namespace
}  // namespace siattn::test
