// SPDX-License-Identifier: Apache-2.0
// The environment stands in for what a call leaves open: SIATTN_BACKEND, SIATTN_NUM_THREADS, SIATTN_MAX_CPU_ISA; and
// SIATTN_VERBOSE has runs say what they did. Each test looks at what was planned, not at the variable: a setting that is read and then ignored must show.
#include "tests/support.hpp"

namespace siattn::test {
namespace {

AttentionProblem small_problem(DType dtype = DType::float32) {
  AttentionProblem problem;
  problem.shape = {1, 1, 1, 4, 4, 8, 8};
  problem.dtype = dtype;
  return problem;
}

class Environment : public ::testing::Test {
 protected:
  static Result<AttentionPlan> plan(const ExecutionOptions& execution = {}) {
    return AttentionPlan::create(small_problem(), execution);
  }

  static void expect_invalid(const ExecutionOptions& execution, const char* variable, const std::string& value) {
    const auto result = plan(execution);
    ASSERT_FALSE(result.ok()) << variable << " = '" << value << "'";
    EXPECT_EQ(result.status().code(), StatusCode::invalid_argument);
    for (const std::string& part : {std::string(variable), value}) {
      EXPECT_NE(result.status().message().find(part), std::string::npos) << result.status().message();
    }
  }

  /// The CPU backends that this machine can run, best first, and what SIATTN_MAX_CPU_ISA calls them.
  static std::vector<std::pair<const Backend*, std::string>> cpu_backends() {
    std::vector<std::pair<const Backend*, std::string>> list;
    for (const Backend* backend : backends()) {
      if (backend->family() == "cpu" && backend->available()) list.emplace_back(backend, backend->name().substr(4));
    }
    return list;
  }

