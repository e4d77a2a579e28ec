// SPDX-License-Identifier: Apache-2.0
// As contract_pairwise_test.cpp, with every extent that ends a loop, a vector, a register block or a tile.
#include "tests/support.hpp"

namespace siattn::test {
namespace {

class PairwiseFull : public TargetTest {};

TEST_P(PairwiseFull, EveryPairOfCircumstances) {
  const std::vector<Recipe> recipes = pairwise(
      {{&Recipe::kv_len, {0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129, 255, 256, 257}},
       {&Recipe::query_len, {0, 1, 2, 3, 5, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 95, 96, 97, 129}},
       {&Recipe::head_dim, {1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 80, 96, 127, 128, 129, 256}},
       {&Recipe::value_dim, {1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 80, 96, 127, 128, 129, 256}},
       {&Recipe::batch, {0, 1, 2, 3}},
       {&Recipe::kv_heads, {1, 2}},
       {&Recipe::group, {1, 2, 3, 8}},
       {&Recipe::mask, {0, 1}},
       {&Recipe::window, {0, 1, 2, 16, 33, 100, 1000}},
       {&Recipe::offset, {0, 1, 2, 3}},
       {&Recipe::sinks, {0, 1, 4, 17, 300}},
       {&Recipe::transform, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
       {&Recipe::lengths, {0, 1}},
       {&Recipe::placement, {0, 1, 2}}});
  int threads = 0;
  for (Recipe recipe : recipes) {
    recipe.seed = 2;
    ProblemData data = data_of(recipe, dtype());
    EXPECT_TRUE(right(backend(), data, 1 + threads++ % 4));
  }
}

SIATTN_FOR_EVERY_TARGET(PairwiseFull);

}  // namespace
}  // namespace siattn::test
