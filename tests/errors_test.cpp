// SPDX-License-Identifier: Apache-2.0
// The contract, "Errors are values": what is wrong is found before any output is touched; the message is one line that
// names the argument and its value.
#include <cmath>

#include "tests/support.hpp"

namespace siattn::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// A problem that is right but for one thing.
AttentionProblem good_problem() {
  AttentionProblem problem;
  problem.shape = {2, 4, 2, 3, 5, 8, 6};
  return problem;
}

class Errors : public ::testing::Test {
 protected:
  using Change = std::function<void(AttentionProblem&)>;
  using TensorsChange = std::function<void(AttentionTensors&)>;

  static void expect_invalid_problem(const Change& change, std::initializer_list<const char*> parts) {
    AttentionProblem problem = good_problem();
    change(problem);
    const auto plan = AttentionPlan::create(problem);
    ASSERT_FALSE(plan.ok()) << *parts.begin();
    EXPECT_EQ(plan.status().code(), StatusCode::invalid_argument) << plan.status().message();
    EXPECT_TRUE(says(plan.status().message(), parts)) << plan.status().message();
  }

  /// On every backend; the outputs hold NaN before and after.
  static void expect_invalid_tensors(const TensorsChange& change, std::initializer_list<const char*> parts) {
    for (const Backend* backend : backends()) {
      if (!backend->available()) continue;
      ProblemData data(good_problem());
      data.fill_gaussian(1);
      data.clear_outputs();
      const Bits before = bits_of(data);
      AttentionTensors tensors = data.tensors();
      change(tensors);
      const Status status = run(*backend, data.problem(), tensors);
      EXPECT_EQ(status.code(), StatusCode::invalid_argument) << *parts.begin();
      EXPECT_TRUE(says(status.message(), parts)) << status.message();
      EXPECT_EQ(bits_of(data), before);
      EXPECT_TRUE(data.intact());
    }
  }
};

TEST_F(Errors, ExtentsOutsideTheirRange) {
  using Extent = std::int64_t AttentionShape::*;
  const std::tuple<const char*, Extent, std::int64_t> extents[] = {
      {"batch", &AttentionShape::batch, 0},        {"query_heads", &AttentionShape::query_heads, 1},
      {"kv_heads", &AttentionShape::kv_heads, 1},  {"query_len", &AttentionShape::query_len, 0},
      {"kv_len", &AttentionShape::kv_len, 0},      {"head_dim", &AttentionShape::head_dim, 1},
      {"value_dim", &AttentionShape::value_dim, 1}};
  for (const auto& [name, extent, least] : extents) {
    for (const std::int64_t value :
         {least - 1, std::int64_t{-5}, kLastPosition + 1, std::numeric_limits<std::int64_t>::max(),
          std::numeric_limits<std::int64_t>::min()}) {
      expect_invalid_problem([&, e = extent](AttentionProblem& p) { p.shape.*e = value; },
                             {name, fmt::format("{}", value).c_str()});
    }
  }
}

TEST_F(Errors, ExtentsUpToTheirLimitAreFine) {
  AttentionProblem problem = good_problem();
  problem.shape = {1 << 28, 1, 1, 4, kLastPosition, 1, 1};
  problem.options.window = 10;  // few distances occur, so the tables are small
  const auto plan = AttentionPlan::create(problem);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
}

TEST_F(Errors, TensorsThatNoAddressSpaceHolds) {
  expect_invalid_problem([](auto& p) { p.shape = {kLastPosition, 1, 1, 1, kLastPosition, 1, 1}; },
                         {"key would have 2147483647 x 1 x 2147483647 x 1 elements"});
  expect_invalid_problem([](auto& p) { p.shape = {kLastPosition, 8, 8, kLastPosition, 1, 512, 512}; },
                         {"query would have 2147483647 x 8 x 2147483647 x 512 elements"});
}

TEST_F(Errors, FactorsThatFloat32TablesCannotHold) {
  for (const double scale : {1e39, 1e-39}) {
    AttentionProblem problem = good_problem();
    problem.options.softmax_scale = scale;
    const auto plan = AttentionPlan::create(problem, {.backend = "cpu"});
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.status().code(), StatusCode::invalid_argument);
    EXPECT_NE(plan.status().message().find("softmax_scale"), std::string::npos) << plan.status().message();
    EXPECT_TRUE(AttentionPlan::create(problem, {.backend = "reference"}).ok());
  }
}

