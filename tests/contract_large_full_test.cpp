// SPDX-License-Identifier: Apache-2.0
// The contract at lengths where keys are split over threads, tiles are many and sums are long.
#include "tests/support.hpp"

namespace siattn::test {
namespace {

class Large : public TargetTest {};

TEST_P(Large, PrefillOfManyTiles) {
  for (const AttentionShape& shape : {AttentionShape{1, 2, 1, 1025, 1025, 64, 64}, {1, 1, 1, 513, 2049, 33, 80}}) {
    for (const Mask mask : {Mask::causal, Mask::bidirectional}) {
      ProblemData data(problem(shape, {.mask = mask, .n_sink = 1}));
      data.fill_gaussian(1);
      EXPECT_TRUE(right(backend(), data, 2));
    }
  }
}

TEST_P(Large, OneQueryBeforeManyKeys) {
  for (const std::int64_t n : {1000, 4095, 4096, 4097, 16385, 70001}) {
    for (const int choice : {0, 5, 8}) {
      ProblemData data(problem({1, 4, 2, 1, n, 64, 64}, {.transform = transform_choice(choice, 4), .n_sink = 4}));
      data.fill_gaussian(1);
      EXPECT_TRUE(right(backend(), data, 3));
    }
  }
}

TEST_P(Large, ThreadsAndRunsChangeNoBit) {
  for (const AttentionShape& shape : {AttentionShape{1, 2, 1, 1, 40001, 64, 64},
                                      {1, 1, 1, 8, 20000, 64, 64},
                                      {2, 2, 1, 700, 700, 64, 64},
                                      {64, 2, 1, 1, 1000, 64, 64}}) {
    ProblemData data(problem(shape));
    data.fill_gaussian(1);
    ASSERT_TRUE(run(backend(), data, 1).ok());
    const Bits alone = bits_of(data);
    for (const int threads : {2, 3, 7, 16}) {
      for (int k = 0; k < 5; ++k) {
        ASSERT_TRUE(run(backend(), data, threads).ok());
        ASSERT_EQ(bits_of(data), alone) << threads << " threads, " << text_of(data.problem());
      }
    }
  }
}

/// A window that leaves nearly all keys behind, and lengths that end most sequences early.
TEST_P(Large, SmallPartsOfLongSequences) {
  ProblemData windowed(problem({1, 2, 1, 600, 3000, 32, 32}, {.window = 100}));
  windowed.fill_gaussian(1);
  EXPECT_TRUE(right(backend(), windowed, 2));
  ProblemData ragged(problem({5, 2, 1, 100, 3000, 32, 32}));
  ragged.fill_gaussian(1);
  ragged.kv_lengths = {3000, 1, 0, 129, 2000};
  ragged.query_lengths = {100, 100, 1, 77, 0};
  EXPECT_TRUE(right(backend(), ragged, 2));
}

/// The reference against itself tells nothing that shorter sequences do not.
std::vector<Target> fused_targets() {
  std::vector<Target> list = targets();
  std::erase_if(list, [](const Target& t) { return t.backend->family() == "reference"; });
  return list;
}

INSTANTIATE_TEST_SUITE_P(, Large, ::testing::ValuesIn(fused_targets()), target_name);

}  // namespace
}  // namespace siattn::test
