// SPDX-License-Identifier: Apache-2.0
// A plan's memory on its device, and one run of it.
#ifndef SIATTN_GPU_RUN_HPP
#define SIATTN_GPU_RUN_HPP

#include <memory>

#include <siattn/backend.hpp>

#include "gpu/device.hpp"
#include "gpu/params.hpp"

namespace siattn::gpu {

/// What a plan keeps: its device and the tables there.
class PlanState {
 public:
  /// Uploads the tables, and looks up every kernel that a run can need: what is missing is found now. The device's
  /// context has to be current.
  static Result<std::shared_ptr<const PlanState>> create(std::shared_ptr<const Device> device,
                                                         const PreparedAttention& problem);

  const std::shared_ptr<const Device>& device() const noexcept { return device_; }
  const Entry* tables() const noexcept { return reinterpret_cast<const Entry*>(tables_.pointer()); }
  /// nullptr where the transform has none.
  const float* row_factors() const noexcept { return reinterpret_cast<const float*>(row_factors_.pointer()); }

 private:
  std::shared_ptr<const Device> device_;
  DeviceMemory tables_, row_factors_;
};

/// The device of a plan of the backend cuda.
std::shared_ptr<const Device> plan_device(const AttentionPlan& plan);

/// Enqueues copies and kernels; waits for them where a tensor lies in host memory. May throw std::bad_alloc.
Status run_on_device(const PlanState& state, const PreparedAttention& problem, const AttentionTensors& tensors);

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_RUN_HPP
