// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <set>
#include <thread>

#include "tests/support.hpp"

namespace siattn::test {
namespace {

AttentionProblem decode_of(std::int64_t keys, const LogitTransform& transform = ScaleInvariant{}) {
  AttentionProblem problem;
  problem.shape = {1, 6, 2, 1, keys, 16, 16};
  problem.options.transform = transform;
  return problem;
}

const LogitTables& tables_of(const AttentionPlan& plan) { return *plan.prepared().tables; }

TEST(TableCache, PlansOfGrowingLengthShareTables) {
  for (int choice = 0; choice < kTransformChoices; ++choice) {
    const LogitTransform transform = transform_choice(choice, 6);
    const TableCache cache;
    std::set<const LogitTables*> seen;
    std::vector<AttentionPlan> plans;
    for (std::int64_t keys = 1; keys <= 1000; ++keys) {
      auto plan = AttentionPlan::create(decode_of(keys, transform), {"cpu", 1, cache});
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      seen.insert(&tables_of(*plan));
      plans.push_back(*std::move(plan));
    }
    EXPECT_LE(seen.size(), 12u) << text_of(transform);  // 1, 2, 4 .. 1024: no plan builds what is there
    // Whoever comes late with less uses what is there.
    const auto late = AttentionPlan::create(decode_of(3, transform), {"cpu", 1, cache});
    EXPECT_EQ(&tables_of(*late), &tables_of(plans.back()));
  }
}

TEST(TableCache, SharedTablesHoldTheSameNumbers) {
  for (int choice = 0; choice < kTransformChoices; ++choice) {
    const LogitTransform transform = transform_choice(choice, 6);
    const TableCache cache;
    for (const std::int64_t keys : {1000, 300, 2000}) {
      const auto alone = AttentionPlan::create(decode_of(keys, transform), {"cpu", 1});
      const auto shared = AttentionPlan::create(decode_of(keys, transform), {"cpu", 1, cache});
      const LogitTables& a = tables_of(*alone);
      const LogitTables& b = tables_of(*shared);
      for (std::int64_t h = 0; h < 6; ++h) {
        for (std::int64_t t = a.t_min; t <= a.t_max; ++t) {
          ASSERT_EQ(a.scale(h)[a.t_max - t], b.scale(h)[b.t_max - t]) << text_of(transform) << " t " << t;
          ASSERT_EQ(a.shift(h)[a.t_max - t], b.shift(h)[b.t_max - t]) << text_of(transform) << " t " << t;
        }
        for (std::int64_t n = 0; n <= keys; ++n) ASSERT_EQ(a.row_factor(h, n), b.row_factor(h, n)) << n;
      }
    }
  }
}

/// Whatever changes an entry makes other tables.
TEST(TableCache, OtherProblemsGetTablesOfTheirOwn) {
  const TableCache cache;
  std::set<const LogitTables*> seen;
  std::vector<AttentionPlan> plans;
  const auto plan = [&](const std::function<void(AttentionProblem&)>& change, const char* backend = "cpu") {
    AttentionProblem problem = decode_of(100);
    change(problem);
    auto made = AttentionPlan::create(problem, {backend, 1, cache});
    ASSERT_TRUE(made.ok()) << made.status().message();
    seen.insert(&tables_of(*made));
    plans.push_back(*std::move(made));
  };
  plan([](auto&) {});
  plan([](auto& p) { p.options.transform = ScaleInvariant{.tau = 11}; });
  plan([](auto& p) { p.options.transform = ScaleInvariant{.beta = 2}; });
  plan([](auto& p) { p.options.transform = NoTransform{}; });
  plan([](auto& p) { p.options.transform = Alibi{}; });
  plan([](auto& p) { p.options.transform = Alibi{}, p.shape.query_heads = 8; });
  plan([](auto& p) { p.options.transform = InfoScale{}; });
  plan([](auto& p) { p.options.transform = InfoScale{}, p.shape.head_dim = 32; });
  plan([](auto& p) { p.options.softmax_scale = 0.3; });
  plan([](auto& p) { p.options.calibration.mean = 0.5; });
  plan([](auto& p) { p.options.calibration.standard_deviation = 0.5; });
  EXPECT_EQ(seen.size(), plans.size());
  // And what changes none does not.
  plan([](auto& p) { p.options.window = 7; });
  plan([](auto& p) { p.options.n_sink = 2; });
  plan([](auto& p) { p.dtype = DType::bfloat16; });
  EXPECT_EQ(seen.size() + 3, plans.size());
}

TEST(TableCache, BitsDoNotDependOnIt) {
  for (const Mask mask : {Mask::causal, Mask::bidirectional}) {
    for (const std::optional<std::int64_t> window : {std::optional<std::int64_t>{}, std::optional<std::int64_t>{9}}) {
      const TableCache cache;
      for (const std::int64_t queries : {1, 40}) {
        for (const std::int64_t offset : {0, -30, 700}) {
          AttentionProblem problem = decode_of(90);
          problem.shape.query_len = queries;
          problem.options.mask = mask;
          problem.options.window = window;
          problem.options.query_offset = offset;
          ProblemData data(problem);
          data.fill_gaussian(1);
          const auto bits = [&](const ExecutionOptions& execution) {
            const auto plan = AttentionPlan::create(problem, execution);
            EXPECT_TRUE(plan.ok()) << plan.status().message();
            std::vector<std::byte> workspace(plan->workspace_bytes());
            data.clear_outputs();
            EXPECT_TRUE(plan->run(data.tensors(), workspace).ok());
            return bits_of(data);
          };
          EXPECT_EQ(bits({"cpu", 1, cache}), bits({"cpu", 1})) << text_of(problem);
        }
      }
    }
  }
}

/// Many queries before few keys and one before many: neither makes the other build its tables again.
TEST(TableCache, PlansOfTwoKindsShareTablesInTurn) {
  const TableCache cache;
  const auto plan = [&cache](std::int64_t queries, std::int64_t keys) {
    AttentionProblem problem = decode_of(keys);
    problem.shape.query_len = queries;
    problem.options.mask = Mask::bidirectional;
    auto made = AttentionPlan::create(problem, {"cpu", 1, cache});
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made->prepared().tables;
  };
  const auto prompt = plan(1000, 10);
  const auto decode = plan(1, 5000);
  EXPECT_EQ(plan(1000, 10), decode);
  EXPECT_EQ(plan(1, 5000), decode);
  EXPECT_NE(prompt, decode);
}

/// A plan that stands far out takes no tables from those near 0.
TEST(TableCache, FarPlansLeaveTheOthers) {
  const TableCache cache;
  AttentionProblem far = decode_of(4);
  far.options.query_offset = 2000000000;
  const auto near = AttentionPlan::create(decode_of(100), {"cpu", 1, cache});
  ASSERT_TRUE(AttentionPlan::create(far, {"cpu", 1, cache}).ok());
  const auto again = AttentionPlan::create(decode_of(100), {"cpu", 1, cache});
  EXPECT_EQ(&tables_of(*near), &tables_of(*again));
}

/// Tables far from distance 0 do not grow down to it.
TEST(TableCache, FarPositionsCostNothing) {
  AttentionProblem problem = decode_of(4);
  problem.options.query_offset = 2000000000;
  const auto plan = AttentionPlan::create(problem, {"cpu", 1, TableCache{}});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(tables_of(*plan).entries(), 4 + 2 * LogitTables::padding);
}

/// An entry that no distance of the problem has does not make it an error.
TEST(TableCache, GrowingNeverRefuses) {
  AttentionProblem problem = decode_of(10, Alibi{2e37});  // times log2(e): float32 ends between t = 11 and 12
  ASSERT_TRUE(AttentionPlan::create(problem, {"cpu", 1}).ok());
  EXPECT_TRUE(AttentionPlan::create(problem, {"cpu", 1, TableCache{}}).ok());
}

TEST(TableCache, SeveralThreadsPlanAtOnce) {
  const TableCache cache;
  std::vector<std::thread> threads;
  std::array<bool, 4> good{};
  for (std::size_t k = 0; k < good.size(); ++k) {
    threads.emplace_back([&, k] {
      bool all = true;
      for (std::int64_t keys = 1; keys < 200; ++keys) {
        const auto plan = AttentionPlan::create(decode_of(keys + static_cast<std::int64_t>(50 * k)), {"cpu", 1, cache});
        all = all && plan.ok() && tables_of(*plan).t_max >= keys - 1;
      }
      good[k] = all;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const bool one : good) EXPECT_TRUE(one);
}

}  // namespace
}  // namespace siattn::test
