// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_BENCH_WORKLOAD_HPP
#define SIATTN_BENCH_WORKLOAD_HPP

#include <memory>
#include <string>
#include <vector>

#include <siattn/backend.hpp>

#include "bench/measure.hpp"
#include "gpu/device.hpp"
#include "verify/compare.hpp"

namespace siattn::bench {

/// A problem as it is timed: where its tensors lie, on which backend, by how many threads.
struct WorkloadSpec {
  std::string name;
  AttentionProblem problem;
  std::string backend;
  int threads = 1;
  bool heads_inside = false;    ///< [batch, len, heads, dim] in place of [batch, heads, len, dim]
  const Backend* on = nullptr;  ///< in place of `backend`: one that is in no list
  std::vector<std::int64_t> kv_lengths = {};  ///< of each sequence, behind each other; empty: all kv_len
  std::int64_t page_size = 0;   ///< above 0: keys in pages, in random order
  bool huge_pages = false;      ///< memory in pages of 2 MiB, where the system gives them
};

/// Tensors with Gaussian entries, the plan, its workspace. Memory is aligned to 64 bytes. For a backend on a device the
/// tensors that are computed on lie there, and those in host memory beside them are for validation.
class Workload {
 public:
  static Result<std::unique_ptr<Workload>> create(const WorkloadSpec& spec);
  Workload(const WorkloadSpec& spec, AttentionPlan plan) : spec_(spec), plan_(std::move(plan)) {}

  const WorkloadSpec& spec() const noexcept { return spec_; }
  const Backend& backend() const noexcept { return plan_.backend(); }
  int threads() const noexcept { return plan_.prepared().threads; }
  std::size_t workspace_bytes() const noexcept { return plan_.workspace_bytes(); }
  /// In host memory.
  AttentionTensors tensors() const noexcept { return tensors_; }
  /// K and V, one after the other.
  std::span<const std::byte> key_value() const noexcept;

  /// On a device it may return before the work is done.
  Status run() const { return plan_.run(on_device() ? device_tensors_ : tensors_, workspace_); }
  /// Waits for runs on a device.
  Status finish() const;
  bool on_device() const noexcept { return device_ != nullptr; }
  /// Moves as many bytes on the device as K and V have, half of them read and half of them written.
  Status copy_on_device() const;
  /// Runs, and compares some rows of every head with the reference, within the bound.
  Result<verify::Comparison> validate() const;

  /// 2 FLOPs for each channel of each of the two products, over the pairs (query, key) that are visible.
  double flops() const noexcept;
  /// Of K and V, each read once.
  double key_value_bytes() const noexcept { return static_cast<double>(key_value().size()); }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  /// Shape of key and value but for the last axis, after lengths and pages have been laid out.
  Shape4 lay_out_keys();

  Status move_to_device(std::size_t bytes);

  WorkloadSpec spec_;
  AttentionPlan plan_;
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t key_value_begin_ = 0, key_value_bytes_ = 0;
  std::vector<std::int64_t> cu_kv_;
  std::vector<std::int32_t> pages_;
  AttentionTensors tensors_;
  std::span<std::byte> workspace_;
  std::shared_ptr<const gpu::Device> device_;  ///< null: in host memory
  gpu::DeviceMemory device_memory_, copy_target_;
  AttentionTensors device_tensors_;
};

}  // namespace siattn::bench

#endif  // SIATTN_BENCH_WORKLOAD_HPP
