// SPDX-License-Identifier: Apache-2.0
// The contract, "Shapes": any extents, on every backend and type.
#include "tests/support.hpp"

namespace siattn::test {
namespace {

class Shapes : public TargetTest {};

/// Ends of loops, vectors, register blocks and tiles, from both sides.
constexpr std::int64_t kLengths[] = {1,  2,  3,  15, 16,  17,  31,  32,  33,  63, 64,
                                     65, 95, 96, 97, 127, 128, 129, 255, 256, 257};

TEST_P(Shapes, PrefillOfEveryLength) {
  for (const std::int64_t n : kLengths) {
    EXPECT_TRUE(right(backend(), problem({.query_len = n, .kv_len = n, .head_dim = 8, .value_dim = 8})));
  }
}

/// Queries and keys in several tiles each, the last of them not full.
TEST_P(Shapes, PrefillOfSeveralTiles) {
  for (const auto& [queries, keys] : {std::pair{300, 300}, {20, 520}, {200, 600}, {600, 200}}) {
    EXPECT_TRUE(right(backend(), problem({.query_len = queries, .kv_len = keys, .head_dim = 8, .value_dim = 8})));
  }
}

TEST_P(Shapes, OneQueryBeforeEveryNumberOfKeys) {
  for (const std::int64_t n : kLengths) {
    EXPECT_TRUE(
        right(backend(), problem({.query_heads = 3, .query_len = 1, .kv_len = n, .head_dim = 16, .value_dim = 16})));
  }
}

TEST_P(Shapes, EveryNumberOfQueriesBeforeTwoTilesOfKeys) {
  for (const std::int64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 16, 17, 23, 24, 25, 33, 47, 48, 49}) {
    EXPECT_TRUE(right(backend(), problem({.query_len = n, .kv_len = 130, .head_dim = 16, .value_dim = 16})));
  }
}

TEST_P(Shapes, EveryHeadDim) {
  for (const std::int64_t d : {1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 80, 96, 127, 128, 129, 256, 512}) {
    for (const std::int64_t queries : {1, 9}) {
      EXPECT_TRUE(right(backend(), problem({.query_len = queries, .kv_len = 19, .head_dim = d, .value_dim = d})));
    }
  }
}

TEST_P(Shapes, ValueDimMayDifferFromHeadDim) {
  for (const std::int64_t d : {1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 80, 96, 127, 128, 129, 256, 512}) {
    for (const std::int64_t queries : {1, 9}) {
      EXPECT_TRUE(right(backend(), problem({.query_len = queries, .kv_len = 19, .head_dim = 24, .value_dim = d})));
      EXPECT_TRUE(right(backend(), problem({.query_len = queries, .kv_len = 19, .head_dim = d, .value_dim = 40})));
    }
  }
}

TEST_P(Shapes, QueryHeadsAreAnyMultipleOfKvHeads) {
  for (const auto& [query_heads, kv_heads] :
       {std::pair{1, 1}, {3, 3}, {2, 1}, {4, 2}, {6, 2}, {9, 3}, {8, 1}, {16, 2}, {71, 1}}) {
    for (const std::int64_t queries : {1, 5}) {
      EXPECT_TRUE(right(backend(), problem({.batch = 2,
                                            .query_heads = query_heads,
                                            .kv_heads = kv_heads,
                                            .query_len = queries,
                                            .kv_len = 37,
                                            .head_dim = 16,
                                            .value_dim = 24})));
    }
  }
}

/// Kv head g holds 100 g everywhere, so out tells which one a query head read.
TEST_P(Shapes, QueryHeadReadsTheKvHeadOfItsGroup) {
  ProblemData data(
      problem({.query_heads = 4, .kv_heads = 2, .query_len = 1, .kv_len = 3, .head_dim = 8, .value_dim = 8}));
  const auto zero = [](auto...) { return 0.0; };
  data.fill(zero, zero, [](auto, std::int64_t g, auto...) { return 100.0 * static_cast<double>(g); });
  ASSERT_TRUE(right(backend(), data));
  for (const std::int64_t h : {0, 1, 2, 3}) EXPECT_EQ(data.out.get(0, h, 0, 0), h < 2 ? 0.0 : 100.0) << "head " << h;
}

TEST_P(Shapes, BatchQueryLenAndKvLenMayBeZero) {
  for (const AttentionShape& shape :
       {AttentionShape{0, 2, 1, 3, 4, 8, 8}, {2, 2, 1, 0, 4, 8, 8}, {2, 2, 1, 0, 0, 8, 8}}) {
    EXPECT_TRUE(right(backend(), problem(shape)));
  }
  for (const std::int64_t queries : {1, 3, 70}) {
    ProblemData data(problem({2, 2, 1, queries, 0, 8, 8}));
    ASSERT_TRUE(right(backend(), data));
    for (const std::int64_t i : {std::int64_t{0}, queries - 1}) expect_row(backend(), data, {1, 1, i}, 0, -kInfinity);
  }
}

TEST_P(Shapes, LseIsOptional) {
  for (const std::int64_t queries : {1, 3, 70}) {
    ProblemData data(problem({.query_heads = 2, .query_len = queries, .kv_len = 70, .head_dim = 16, .value_dim = 16}));
    data.fill_gaussian(1);
    ASSERT_TRUE(right(backend(), data));
    const auto with_lse = data.out.bits();
    data.clear_outputs();
    AttentionTensors tensors = data.tensors();
    tensors.lse = {};
    ASSERT_TRUE(run(backend(), data.problem(), tensors).ok());
    EXPECT_EQ(data.out.bits(), with_lse);
    EXPECT_TRUE(std::isnan(data.lse.get(0, 0, 0, 0)));
  }
}

/// Many small sequences: more of them than threads, and than any tile has rows.
TEST_P(Shapes, ManySmallSequences) {
  EXPECT_TRUE(
      right(backend(),
            problem({.batch = 101, .query_heads = 2, .query_len = 1, .kv_len = 5, .head_dim = 8, .value_dim = 8})));
  EXPECT_TRUE(right(
      backend(), problem({.batch = 11, .query_heads = 7, .query_len = 3, .kv_len = 3, .head_dim = 4, .value_dim = 5})));
}

/// Keys so many that they are computed in pieces, some of them by other threads, and merged.
TEST_P(Shapes, SeveralSequencesOfThousandsOfKeys) {
  for (const int threads : {1, 3}) {
    ProblemData data(problem(
        {.batch = 7, .query_heads = 2, .kv_heads = 2, .query_len = 1, .kv_len = 5000, .head_dim = 4, .value_dim = 4}));
    data.fill_gaussian(1);
    EXPECT_TRUE(right(backend(), data, threads));
  }
}

SIATTN_FOR_EVERY_TARGET(Shapes);

}  // namespace
}  // namespace siattn::test
