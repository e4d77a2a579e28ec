// SPDX-License-Identifier: Apache-2.0
// One device: its primary context, the kernels loaded into it, memory.
#ifndef SIATTN_GPU_DEVICE_HPP
#define SIATTN_GPU_DEVICE_HPP

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <siattn/status.hpp>

#include "gpu/driver.hpp"
#include "gpu/images.hpp"

namespace siattn::gpu {

/// The least compute capability that kernels are built for, times ten: 8.0.
inline constexpr int kLeastCapability = 80;

/// An opened device. Immutable; lives as long as anything that came from it.
class Device {
 public:
  /// Takes the device's primary context, which CUDA's runtime and the frameworks on it use too, and loads the kernels.
  static Result<std::shared_ptr<const Device>> open(const Driver& driver, CuDevice device,
                                                    std::span<const Image> images);
  Device(const Driver& driver, CuDevice device) : driver_(driver), device_(device) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const noexcept { return driver_; }
  CuDevice number() const noexcept { return device_; }
  CuContext context() const noexcept { return context_; }
  CuPool pool() const noexcept { return pool_; }
  int capability() const noexcept { return capability_; }  ///< 90 for 9.0
  int multiprocessors() const noexcept { return multiprocessors_; }
  std::size_t max_pitch() const noexcept { return static_cast<std::size_t>(max_pitch_); }

  /// The kernel of this name, allowed so much dynamic shared memory or more. `unsupported` where a block of this device
  /// cannot have that much. The context has to be current.
  Result<CuFunction> kernel(const char* name, std::int64_t shared_bytes) const;

 private:
  struct Kernel {
    CuFunction function;
    std::int64_t shared_bytes;  ///< that it is allowed
  };

  Status load(std::span<const Image> images);
  Result<CuFunction> find(const char* name) const;
  Status make_pool();

  const Driver& driver_;
  CuDevice device_;
  std::string name_;
  CuContext context_ = nullptr;
  CuPool pool_ = nullptr;
  std::vector<CuModule> modules_;
  int capability_ = 0;
  int multiprocessors_ = 0;
  int max_pitch_ = 0;
  int shared_limit_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<std::string_view, Kernel> kernels_;  ///< those asked for so far
};

/// "NVIDIA H200 (compute capability 9.0)", or why this device will not do.
Result<std::string> describe_device(const Driver& driver, CuDevice device);

/// Makes a device's context current on this thread, and what was current before again at the end.
class Current {
 public:
  explicit Current(const Device& device) noexcept
      : device_(device), status_(SIATTN_CUDA_CALL(device.driver(), context_push, device.context())) {}
  ~Current() {
    CuContext ignored = nullptr;
    if (status_) device_.driver().context_pop(&ignored);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  const Status& status() const noexcept { return status_; }

 private:
  const Device& device_;
  Status status_;
};

/// Memory of a device for as long as a plan lives.
class DeviceMemory {
 public:
  /// Of at least one byte; a copy of `bytes` where they are given. The context has to be current.
  static Result<DeviceMemory> create(std::shared_ptr<const Device> device, std::size_t size,
                                     const void* bytes = nullptr);
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept
      : device_(std::move(other.device_)), pointer_(std::exchange(other.pointer_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  ~DeviceMemory();

  CuPointer pointer() const noexcept { return pointer_; }

 private:
  std::shared_ptr<const Device> device_;
  CuPointer pointer_ = 0;
};

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_DEVICE_HPP
