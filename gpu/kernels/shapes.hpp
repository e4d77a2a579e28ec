// SPDX-License-Identifier: Apache-2.0
// Extents of the kernels' tiles: what the kernels and the host that launches them agree on.
#ifndef SIATTN_GPU_KERNELS_SHAPES_HPP
#define SIATTN_GPU_KERNELS_SHAPES_HPP

#include "gpu/params.hpp"

namespace siattn::gpu {

/// The width that both head_dim and value_dim are padded to in the tensor-core kernels.
constexpr int tensor_core_width(int head_dim, int value_dim) noexcept {
  const int dim = larger(head_dim, value_dim);
  return dim <= 64 ? 64 : dim <= 96 ? 96 : 128;
}

/// prefill: queries times keys. Each warp owns `kWarpRows` queries before all keys of the tile.
template <int kWidth>
struct PrefillShape {
  static constexpr int kWarps = 4;
  static constexpr int kWarpTiles = kWidth == 64 ? 2 : 1;  ///< of 16 queries; two need too many registers beyond 64
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kQueries = 16 * kWarpTiles * kWarps;
  static constexpr int kKeys = kKeyAlignment;
  static constexpr int kEntries = kQueries + kKeys;  ///< one slice of the table; one entry is spare
  static constexpr int kSharedBytes =
      2 * kWidth * (kQueries + 2 * kKeys) + 2 * kEntries * static_cast<int>(sizeof(Entry));
};

/// decode: each warp has its own keys, 16 at a time, and its own pipeline of copies.
template <int kWidth>
struct DecodeShape {
  static constexpr int kWarps = 4;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kKeys = 16;                       ///< of a step of a warp
  static constexpr int kStages = kWidth == 128 ? 2 : 3;  ///< steps in memory; of 8.6 devices a block gets 99 KiB
  static constexpr int kSharedBytes = 2 * kWidth * (kPackedRows + kWarps * kStages * 2 * kKeys);
};

/// plain: any element type and width, no tensor cores.
struct PlainShape {
  static constexpr int kWarps = 4;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kKeys = 32;  ///< one for each lane
  static constexpr int kSlab = 64;  ///< channels of K or V in shared memory at a time
  static constexpr int kSlabStride = kSlab + 1;
  /// Queries, a slab, weights.
  static constexpr int shared_bytes(int head_dim) noexcept {
    return 4 * (kPackedRows * divide_up(head_dim, kSlab) * kSlab + kKeys * kSlabStride + kPackedRows * kKeys);
  }
};

inline constexpr int kRowThreads = 128;  ///< combine: a block for each query row; fill: a thread

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_KERNELS_SHAPES_HPP
