// SPDX-License-Identifier: Apache-2.0
// The backend cuda on the emulated driver: where tensors lie, what is enqueued, what becomes of the driver's errors. That
// the kernels compute attention is for the conformance suite to show.
#include "gpu/backend.hpp"

#include <thread>

#include "tests/device_backends.hpp"
#include "tests/emulated_backends.hpp"
#include "tests/support.hpp"

namespace siattn::test {
namespace {

namespace emulator = gpu::emulator;

std::ptrdiff_t count(std::string_view symbol) { return std::ranges::count(emulator::driver_control().calls, symbol); }

AttentionProblem problem(DType dtype, std::int64_t query_len, std::int64_t kv_len, std::int64_t dim = 16) {
  AttentionProblem p;
  p.shape = {2, 4, 2, query_len, kv_len, dim, dim};
  p.dtype = dtype;
  return p;
}

/// A driver as it was at first, and a backend that has not seen it yet.
class GpuBackend : public ::testing::Test {
 protected:
  void SetUp() override { emulator::reset_driver(); }
  void TearDown() override {
    static_cast<void>(emulator::finish_streams());
    emulator::reset_driver();
    EXPECT_EQ(emulator::live_allocations(), 0u);
  }

  static ProblemData gaussian(const AttentionProblem& p, const Placement& placement = {}) {
    ProblemData data(p, placement);
    data.fill_gaussian(7);
    data.clear_outputs();
    return data;
  }

  Status run(const AttentionProblem& p, const AttentionTensors& tensors) const {
    const auto plan = AttentionPlan::create_on(backend, p);
    return plan ? plan->run(tensors, {}) : plan.status();
  }

  gpu::CudaBackend backend{"cuda", emulator::load_emulated_driver, emulator::emulated_images()};
};

// ---- Available ------------------------------------------------------------------------------------------------------

TEST_F(GpuBackend, SaysWhyItIsNotAvailable) {
  EXPECT_TRUE(backend.available());
  EXPECT_NE(backend.description().find("emulated device (compute capability 8.0)"), std::string_view::npos);
  const auto expect_refused = [this](const char* part) {
    const Status status = backend.available();
    EXPECT_EQ(status.code(), StatusCode::unavailable) << part;
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    const auto plan = AttentionPlan::create_on(backend, problem(DType::float32, 1, 1));
    EXPECT_EQ(plan.status().message(), status.message());
    emulator::reset_driver();
  };
  emulator::driver_control().devices = 0;
  expect_refused("the NVIDIA driver has no device");
  emulator::driver_control().capability = 75;
  expect_refused("emulated device (compute capability 7.5): the kernels need 8.0 or newer");
  emulator::driver_control().pools = 0;
  expect_refused("no memory pools");
  emulator::driver_control().fail = "cuInit";
  emulator::driver_control().fail_with = gpu::kCuNoDevice;
  expect_refused("cuInit: CUDA_ERROR_NO_DEVICE (100)");
}

TEST_F(GpuBackend, IsUsedOnlyWhereItIsAskedFor) {
  EXPECT_FALSE(backend.wins(problem(DType::bfloat16, 4096, 4096, 128)));
  EXPECT_TRUE(backend.allocates());
}

/// A plan that nobody has asked the backend for starts no driver.
TEST_F(GpuBackend, UnaskedItIsNotEvenAskedWhetherItIsThere) {
  EXPECT_NE(AttentionPlan::create(problem(DType::float32, 4, 4))->backend().family(), "cuda");
  EXPECT_TRUE(emulator::driver_control().calls.empty());
}

TEST_F(GpuBackend, SaysWhatItDoesNotSupport) {
  const Status type = backend.supports(problem(DType::float64, 1, 1));
  EXPECT_EQ(type.code(), StatusCode::unsupported);
  EXPECT_NE(type.message().find("f64"), std::string::npos) << type.message();
  const Status wide = backend.supports(problem(DType::float32, 1, 1, 513));
  EXPECT_EQ(wide.code(), StatusCode::unsupported);
  EXPECT_NE(wide.message().find("513"), std::string::npos) << wide.message();
  EXPECT_NE(wide.message().find("512"), std::string::npos) << wide.message();
  EXPECT_TRUE(backend.supports(problem(DType::float16, 1, 1, 512)));
}

// ---- Where tensors lie ----------------------------------------------------------------------------------------------

TEST_F(GpuBackend, TensorsInHostMemoryAreCopiedAndWaitedFor) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    for (const Placement& placement : {Placement{}, Placement{.heads_inside = true}, Placement{.row_padding = 3},
                                       Placement{.row_padding = 1, .misalignment = 1}}) {
      for (const std::int64_t queries : {1, 20}) {
        const AttentionProblem p = problem(dtype, queries, 40, 24);
        ProblemData data = gaussian(p, placement);
        ASSERT_TRUE(run(p, data.tensors()));
        EXPECT_TRUE(agrees(backend, data));
      }
    }
  }
  EXPECT_EQ(count("cuStreamSynchronize"), count("cuMemFree_v2") + 3 * 4 * 2);  // tables are waited for as well
}

