// SPDX-License-Identifier: Apache-2.0
// The contract, "Positions" and "Agreement": where queries stand, and that it does not matter in which pieces they come.
#include "tests/support.hpp"

namespace siattn::test {
namespace {

class Positions : public TargetTest {
 protected:
  /// Computes queries [first, last) of `whole` by themselves, at their places among the keys so far, and returns the
  /// result in the outputs of `whole`.
  Status run_chunk(ProblemData& whole, std::int64_t first, std::int64_t last, std::int64_t kv_len) const {
    AttentionTensors tensors = whole.tensors();
    tensors.query = part(tensors.query, 2, first, last);
    tensors.out = part(tensors.out, 2, first, last);
    tensors.lse = part(tensors.lse, 2, first, last);
    tensors.key = part(tensors.key, 2, 0, kv_len);
    tensors.value = part(tensors.value, 2, 0, kv_len);
    return run(backend(), siattn::problem_of(tensors, whole.problem().options), tensors);
  }
};

/// With the last query beside the last key, as when a cache of kv_len - query_len tokens is continued.
TEST_P(Positions, DefaultOffsetPutsTheLastQueryBesideTheLastKey) {
  for (const std::int64_t queries : {1, 2, 7, 40}) {
    AttentionOptions options{.transform = ScaleInvariant{.tau = 1.0}};
    ProblemData by_default(problem({.query_len = queries, .kv_len = 40, .head_dim = 8, .value_dim = 8}, options));
    by_default.fill_gaussian(1);
    ASSERT_TRUE(right(backend(), by_default));
    options.query_offset = 40 - queries;
    ProblemData given(problem(by_default.problem().shape, options));
    given.fill_gaussian(1);
    ASSERT_TRUE(right(backend(), given));
    EXPECT_EQ(bits_of(by_default), bits_of(given));
  }
}

TEST_P(Positions, OffsetMayBeAnyNumber) {
  for (const Mask mask : {Mask::causal, Mask::bidirectional}) {
    for (const std::int64_t queries : {1, 5, 40}) {
      for (const std::int64_t offset : {-100, -39, -38, -5, -1, 0, 1, 15, 16, 17, 31, 32, 100, 1000}) {
        EXPECT_TRUE(right(backend(), problem({.query_len = queries, .kv_len = 35, .head_dim = 8, .value_dim = 8},
                                             {.mask = mask, .query_offset = offset})));
      }
    }
  }
}

/// Distances of 2^31 and beyond, though both ends are 32-bit positions.
TEST_P(Positions, ReachTwoToThe31MinusOneOnEitherSideOfZero) {
  for (const std::int64_t queries : {1, 5, 40}) {
    for (const std::int64_t offset : {kLastPosition - (queries - 1), kLastPosition / 2, -kLastPosition}) {
      for (const Mask mask : {Mask::causal, Mask::bidirectional}) {
        for (const int transform : {0, 4, 5, 9}) {
          EXPECT_TRUE(right(
              backend(), problem({.query_len = queries, .kv_len = 35, .head_dim = 8, .value_dim = 8},
                                 {.transform = transform_choice(transform, 1), .mask = mask, .query_offset = offset})));
        }
      }
    }
  }
}

TEST_P(Positions, RowsBeforeTheFirstKeySeeNone) {
  ProblemData data(problem({.query_len = 40, .kv_len = 35, .head_dim = 8, .value_dim = 8}, {.query_offset = -20}));
  data.fill_gaussian(1);
  ASSERT_TRUE(right(backend(), data));
  for (const std::int64_t i : {0, 1, 15, 16, 19}) expect_row(backend(), data, {0, 0, i}, 0, -kInfinity);
  EXPECT_TRUE(std::isfinite(data.lse.get(0, 0, 20, 0)));
}

TEST_P(Positions, PrefillInChunksAgreesWithPrefill) {
  ProblemData data(problem(
      {.batch = 2, .query_heads = 4, .kv_heads = 2, .query_len = 64, .kv_len = 64, .head_dim = 16, .value_dim = 24}));
  data.fill_gaussian(1);
  for (const auto& cuts :
       {std::vector<std::int64_t>{0, 64}, {0, 3, 4, 64}, {0, 17, 33, 50, 64}, {0, 1, 2, 3, 35, 64}}) {
    data.clear_outputs();
    for (std::size_t k = 1; k < cuts.size(); ++k) ASSERT_TRUE(run_chunk(data, cuts[k - 1], cuts[k], cuts[k]).ok());
    EXPECT_TRUE(agrees(backend(), data));
  }
}

TEST_P(Positions, TokenByTokenDecodingAgreesWithPrefill) {
  for (const int transform : {0, 5, 8}) {
    AttentionOptions options{.transform = transform_choice(transform, 4), .n_sink = 2};
    ProblemData data(problem(
        {.query_heads = 4, .kv_heads = 2, .query_len = 64, .kv_len = 64, .head_dim = 16, .value_dim = 24}, options));
    data.fill_gaussian(1);
    data.clear_outputs();
    for (std::int64_t p = 0; p < 64; ++p) ASSERT_TRUE(run_chunk(data, p, p + 1, p + 1).ok());
    EXPECT_TRUE(agrees(backend(), data));
  }
}

TEST_P(Positions, GroupedHeadsEqualRepeatedKvHeads) {
  for (const std::int64_t queries : {1, 5, 40}) {
    ProblemData grouped(problem(
        {.query_heads = 6, .kv_heads = 2, .query_len = queries, .kv_len = 40, .head_dim = 16, .value_dim = 24}));
    grouped.fill_gaussian(1);
    grouped.clear_outputs();
    // For each kv head its three query heads, as a problem that has the kv head three times over: by a stride of zero.
    for (std::int64_t g = 0; g < 2; ++g) {
      AttentionTensors repeated = grouped.tensors();
      repeated.query = part(repeated.query, 1, 3 * g, 3 * g + 3);
      repeated.out = part(repeated.out, 1, 3 * g, 3 * g + 3);
      repeated.lse = part(repeated.lse, 1, 3 * g, 3 * g + 3);
      for (TensorView* view : {&repeated.key, &repeated.value}) {
        *view = part(*view, 1, g, g + 1);
        view->shape[1] = 3;
        view->strides[1] = 0;
      }
      ASSERT_TRUE(run(backend(), siattn::problem_of(repeated, grouped.problem().options), repeated).ok());
    }
    EXPECT_TRUE(agrees(backend(), grouped));
  }
}

SIATTN_FOR_EVERY_TARGET(Positions);

}  // namespace
}  // namespace siattn::test
