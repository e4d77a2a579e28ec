// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_GPU_BACKEND_HPP
#define SIATTN_GPU_BACKEND_HPP

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include <siattn/backend.hpp>

#include "gpu/device.hpp"

namespace siattn::gpu {

/// "cuda": the kernels of gpu/kernels on an NVIDIA device of compute capability 8.0 or newer.
///
/// Tensors may lie in device memory, where they are used in place, or in host memory, from and to which they are copied;
/// each for itself. The device is the one whose context is current on the thread that plans, else device 0. A run is
/// enqueued on AttentionTensors::stream. With every tensor in device memory it returns before it has been computed, and
/// what goes wrong on the device is reported by whoever next waits for the stream; with any in host memory it waits.
///
/// It is only used when it is asked for: a plan does not know where its tensors will lie, and copying costs more than
/// most problems in host memory take on the CPU.
class CudaBackend final : public Backend {
 public:
  /// How to get at the driver, called at most once for each query: load_driver, or an emulated one in tests.
  using LoadDriver = const Result<Driver>& (*)();

  CudaBackend(std::string_view name, LoadDriver load, std::span<const Image> images) noexcept
      : name_(name), load_(load), images_(images) {}

  std::string_view name() const noexcept override { return name_; }
  std::string_view family() const noexcept override { return "cuda"; }
  /// Names the device where there is one.
  std::string_view description() const noexcept override;
  Status available() const override;
  Status supports(const AttentionProblem& problem) const override;
  bool wins(const AttentionProblem& /*problem*/) const noexcept override { return false; }
  /// Device memory of a pool, and the descriptors of a batch.
  bool allocates() const noexcept override { return true; }
  LogBase log_base() const noexcept override { return LogBase::two; }
  Numerics numerics(DType dtype) const noexcept override;
  int default_threads() const noexcept override { return 1; }
  std::size_t workspace_bytes(const PreparedAttention& /*problem*/) const noexcept override { return 0; }
  Result<std::shared_ptr<const void>> prepare(const PreparedAttention& problem) const override;
  Status run(const PreparedAttention& problem, const AttentionTensors& tensors,
             std::span<std::byte> workspace) const noexcept override;

 private:
  /// The device that a plan made on this thread would use, or why there is none.
  Result<std::string> describe() const;
  /// The device that a plan made on this thread uses.
  Result<std::shared_ptr<const Device>> current_device() const;

  std::string_view name_;
  LoadDriver load_;
  std::span<const Image> images_;
  mutable std::mutex mutex_;
  mutable std::map<CuDevice, std::shared_ptr<const Device>> devices_;  ///< opened so far
  mutable std::string description_;
};

/// The one on this machine's driver, built with kernels or not.
std::span<const Backend* const> backends() noexcept;

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_BACKEND_HPP
