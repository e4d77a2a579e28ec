// SPDX-License-Identifier: Apache-2.0
// A backend that runs the CUDA kernels in the emulator, on the very tensors that it is given: no driver, no copies. Every
// byte that no tensor owns is out of bounds.
#ifndef SIATTN_TESTS_EMULATED_KERNELS_HPP
#define SIATTN_TESTS_EMULATED_KERNELS_HPP

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <siattn/backend.hpp>

#include "gpu/emulator/emulator.hpp"
#include "gpu/launch.hpp"

namespace siattn::test {

class EmulatedKernels final : public Backend {
 public:
  explicit EmulatedKernels(const gpu::emulator::Schedule& schedule = {}) : schedule_(schedule) {}

  /// Changes the argument of every launch before it starts, and what it points at.
  using Change = std::function<void(gpu::Forward&, std::vector<gpu::Sequence>&)>;
  EmulatedKernels(const gpu::emulator::Schedule& schedule, Change change)
      : schedule_(schedule), change_(std::move(change)) {}

  std::string_view name() const noexcept override { return "emulated"; }
  std::string_view family() const noexcept override { return "emulated"; }
  std::string_view description() const noexcept override { return "the CUDA kernels on this processor"; }
  Status available() const override { return {}; }
  Status supports(const AttentionProblem& problem) const override { return gpu::supported_by_kernels(problem); }
  LogBase log_base() const noexcept override { return LogBase::two; }
  int default_threads() const noexcept override { return 1; }
  std::size_t workspace_bytes(const PreparedAttention&) const noexcept override { return 0; }
  bool allocates() const noexcept override { return true; }

  Numerics numerics(DType dtype) const noexcept override {
    Numerics n;
    n.unit_roundoff = 0x1p-24;
    n.score_unit_roundoff = 0x1p-24;
    n.weight_roundoff = dtype == DType::bfloat16 ? 0x1p-8 : dtype == DType::float16 ? 0x1p-11 : 0;
    n.exp_relative_error = 0x1p-23;
    n.least_normal = dtype == DType::float16 ? 0x1p-25 : 0x1p-126;  // weights below 2^-14 are rounded to 2^-24 apart
    return n;
  }

  Status run(const PreparedAttention& problem, const AttentionTensors& tensors,
             std::span<std::byte>) const noexcept override {
    std::vector<gpu::Sequence> sequences = gpu::sequences_of(problem, tensors);
    const std::vector<std::int32_t> pages = gpu::pages_of(tensors, sequences);
    const std::vector<gpu::Entry> tables = gpu::device_tables(*problem.tables, problem.shape.query_heads);
    const std::vector<float>& factors = problem.tables->row_factors;
    const auto bytes = gpu::state_bytes(gpu::forward_of(problem, tensors, sequences, {}));
    // Whatever is read before it is written is NaN.
    std::vector<float> states(static_cast<std::size_t>(bytes) / sizeof(float), std::numeric_limits<float>::quiet_NaN());
    const gpu::DeviceArrays arrays{sequences.data(), tables.data(), factors.empty() ? nullptr : factors.data(),
                                   tensors.pages.empty() ? nullptr : pages.data(), states.data()};
    gpu::Forward forward = gpu::forward_of(problem, tensors, sequences, arrays);
    if (change_) change_(forward, sequences);
    forward.sequences = sequences.data();
    gpu::Launches launches;
    if (Status status = gpu::launches_of(forward, problem.dtype, &launches); !status) return status;
    const Registered registered[] = {
        {tensors.query, false}, {tensors.key, false}, {tensors.value, false}, {tensors.out, true}, {tensors.lse, true},
        {sequences, false},     {tables, false},      {factors, false},       {pages, false},      {states, true}};
    (void)registered;
    for (const gpu::Launch& launch : launches) {
      const gpu::emulator::Kernel* kernel = gpu::emulator::find_kernel(launch.entry);
      if (kernel == nullptr) return {StatusCode::internal, std::string("no kernel ") + launch.entry};
      gpu::emulator::Launch emulated{kernel,
                                     {static_cast<int>(launch.blocks), 1, 1},
                                     launch.threads,
                                     static_cast<std::size_t>(launch.shared_bytes),
                                     &forward};
      const std::string error = gpu::emulator::launch(emulated, schedule_);
      if (!error.empty()) return {StatusCode::internal, std::string(launch.entry) + ": " + error};
    }
    return {};
  }

 private:
  /// Bytes that kernels may touch for as long as it lives.
  class Registered {
   public:
    Registered(const TensorView& x, bool writable) {
      if (x.data == nullptr || std::find(x.shape.begin(), x.shape.end(), 0) != x.shape.end()) return;
      std::int64_t last = 0;
      for (std::size_t axis = 0; axis < 4; ++axis) last += (x.shape[axis] - 1) * x.strides[axis];
      add(x.data, static_cast<std::size_t>(last + 1) * size_of(x.dtype), writable);
    }
    template <class T>
    Registered(const std::vector<T>& x, bool writable) {
      if (!x.empty()) add(x.data(), x.size() * sizeof(T), writable);
    }
    ~Registered() {
      if (begin_ != nullptr) gpu::emulator::remove_buffer(begin_);
    }
    Registered(const Registered&) = delete;
    Registered& operator=(const Registered&) = delete;

   private:
    void add(const void* begin, std::size_t bytes, bool writable) {
      gpu::emulator::add_buffer(begin, bytes, writable);
      begin_ = begin;
    }
    const void* begin_ = nullptr;
  };

  gpu::emulator::Schedule schedule_;
  Change change_;
};

}  // namespace siattn::test

#endif  // SIATTN_TESTS_EMULATED_KERNELS_HPP
