// SPDX-License-Identifier: Apache-2.0
// The contract, "Agreement" and "Determinism", for the ways in which a server brings sequences: dense, ragged, paged,
// alone, in slices: the same bits.
#include <thread>

#include "tests/properties.hpp"
#include "verify/guarded_memory.hpp"
#include "verify/random.hpp"

namespace siattn::test {
namespace {

using verify::Batching;
using Lengths = std::vector<std::int64_t>;

/// Some sequences of one problem.
struct Batch {
  AttentionProblem problem;
  Lengths queries, keys;
  std::uint64_t seed = 1;
};

/// Standard normal entries that depend on the sequence's number, head and place in the sequence alone.
void fill(ProblemData& data, std::uint64_t seed, std::int64_t first_sequence = 0) {
  const auto normal = [=](std::uint32_t stream) -> ProblemData::Fill {
    return [random = verify::Random(seed, stream), first_sequence](std::int64_t b, std::int64_t h, std::int64_t i,
                                                                   std::int64_t d) {
      return random.gaussian(static_cast<std::uint64_t>((((b + first_sequence) * 16 + h) * 8192 + i) * 64 + d));
    };
  };
  data.fill(normal(1), normal(2), normal(3));
}

class Batches : public RelationTest {
 protected:
  std::vector<std::byte> bits(const Batch& batch, const Batching& batching, int threads = 1) const {
    ProblemData data(batch.problem, {}, batching, batch.queries, batch.keys);
    fill(data, batch.seed);
    require(run(backend(), data, threads));
    if (!data.intact()) RC_FAIL("wrote outside its elements");
    return data.output_bits();
  }

  /// out of every sequence by itself, then lse: what output_bits() has of a batch, if its problem allows a single one.
  std::vector<std::byte> bits_alone(const Batch& batch) const {
    std::vector<std::byte> out, lse;
    for (std::size_t b = 0; b < batch.queries.size(); ++b) {
      AttentionProblem problem = batch.problem;
      problem.shape.batch = 1;
      problem.shape.query_len = batch.queries[b];
      problem.shape.kv_len = batch.keys[b];
      ProblemData data(problem);
      fill(data, batch.seed, static_cast<std::int64_t>(b));
      require(run(backend(), data));
      const Bits bits = bits_of(data);
      out.insert(out.end(), bits.out.begin(), bits.out.end());
      lse.insert(lse.end(), bits.lse.begin(), bits.lse.end());
    }
    out.insert(out.end(), lse.begin(), lse.end());
    return out;
  }

