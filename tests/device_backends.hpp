// SPDX-License-Identifier: Apache-2.0
// The backend cuda with tensors in device memory, strides, gaps and misalignment as they are: for a machine with a
// device, where host tensors would only ever be seen as the copies that the backend makes of them.
#ifndef SIATTN_TESTS_DEVICE_BACKENDS_HPP
#define SIATTN_TESTS_DEVICE_BACKENDS_HPP

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/backend.hpp"
#include "gpu/run.hpp"

namespace siattn::test {

/// The bytes between the first and the last that a tensor touches, in device memory for as long as this lives.
class SpanOnDevice {
 public:
  /// Device memory begins as far behind a multiple of 256 as the host's bytes. The context has to be current.
  Status create(const std::shared_ptr<const gpu::Device>& device, const TensorView& x) {
    device_ = device;
    const auto size = static_cast<std::int64_t>(size_of(x.dtype));
    std::int64_t low = 0;
    std::int64_t high = 0;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      if (x.shape[axis] == 0) return {};
      const std::int64_t reach = (x.shape[axis] - 1) * x.strides[axis] * size;
      (reach < 0 ? low : high) += reach;
    }
    host_ = static_cast<const std::byte*>(x.data) + low;
    bytes_ = static_cast<std::size_t>(high + size - low);
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(host_) % 256;
    auto memory = gpu::DeviceMemory::create(device, bytes_ + offset);
    if (!memory) return memory.status();
    memory_ = *std::move(memory);
    first_ = memory_.pointer() + offset;
    data_ = first_ + static_cast<gpu::CuPointer>(-low);
    return SIATTN_CUDA_CALL(device->driver(), copy_to_device, first_, host_, bytes_, nullptr);
  }

  void* data() const noexcept { return reinterpret_cast<void*>(data_); }
  /// Every byte, gaps as well: what a kernel has written there shows.
  Status copy_back() const {
    if (bytes_ == 0) return {};
    return SIATTN_CUDA_CALL(device_->driver(), copy_to_host, const_cast<std::byte*>(host_), first_, bytes_, nullptr);
  }

 private:
  std::shared_ptr<const gpu::Device> device_;
  gpu::DeviceMemory memory_;
  const std::byte* host_ = nullptr;
  std::size_t bytes_ = 0;
  gpu::CuPointer first_ = 0, data_ = 0;
};

class OnDeviceBackend final : public Backend {
 public:
  explicit OnDeviceBackend(const Backend& inner) noexcept : inner_(inner) {}

  std::string_view name() const noexcept override { return "cuda-in-place"; }
  std::string_view family() const noexcept override { return "cuda-in-place"; }
  std::string_view description() const noexcept override { return "cuda, tensors put into device memory"; }
  Status available() const override { return inner_.available(); }
  Status supports(const AttentionProblem& problem) const override { return inner_.supports(problem); }
  bool wins(const AttentionProblem& problem) const noexcept override { return inner_.wins(problem); }
  bool allocates() const noexcept override { return true; }
  LogBase log_base() const noexcept override { return inner_.log_base(); }
  Numerics numerics(DType dtype) const noexcept override { return inner_.numerics(dtype); }
  int default_threads() const noexcept override { return inner_.default_threads(); }
  std::size_t workspace_bytes(const PreparedAttention& problem) const noexcept override {
    return inner_.workspace_bytes(problem);
  }
  Result<std::shared_ptr<const void>> prepare(const PreparedAttention& problem) const override {
    return inner_.prepare(problem);
  }

  Status run(const PreparedAttention& problem, const AttentionTensors& tensors,
             std::span<std::byte> workspace) const noexcept override {
    // Gigabytes between rows are left to the backend's own copies.
    if (is_far(tensors.key) || is_far(tensors.query) || is_far(tensors.out)) {
      return inner_.run(problem, tensors, workspace);
    }
    const auto& device = static_cast<const gpu::PlanState*>(problem.state.get())->device();
    const gpu::Current current(*device);
    if (!current.status()) return current.status();
    AttentionTensors moved = tensors;
    std::array<SpanOnDevice, 5> spans;
    auto put = [&, n = std::size_t{0}](auto& view) mutable -> Status {
      SpanOnDevice& span = spans[n++];
      if (view.data == nullptr) return {};
      Status status = span.create(device, view);
      view.data = span.data();
      return status;
    };
    Status status = put(moved.query);
    if (status) status = put(moved.key);
    if (status) status = put(moved.value);
    if (status) status = put(moved.out);
    if (status) status = put(moved.lse);
    if (status) status = inner_.run(problem, moved, workspace);
    for (const std::size_t output : {3, 4}) {
      if (status) status = spans[output].copy_back();
    }
    return status ? SIATTN_CUDA_CALL(device->driver(), synchronize, nullptr) : status;
  }

 private:
  static bool is_far(const TensorView& x) noexcept {
    return std::ranges::any_of(x.strides, [](std::int64_t stride) { return stride > (std::int64_t{1} << 28); });
  }

  const Backend& inner_;
};

}  // namespace siattn::test

#endif  // SIATTN_TESTS_DEVICE_BACKENDS_HPP