TEST_F(Errors, QueryHeadsThatAreNoMultipleOfKvHeads) {
  for (const auto& [heads, kv_heads] : {std::pair{3, 2}, {33, 2}, {2, 3}, {5, 4}}) {
    expect_invalid_problem(
        [h = heads, k = kv_heads](AttentionProblem& p) { p.shape.query_heads = h, p.shape.kv_heads = k; },
        {fmt::format("query_heads = {}", heads).c_str(), fmt::format("kv_heads = {}", kv_heads).c_str()});
  }
}

TEST_F(Errors, Options) {
  expect_invalid_problem([](auto& p) { p.options.window = 0; }, {"window = 0"});
  expect_invalid_problem([](auto& p) { p.options.window = -3; }, {"window = -3"});
  expect_invalid_problem([](auto& p) { p.options.n_sink = -1; }, {"n_sink = -1"});
  expect_invalid_problem([](auto& p) { p.options.softmax_scale = kNan; }, {"softmax_scale = nan"});
  expect_invalid_problem([](auto& p) { p.options.softmax_scale = kInfinity; }, {"softmax_scale = inf"});
  expect_invalid_problem([](auto& p) { p.options.mask = static_cast<Mask>(7); }, {"mask = 7"});
  expect_invalid_problem([](auto& p) { p.dtype = static_cast<DType>(9); }, {"dtype = 9"});
}

TEST_F(Errors, PositionsBeyondTwoToThe31MinusOne) {
  // Three queries: the last stands at query_offset + 2.
  expect_invalid_problem([](auto& p) { p.options.query_offset = kLastPosition - 1; }, {"query_offset = 2147483646"});
  expect_invalid_problem([](auto& p) { p.options.query_offset = -kLastPosition - 1; }, {"query_offset = -2147483648"});
  expect_invalid_problem([](auto& p) { p.options.query_offset = std::numeric_limits<std::int64_t>::max(); },
                         {"query_offset = 9223372036854775807"});
  AttentionProblem problem = good_problem();
  problem.options.query_offset = kLastPosition - 2;
  EXPECT_TRUE(AttentionPlan::create(problem).ok());
  problem.options.query_offset = -kLastPosition;
  EXPECT_TRUE(AttentionPlan::create(problem).ok());
}

TEST_F(Errors, TransformParameters) {
  for (const double tau : {kNan, 0.0, -1.0, kInfinity, 1e-300}) {
    expect_invalid_problem([tau](auto& p) { p.options.transform = ScaleInvariant{.tau = tau}; }, {"tau = "});
    expect_invalid_problem([tau](auto& p) { p.options.transform = ScaleInvariant{.tau = {1, 2, tau, 4}}; }, {"tau = "});
  }
  expect_invalid_problem(
      [](auto& p) {
        p.options.transform = ScaleInvariant{.tau = {1, 2, 3}};
      },
      {"tau has 3 values", "4"});
  expect_invalid_problem([](auto& p) { p.options.transform = ScaleInvariant{.tau = PerHead{}}; }, {"tau has 0 values"});
  for (const double bad : {kNan, 0.0, -1.0, kInfinity}) {
    expect_invalid_problem([bad](auto& p) { p.options.transform = ScaleInvariant{.alpha = bad}; }, {"alpha = "});
    expect_invalid_problem([bad](auto& p) { p.options.transform = ScaleInvariant{.beta = bad}; }, {"beta = "});
  }
  // beta >= alpha log(alpha): below it a_0 would be the root of a negative number.
  expect_invalid_problem([](auto& p) { p.options.transform = ScaleInvariant{.alpha = 3, .beta = 3.2}; },
                         {"beta = 3.2", "alpha = 3"});
  expect_invalid_problem([](auto& p) { p.options.transform = ScaleInvariant{.alpha = 1e-308, .beta = 1e10}; },
                         {"beta = "});
  for (const double bad : {kNan, kInfinity, -kInfinity}) {
    expect_invalid_problem([bad](auto& p) { p.options.transform = LogN{bad}; }, {"scale = "});
    expect_invalid_problem([bad](auto& p) { p.options.transform = Alibi{{0, 0, 0, bad}}; }, {"slopes = "});
  }
  expect_invalid_problem([](auto& p) { p.options.transform = LogN{{1, 2}}; }, {"scale has 2 values"});
  expect_invalid_problem([](auto& p) { p.options.transform = Alibi{{1, 2, 3, 4, 5}}; }, {"slopes has 5 values"});
  for (const double bad : {kNan, kInfinity, 1.0, 0.0, -4096.0}) {
    expect_invalid_problem([bad](auto& p) { p.options.transform = InfoScale{bad}; }, {"train_length = "});
  }
}