  Batch any_batch() const {
    const Recipe recipe = any_recipe([](Recipe& r) { r.batch = 1; });
    Batch batch{problem_of(recipe, dtype()), {}, {}, recipe.seed};
    AttentionShape& shape = batch.problem.shape;
    shape.batch = draw("sequences", 1, 4);
    for (std::int64_t b = 0; b < shape.batch; ++b) {
      batch.queries.push_back(draw("queries", 0, shape.query_len));
      batch.keys.push_back(draw("keys", 0, shape.kv_len));
    }
    return batch;
  }
};
SIATTN_FOR_EVERY_TARGET(Batches);

TEST_P(Batches, DenseRaggedAndPagedGiveTheSameBits) {
  expect("dense, ragged and paged batches agree", [this] {
    const Batch batch = any_batch();
    const auto dense = bits(batch, {});
    const std::int64_t page_size = std::int64_t{1} << draw("log2 of the page size", 0, 6);
    const int threads = static_cast<int>(draw("threads", 1, 3));
    const auto require_same = [&](const char* what, const Batching& batching) {
      if (bits(batch, batching, threads) != dense) RC_FAIL(what);
    };
    require_same("ragged queries and keys", {.ragged_queries = true, .ragged_keys = true});
    require_same("ragged queries", {.ragged_queries = true, .spare_tokens = 2});
    require_same("ragged queries before pages", {.ragged_queries = true, .page_size = page_size});
    require_same("pages", {.page_size = page_size});
  });
}

TEST_P(Batches, EachSequenceHasTheBitsThatItHasAlone) {
  expect("a ragged batch is its sequences", [this] {
    Batch batch = any_batch();
    // Without one offset for all; a sequence alone has its own.
    batch.problem.options.query_offset = std::nullopt;
    if (bits(batch, {.ragged_queries = true, .ragged_keys = true}, 2) != bits_alone(batch)) RC_FAIL("other bits");
  });
}

/// Prompts and single tokens, longer than chunks and splits of keys, on more threads than a machine has.
TEST_P(Batches, LongAndShortSequencesTogether) {
  Batch batch{problem({7, 4, 2, 150, 2100, 8, 8}), {1, 150, 1, 3, 0, 97, 2}, {2100, 150, 1025, 3, 7, 600, 1024}, 1};
  if (backend().family() == "reference") batch.problem.shape.kv_len = 2100;
  const auto alone = bits_alone(batch);
  for (const int threads : {1, 2, 5}) {
    EXPECT_EQ(bits(batch, {.ragged_queries = true, .ragged_keys = true}, threads), alone) << threads;
    EXPECT_EQ(bits(batch, {.ragged_queries = true, .page_size = 16}, threads), alone) << threads;
  }
}

/// A plan is a bucket: one for more and longer sequences than a run brings.
TEST_P(Batches, APlanForMoreServesFewer) {
  AttentionProblem bucket = problem({9, 2, 1, 300, 1300, 8, 8});
  const auto plan = AttentionPlan::create(bucket, {std::string(backend().name()), 3});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  std::vector<std::byte> workspace(plan->workspace_bytes());
  for (const auto& [queries, keys] : {std::pair<Lengths, Lengths>{{1, 1}, {30, 1200}},
                                      {{120, 1, 7}, {120, 1, 90}},
                                      {{300}, {300}},
                                      {{}, {}},
                                      {{299, 201, 4}, {1300, 201, 4}}}) {
    Batch batch{bucket, queries, keys, 3};
    batch.problem.shape.batch = static_cast<std::int64_t>(queries.size());
    ProblemData data(batch.problem, {}, {.ragged_queries = true, .ragged_keys = true}, queries, keys);
    fill(data, batch.seed);
    data.clear_outputs();
    std::fill(workspace.begin(), workspace.end(), std::byte{0xFF});
    const Status status = plan->run(data.tensors(), workspace);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(data.output_bits(), bits_alone(batch)) << queries.size() << " sequences";
    EXPECT_TRUE(data.intact());
  }
}

/// Shorter sequences may be cut into blocks of more rows than the longest, whose blocks are whole tiles: but not of more
/// than the plan has memory for. Behind it lies a page that nobody may touch.
TEST_P(Batches, RunsStayWithinTheWorkspaceOfTheirBucket) {
  if (backend().family() == "reference") GTEST_SKIP() << "one row at a time";
  for (const std::int64_t heads : {1, 3, 4, 5}) {
    const AttentionProblem bucket = problem({8, heads, 1, 300, 300, 8, 8});
    const auto plan = AttentionPlan::create(bucket, {std::string(backend().name()), 1});
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    for (std::int64_t longest = 90; longest <= 300; longest += 28) {
      const verify::GuardedMemory workspace("the workspace", plan->workspace_bytes(), verify::Guard::page_behind);
      Batch batch{bucket, Lengths(8, longest), Lengths(8, longest), 1};
      ProblemData data(batch.problem, {}, {.ragged_queries = true, .ragged_keys = true}, batch.queries, batch.keys);
      fill(data, batch.seed);
      const Status status = plan->run(data.tensors(), {workspace.data(), plan->workspace_bytes()});
      ASSERT_TRUE(status.ok()) << status.message();
    }
  }
}

/// All slices of a run, in any order or at once, write what run() writes.
TEST_P(Batches, SlicesMakeTheWhole) {
  const Batch batch{problem({6, 4, 2, 130, 1500, 8, 8}), {1, 130, 1, 3, 0, 40}, {1500, 130, 1025, 3, 7, 60}, 2};
  const Batching batching{.ragged_queries = true, .spare_tokens = 2, .page_size = 32};
  const auto whole = bits(batch, batching);
  constexpr int kThreads = 4;
  const auto plan = AttentionPlan::create(batch.problem, {std::string(backend().name()), kThreads});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  for (const int count : {1, 2, 3, kThreads}) {
    for (const bool at_once : {false, true}) {
      ProblemData data(batch.problem, {}, batching, batch.queries, batch.keys);
      fill(data, batch.seed);
      data.clear_outputs();
      const AttentionTensors tensors = data.tensors();
      std::vector<std::byte> workspace(plan->workspace_bytes(), std::byte{0xFF});
      std::vector<Status> status(static_cast<std::size_t>(count));
      const auto slice = [&](int index) {
        status[static_cast<std::size_t>(index)] = plan->run_slice(tensors, workspace, {index, count});
      };
      std::vector<std::thread> pool;
      for (int index = count - 1; index >= 0; --index) {
        if (at_once) {
          pool.emplace_back(slice, index);
        } else {
          slice(index);
        }
      }
      for (std::thread& thread : pool) thread.join();
      for (const Status& one : status) EXPECT_TRUE(one.ok()) << one.message();
      EXPECT_EQ(data.output_bits(), whole) << count << " slices" << (at_once ? " at once" : "");
      EXPECT_TRUE(verify::compare_with_reference(data.problem(), tensors, backend().numerics(dtype())).good());
    }
  }
}

/// No slice does another's work: each writes part of the rows, and no row has two writers.
TEST_P(Batches, SlicesShareTheRows) {
  const Batch batch{problem({8, 2, 2, 60, 400, 4, 4}), {1, 60, 1, 1, 1, 1, 20, 1}, {400, 60, 300, 350, 400, 390, 20, 9}, 2};
  const auto plan = AttentionPlan::create(batch.problem, {std::string(backend().name()), 2});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  std::array<std::size_t, 2> written{};
  std::size_t all = 0;
  for (const int index : {0, 1}) {
    ProblemData data(batch.problem, {}, {.ragged_queries = true, .ragged_keys = true}, batch.queries, batch.keys);
    fill(data, batch.seed);
    data.clear_outputs();
    const AttentionTensors tensors = data.tensors();
    std::vector<std::byte> workspace(plan->workspace_bytes());
    ASSERT_TRUE(plan->run_slice(tensors, workspace, {index, 2}).ok());
    const Shape4 shape = tensors.lse.shape;
    all = static_cast<std::size_t>(shape[1] * shape[2]);
    for (std::int64_t h = 0; h < shape[1]; ++h) {
      for (std::int64_t i = 0; i < shape[2]; ++i) written[static_cast<std::size_t>(index)] += !std::isnan(data.lse.get(0, h, i, 0));
    }
  }
  EXPECT_EQ(written[0] + written[1], all);
  if (backend().family() == "cpu") {
    EXPECT_GT(std::min(written[0], written[1]), 0u);
  }
}

TEST_P(Batches, SliceArgumentsAreChecked) {
  ProblemData data(problem({1, 1, 1, 2, 2, 4, 4}));
  data.fill_gaussian(1);
  const auto plan = AttentionPlan::create(data.problem(), {std::string(backend().name()), 2});
  ASSERT_TRUE(plan.ok());
  std::vector<std::byte> workspace(plan->workspace_bytes());
  for (const auto& [slice, message] : {std::pair<Slice, const char*>{{0, 0}, "slice count = 0"},
                                       {{0, 3}, "slice count = 3"},
                                       {{-1, 2}, "slice index = -1"},
                                       {{2, 2}, "slice index = 2"}}) {
    data.clear_outputs();
    const Status status = plan->run_slice(data.tensors(), workspace, slice);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
    EXPECT_TRUE(std::isnan(data.out.get(0, 0, 0, 0)));
  }
}

/// Sequences that share the pages of a common beginning.
TEST_P(Batches, SharedPagesAreReadByAll) {
  Batch batch{problem({3, 2, 1, 4, 90, 8, 8}), {1, 4, 1}, {90, 70, 64}, 4};
  const auto with = [&](bool shared) {
    ProblemData data(batch.problem, {}, {.ragged_queries = true, .page_size = 16, .shared_pages = shared},
                     batch.queries, batch.keys);
    // The first 64 keys are the same for all, whoever writes them into the pages.
    const auto common = [&](std::uint32_t stream) -> ProblemData::Fill {
      return [random = verify::Random(5, stream)](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) {
        return random.gaussian(static_cast<std::uint64_t>((((i < 64 ? 0 : b) * 16 + h) * 8192 + i) * 64 + d));
      };
    };
    data.fill(common(1), common(2), common(3));
    require(run(backend(), data, 2));
    return data.output_bits();
  };
  EXPECT_EQ(with(true), with(false));
}

}  // namespace
}  // namespace siattn::test
