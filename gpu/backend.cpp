// SPDX-License-Identifier: Apache-2.0
#include "gpu/backend.hpp"

#include <array>
#include <new>
#include <string>
#include <vector>

#include "gpu/launch.hpp"
#include "gpu/run.hpp"

namespace siattn::gpu {
namespace {

/// The device of the context that is current on this thread, else the first. The driver has been initialised.
Result<CuDevice> device_in_use(const Driver& driver) {
  CuDevice device = 0;
  if (driver.context_device(&device) == kCuSuccess) return device;
  if (Status status = SIATTN_CUDA_CALL(driver, device_get, &device, 0); !status) return status;
  return device;
}

Status initialise(const Driver& driver) {
  if (Status status = SIATTN_CUDA_CALL(driver, init, 0); !status) return status;
  int count = 0;
  if (Status status = SIATTN_CUDA_CALL(driver, device_count, &count); !status) return status;
  return count > 0 ? Status{} : Status::unavailable("the NVIDIA driver has no device");
}

}  // namespace

Result<std::string> CudaBackend::describe() const {
  const Result<Driver>& driver = load_();
  if (!driver) return driver.status();
  if (Status status = initialise(*driver); !status) return status;
  const Result<CuDevice> device = device_in_use(*driver);
  return device ? describe_device(*driver, *device) : device.status();
}

Status CudaBackend::available() const { return describe().status(); }

std::string_view CudaBackend::description() const noexcept {
  constexpr std::string_view kAnywhere = "fused kernels on an NVIDIA device, float32 inside";
  try {
    const std::lock_guard lock(mutex_);
    if (!description_.empty()) return description_;
    const Result<std::string> device = describe();
    if (!device) return kAnywhere;
    description_ = "fused kernels, float32 inside: " + *device;
    return description_;
  } catch (...) {  // no memory for the name
    return kAnywhere;
  }
}

Status CudaBackend::supports(const AttentionProblem& problem) const { return supported_by_kernels(problem); }

Numerics CudaBackend::numerics(DType dtype) const noexcept {
  // Tensor cores add products, which are exact, with the low bits cut off rather than rounded: twice the unit of float32
  // for each addition. What ex2.approx.ftz leaves is PTX's promise. Nothing else is flushed.
  const bool tensor_cores = dtype != DType::float32;
  Numerics numerics;
  numerics.unit_roundoff = tensor_cores ? 0x1p-23 : 0x1p-24;
  numerics.score_unit_roundoff = numerics.unit_roundoff;
  numerics.weight_roundoff = dtype == DType::bfloat16 ? 0x1p-8 : dtype == DType::float16 ? 0x1p-11 : 0;
  numerics.exp_relative_error = 0x1p-22;
  // float16 weights below 2^-14 are rounded to multiples of 2^-24.
  numerics.least_normal = dtype == DType::float16 ? 0x1p-25 : 0x1p-126;
  return numerics;
}

Result<std::shared_ptr<const Device>> CudaBackend::current_device() const {
  const Result<Driver>& driver = load_();
  if (!driver) return driver.status();
  if (Status status = initialise(*driver); !status) return status;
  const Result<CuDevice> number = device_in_use(*driver);
  if (!number) return number.status();
  const std::lock_guard lock(mutex_);
  if (const auto found = devices_.find(*number); found != devices_.end()) return found->second;
  auto device = Device::open(*driver, *number, images_);
  if (device) devices_.emplace(*number, *device);
  return device;
}

Result<std::shared_ptr<const void>> CudaBackend::prepare(const PreparedAttention& problem) const {
  const auto device = current_device();
  if (!device) return device.status();
  const Current current(**device);
  if (!current.status()) return current.status();
  auto state = PlanState::create(*device, problem);
  if (!state) return state.status();
  return std::shared_ptr<const void>(*std::move(state));
}

Status CudaBackend::run(const PreparedAttention& problem, const AttentionTensors& tensors,
                        std::span<std::byte> /*workspace*/) const noexcept {
  try {
    return run_on_device(*static_cast<const PlanState*>(problem.state.get()), problem, tensors);
  } catch (const std::bad_alloc&) {
    return {StatusCode::out_of_memory, "out of memory"};
  }
}

std::span<const Backend* const> backends() noexcept {
  static const CudaBackend backend("cuda", load_driver, images());
  static const std::array<const Backend*, 1> list{&backend};
  return list;
}

}  // namespace siattn::gpu