TEST_F(Errors, Calibration) {
  for (const double bad : {kNan, kInfinity, -kInfinity}) {
    expect_invalid_problem([bad](auto& p) { p.options.calibration.mean = bad; }, {"calibration mean = "});
    expect_invalid_problem([bad](auto& p) { p.options.calibration.mean = {0, 0, bad, 0}; }, {"calibration mean = "});
  }
  for (const double bad : {kNan, kInfinity, 0.0, -1.0, 1e-300}) {
    expect_invalid_problem([bad](auto& p) { p.options.calibration.standard_deviation = bad; },
                           {"calibration standard_deviation = "});
    expect_invalid_problem(
        [bad](auto& p) {
          p.options.calibration.standard_deviation = {1, 1, 1, bad};
        },
        {"calibration standard_deviation = "});
  }
  expect_invalid_problem([](auto& p) { p.options.calibration.mean = {1, 2}; }, {"calibration mean has 2 values", "4"});
  expect_invalid_problem([](auto& p) { p.options.calibration.standard_deviation = PerHead{}; },
                         {"calibration standard_deviation has 0 values", "4"});
  expect_invalid_problem(
      [](auto& p) {
        p.options.calibration = {.mean = {0, 0, 1e200, 0}, .standard_deviation = 1e-100};
      },
      {"calibration mean = 1e+200", "standard_deviation = 1e-100"});
  for (const LogitTransform& transform : {LogitTransform(LogN{}), LogitTransform(InfoScale{})}) {
    expect_invalid_problem(
        [&](auto& p) {
          p.options.transform = transform;
          p.options.calibration.mean = {0, 0, 0, -9};
        },
        {"calibration mean = -9", "LogN and InfoScale"});
    AttentionProblem problem = good_problem();
    problem.options.transform = transform;
    problem.options.calibration.standard_deviation = 3.0;
    EXPECT_TRUE(AttentionPlan::create(problem).ok());
  }
}

/// A number that the backend's tables cannot hold is an error of planning, and no infinity later on.
TEST_F(Errors, NumbersThatFloat32TablesCannotHold) {
  for (const Backend* backend : backends()) {
    if (!backend->available() || !backend->uses_tables()) continue;
    AttentionProblem problem = good_problem();
    problem.options.softmax_scale = 0x1p130;
    EXPECT_TRUE(says(AttentionPlan::create_on(*backend, problem).status().message(), {"softmax_scale = 1.36"}));
    problem = good_problem();
    problem.options.transform = Alibi{1e38};
    EXPECT_TRUE(says(AttentionPlan::create_on(*backend, problem).status().message(), {"m_t", "e+38"}));
    problem.options.transform = LogN{1e39};
    EXPECT_TRUE(says(AttentionPlan::create_on(*backend, problem).status().message(), {"row factor"}));
    problem = good_problem();
    problem.options.calibration.standard_deviation = 1e-40;
    EXPECT_TRUE(says(AttentionPlan::create_on(*backend, problem).status().message(), {"a_t", "calibration"}));
    problem.options.calibration = {.mean = 1e39};
    EXPECT_TRUE(says(AttentionPlan::create_on(*backend, problem).status().message(), {"m_t", "calibration"}));
  }
}

TEST_F(Errors, ShapesOfTensors) {
  expect_invalid_tensors([](auto& t) { t.query.shape[2] = 4; }, {"query", "[2, 4, 4, 8]", "[2, 4, 3, 8]"});
  expect_invalid_tensors([](auto& t) { t.key.shape[3] = 7; }, {"key", "[2, 2, 5, 7]", "[2, 2, 5, 8]"});
  expect_invalid_tensors([](auto& t) { t.value.shape[1] = 4; }, {"value", "[2, 4, 5, 6]", "[2, 2, 5, 6]"});
  expect_invalid_tensors([](auto& t) { t.out.shape[0] = 1; }, {"out", "[1, 4, 3, 6]", "[2, 4, 3, 6]"});
  expect_invalid_tensors([](auto& t) { t.lse.shape = {2, 4, 3, 2}; }, {"lse", "[2, 4, 3, 2]", "[2, 4, 3, 1]"});
}

TEST_F(Errors, TypesOfTensors) {
  expect_invalid_tensors([](auto& t) { t.query.dtype = DType::float64; }, {"query", "f64", "f32"});
  expect_invalid_tensors([](auto& t) { t.key.dtype = DType::bfloat16; }, {"key", "bf16", "f32"});
  expect_invalid_tensors([](auto& t) { t.value.dtype = DType::float16; }, {"value", "f16", "f32"});
  expect_invalid_tensors([](auto& t) { t.out.dtype = DType::float16; }, {"out", "f16", "f32"});
  expect_invalid_tensors([](auto& t) { t.lse.dtype = DType::float16; }, {"lse", "f16", "f32"});
}

