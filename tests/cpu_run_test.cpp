// SPDX-License-Identifier: Apache-2.0
// What a run leaves alone: the heap, the control word, memory beyond what was asked for. On every instruction set that
// this machine has. What it computes is tested across backends, in the contract tests.
#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "cpu/backend.hpp"
#include "cpu/isa.hpp"

// Every allocation of the process goes through here: the library's, OpenMP's, the C library's own. Not where sanitizers
// bring an allocator of their own, nor with LLVM's OpenMP, which allocates for each team (GCC's does only once).
#if defined(__GLIBC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SIATTN_COUNTS_ALLOCATIONS 1
namespace {
std::atomic<std::int64_t> allocations{0};
}
extern "C" {
void* __libc_malloc(std::size_t size);
void* malloc(std::size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
}
#endif

namespace siattn::cpu {
namespace {

/// Dense tensors of one problem, filled with numbers that do not matter.
struct Data {
  AttentionShape shape;
  std::vector<float> query, key, value, out, lse;

  explicit Data(const AttentionShape& s) : shape(s) {
    const auto fill = [](std::vector<float>& x, std::int64_t n) {
      x.resize(static_cast<std::size_t>(n));
      std::uint32_t state = 1;
      for (float& element : x) {
        state = state * 1664525U + 1013904223U;
        element = static_cast<float>(state >> 8) * 0x1p-23F - 1.0F;
      }
    };
    fill(query, s.batch * s.query_heads * s.query_len * s.head_dim);
    fill(key, s.batch * s.kv_heads * s.kv_len * s.head_dim);
    fill(value, s.batch * s.kv_heads * s.kv_len * s.value_dim);
    out.resize(static_cast<std::size_t>(s.batch * s.query_heads * s.query_len * s.value_dim));
    lse.resize(static_cast<std::size_t>(s.batch * s.query_heads * s.query_len));
  }
  AttentionTensors tensors() {
    const AttentionShape& s = shape;
    AttentionTensors t;
    t.query = TensorView(query.data(), {s.batch, s.query_heads, s.query_len, s.head_dim});
    t.key = TensorView(key.data(), {s.batch, s.kv_heads, s.kv_len, s.head_dim});
    t.value = TensorView(value.data(), {s.batch, s.kv_heads, s.kv_len, s.value_dim});
    t.out = MutableTensorView(out.data(), {s.batch, s.query_heads, s.query_len, s.value_dim});
    t.lse = MutableTensorView(lse.data(), {s.batch, s.query_heads, s.query_len, 1});
    return t;
  }
};

class CpuRun : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    if (const Status status = backend().available(); !status) GTEST_SKIP() << status.message();
  }
  static const Backend& backend() { return *backends()[GetParam()]; }
  static AttentionPlan plan(const AttentionShape& shape, int threads, const AttentionOptions& options = {}) {
    auto result = AttentionPlan::create({shape, DType::float32, options}, {std::string(backend().name()), threads});
    EXPECT_TRUE(result) << result.status().message();
    return *std::move(result);
  }
};

constexpr AttentionShape kDecode{
    .batch = 2, .query_heads = 4, .kv_heads = 2, .query_len = 1, .kv_len = 3000, .head_dim = 65, .value_dim = 33};
constexpr AttentionShape kPrefill{
    .batch = 2, .query_heads = 4, .kv_heads = 2, .query_len = 150, .kv_len = 700, .head_dim = 65, .value_dim = 33};

#if defined(SIATTN_COUNTS_ALLOCATIONS)
TEST_P(CpuRun, AllocatesNothing) {
  for (const AttentionShape& shape : {kDecode, kPrefill}) {
    Data data(shape);
    const AttentionTensors tensors = data.tensors();
    const AttentionPlan p = plan(shape, 2);
    std::vector<std::byte> workspace(p.workspace_bytes());
    ASSERT_TRUE(backend().run(p.prepared(), tensors, workspace));
    const std::int64_t before = allocations;  // OpenMP has its threads by now
    const Status status = backend().run(p.prepared(), tensors, workspace);
    const std::int64_t after = allocations;
    EXPECT_EQ(after, before);
    EXPECT_TRUE(status);
  }
  const std::int64_t before = allocations;
  void* volatile memory = std::malloc(1);
  const std::int64_t after = allocations;
  std::free(memory);
  EXPECT_EQ(after, before + 1) << "the counter does not count";
}
#endif

TEST_P(CpuRun, StaysInsideItsWorkspace) {
  for (const AttentionShape& shape : {kDecode, kPrefill}) {
    for (std::size_t shift = 0; shift < 64; shift += 7) {
      Data data(shape);
      const AttentionPlan p = plan(shape, 3);
      const std::byte guard{0xA5};
      std::vector<std::byte> memory(shift + p.workspace_bytes() + 64, guard);
      ASSERT_TRUE(backend().run(p.prepared(), data.tensors(), {memory.data() + shift, p.workspace_bytes()}));
      for (std::size_t i = 0; i < memory.size(); ++i) {
        if (i < shift || i >= shift + p.workspace_bytes()) {
          ASSERT_EQ(memory[i], guard) << i;
        }
      }
    }
  }
}

TEST_P(CpuRun, NeedsLittleMemoryAtAnyLength) {
  for (const std::int64_t dim : {1, 64, 128, 512}) {
    for (const std::int64_t query_len : {1, 4096}) {
      const AttentionShape shape{.batch = 64,
                                 .query_heads = 64,
                                 .kv_heads = 64,
                                 .query_len = query_len,
                                 .kv_len = 1 << 20,
                                 .head_dim = dim,
                                 .value_dim = dim};
      for (const int threads : {1, 16}) {
        AttentionOptions options;
        options.window = 10;  // keeps the tables small, not the workspace
        const std::size_t bytes = plan(shape, threads, options).workspace_bytes();
        EXPECT_LE(bytes, static_cast<std::size_t>(threads) * (2U << 20)) << dim << ' ' << query_len << ' ' << threads;
      }
    }
  }
}

TEST_P(CpuRun, OneKeyIsExactDownToTheSubnormals) {
  Data data({.query_len = 1, .kv_len = 1, .head_dim = 4, .value_dim = 3});
  data.value = {1e-40F, -0x1p-149F, 0x1.234568p-3F};
  const AttentionPlan p = plan(data.shape, 1);
  std::vector<std::byte> workspace(p.workspace_bytes());
  ASSERT_TRUE(p.run(data.tensors(), workspace));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(data.out[0]), 0x000116C2U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(data.out[i], data.value[i]);
}

#if defined(__x86_64__)
// Of the calling thread. That no kernel holds an instruction which sets it, check_object.sh sees to.
TEST_P(CpuRun, LeavesTheControlWord) {
  constexpr unsigned kFlags = 0x3F;  // sticky: any inexact result sets one
  const unsigned original = _mm_getcsr();
  for (const unsigned change : {0U, 0x8000U, 0x0040U, 0x2000U}) {  // as found; flush to zero; subnormals are zero; down
    Data data(kPrefill);
    const AttentionPlan p = plan(kPrefill, 2);
    std::vector<std::byte> workspace(p.workspace_bytes());
    _mm_setcsr(original ^ change);
    const Status status = p.run(data.tensors(), workspace);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(original);
    EXPECT_TRUE(status);
    EXPECT_EQ(after & ~kFlags, (original ^ change) & ~kFlags);
  }
}
#endif

TEST_P(CpuRun, LeavesOpenMpAsItWas) {
  const int max_threads = omp_get_max_threads();
  Data data(kPrefill);
  const AttentionPlan p = plan(kPrefill, 3);
  std::vector<std::byte> workspace(p.workspace_bytes());
  ASSERT_TRUE(p.run(data.tensors(), workspace));
  EXPECT_EQ(omp_get_max_threads(), max_threads);
  EXPECT_EQ(omp_get_level(), 0);
}

TEST_P(CpuRun, ThreadsDoNotChangeBits) {
  for (const AttentionShape& shape : {kDecode, kPrefill}) {
    std::vector<float> first;
    for (const int threads : {1, 2, 3, 7}) {
      Data data(shape);
      const AttentionPlan p = plan(shape, threads);
      std::vector<std::byte> workspace(p.workspace_bytes());
      ASSERT_TRUE(p.run(data.tensors(), workspace));
      if (threads == 1) first = data.out;
      EXPECT_EQ(data.out, first) << threads;
    }
  }
}

TEST_P(CpuRun, OnePlanServesSeveralCallersAtOnce) {
  for (const AttentionShape& shape : {kDecode, kPrefill}) {
    const AttentionPlan p = plan(shape, 2);
    std::vector<Data> data(3, Data(shape));
    std::vector<std::thread> callers;
    for (Data& mine : data) {
      callers.emplace_back([&p, &mine] {
        std::vector<std::byte> workspace(p.workspace_bytes());
        EXPECT_TRUE(p.run(mine.tensors(), workspace));
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(data[0].out, data[1].out);
    EXPECT_EQ(data[0].out, data[2].out);
  }
}

/// Without a query there is nothing to do, however many heads there would be.
TEST_P(CpuRun, NoQueriesOfAnyNumberOfHeads) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto p = AttentionPlan::create_on(backend(), {{2, kMost, kMost, 0, 0, 8, 8}, DType::float32, {}}, {"", 1});
  ASSERT_TRUE(p.ok()) << p.status().message();
  const Shape4 nothing{2, kMost, 0, 8};
  AttentionTensors tensors;
  tensors.query = tensors.key = tensors.value = TensorView(nullptr, DType::float32, nothing, {});
  tensors.out = MutableTensorView(nullptr, DType::float32, nothing, {});
  std::vector<std::byte> workspace(p->workspace_bytes());
  EXPECT_TRUE(p->run(tensors, workspace));
  EXPECT_TRUE(p->run_slice(tensors, workspace, {0, 1}));
}

TEST_P(CpuRun, SaysWhatItCannotDo) {
  AttentionProblem problem{kPrefill, DType::float64, {}};
  Status status = backend().supports(problem);
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_NE(status.message().find("reference"), std::string::npos) << status.message();
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    problem.dtype = dtype;
    problem.shape.head_dim = problem.shape.value_dim = 512;
    EXPECT_TRUE(backend().supports(problem));
    problem.shape.head_dim = 513;
    EXPECT_NE(backend().supports(problem).message().find("head_dim = 513"), std::string::npos);
    problem.shape.head_dim = 1;
    problem.shape.value_dim = 1000;
    EXPECT_NE(backend().supports(problem).message().find("value_dim = 1000"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, CpuRun, testing::Range<std::size_t>(0, isas().size()),
                         [](const auto& p) { return std::string(isas()[p.param].name); });

}  // namespace
}  // namespace siattn::cpu
