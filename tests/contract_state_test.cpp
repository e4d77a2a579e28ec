// SPDX-License-Identifier: Apache-2.0
// The contract, "No global state": control words, OpenMP settings and the allocator are left as found; a plan may be used
// from several threads at once, inside the caller's own, and after a fork.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>

#include "tests/support.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace {

std::atomic<long> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  void* const memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment + alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Every operator new of the program, the library's included; the others lead here.
void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace siattn::test {
namespace {

/// Shapes that take the different ways through a backend: one query, few, many; one sequence, several.
constexpr AttentionShape kShapes[] = {{1, 2, 1, 1, 300, 16, 16}, {2, 2, 1, 5, 100, 16, 16}, {2, 2, 1, 70, 70, 16, 16}};

class State : public TargetTest {
 protected:
  /// A plan with its data, and the bits that it should give.
  struct Example {
    explicit Example(const AttentionProblem& problem, const Backend& backend, int threads = 2)
        : data(problem), plan(*AttentionPlan::create(problem, {std::string(backend.name()), threads})) {
      data.fill_gaussian(1);
      EXPECT_TRUE(run());
      bits = bits_of(data);
    }
    bool run() {
      data.clear_outputs();
      std::vector<std::byte> workspace(plan.workspace_bytes());
      return plan.run(data.tensors(), workspace).ok();
    }
    ProblemData data;
    AttentionPlan plan;
    Bits bits;
  };
};

TEST_P(State, RunAllocatesNothing) {
  if (backend().allocates()) GTEST_SKIP() << "says that it allocates";
  for (const AttentionShape& shape : kShapes) {
    Example example(problem(shape), backend());
    std::vector<std::byte> workspace(example.plan.workspace_bytes());
    const AttentionTensors tensors = example.data.tensors();
    const long before = allocations;
    const Status status = example.plan.run(tensors, workspace);
    const long after = allocations;
    EXPECT_TRUE(status.ok());
    EXPECT_EQ(after - before, 0) << text_of(example.data.problem());
  }
}

#if defined(__x86_64__)
TEST_P(State, ControlWordIsLeftAsFound) {
  for (const AttentionShape& shape : kShapes) {
    Example example(problem(shape), backend());
    for (const unsigned word : {0x1F80u, 0x9F80u, 0xDFC0u, 0x3F80u}) {  // default, FTZ, FTZ and DAZ up, down
      const unsigned before = _mm_getcsr();
      _mm_setcsr(word);
      const Status status = run(backend(), example.data.problem(), example.data.tensors());
      const unsigned after = _mm_getcsr();
      _mm_setcsr(before);
      ASSERT_TRUE(status.ok());
      EXPECT_EQ(after & ~0x3Fu, word & ~0x3Fu);  // but for the flags that say what has happened
    }
    EXPECT_TRUE(example.run());
    EXPECT_EQ(bits_of(example.data), example.bits);
  }
}

/// Loading the library must not turn on flush-to-zero, as objects linked with -ffast-math do.
TEST(ControlWord, IsTheDefaultInEveryThread) {
  EXPECT_EQ(_mm_getcsr() & ~0x3Fu, 0x1F80u);
  std::thread([] { EXPECT_EQ(_mm_getcsr() & ~0x3Fu, 0x1F80u); }).join();
}
#endif

TEST_P(State, OnePlanServesSeveralThreadsAtOnce) {
  for (const AttentionShape& shape : kShapes) {
    Example example(problem(shape), backend());
    std::array<ProblemData, 4> data{ProblemData(example.data.problem()), ProblemData(example.data.problem()),
                                    ProblemData(example.data.problem()), ProblemData(example.data.problem())};
    std::array<int, 4> good{};
    std::vector<std::thread> threads;
    for (std::size_t k = 0; k < 4; ++k) {
      data[k].fill_gaussian(1);
      threads.emplace_back([&, k] {
        std::vector<std::byte> workspace(example.plan.workspace_bytes());
        for (int n = 0; n < 5; ++n) {
          data[k].clear_outputs();
          good[k] += example.plan.run(data[k].tensors(), workspace).ok() && bits_of(data[k]) == example.bits ? 1 : 0;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(good, (std::array<int, 4>{5, 5, 5, 5})) << text_of(example.data.problem());
  }
}

TEST(Plans, AreMadeBySeveralThreadsAtOnce) {
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&good] {
      ProblemData data({kShapes[1], DType::float32, {}});
      data.fill_gaussian(1);
      if (attention(data.tensors())) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 4);
}

/// The wait is bounded: a child that inherits locks or a thread pool without its threads would hang for ever.
TEST_P(State, RunsInAChildForkedAfterARun) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer does not follow threads of a forked child";
#endif
  Example example(problem(kShapes[2]), backend());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(example.run() && bits_of(example.data) == example.bits ? 0 : 1);
  int status = 0;
  pid_t ended = 0;
  for (int k = 0; k < 500 && ended == 0; ++k) {
    ended = waitpid(child, &status, WNOHANG);
    if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (ended == 0) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    FAIL() << "the child hung in run()";
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

// Compiled with OpenMP, which siattn_test_support need not be.
#ifdef _OPENMP
TEST_P(State, RunsInsideTheCallersParallelRegion) {
  for (const AttentionShape& shape : kShapes) {
    Example example(problem(shape), backend());
    std::array<ProblemData, 2> data{ProblemData(example.data.problem()), ProblemData(example.data.problem())};
    for (ProblemData& one : data) one.fill_gaussian(1);
    std::array<int, 2> good{};
#pragma omp parallel for num_threads(2) schedule(static, 1)
    for (std::size_t k = 0; k < 2; ++k) {
      std::vector<std::byte> workspace(example.plan.workspace_bytes());
      data[k].clear_outputs();
      good[k] = example.plan.run(data[k].tensors(), workspace).ok() && bits_of(data[k]) == example.bits ? 1 : 0;
    }
    EXPECT_EQ(good, (std::array<int, 2>{1, 1}));
  }
}

TEST_P(State, OpenMpSettingsAreLeftAsFound) {
  const auto settings = [] {
    return std::array{omp_get_max_threads(), omp_get_dynamic(), omp_get_max_active_levels()};
  };
  const auto before = settings();
  for (const AttentionShape& shape : kShapes) {
    Example example(problem(shape), backend(), 3);
    EXPECT_EQ(settings(), before);
  }
}
#endif

SIATTN_FOR_EVERY_TARGET(State);

}  // namespace
}  // namespace siattn::test