TEST_F(Errors, NullPointers) {
  expect_invalid_tensors([](auto& t) { t.query.data = nullptr; }, {"query", "null"});
  expect_invalid_tensors([](auto& t) { t.key.data = nullptr; }, {"key", "null"});
  expect_invalid_tensors([](auto& t) { t.value.data = nullptr; }, {"value", "null"});
  expect_invalid_tensors([](auto& t) { t.out.data = nullptr; }, {"out", "null"});
}

TEST_F(Errors, InnermostStrides) {
  expect_invalid_tensors([](auto& t) { t.query.strides[3] = 2; }, {"query", "innermost stride 2"});
  expect_invalid_tensors([](auto& t) { t.value.strides[3] = 0; }, {"value", "innermost stride 0"});
  expect_invalid_tensors([](auto& t) { t.out.strides[3] = -1; }, {"out", "innermost stride -1"});
}

TEST_F(Errors, AddressesThatAreNoMultipleOfTheElement) {
  const auto shift = [](auto& view) {
    view.data = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(view.data))) + 1;
  };
  expect_invalid_tensors([&](auto& t) { shift(t.key); }, {"key", "multiple of 4"});
  expect_invalid_tensors([&](auto& t) { shift(t.out); }, {"out", "multiple of 4"});
}

TEST_F(Errors, StridesThatReachOutsideTheAddressSpace) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  // least / 4: the first element of two sequences lies exactly 2^63 bytes below the second's.
  for (const std::int64_t stride : {most, most / 2, most / 4, -most, least, least / 4}) {
    for (const int axis : {0, 1, 2}) {
      expect_invalid_tensors([=](auto& t) { t.query.strides[axis] = stride; }, {"query", "address space"});
      expect_invalid_tensors([=](auto& t) { t.out.strides[axis] = stride; }, {"out", "address space"});
    }
  }
}

TEST_F(Errors, OutputsThatOverlap) {
  const auto floats = [](auto& view) {
    return static_cast<float*>(const_cast<void*>(static_cast<const void*>(view.data)));
  };
  // The very same, by one element, by the last row.
  expect_invalid_tensors([&](auto& t) { t.out.data = floats(t.query); }, {"out", "overlaps query"});
  expect_invalid_tensors([&](auto& t) { t.out.data = floats(t.value); }, {"out", "overlaps value"});
  expect_invalid_tensors([&](auto& t) { t.out.data = floats(t.key) + 2 * 2 * 5 * 8 - 1; }, {"out", "overlaps key"});
  expect_invalid_tensors([&](auto& t) { t.out.data = floats(t.key) - 2 * 4 * 3 * 6 + 6; }, {"out", "overlaps key"});
  expect_invalid_tensors([&](auto& t) { t.lse.data = floats(t.query) + 5; }, {"lse", "overlaps query"});
  expect_invalid_tensors([&](auto& t) { t.lse.data = floats(t.out) + 2 * 4 * 3 * 6 - 1; }, {"lse", "overlaps out"});
}

