// SPDX-License-Identifier: Apache-2.0
// The whole contract at once: problems in which every value of each circumstance meets every value of each other.
#include "tests/support.hpp"

namespace siattn::test {
namespace {

class Pairwise : public TargetTest {};

TEST_P(Pairwise, EveryPairOfCircumstances) {
  const std::vector<Recipe> recipes = pairwise({{&Recipe::batch, {1, 3}},
                                                {&Recipe::kv_heads, {1, 2}},
                                                {&Recipe::group, {1, 2, 3}},
                                                {&Recipe::query_len, {1, 2, 8, 17, 33}},
                                                {&Recipe::kv_len, {1, 3, 16, 33, 65, 97}},
                                                {&Recipe::head_dim, {1, 7, 8, 17, 64}},
                                                {&Recipe::value_dim, {1, 9, 16, 33, 64}},
                                                {&Recipe::mask, {0, 1}},
                                                {&Recipe::window, {0, 1, 2, 20}},
                                                {&Recipe::offset, {0, 1, 2, 3}},
                                                {&Recipe::sinks, {0, 1, 5}},
                                                {&Recipe::transform, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
                                                {&Recipe::calibration, {0, 1, 2, 3}},
                                                {&Recipe::lengths, {0, 1}},
                                                {&Recipe::placement, {0, 1, 2}}});
  int threads = 0;
  for (const Recipe& recipe : recipes) {
    ProblemData data = data_of(recipe, dtype());
    EXPECT_TRUE(right(backend(), data, 1 + threads++ % 3));
  }
}

SIATTN_FOR_EVERY_TARGET(Pairwise);

}  // namespace
}  // namespace siattn::test