/// Dense tensors go over in one piece each.
TEST_F(GpuBackend, DenseTensorsTakeOneCopyEach) {
  const AttentionProblem p = problem(DType::float32, 8, 40);
  ProblemData data = gaussian(p);
  const auto plan = AttentionPlan::create_on(backend, p);
  ASSERT_TRUE(plan);
  emulator::driver_control().calls.clear();
  ASSERT_TRUE(plan->run(data.tensors(), {}));
  EXPECT_EQ(count("cuMemcpyHtoDAsync_v2"), 3 + 1);  // query, key, value, and the descriptors
  EXPECT_EQ(count("cuMemcpyDtoHAsync_v2"), 1);      // out
  EXPECT_EQ(count("cuMemcpy2DAsync_v2"), 1);        // lse: its rows are 4 bytes
  EXPECT_EQ(count("cuStreamSynchronize"), 1);
}

/// Strides that no two-dimensional copy takes: zero, negative, larger than the pitch may be.
TEST_F(GpuBackend, AnyStridesAreCopied) {
  const AttentionProblem p = problem(DType::float32, 6, 9, 8);
  ProblemData data = gaussian(p);
  AttentionTensors tensors = data.tensors();
  // Every key of a head the same one; queries from the last to the first.
  tensors.key.strides[2] = 0;
  tensors.query.data = static_cast<const float*>(tensors.query.data) + 5 * tensors.query.strides[2];
  tensors.query.strides[2] = -tensors.query.strides[2];
  ASSERT_TRUE(run(p, tensors));
  const auto comparison = verify::compare_with_reference(p, tensors, backend.numerics(p.dtype));
  EXPECT_TRUE(comparison.good()) << comparison.first_failure;
  EXPECT_TRUE(data.intact());
}

TEST_F(GpuBackend, TensorsOnTheDeviceStayThereAndNobodyWaits) {
  const AttentionProblem p = problem(DType::bfloat16, 20, 40);
  ProblemData data = gaussian(p);
  const AttentionTensors tensors = data.tensors();
  RowsOnDevice rows;
  for (const TensorView* input : {&tensors.query, &tensors.key, &tensors.value}) rows.add(*input, false);
  for (const MutableTensorView* output : {&tensors.out, &tensors.lse}) rows.add(*output, true);
  rows.map();
  const auto plan = AttentionPlan::create_on(backend, p);
  ASSERT_TRUE(plan);
  emulator::driver_control().calls.clear();
  const Bits before = bits_of(data);
  ASSERT_TRUE(plan->run(tensors, {}));
  EXPECT_EQ(count("cuMemcpyHtoDAsync_v2"), 1);  // the descriptors
  EXPECT_EQ(count("cuMemcpyDtoHAsync_v2") + count("cuMemcpy2DAsync_v2"), 0);
  EXPECT_EQ(count("cuStreamSynchronize"), 0);
  EXPECT_EQ(bits_of(data), before) << "computed before anybody waited";
  ASSERT_TRUE(emulator::finish_streams());
  EXPECT_TRUE(agrees(backend, data));
}

/// Everything that a run enqueues is on the stream that it was given, and it waits for that one.
TEST_F(GpuBackend, RunsOnTheStreamOfTheTensors) {
  const AttentionProblem p = problem(DType::float32, 4, 1100, 8);  // with states and combine
  ProblemData data = gaussian(p);
  AttentionTensors tensors = data.tensors();
  tensors.stream = emulator::make_stream();
  RowsOnDevice rows;
  for (const TensorView* input : {&tensors.query, &tensors.key, &tensors.value}) rows.add(*input, false);
  for (const MutableTensorView* output : {&tensors.out, &tensors.lse}) rows.add(*output, true);
  rows.map();
  const auto plan = AttentionPlan::create_on(backend, p);
  ASSERT_TRUE(plan);
  const Bits before = bits_of(data);
  ASSERT_TRUE(plan->run(tensors, {}));
  const auto wait_for = [](void* stream) {
    emulator::set_current_device(0);
    EXPECT_EQ(emulator::load_emulated_driver()->synchronize(static_cast<gpu::CuStream>(stream)), gpu::kCuSuccess);
    emulator::set_current_device(-1);
  };
  wait_for(nullptr);
  wait_for(emulator::make_stream());
  EXPECT_EQ(bits_of(data), before);
  wait_for(tensors.stream);
  EXPECT_TRUE(agrees(backend, data));

  ProblemData in_host = gaussian(p);
  tensors = in_host.tensors();
  tensors.stream = emulator::make_stream();
  ASSERT_TRUE(plan->run(tensors, {}));
  EXPECT_TRUE(agrees(backend, in_host));
}