TEST_F(Errors, NoneWhereOutputsOnlyTouch) {
  const AttentionShape& s = good_problem().shape;
  std::vector<float> memory(2 * (4 * 3 * 8 + 2 * 5 * 8 + 2 * 5 * 6 + 4 * 3 * 6 + 4 * 3));
  float* next = memory.data();
  const auto take = [&next](const Shape4& shape) {
    float* const at = next;
    next += shape[0] * shape[1] * shape[2] * shape[3];
    return MutableTensorView(at, shape);
  };
  AttentionTensors tensors;
  tensors.out = take({s.batch, s.query_heads, s.query_len, s.value_dim});
  tensors.query = take({s.batch, s.query_heads, s.query_len, s.head_dim});
  tensors.lse = take({s.batch, s.query_heads, s.query_len, 1});
  tensors.key = take({s.batch, s.kv_heads, s.kv_len, s.head_dim});
  tensors.value = take({s.batch, s.kv_heads, s.kv_len, s.value_dim});
  const Status status = attention(tensors);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(Errors, OutputsThatOverlapThemselves) {
  expect_invalid_tensors([](auto& t) { t.out.strides[2] = 0; }, {"out", "must not share an address"});
  expect_invalid_tensors([](auto& t) { t.out.strides[1] = 5; }, {"out", "must not share an address"});
  expect_invalid_tensors([](auto& t) { t.out.strides[0] = 6; }, {"out", "must not share an address"});
  expect_invalid_tensors([](auto& t) { t.lse.strides = {0, 0, 0, 1}; }, {"lse", "must not share an address"});
}

TEST_F(Errors, Lengths) {
  const auto expect_bad = [](std::vector<std::int64_t> lengths, std::initializer_list<const char*> in_keys,
                             std::initializer_list<const char*> in_queries) {
    expect_invalid_tensors([&](auto& t) { t.kv_lengths = lengths; }, in_keys);
    expect_invalid_tensors([&](auto& t) { t.query_lengths = lengths; }, in_queries);
  };
  expect_bad({1}, {"kv_lengths has 1 values", "2 sequences"}, {"query_lengths has 1 values", "2 sequences"});
  expect_bad({1, 2, 3}, {"kv_lengths has 3 values"}, {"query_lengths has 3 values"});
  expect_bad({1, -1}, {"kv_lengths[1] = -1", "0 .. 5"}, {"query_lengths[1] = -1", "0 .. 3"});
  expect_bad({6, 1}, {"kv_lengths[0] = 6", "0 .. 5"}, {"query_lengths[0] = 6", "0 .. 3"});
}

TEST_F(Errors, WorkspaceThatIsTooSmall) {
  for (const Backend* backend : backends()) {
    if (!backend->available()) continue;
    ProblemData data(good_problem());
    const Bits before = bits_of(data);
    const auto plan = AttentionPlan::create_on(*backend, data.problem());
    ASSERT_TRUE(plan.ok());
    if (backend->family() == "cuda") continue;  // has its own, on the device
    ASSERT_GT(plan->workspace_bytes(), 0u);
    std::vector<std::byte> workspace(plan->workspace_bytes() - 1);
    const Status status = plan->run(data.tensors(), workspace);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_TRUE(says(status.message(), {"workspace", fmt::format("{}", workspace.size()).c_str(),
                                        fmt::format("{}", workspace.size() + 1).c_str()}))
        << status.message();
    EXPECT_EQ(bits_of(data), before);
  }
}

TEST_F(Errors, Threads) {
  for (const int threads : {-1, 1025, std::numeric_limits<int>::min()}) {
    const auto plan = AttentionPlan::create(good_problem(), {"", threads});
    EXPECT_EQ(plan.status().code(), StatusCode::invalid_argument);
    EXPECT_TRUE(says(plan.status().message(), {fmt::format("threads = {}", threads).c_str()}))
        << plan.status().message();
  }
}

TEST_F(Errors, UnknownBackendListsThoseThatThereAre) {
  for (const char* name : {"gpu", "cpu-", "CPU", "reference ", "cpu-avx1024"}) {
    const auto plan = AttentionPlan::create(good_problem(), {name, 0});
    EXPECT_EQ(plan.status().code(), StatusCode::invalid_argument);
    EXPECT_TRUE(says(plan.status().message(), {"backend = '", name, "reference"})) << plan.status().message();
  }
}

TEST_F(Errors, TypeThatABackendCannotDoIsUnsupported) {
  AttentionProblem problem = good_problem();
  problem.dtype = DType::float64;
  for (const Backend* backend : backends()) {
    if (!backend->available() || backend->supports(problem)) continue;
    const auto plan = AttentionPlan::create(problem, {std::string(backend->name()), 0});
    EXPECT_EQ(plan.status().code(), StatusCode::unsupported);
    EXPECT_TRUE(says(plan.status().message(), {"f64"})) << plan.status().message();
  }
  EXPECT_EQ(AttentionPlan::create(problem)->backend().name(), "reference");  // the best that does
}

/// The short form judges the same, and what shapes disagree about.
TEST_F(Errors, OfTheCallThatPlansAndRuns) {
  ProblemData data(good_problem());
  data.fill_gaussian(1);
  data.clear_outputs();
  const Bits before = bits_of(data);
  AttentionTensors tensors = data.tensors();
  tensors.value.shape[2] = 4;
  EXPECT_TRUE(says(attention(tensors).message(), {"value", "[2, 2, 4, 6]", "[2, 2, 5, 6]"}));
  EXPECT_TRUE(says(attention({}).message(), {"heads = 0"}));
  EXPECT_EQ(bits_of(data), before);
  EXPECT_TRUE(attention(data.tensors()).ok());
  EXPECT_TRUE(agrees(AttentionPlan::create(data.problem())->backend(), data));
}

}  // namespace
}  // namespace siattn::test
