// SPDX-License-Identifier: Apache-2.0
#include "gpu/device.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace siattn::gpu {
namespace {

/// What the pool keeps between runs: the states and descriptors of decoding, not copies of whole tensors.
constexpr std::uint64_t kKeptBytes = std::uint64_t{64} << 20;

Status read(const Driver& driver, int* value, CuDeviceAttribute attribute, CuDevice device) {
  return SIATTN_CUDA_CALL(driver, device_attribute, value, attribute, device);
}

Result<int> capability_of(const Driver& driver, CuDevice device) {
  int major = 0;
  int minor = 0;
  if (Status status = read(driver, &major, kCuComputeMajor, device); !status) return status;
  if (Status status = read(driver, &minor, kCuComputeMinor, device); !status) return status;
  return 10 * major + minor;
}

std::string point(int capability) { return std::to_string(capability / 10) + "." + std::to_string(capability % 10); }

}  // namespace

Result<std::string> describe_device(const Driver& driver, CuDevice device) {
  std::array<char, 256> name{};
  if (Status status = SIATTN_CUDA_CALL(driver, device_name, name.data(), int{name.size()} - 1, device); !status) {
    return status;
  }
  const Result<int> capability = capability_of(driver, device);
  if (!capability) return capability.status();
  std::string text = std::string(name.data()) + " (compute capability " + point(*capability) + ")";
  if (*capability < kLeastCapability) {
    return Status::unavailable(text + ": the kernels need " + point(kLeastCapability) + " or newer");
  }
  int pools = 0;
  if (Status status = read(driver, &pools, kCuMemoryPools, device); !status) return status;
  if (pools == 0) return Status::unavailable(text + ": the driver offers no memory pools for it");
  return text;
}

Result<std::shared_ptr<const Device>> Device::open(const Driver& driver, CuDevice device,
                                                   std::span<const Image> images) {
  const auto name = describe_device(driver, device);
  if (!name) return name.status();
  auto opened = std::make_shared<Device>(driver, device);
  opened->name_ = *name;
  opened->capability_ = *capability_of(driver, device);
  for (const auto& [value, attribute] : {std::pair{&opened->multiprocessors_, kCuMultiprocessors},
                                         std::pair{&opened->max_pitch_, kCuMaxPitch},
                                         std::pair{&opened->shared_limit_, kCuSharedMemoryOptIn}}) {
    if (Status status = read(driver, value, attribute, device); !status) return status;
  }
  // Never released: a plan may outlive every other trace of it, and the context is the program's.
  if (Status status = SIATTN_CUDA_CALL(driver, primary_context_retain, &opened->context_, device); !status) {
    return status;
  }
  const Current current(*opened);
  if (!current.status()) return current.status();
  if (Status status = opened->load(images); !status) return status;
  if (Status status = opened->make_pool(); !status) return status;
  return std::shared_ptr<const Device>(std::move(opened));
}

Status Device::load(std::span<const Image> images) {
  for (const Image& image : images) {
    CuModule module = nullptr;
    const CuResult result = driver_.module_load(&module, image.data);
    if (result == kCuNoBinary) continue;  // kernels that only newer or only older devices run
    if (Status status = status_of(driver_, result, call::module_load); !status) {
      return Status(status.code(), status.message() + " for the kernels of " + std::string(image.name));
    }
    modules_.push_back(module);
  }
  return {};
}

Status Device::make_pool() {
  // A pool of the backend's own: the settings of the device's default pool are the program's.
  CuPoolProperties properties;
  properties.location_id = device_;
  if (Status status = SIATTN_CUDA_CALL(driver_, pool_create, &pool_, &properties); !status) return status;
  std::uint64_t kept = kKeptBytes;
  return SIATTN_CUDA_CALL(driver_, pool_set, pool_, kCuReleaseThreshold, &kept);
}

Result<CuFunction> Device::kernel(const char* name, std::int64_t shared_bytes) const {
  if (shared_bytes > shared_limit_) {
    return Status::unsupported(name_ + " has " + std::to_string(shared_limit_) + " bytes of shared memory for a block: " +
                               name + " needs " + std::to_string(shared_bytes));
  }
  const std::lock_guard lock(mutex_);
  auto found = kernels_.find(name);
  if (found == kernels_.end()) {
    const Result<CuFunction> function = find(name);
    if (!function) return function.status();
    found = kernels_.emplace(name, Kernel{*function, 0}).first;
  }
  Kernel& kernel = found->second;
  if (shared_bytes > kernel.shared_bytes) {
    Status status = SIATTN_CUDA_CALL(driver_, function_set, kernel.function, kCuMaxDynamicSharedBytes,
                                     static_cast<int>(shared_bytes));
    if (!status) return status;
    kernel.shared_bytes = shared_bytes;
  }
  return kernel.function;
}

Result<CuFunction> Device::find(const char* name) const {
  for (const CuModule module : modules_) {
    CuFunction function = nullptr;
    const CuResult result = driver_.module_function(&function, module, name);
    if (result == kCuNotFound) continue;
    if (Status status = status_of(driver_, result, call::module_function); !status) return status;
    return function;
  }
  return Status(StatusCode::internal, std::string("no kernel ") + name + " for " + name_);
}

Result<DeviceMemory> DeviceMemory::create(std::shared_ptr<const Device> device, std::size_t size, const void* bytes) {
  const Driver& driver = device->driver();
  DeviceMemory memory;
  Status status = SIATTN_CUDA_CALL(driver, allocate, &memory.pointer_, std::max<std::size_t>(size, 1));
  if (!status) return status;
  memory.device_ = std::move(device);
  if (bytes != nullptr && size > 0) {
    status = SIATTN_CUDA_CALL(driver, copy_to_device, memory.pointer_, bytes, size, nullptr);
    if (status) status = SIATTN_CUDA_CALL(driver, synchronize, nullptr);
    if (!status) return status;
  }
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (pointer_ == 0) return;
  const Current current(*device_);
  // A program that ends may have taken the driver down before: then there is nothing to give back.
  if (current.status()) device_->driver().free(pointer_);
}

}  // namespace siattn::gpu
