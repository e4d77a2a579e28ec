// SPDX-License-Identifier: Apache-2.0
// Prefill on devices of compute capability 9.0: which runs its kernel takes, and what it is given.
#ifndef SIATTN_GPU_LAUNCH_SM90_HPP
#define SIATTN_GPU_LAUNCH_SM90_HPP

#include <array>
#include <cstdint>

#include "gpu/launch.hpp"
#include "gpu/params_sm90.hpp"

namespace siattn::gpu {

/// The one compute capability that sm_90a is for.
inline constexpr int kCapabilitySm90 = 90;

/// What cuTensorMapEncodeTiled is asked for: a tensor of four dimensions of 16-bit elements, 128-byte swizzle, zeros
/// outside. Fastest dimension first.
struct TensorMapShape {
  const void* base = nullptr;
  std::array<std::uint64_t, 4> sizes{};    ///< channels, rows, heads, batch
  std::array<std::uint64_t, 3> strides{};  ///< of rows, heads and batch, in bytes
  std::array<std::uint32_t, 4> box{};      ///< elements of a copy
};

/// In place of the launch of prefill among a run's.
struct PrefillSm90 {
  Launch launch;
  ForwardSm90 argument;  ///< but for its maps, which are to be encoded from these if argument.tensor_copies:
  TensorMapShape query, key, value;
};

/// The entry of this kernel for 16-bit inputs of at most kMaxTensorCoreDim channels.
const char* prefill_sm90_entry(DType dtype, std::int64_t head_dim, std::int64_t value_dim) noexcept;
/// The dynamic shared memory of its blocks.
std::int32_t prefill_sm90_shared_bytes(std::int64_t head_dim, std::int64_t value_dim) noexcept;

/// False: the run prefills nothing with 16-bit inputs of at most kMaxTensorCoreDim channels. Whether the kernel is used
/// depends on nothing else, so that the bits do not depend on how tensors lie. `forward` as forward_of() made it.
bool prefill_sm90_of(const Forward& forward, DType dtype, const AttentionTensors& tensors, PrefillSm90* prefill);

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_LAUNCH_SM90_HPP
