// SPDX-License-Identifier: Apache-2.0
// What planning promises: memory that does not grow with the length, and tables no larger than the distances.
#include <gtest/gtest.h>

#include <siattn/attention.hpp>
#include <siattn/backend.hpp>

namespace siattn {
namespace {

AttentionProblem causal(std::int64_t heads, std::int64_t len, std::int64_t dim) {
  AttentionProblem problem;
  problem.shape = {1, heads, heads, len, len, dim, dim};
  return problem;
}

TEST(Plan, FusedBackendsNeedAtMostEightMebibytesAThreadAtAnyLength) {
  for (const Backend* backend : backends()) {
    if (!backend->available() || backend->family() == "reference") continue;
    for (const std::int64_t len : {1, 100, 4096, 131072, 1000000}) {
      for (const std::int64_t dim : {1, 64, 128, 512}) {
        for (const int threads : {1, 2, 16}) {
          const auto plan = AttentionPlan::create_on(*backend, causal(8, len, dim), {"", threads});
          ASSERT_TRUE(plan.ok()) << plan.status().message();
          EXPECT_LE(plan->workspace_bytes(), std::size_t{8} * 1024 * 1024 * static_cast<std::size_t>(threads))
              << backend->name() << ", len " << len << ", dim " << dim << ", threads " << threads;
        }
      }
    }
  }
}

TEST(Plan, TablesHoldTheDistancesThatOccurAndNoMore) {
  const auto long_plan = AttentionPlan::create(causal(32, 131072, 64), {.backend = "cpu"});
  ASSERT_TRUE(long_plan.ok());
  const LogitTables& tables = *long_plan->prepared().tables;
  EXPECT_EQ(tables.entries(), 131072 + 2 * LogitTables::padding);
  EXPECT_EQ(tables.scales.size(), static_cast<std::size_t>(tables.entries()));  // shared by the 32 heads

  AttentionProblem far = causal(1, 4, 64);
  far.shape.query_len = 1;
  far.options.query_offset = 2147483647;
  const auto far_plan = AttentionPlan::create(far, {.backend = "cpu"});
  ASSERT_TRUE(far_plan.ok());
  EXPECT_EQ(far_plan->prepared().tables->entries(), 4 + 2 * LogitTables::padding);
}

TEST(Plan, CopiesShareTheirTables) {
  const auto plan = AttentionPlan::create(causal(1, 1000, 8));
  ASSERT_TRUE(plan.ok());
  const AttentionPlan copy = *plan;
  EXPECT_EQ(&copy.prepared(), &plan->prepared());
}

}  // namespace
}  // namespace siattn
