// SPDX-License-Identifier: Apache-2.0
// Prefill for sm_90a on the emulator, a device of compute capability 9.0: against the reference under every schedule, by
// tensor copies and by threads' copies alike, to the bit.
#include "gpu/launch_sm90.hpp"
#include "tests/emulated_backends.hpp"
#include "tests/support.hpp"
#include "verify/compare.hpp"

namespace siattn::test {
namespace {

namespace emulator = gpu::emulator;
using verify::Batching;
using verify::Guard;
using Lengths = std::vector<std::int64_t>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class GpuSm90 : public ::testing::Test {
 protected:
  void SetUp() override {
    emulator::reset_driver();
    emulator::driver_control().capability = 90;
  }
  void TearDown() override {
    static_cast<void>(emulator::finish_streams());
    emulator::reset_driver();
  }

  /// Runs it, and compares with the reference.
  static void expect_right(ProblemData& data, const char* what) {
    data.clear_outputs();
    const AttentionProblem& p = data.problem();
    const auto plan = AttentionPlan::create_on(backend(), p);
    ASSERT_TRUE(plan) << plan.status().message();
    const AttentionTensors tensors = data.tensors();
    const Status status = plan->run(tensors, {});
    ASSERT_TRUE(status) << what << ": " << status.message();
    EXPECT_TRUE(data.intact()) << what;
    const auto compared = verify::compare_with_reference(p, tensors, backend().numerics(p.dtype));
    EXPECT_TRUE(compared.good()) << what << ": " << compared.first_failure;
    EXPECT_GT(compared.elements, 0);
  }

  static const Backend& backend() {
    static const gpu::CudaBackend the("cuda", emulator::load_emulated_driver, emulator::emulated_images());
    return the;
  }

  static bool launched(std::string_view symbol) {
    return std::ranges::count(emulator::driver_control().calls, symbol) > 0;
  }
};

AttentionProblem problem(DType dtype, std::int64_t queries, std::int64_t keys, std::int64_t dim) {
  AttentionProblem p;
  p.shape = {1, 2, 1, queries, keys, dim, dim};
  p.dtype = dtype;
  return p;
}

ProblemData gaussian(const AttentionProblem& p, const Placement& placement = {}) {
  ProblemData data(p, placement);
  data.fill_gaussian(11);
  return data;
}

/// More than two tiles of keys, so that each stage is used again; a tile of queries that is not full.
TEST_F(GpuSm90, IsRightUnderEverySchedule) {
  for (const emulator::Schedule& schedule : emulator::schedules()) {
    emulator::driver_control().schedule = schedule;
    ProblemData data = gaussian(problem(DType::bfloat16, 150, 400, 64));
    expect_right(data, "causal");
  }
  EXPECT_TRUE(launched("cuTensorMapEncodeTiled"));
}

TEST_F(GpuSm90, CopiesByThreadsAreRightUnderEverySchedule) {
  Placement placement;
  placement.misalignment = 1;
  for (const emulator::Schedule& schedule : emulator::schedules()) {
    emulator::driver_control().schedule = schedule;
    ProblemData data = gaussian(problem(DType::float16, 40, 300, 64), placement);
    expect_right(data, "misaligned");
  }
}

TEST_F(GpuSm90, TakesUpTo128Channels) {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    ProblemData wide = gaussian(problem(dtype, 70, 270, 128));
    expect_right(wide, "128 channels");

    AttentionProblem p = problem(dtype, 140, 140, 80);
    p.shape.value_dim = 120;
    p.options.mask = Mask::bidirectional;
    p.options.window = 50;
    ProblemData window = gaussian(p);
    expect_right(window, "bidirectional window");
  }
}

TEST_F(GpuSm90, DoesWhatTheContractAsks) {
  AttentionProblem p = problem(DType::float16, 33, 300, 40);
  p.options.n_sink = 3;
  p.options.window = 290;
  ProblemData sinks = gaussian(p);
  expect_right(sinks, "sinks");

  p = problem(DType::bfloat16, 33, 200, 64);
  p.options.query_offset = -20;
  ProblemData unseen = gaussian(p);
  expect_right(unseen, "rows that see no key");

  p = problem(DType::bfloat16, 128, 256, 64);
  p.options.mask = Mask::bidirectional;
  ProblemData whole = gaussian(p);
  expect_right(whole, "whole tiles");

  p.options.transform = LogN{};
  ProblemData factors = gaussian(p);
  expect_right(factors, "factors by row");
}

/// One sequence alone, ragged, in pages, with strides that tensor copies do not take: the same bits.
TEST_F(GpuSm90, BitsDoNotDependOnHowTensorsLie) {
  AttentionProblem p = problem(DType::bfloat16, 150, 260, 64);
  p.shape.batch = 3;
  const Lengths queries{150, 21, 60}, keys{200, 260, 60};
  const auto bits = [&](const Placement& placement, const Batching& batching) {
    ProblemData data(p, placement, batching, queries, keys);
    data.fill_gaussian(5);
    expect_right(data, "batch");
    return data.output_bits();
  };
  const auto dense = bits({}, {});
  emulator::driver_control().calls.clear();
  EXPECT_EQ(bits({}, {.ragged_queries = true, .ragged_keys = true, .spare_tokens = 3}), dense);
  EXPECT_TRUE(launched("cuTensorMapEncodeTiled"));
  emulator::driver_control().calls.clear();
  EXPECT_EQ(bits({}, {.page_size = 16}), dense);
  EXPECT_FALSE(launched("cuTensorMapEncodeTiled"));
  EXPECT_EQ(bits({.heads_inside = true}, {}), dense);
}

/// Behind the mask nothing leaks; who sees it gets it; the others' bits stay.
TEST_F(GpuSm90, NotFiniteValuesReachThoseWhoSeeThemOnly) {
  for (const double bad : {kNan, kInfinity}) {
    ProblemData data = gaussian(problem(DType::bfloat16, 130, 260, 64));
    for (const std::int64_t key : {std::int64_t{140}, std::int64_t{255}}) data.value.set(0, 0, key, 9, bad);
    data.key.set(0, 0, 250, 3, bad);
    data.query.set(0, 1, 5, 7, bad);
    expect_right(data, "not finite");
  }
  ProblemData good = gaussian(problem(DType::float16, 130, 260, 64));
  expect_right(good, "finite");
  const auto before = good.out.bits();
  good.value.set(0, 0, 259, 63, kNan);  // the last query alone sees it
  expect_right(good, "one NaN");
  const auto after = good.out.bits();
  ASSERT_EQ(before.size(), after.size());
  const std::size_t row = before.size() / 260;  // of two heads of 130
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (i / row == 129 || i / row == 259) continue;
    ASSERT_EQ(before[i], after[i]) << i / row;
  }
}

}  // namespace
}  // namespace siattn::test