 private:
  // Whatever the caller has set.
  ScopedVariable backend_{"SIATTN_BACKEND", nullptr};
  ScopedVariable threads_{"SIATTN_NUM_THREADS", nullptr};
  ScopedVariable isa_{"SIATTN_MAX_CPU_ISA", nullptr};
  ScopedVariable verbose_{"SIATTN_VERBOSE", nullptr};
};

TEST_F(Environment, BackendsHaveNamesOfTheirOwnAndSayWhatTheyAre) {
  std::set<std::string_view> names;
  for (const Backend* backend : backends()) {
    EXPECT_TRUE(names.insert(backend->name()).second) << backend->name();
    EXPECT_NE(backend->description(), "");
    EXPECT_GE(backend->default_threads(), 1);
    const Status status = backend->available();
    EXPECT_EQ(status.ok(), status.message().empty()) << backend->name();  // one that is not here says why
  }
  EXPECT_TRUE(names.contains("reference"));
}

TEST_F(Environment, WithoutItTheBestAvailableBackendIsChosen) {
  for (const Backend* backend : backends()) {
    if (!backend->available() || !backend->supports(small_problem()) || !backend->wins(small_problem())) continue;
    EXPECT_EQ(plan()->backend().name(), backend->name());
    EXPECT_EQ(plan()->prepared().threads, backend->default_threads());
    break;
  }
}

TEST_F(Environment, BackendChoosesByNameAndByFamily) {
  for (const Backend* backend : backends()) {
    if (!backend->available()) continue;
    const ScopedVariable by_name("SIATTN_BACKEND", std::string(backend->name()).c_str());
    EXPECT_EQ(plan()->backend().name(), backend->name());
    const ScopedVariable by_family("SIATTN_BACKEND", std::string(backend->family()).c_str());
    EXPECT_EQ(plan()->backend().family(), backend->family());
  }
}

TEST_F(Environment, ArgumentWinsOverBackendVariable) {
  for (const Backend* backend : backends()) {
    if (!backend->available()) continue;
    const ScopedVariable variable("SIATTN_BACKEND", "reference");
    EXPECT_EQ(plan({std::string(backend->name()), 0})->backend().name(), backend->name());
  }
}

TEST_F(Environment, UnknownBackendIsAnError) {
  for (const char* value : {"gpu", "cpu-", "Reference", " "}) {
    const ScopedVariable variable("SIATTN_BACKEND", value);
    expect_invalid({}, "SIATTN_BACKEND", value);
  }
}

TEST_F(Environment, EmptyVariableIsAsGoodAsNone) {
  const std::string without(plan()->backend().name());
  const ScopedVariable backend("SIATTN_BACKEND", "");
  const ScopedVariable threads("SIATTN_NUM_THREADS", "");
  const ScopedVariable isa("SIATTN_MAX_CPU_ISA", "");
  ASSERT_TRUE(plan().ok()) << plan().status().message();
  EXPECT_EQ(plan()->backend().name(), without);
}

TEST_F(Environment, NumThreadsSetsThePlansThreads) {
  for (const int threads : {1, 3, 1024}) {
    const ScopedVariable variable("SIATTN_NUM_THREADS", std::to_string(threads).c_str());
    EXPECT_EQ(plan()->prepared().threads, threads);
    EXPECT_EQ(plan({"reference", 0})->prepared().threads, threads);
  }
}

TEST_F(Environment, ArgumentWinsOverNumThreads) {
  const ScopedVariable variable("SIATTN_NUM_THREADS", "3");
  EXPECT_EQ(plan({"", 2})->prepared().threads, 2);
}

TEST_F(Environment, NumThreadsThatIsNoNumberInRangeIsAnError) {
  for (const char* value : {"0", "-1", "1025", "two", "3 ", " 3", "3.0", "0x3", "99999999999999999999", "+2"}) {
    const ScopedVariable variable("SIATTN_NUM_THREADS", value);
    expect_invalid({}, "SIATTN_NUM_THREADS", value);
  }
}

TEST_F(Environment, MaxCpuIsaCapsWhatIsChosen) {
  if (cpu_backends().empty()) GTEST_SKIP() << "no CPU backend is available here";
  for (const auto& [backend, isa] : cpu_backends()) {
    const ScopedVariable variable("SIATTN_MAX_CPU_ISA", isa.c_str());
    EXPECT_EQ(plan()->backend().name(), backend->name());
    EXPECT_EQ(plan({"cpu", 0})->backend().name(), backend->name());
  }
}

TEST_F(Environment, MaxCpuIsaMakesBetterOnesUnavailableEvenByName) {
  const auto list = cpu_backends();
  if (list.size() < 2) GTEST_SKIP() << "needs two CPU backends";
  const ScopedVariable variable("SIATTN_MAX_CPU_ISA", list.back().second.c_str());
  for (std::size_t k = 0; k + 1 < list.size(); ++k) {
    const auto result = plan({std::string(list[k].first->name()), 0});
    EXPECT_EQ(result.status().code(), StatusCode::unavailable);
    EXPECT_NE(result.status().message().find("SIATTN_MAX_CPU_ISA"), std::string::npos) << result.status().message();
  }
  EXPECT_EQ(plan({"reference", 0})->backend().name(), "reference");
}

TEST_F(Environment, UnknownMaxCpuIsaIsAnError) {
  for (const char* value : {"avx1024", "AVX2", "cpu-avx2", "none"}) {
    const ScopedVariable variable("SIATTN_MAX_CPU_ISA", value);
    expect_invalid({}, "SIATTN_MAX_CPU_ISA", value);
    expect_invalid({"cpu", 0}, "SIATTN_MAX_CPU_ISA", value);
  }
}

TEST_F(Environment, VerboseRunsPrintOneLineEachAndOthersNone) {
  const auto lines = [](const char* value) {
    const ScopedVariable variable("SIATTN_VERBOSE", value);
    AttentionProblem problem = small_problem();
    problem.options.window = 3;
    ProblemData data(problem);
    data.fill_gaussian(1);
    const auto planned = AttentionPlan::create(problem, {"reference", 1});
    EXPECT_TRUE(planned.ok());
    std::vector<std::byte> workspace(planned->workspace_bytes());
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(planned->run(data.tensors(), workspace).ok());
    EXPECT_TRUE(planned->run(data.tensors(), workspace).ok());
    return ::testing::internal::GetCapturedStderr();
  };
  for (const char* silent : {static_cast<const char*>(nullptr), "", "0"}) EXPECT_EQ(lines(silent), "");
  const std::string text = lines("1");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  const std::string start =
      "siattn: f32, batch 1, heads 1/1, 4 queries, 4 keys, dims 8/8, causal, window 3, scale-invariant, reference, 1 "
      "threads, ";
  EXPECT_EQ(text.rfind(start, 0), 0u) << text;
  EXPECT_EQ(text.substr(text.size() - 4), " ms\n");
}

TEST_F(Environment, UnknownVerboseIsAnError) {
  for (const char* value : {"2", "yes", " 1"}) {
    const ScopedVariable variable("SIATTN_VERBOSE", value);
    expect_invalid({}, "SIATTN_VERBOSE", value);
  }
}

/// float64 is computed by the reference backend only: the best one that can do it is chosen.
TEST_F(Environment, BackendThatCannotDoTheTypeIsPassedOver) {
  const auto result = AttentionPlan::create(small_problem(DType::float64));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->backend().name(), "reference");
  const ScopedVariable variable("SIATTN_BACKEND", "cpu");
  if (!cpu_backends().empty()) {
    EXPECT_EQ(AttentionPlan::create(small_problem(DType::float64)).status().code(), StatusCode::unsupported);
  }
}

}  // namespace
}  // namespace siattn::test
