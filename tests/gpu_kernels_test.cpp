// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels in the emulator: right and the same bits under every schedule, and what of the contract hangs on how
// they are made. That they compute attention in all its variants is for the conformance suite to show.
#include <cmath>

#include "tests/emulated_kernels.hpp"
#include "tests/support.hpp"
#include "verify/random.hpp"

namespace siattn::test {
namespace {

using gpu::emulator::Schedule;
using Lengths = std::vector<std::int64_t>;

/// A problem and its sequences.
struct Batch {
  AttentionProblem problem;
  Lengths queries, keys;
  verify::Batching batching = {};
  Placement placement = {};
};

AttentionProblem problem(DType dtype, std::int64_t query_len, std::int64_t kv_len, std::int64_t dim,
                         const AttentionOptions& options = {}, std::int64_t heads = 1, std::int64_t kv_heads = 1) {
  return {.shape = {1, heads, kv_heads, query_len, kv_len, dim, dim}, .dtype = dtype, .options = options};
}

Status run_on(const Backend& backend, ProblemData& data) {
  data.clear_outputs();
  const auto plan = AttentionPlan::create_on(backend, data.problem());
  return plan ? plan->run(data.tensors(), {}) : plan.status();
}

/// Succeeds and every element is within the bound; on_schedule says what else.
void expect_right(const EmulatedKernels& backend, ProblemData& data) {
  const Status status = run_on(backend, data);
  ASSERT_TRUE(status.ok()) << text_of(data.problem()) << ": " << status.message();
  EXPECT_TRUE(agrees(backend, data));
}

// ---- Schedules ------------------------------------------------------------------------------------------------------

/// Each goes several times round the loops of one kernel: enough for a missing barrier or wait to show.
std::vector<AttentionProblem> loops(DType dtype) {
  AttentionOptions window;
  window.window = 90;
  AttentionOptions sinks;
  sinks.n_sink = 70;
  AttentionOptions factors;
  factors.transform = LogN{{0.3, 0.7}};
  std::vector<AttentionProblem> list;
  for (const std::int64_t dim : {std::int64_t{40}, std::int64_t{96}, std::int64_t{104}, std::int64_t{130}}) {
    const std::int64_t n = dim > 128 ? 75 : 140;
    list.push_back(problem(dtype, n, n, dim));              // prefill or plain: tiles of queries and of keys
    list.push_back(problem(dtype, 1, 600, dim, {}, 4, 1));  // decode: steps of each warp, two splits
    if (dim == 40 || dim == 104) list.push_back(problem(dtype, 17, 230, dim, window, 2, 1));
  }
  // Tiles of keys that every query sees, of which some keys are sinks, or whose rows have factors.
  list.push_back(problem(dtype, 20, 150, 64, sinks, 2, 2));
  list.push_back(problem(dtype, 20, 150, 64, factors, 2, 2));
  list.push_back(problem(dtype, 3, 1100, 16, sinks, 2, 1));
  return list;
}

class GpuKernels : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(, GpuKernels, ::testing::Values(DType::float32, DType::bfloat16, DType::float16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST_P(GpuKernels, EveryScheduleGivesTheSameRightBits) {
  for (const AttentionProblem& p : loops(GetParam())) {
    ProblemData data(p);
    data.fill_gaussian(5);
    std::optional<Bits> first;
    for (const Schedule& schedule : gpu::emulator::schedules()) {
      const EmulatedKernels backend(schedule);
      ASSERT_NO_FATAL_FAILURE(expect_right(backend, data));
      const Bits bits = bits_of(data);
      EXPECT_EQ(bits, first.value_or(bits)) << text_of(p);
      first = bits;
      if (GetParam() == DType::float16) break;  // the text of bfloat16, but for how numbers are packed
    }
  }
}

// ---- What a row's bits depend on ------------------------------------------------------------------------------------

/// Entries that depend on the number of the sequence and the place in it alone.
void fill(ProblemData& data, std::int64_t first_sequence = 0) {
  const auto normal = [=](std::uint32_t stream) -> ProblemData::Fill {
    return [random = verify::Random(3, stream), first_sequence](std::int64_t b, std::int64_t h, std::int64_t i,
                                                                std::int64_t d) {
      return random.gaussian(static_cast<std::uint64_t>((((b + first_sequence) * 16 + h) * 8192 + i) * 256 + d));
    };
  };
  data.fill(normal(1), normal(2), normal(3));
}

std::vector<std::byte> bits_of(const Batch& batch) {
  ProblemData data(batch.problem, batch.placement, batch.batching, batch.queries, batch.keys);
  fill(data);
  const Status status = run_on(EmulatedKernels(), data);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(data.intact());
  return data.output_bits();
}

/// Prompts, single tokens and nothing side by side; one of several splits, one with more rows than a block packs.
TEST_P(GpuKernels, ASequenceHasTheSameBitsWhereverItLies) {
  Batch batch{problem(GetParam(), 150, 1300, 24, {}, 4, 2), {1, 150, 8, 0, 20, 3}, {1300, 150, 600, 7, 0, 64}};
  batch.problem.shape.batch = 6;
  const auto dense = bits_of(batch);
  std::vector<std::byte> out, lse;
  for (std::size_t b = 0; b < batch.queries.size(); ++b) {
    AttentionProblem alone = batch.problem;
    alone.shape.batch = 1;
    alone.shape.query_len = batch.queries[b];
    alone.shape.kv_len = batch.keys[b];
    ProblemData data(alone);
    fill(data, static_cast<std::int64_t>(b));
    ASSERT_TRUE(run_on(EmulatedKernels(), data).ok());
    const Bits bits = test::bits_of(data);
    out.insert(out.end(), bits.out.begin(), bits.out.end());
    lse.insert(lse.end(), bits.lse.begin(), bits.lse.end());
  }
  out.insert(out.end(), lse.begin(), lse.end());
  EXPECT_EQ(dense, out) << "alone";
  const auto expect_same = [&](const char* what, const verify::Batching& batching, const Placement& placement) {
    EXPECT_EQ(bits_of({batch.problem, batch.queries, batch.keys, batching, placement}), dense) << what;
  };
  expect_same("ragged", {.ragged_queries = true, .ragged_keys = true, .spare_tokens = 3}, {});
  for (const std::int64_t page_size : {1, 16, 256}) {
    expect_same("paged", {.ragged_queries = true, .page_size = page_size}, {});
  }
  expect_same("rows that are no whole vectors", {}, {.row_padding = 3, .misalignment = 1});
  expect_same("rows that are, but for where they begin", {}, {.misalignment = 4});
  expect_same("heads inside", {}, {.heads_inside = true});
}

/// A row far from the first of its tile, of its block and of its split has the bits that it has as the first.
TEST_P(GpuKernels, ChunksOfAPromptHaveTheBitsOfThePrompt) {
  const AttentionProblem whole = problem(GetParam(), 200, 200, 64);
  ProblemData all(whole);
  all.fill_gaussian(9);
  ASSERT_TRUE(run_on(EmulatedKernels(), all).ok());
  AttentionProblem part_problem = problem(GetParam(), 60, 200, 64);
  part_problem.options.query_offset = 77;
  ProblemData part(part_problem);
  fill_from(part.query, all.query, [](const Shape4& at) { return Shape4{at[0], at[1], at[2] + 77, at[3]}; });
  fill_from(part.key, all.key, [](const Shape4& at) { return at; });
  fill_from(part.value, all.value, [](const Shape4& at) { return at; });
  ASSERT_TRUE(run_on(EmulatedKernels(), part).ok());
  for (std::int64_t i = 0; i < 60; ++i) {
    EXPECT_EQ(part.lse.get(0, 0, i, 0), all.lse.get(0, 0, i + 77, 0)) << i;
    for (std::int64_t d = 0; d < 64; ++d) EXPECT_EQ(part.out.get(0, 0, i, d), all.out.get(0, 0, i + 77, d)) << i;
  }
}

// ---- What is not finite ---------------------------------------------------------------------------------------------

/// A bad value in every channel but 0, or a bad key, at `at` of kv head 0, before a window of 40: rows that do not see it
/// keep their bits, those that do get it in those channels.
void expect_contained(AttentionProblem p, std::int64_t at, double bad, bool in_value) {
  p.options.window = 40;
  ProblemData good(p);
  good.fill_gaussian(6);
  ASSERT_TRUE(run_on(EmulatedKernels(), good).ok());
  ProblemData data(p);
  data.fill_gaussian(6);
  for (std::int64_t d = 1; d < p.shape.head_dim; ++d) (in_value ? data.value : data.key).set(0, 0, at, d, bad);
  ASSERT_TRUE(run_on(EmulatedKernels(), data).ok());
  const std::int64_t offset = p.shape.kv_len - p.shape.query_len;
  for (std::int64_t h = 0; h < p.shape.query_heads; ++h) {
    for (std::int64_t i = 0; i < p.shape.query_len; ++i) {
      const bool sees = h < p.shape.query_heads / p.shape.kv_heads && at <= offset + i && at > offset + i - 40;
      for (std::int64_t d = 0; d < p.shape.value_dim; ++d) {
        const double x = data.out.get(0, h, i, d);
        const std::string where =
            fmt::format("{}: {} in {} {}, row {}, channel {}", text_of(p), bad, in_value ? "value" : "key", at, i, d);
        if (!sees || (in_value && d == 0)) {
          ASSERT_EQ(x, good.out.get(0, h, i, d)) << where;
        } else if (std::isnan(bad) || !in_value) {
          ASSERT_TRUE(std::isnan(x)) << where;
        } else {
          ASSERT_EQ(x, bad) << where;
        }
      }
      ASSERT_EQ(std::isnan(data.lse.get(0, h, i, 0)), sees && !in_value) << i;
    }
  }
}

TEST_P(GpuKernels, WhatIsNotFiniteReachesTheRowsThatSeeItAndNoOthers) {
  for (const std::int64_t dim : {std::int64_t{24}, std::int64_t{96}, std::int64_t{128}}) {
    const AttentionProblem prompt = problem(GetParam(), 80, 140, dim);
    const AttentionProblem tokens = problem(GetParam(), 8, 140, dim, {}, 4, 2);
    for (const double bad : {std::nan(""), -kInfinity}) {
      // Where all of a block's queries are before it, some are, and none is.
      for (const std::int64_t at : {std::int64_t{22}, std::int64_t{70}, std::int64_t{137}}) {
        ASSERT_NO_FATAL_FAILURE(expect_contained(prompt, at, bad, true));
      }
      for (const std::int64_t at : {std::int64_t{94}, std::int64_t{137}}) {
        ASSERT_NO_FATAL_FAILURE(expect_contained(tokens, at, bad, true));
      }
    }
    ASSERT_NO_FATAL_FAILURE(expect_contained(prompt, 70, std::nan(""), false));
    ASSERT_NO_FATAL_FAILURE(expect_contained(tokens, 137, std::nan(""), false));
  }
}

/// An infinite value of a visible key counts however small its weight, here 2^-60: below what float16 can hold.
TEST_P(GpuKernels, AnInfiniteValueOfLittleWeightCounts) {
  for (const std::int64_t queries : {std::int64_t{1}, std::int64_t{30}}) {
    AttentionOptions options;
    options.transform = NoTransform{};
    options.softmax_scale = 1;
    ProblemData data(problem(GetParam(), queries, 90, 16, options));
    data.fill([](auto, auto, auto, auto d) { return d == 0 ? 1.0 : 0.0; },
              [](auto, auto, auto j, auto d) { return d == 0 && j == 5 ? -41.6 : 0.0; },
              [](auto, auto, auto j, auto) { return j == 5 ? kInfinity : 1.0; });
    ASSERT_TRUE(run_on(EmulatedKernels(), data).ok());
    for (std::int64_t i = 0; i < queries; ++i) EXPECT_EQ(data.out.get(0, 0, i, 3), kInfinity) << i;
  }
}

/// Tables begin and end where visible pairs do: a kernel that read past either end would be out of bounds.
TEST_P(GpuKernels, TablesOfEachHeadAreReadWithinTheirEnds) {
  AttentionOptions options;
  options.transform = ScaleInvariant{.tau = {0.5, 3, 40}};
  for (const Mask mask : {Mask::causal, Mask::bidirectional}) {
    options.mask = mask;
    for (const std::int64_t offset : {std::int64_t{-20}, std::int64_t{0}, std::int64_t{90}, kLastPosition - 40}) {
      options.query_offset = offset;
      ProblemData data(problem(GetParam(), 33, 70, 16, options, 3, 1));
      data.fill_gaussian(8);
      expect_right(EmulatedKernels(), data);
    }
  }
}

// ---- How a run is cut -----------------------------------------------------------------------------------------------

TEST(GpuLaunch, ASequencesSplitsHoldEveryVisibleKeyOnce) {
  for (const bool causal : {true, false}) {
    for (const std::int64_t window : {std::int64_t{1}, std::int64_t{100}, std::int64_t{3000}, gpu::kNoWindow}) {
      for (const std::int32_t keys : {0, 1, 511, 512, 513, 16384, 16385, 1 << 20, (1 << 30) - 1}) {
        for (const std::int32_t queries : {1, 8}) {
          gpu::Sequence s;
          s.query_len = queries;
          s.kv_len = keys;
          s.query_offset = keys - queries;
          const gpu::Splits splits = gpu::splits_of(causal, window, s, 4);
          const std::string what = fmt::format("{} {} {} {}", causal, window, keys, queries);
          EXPECT_GE(splits.count, 1) << what;
          EXPECT_LE(splits.count, gpu::kMaxSplits) << what;
          EXPECT_EQ(splits.begin % gpu::kKeyAlignment, 0) << what;
          EXPECT_LE(splits.begin, gpu::visible_keys(causal, window, s, 0).first) << what;
          const std::int64_t last = gpu::visible_keys(causal, window, s, queries - 1).last;
          EXPECT_GE(splits.begin + splits.count * splits.size, last) << what;
          // None of them is empty, so that no state is written for nothing.
          EXPECT_TRUE(splits.count == 1 || splits.begin + (splits.count - 1) * splits.size < last) << what;
        }
      }
    }
  }
}

/// The launches of a problem, as "entry blocks".
std::vector<std::string> launches(const Batch& batch) {
  ProblemData data(batch.problem, batch.placement, batch.batching, batch.queries, batch.keys);
  std::vector<std::string> list;
  const EmulatedKernels backend({}, [&](const gpu::Forward& forward, const auto&) {
    gpu::Launches all;
    EXPECT_TRUE(gpu::launches_of(forward, batch.problem.dtype, &all).ok());
    for (const gpu::Launch& launch : all) list.push_back(fmt::format("{} {}", launch.entry, launch.blocks));
  });
  EXPECT_TRUE(run_on(backend, data).ok());
  return list;
}

TEST(GpuLaunch, LaunchesWhatARunNeedsAndNoMore) {
  using List = std::vector<std::string>;
  const auto bf16 = DType::bfloat16;
  EXPECT_EQ(launches({problem(bf16, 130, 130, 64, {}, 4, 2), {}, {}}), List{"siattn_prefill_bf16_64 8"});
  EXPECT_EQ(launches({problem(bf16, 130, 130, 65, {}, 4, 2), {}, {}}), List{"siattn_prefill_bf16_96 12"});
  EXPECT_EQ(launches({problem(DType::float16, 130, 130, 97, {}, 4, 2), {}, {}}), List{"siattn_prefill_f16_128 12"});
  EXPECT_EQ(launches({problem(bf16, 1, 130, 64, {}, 4, 2), {}, {}}), List{"siattn_decode_bf16_64 2"});
  EXPECT_EQ(launches({problem(bf16, 8, 1300, 64, {}, 4, 1), {}, {}}),
            (List{"siattn_decode_bf16_64 6", "siattn_combine_bf16 32"}));
  EXPECT_EQ(launches({problem(DType::float32, 130, 130, 128, {}, 4, 2), {}, {}}), List{"siattn_plain_f32_128 34"});
  EXPECT_EQ(launches({problem(DType::float32, 130, 130, 129, {}, 4, 2), {}, {}}), List{"siattn_plain_f32_512 34"});
  EXPECT_EQ(launches({problem(bf16, 130, 130, 129, {}, 4, 2), {}, {}}), List{"siattn_plain_bf16_512 34"});
  EXPECT_EQ(launches({problem(bf16, 0, 130, 64), {}, {}}), List{});
  Batch batch{problem(bf16, 200, 1300, 64, {}, 2, 1), {0, 150, 2}, {1300, 150, 1300}};
  batch.problem.shape.batch = 3;
  EXPECT_EQ(launches(batch), (List{"siattn_fill_16 10", "siattn_prefill_bf16_64 12", "siattn_decode_bf16_64 9",
                                   "siattn_combine_bf16 12"}));
}

TEST(GpuLaunch, RefusesWhatThirtyTwoBitsDoNotCount) {
  gpu::Forward forward;
  forward.batch = 1 << 16;
  forward.query_heads = forward.kv_heads = 1 << 10;
  forward.head_dim = forward.value_dim = 64;
  forward.query_tiles = 1 << 5;
  gpu::Launches launches;
  const Status status = gpu::launches_of(forward, DType::bfloat16, &launches);
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_NE(status.message().find("2147483648 blocks of siattn_prefill_bf16_64"), std::string::npos)
      << status.message();
  const EmulatedKernels backend;
  EXPECT_TRUE(backend.supports(problem(DType::bfloat16, 1, 1 << 30, 64)).ok());
  const Status keys = backend.supports(problem(DType::bfloat16, 1, (1 << 30) + 1, 64));
  EXPECT_NE(keys.message().find("kv_len = 1073741825"), std::string::npos) << keys.message();
  const Status queries = backend.supports(problem(DType::bfloat16, (1 << 28) + 1, 1, 64, {}, 8, 2));
  EXPECT_NE(queries.message().find("query_len = 268435457"), std::string::npos) << queries.message();
}

}  // namespace
}  // namespace siattn::test