/// Each tensor for itself: the cache on the device, the rest in host memory.
TEST_F(GpuBackend, SomeTensorsOnTheDevice) {
  const AttentionProblem p = problem(DType::float16, 3, 40);
  ProblemData data = gaussian(p);
  const AttentionTensors tensors = data.tensors();
  RowsOnDevice rows;
  rows.add(tensors.key, false);
  rows.add(tensors.value, false);
  rows.map();
  ASSERT_TRUE(run(p, tensors));
  EXPECT_TRUE(agrees(backend, data));
}

TEST_F(GpuBackend, EmptyProblemsDoNothingOrWriteRowsThatSeeNothing) {
  for (const auto& [queries, keys] : {std::pair{0, 5}, {5, 0}, {0, 0}}) {
    const AttentionProblem p = problem(DType::float32, queries, keys);
    ProblemData data = gaussian(p);
    ASSERT_TRUE(run(p, data.tensors())) << queries << " queries";
    EXPECT_TRUE(agrees(backend, data));
  }
}

TEST_F(GpuBackend, WithoutLse) {
  const AttentionProblem p = problem(DType::float32, 3, 40);
  ProblemData data = gaussian(p);
  AttentionTensors tensors = data.tensors();
  ASSERT_TRUE(run(p, tensors));
  const Bits with = bits_of(data);
  data.clear_outputs();
  tensors.lse.data = nullptr;
  ASSERT_TRUE(run(p, tensors));
  EXPECT_EQ(bits_of(data).out, with.out);
}

/// What the check on a device uses to put tensors there.
TEST_F(GpuBackend, TensorsPutIntoDeviceMemoryByteForByte) {
  const OnDeviceBackend on_device(backend);
  for (const Placement& placement : {Placement{}, Placement{.heads_inside = true, .row_padding = 3, .misalignment = 1}}) {
    const AttentionProblem p = problem(DType::bfloat16, 20, 40, 9);
    ProblemData data = gaussian(p, placement);
    const auto plan = AttentionPlan::create_on(on_device, p);
    ASSERT_TRUE(plan);
    emulator::driver_control().calls.clear();
    ASSERT_TRUE(plan->run(data.tensors(), {}));
    EXPECT_EQ(count("cuMemcpy2DAsync_v2"), 0) << "the backend made copies";
    EXPECT_TRUE(agrees(backend, data));
  }
}

// ---- Devices, contexts, threads -------------------------------------------------------------------------------------

TEST_F(GpuBackend, PlansOnTheDeviceWhoseContextIsCurrentAndLeavesItSo) {
  emulator::driver_control().devices = 2;
  emulator::set_current_device(1);
  const AttentionProblem p = problem(DType::float32, 3, 5);
  ProblemData data = gaussian(p);
  ASSERT_TRUE(run(p, data.tensors()));
  EXPECT_TRUE(agrees(backend, data));
  gpu::CuDevice current = -1;
  EXPECT_EQ(emulator::load_emulated_driver()->context_device(&current), gpu::kCuSuccess);
  EXPECT_EQ(current, 1);
  emulator::set_current_device(-1);
  ASSERT_TRUE(run(p, data.tensors()));
  EXPECT_NE(emulator::load_emulated_driver()->context_device(&current), gpu::kCuSuccess) << "a context was left behind";
}

TEST_F(GpuBackend, ATensorOnAnotherDeviceIsAnErrorThatNamesBoth) {
  emulator::driver_control().devices = 2;
  const AttentionProblem p = problem(DType::float32, 3, 5);
  const auto plan = AttentionPlan::create_on(backend, p);  // on device 0
  ASSERT_TRUE(plan);
  ProblemData data = gaussian(p);
  AttentionTensors tensors = data.tensors();
  emulator::set_current_device(1);
  gpu::CuPointer pointer = 0;
  ASSERT_EQ(emulator::load_emulated_driver()->allocate(&pointer, 4096), gpu::kCuSuccess);
  tensors.value.data = reinterpret_cast<const void*>(pointer);
  const Bits before = bits_of(data);
  const Status status = plan->run(tensors, {});
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_EQ(status.message(), "value lies on device 1: the plan was made for device 0");
  EXPECT_EQ(bits_of(data), before);
  ASSERT_EQ(emulator::load_emulated_driver()->free(pointer), gpu::kCuSuccess);
}

