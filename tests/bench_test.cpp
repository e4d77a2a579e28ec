// SPDX-License-Identifier: Apache-2.0
// The benchmark: what it computes from timings, and what it prints. No test asserts a time.
#include <nlohmann/json.hpp>

#include "bench/cases.hpp"
#include "bench/ceilings.hpp"
#include "bench/measure.hpp"
#include "bench/suite.hpp"
#include "bench/workload.hpp"
#include "tests/support.hpp"

namespace siattn::test {
namespace {

using bench::CaseOptions;
using bench::measure;
using bench::suite_json;
using bench::suite_text;
using bench::SuiteRow;
using bench::Timings;
using bench::Unit;

SuiteRow row_of(Unit unit, double reached, double accept, double aim, bool at_most = false) {
  SuiteRow row;
  row.unit = unit;
  row.reached = reached;
  row.accept = accept;
  row.aim = aim;
  row.at_most = at_most;
  return row;
}

TEST(Measure, MedianSpreadAndRate) {
  const Timings timings{{4, 1, 2, 3, 10}, 6};
  EXPECT_EQ(timings.median_seconds(), 3);
  EXPECT_EQ(timings.rate(), 2);
  EXPECT_NEAR(timings.spread(), (4.0 - 2.0) / 2 / 3, 1e-15);
}

/// The median of the ratios, not the ratio of the medians: a slow moment that both met cancels.
TEST(Measure, RatioOfRatesGoesRoundByRound) {
  const Timings a{{1, 10, 1}, 2};
  const Timings b{{2, 20, 8}, 1};
  EXPECT_EQ(ratio_of_rates(a, b), 4);
}

TEST(Measure, SubjectsTakeTurns) {
  std::string order;
  const auto subject = [&order](char name) {
    return bench::Subject{std::string(1, name), 1, [&order, name] { order += name; }};
  };
  const auto timings = measure({subject('a'), subject('b')}, 3, 0);
  ASSERT_EQ(timings.size(), 2u);
  EXPECT_EQ(timings[0].seconds.size(), 3u);
  EXPECT_EQ(order.substr(order.size() - 6), "ababab");
}

AttentionProblem problem_of(const AttentionShape& shape) { return {shape, DType::float32, {}}; }

bench::WorkloadSpec spec_of(const AttentionShape& shape) { return {"test", problem_of(shape), "reference", 1}; }

TEST(Workload, CountsVisiblePairsAndBytes) {
  bench::WorkloadSpec spec = spec_of({2, 4, 2, 3, 5, 8, 16});
  // Queries at positions 2, 3, 4 see 3, 4 and 5 keys.
  auto workload = bench::Workload::create(spec);
  ASSERT_TRUE(workload.ok());
  EXPECT_EQ((*workload)->flops(), 2.0 * (8 + 16) * (3 + 4 + 5) * 2 * 4);
  spec.problem.options.window = 4;
  EXPECT_EQ((*bench::Workload::create(spec))->flops(), 2.0 * (8 + 16) * (3 + 4 + 4) * 2 * 4);
  spec.problem.options.mask = Mask::bidirectional;  // positions 2, 3, 4 of 0 .. 4, at distances below 4
  EXPECT_EQ((*bench::Workload::create(spec))->flops(), 2.0 * (8 + 16) * (5 + 5 + 4) * 2 * 4);
}

TEST(Workload, ComputesTheSameInBothLayouts) {
  for (const bool heads_inside : {false, true}) {
    bench::WorkloadSpec spec = spec_of({2, 4, 2, 7, 50, 24, 8});
    spec.heads_inside = heads_inside;
    for (const Backend* backend : backends()) {
      if (!backend->available()) continue;
      spec.backend = backend->name();
      const auto workload = bench::Workload::create(spec);
      ASSERT_TRUE(workload.ok());
      const auto comparison = (*workload)->validate();
      ASSERT_TRUE(comparison.ok());
      EXPECT_TRUE(comparison->good()) << comparison->first_failure;
      EXPECT_EQ(comparison->elements, 2 * 4 * 7 * (8 + 1));
    }
  }
}

TEST(Workload, ComparesSomeRowsOfALargeProblemTheLastAmongThem) {
  const auto workload = bench::Workload::create(spec_of({1, 1, 1, 300, 300, 512, 512}));
  ASSERT_TRUE(workload.ok());
  ASSERT_TRUE((*workload)->validate().ok());
  AttentionTensors tensors = (*workload)->tensors();
  static_cast<float*>(tensors.out.data)[299 * 512] += 1;
  const auto comparison = verify::compare_with_reference((*workload)->spec().problem, tensors,
                                                         (*workload)->backend().numerics(DType::float32), 3);
  EXPECT_EQ(comparison.elements, 3 * (512 + 1));
  EXPECT_EQ(comparison.failures, 1);
}

TEST(Ceilings, EveryAvailableCpuBackendHasAPeak) {
  for (const Backend* backend : backends()) {
    if (backend->family() != "cpu" || !backend->available()) continue;
    const bench::Peak* const peak = bench::fma_peak(backend->name());
    ASSERT_NE(peak, nullptr) << backend->name();
    double result = 0;
    peak->run(&result);
    EXPECT_TRUE(std::isfinite(result) && result != 0) << backend->name();
    EXPECT_GT(peak->flops_per_call, 0);
  }
  if (const bench::Peak* const peak = bench::bf16_dot_peak()) {
    double result = 0;
    peak->run(&result);
    EXPECT_TRUE(std::isfinite(result) && result != 0);
  }
  EXPECT_EQ(bench::fma_peak("reference"), nullptr);
}

TEST(Cases, JsonIsWhatGoogleBenchmarkWrites) {
  CaseOptions options;
  options.backend = "cpu";
  options.only = "decode/bf16/batch-1/heads-32-8/4x";
  options.rounds = 2;
  options.threads = 2;
  const auto results = run_cases(options);
  ASSERT_TRUE(results.ok()) << results.status().message();
  ASSERT_EQ(results->size(), 1u);
  EXPECT_EQ(results->front().threads, 2);
  EXPECT_GT(results->front().against_one, 0);
  EXPECT_LE(results->front().error_over_bound, 1);
  const auto document = nlohmann::json::parse(cases_json(*results));
  EXPECT_TRUE(document.contains("context"));
  ASSERT_EQ(document["benchmarks"].size(), 2u);
  for (const auto& entry : document["benchmarks"]) {
    EXPECT_EQ(entry["name"], results->front().name);
    EXPECT_EQ(entry["run_type"], "iteration");
    EXPECT_EQ(entry["time_unit"], "ns");
    EXPECT_GT(entry["real_time"], 0);
  }
  EXPECT_NE(cases_text(*results).find(results->front().name), std::string::npos);
}

TEST(Cases, NothingToRunIsAnErrorAndSoIsAnUnknownBackend) {
  CaseOptions options;
  options.only = "nothing";
  EXPECT_EQ(run_cases(options).status().code(), StatusCode::invalid_argument);
  options.only = "decode/bf16/batch-1/heads-32-8/4x";
  options.backend = "gpu";
  EXPECT_FALSE(run_cases(options).ok());
}

TEST(Suite, RowsAreMetOrMissed) {
  EXPECT_TRUE(row_of(Unit::share, 0.8, 0.8, 0.9).met());
  EXPECT_FALSE(row_of(Unit::share, 0.79, 0.8, 0.9).met());
  EXPECT_TRUE(row_of(Unit::mebibytes, 8, 8, 2, true).met());
  EXPECT_FALSE(row_of(Unit::mebibytes, 9, 8, 2, true).met());
  SuiteRow skipped = row_of(Unit::share, 0, 0.8, 0.9);
  skipped.skipped = true;
  EXPECT_TRUE(skipped.met());
  const std::vector<SuiteRow> rows{row_of(Unit::share, 0.79, 0.8, 0.9), row_of(Unit::times, 1, 0.93, 0.98)};
  const std::string text = suite_text(rows);
  EXPECT_NE(text.find("79.0 %"), std::string::npos) << text;
  EXPECT_NE(text.find("MISSED"), std::string::npos) << text;
  EXPECT_NE(text.find("1 of 2 rows reach accept\n"), std::string::npos) << text;
  // What was not tried has not been reached.
  EXPECT_NE(suite_text({rows[0], rows[1], skipped}).find("1 of 2 rows reach accept, 1 skipped\n"), std::string::npos);
  const auto document = nlohmann::json::parse(suite_json(rows));
  EXPECT_EQ(document["rows"][0]["verdict"], "MISSED");
  EXPECT_EQ(document["rows"][1]["verdict"], "aim");
}

TEST(Suite, AnUnknownRowIsAnError) {
  bench::SuiteOptions options;
  options.only = "nothing";
  EXPECT_FALSE(run_accept_suite(options).ok());
}

}  // namespace
}  // namespace siattn::test
