// SPDX-License-Identifier: Apache-2.0
// Which kernels a run launches, with which grid, and what they are given: functions of numbers only, which the backend
// and the tests share.
#ifndef SIATTN_GPU_LAUNCH_HPP
#define SIATTN_GPU_LAUNCH_HPP

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <siattn/backend.hpp>

#include "gpu/params.hpp"

namespace siattn::gpu {

/// Channels up to which the tensor-core kernels go; more, up to kMaxDim, take the plain path.
inline constexpr std::int64_t kMaxTensorCoreDim = 128;
inline constexpr std::int64_t kMaxDim = 512;
/// Keys of a sequence, and query rows for each of its kv heads, at most: kernels count both in 32 bits.
inline constexpr std::int64_t kMaxLength = std::int64_t{1} << 30;

/// One kernel of the module, and how it is launched: a one-dimensional grid and the run's Forward as only argument.
struct Launch {
  const char* entry = nullptr;    ///< its plain name, for cuModuleGetFunction
  std::int64_t blocks = 0;        ///< never 0; below 2^31 or launches_of() says so
  std::int32_t threads = 0;       ///< of a block
  std::int32_t shared_bytes = 0;  ///< dynamic shared memory; above 48 KiB it has to be asked for
};

/// The launches of a run, in order, on one stream. None: the run has no rows.
struct Launches {
  std::array<Launch, 4> list{};
  int count = 0;
  int prefill = -1;  ///< which of them is prefill's; -1: none

  const Launch* begin() const noexcept { return list.data(); }
  const Launch* end() const noexcept { return list.data() + count; }
};

/// Good, or which part of a valid problem the kernels cannot do.
Status supported_by_kernels(const AttentionProblem& problem);

/// The tables as the kernels want them: [heads or 1][entries], no padding. May be empty.
std::vector<Entry> device_tables(const LogitTables& tables, std::int64_t query_heads);

/// Sequence b of a run. Everything but the tensors' addresses.
Sequence sequence_of(const PreparedAttention& problem, const AttentionTensors& tensors, std::int64_t b) noexcept;

/// Those of a run, and where a ragged batch has tokens past the last one, one without queries that has them as rows.
std::vector<Sequence> sequences_of(const PreparedAttention& problem, const AttentionTensors& tensors);

/// The pages that a paged run reads, sequence after sequence; tells each sequence where its own begin. Empty: not paged.
std::vector<std::int32_t> pages_of(const AttentionTensors& tensors, std::span<Sequence> sequences);

/// Device memory for the states of this run's splits: max, sum and out behind one another.
std::int64_t state_bytes(const Forward& forward) noexcept;

/// Where a plan's and a run's arrays are in device memory.
struct DeviceArrays {
  const Sequence* sequences = nullptr;
  const Entry* tables = nullptr;
  const float* row_factors = nullptr;   ///< LogitTables::row_factors as they are; nullptr where there are none
  const std::int32_t* pages = nullptr;  ///< nullptr: not paged
  void* states = nullptr;               ///< state_bytes(), aligned to 4 bytes
};

/// The kernels' argument. `tensors` holds device addresses; `sequences` is the host's copy of what is on the device.
Forward forward_of(const PreparedAttention& problem, const AttentionTensors& tensors,
                   std::span<const Sequence> sequences, const DeviceArrays& arrays) noexcept;

/// What to launch with it. An error where a grid would be too large.
Status launches_of(const Forward& forward, DType dtype, Launches* launches);

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_LAUNCH_HPP