TEST_F(GpuBackend, OnePlanFromSeveralThreads) {
  const AttentionProblem p = problem(DType::float32, 4, 70);
  const auto plan = AttentionPlan::create_on(backend, p);
  ASSERT_TRUE(plan);
  std::vector<ProblemData> data;
  for (int k = 0; k < 4; ++k) data.push_back(gaussian(p));
  std::vector<Status> statuses(data.size());
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < data.size(); ++k) {
    threads.emplace_back([&, k] { statuses[k] = plan->run(data[k].tensors(), {}); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t k = 0; k < data.size(); ++k) {
    ASSERT_TRUE(statuses[k]) << statuses[k].message();
    EXPECT_EQ(bits_of(data[k]), bits_of(data[0]));
  }
  EXPECT_TRUE(agrees(backend, data[0]));
}

// ---- Errors ---------------------------------------------------------------------------------------------------------

/// Whatever call fails, and whenever: a Status that names it, nothing left allocated (TearDown looks), no context left.
TEST_F(GpuBackend, EveryCallThatFailsBecomesAStatusWithItsName) {
  AttentionProblem p = problem(DType::bfloat16, 4, 1100, 8);  // several splits: states, combine
  p.options.transform = LogN{};                               // row factors
  std::map<std::string_view, int> calls;
  {
    ProblemData data = gaussian(p);
    const auto plan = AttentionPlan::create_on(backend, p);
    ASSERT_TRUE(plan && plan->run(data.tensors(), {}));
    for (const std::string_view symbol : emulator::driver_control().calls) ++calls[symbol];
  }
  EXPECT_GE(calls.size(), 18u);
  for (const auto& [symbol, times] : calls) {
    // Whose failing says something else, or which have nobody left to tell.
    if (symbol == "cuCtxGetDevice" || symbol == "cuCtxPopCurrent_v2" || symbol.starts_with("cuMemFree")) continue;
    int failed = 0;
    for (int after = 0; after < times; ++after) {
      emulator::reset_driver();
      emulator::driver_control().fail = symbol;
      emulator::driver_control().fail_with = gpu::kCuOutOfMemory;
      emulator::driver_control().fail_after = after;
      gpu::CudaBackend fresh("cuda", emulator::load_emulated_driver, emulator::emulated_images());
      ProblemData data = gaussian(p);
      const auto plan = AttentionPlan::create_on(fresh, p);
      const Status status = plan ? plan->run(data.tensors(), {}) : plan.status();
      emulator::driver_control().fail.clear();
      static_cast<void>(emulator::finish_streams());
      if (status) continue;
      ++failed;
      EXPECT_EQ(status.code(), StatusCode::out_of_memory) << symbol;
      std::string_view name = symbol;
      if (name.ends_with("_v2")) name.remove_suffix(3);
      EXPECT_TRUE(status.message().starts_with(std::string(name) + ": CUDA_ERROR_OUT_OF_MEMORY (2)"))
          << symbol << " after " << after << ": " << status.message();
      EXPECT_EQ(status.message().find('\n'), std::string::npos);
    }
    EXPECT_EQ(failed, times) << symbol;
  }
}

/// What goes wrong on the device shows where somebody waits.
TEST_F(GpuBackend, AFaultOfAKernelIsReportedByTheRunThatWaits) {
  const AttentionProblem p = problem(DType::float32, 3, 40);
  ProblemData data = gaussian(p);
  AttentionTensors tensors = data.tensors();
  RowsOnDevice rows;  // value, less its last row
  TensorView part_of_value = tensors.value;
  part_of_value.shape[2] -= 1;
  rows.add(part_of_value, false);
  rows.map();
  const Status status = run(p, tensors);
  EXPECT_EQ(status.code(), StatusCode::internal);
  EXPECT_TRUE(status.message().starts_with("cuStreamSynchronize: siattn_")) << status.message();
  EXPECT_NE(status.message().find("(719)"), std::string::npos) << status.message();
}

TEST_F(GpuBackend, AKernelThatIsMissingIsFoundWhenPlanning) {
  emulator::driver_control().fail = "cuModuleGetFunction";
  emulator::driver_control().fail_with = gpu::kCuNotFound;
  const auto plan = AttentionPlan::create_on(backend, problem(DType::float32, 3, 40));
  EXPECT_EQ(plan.status().code(), StatusCode::internal);
  EXPECT_NE(plan.status().message().find("no kernel siattn_"), std::string::npos) << plan.status().message();
}

}  // namespace
}  // namespace siattn::test
