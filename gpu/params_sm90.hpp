// SPDX-License-Identifier: Apache-2.0
// What the kernel for sm_90a is given beyond Forward.
#ifndef SIATTN_GPU_PARAMS_SM90_HPP
#define SIATTN_GPU_PARAMS_SM90_HPP

#include "gpu/params.hpp"

namespace siattn::gpu {

/// A CUtensorMap as the driver encodes it, passed in the kernel's struct.
struct alignas(64) TensorMap {
  unsigned char bytes[128];
};

/// Tiles come by tensor copies, or where these cannot take the tensors (pages, rows that are not whole vectors of 16
/// bytes, broadcast strides) by threads: the same tiles, and so the same bits.
///
/// Maps have four dimensions: channels, rows, heads, batch. Of a packed tensor all sequences are rows of batch 0, and
/// row 0 of a sequence is its offset divided by the row stride; else rows begin at 0 and the batch is the sequence's.
struct ForwardSm90 {
  Forward f;  ///< query_tiles in tiles of PrefillSm90Shape
  TensorMap query, key, value;
  bool tensor_copies = false;  ///< the maps are there
  bool query_packed = false;
  bool key_packed = false;  ///< and value
};

/// prefill_sm90: a warpgroup that fetches, and two that own 64 queries each before all keys of the tile.
template <int kWidth>
struct PrefillSm90Shape {
  static constexpr int kConsumers = 2;
  static constexpr int kProducerRegisters = 40;
  static constexpr int kConsumerRegisters = 232;
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kQueries = 64 * kConsumers;
  static constexpr int kKeys = 128;
  static constexpr int kStages = 2;
  static constexpr int kEntries = kQueries + kKeys;  ///< one slice of the table; one entry is spare
  static constexpr int kTileBytes = 2 * kWidth * kKeys;
  static constexpr int kSliceBytes = kEntries * static_cast<int>(sizeof(Entry));
  /// mbarriers, queries, stages of K, of V and of slices.
  static constexpr int kSharedBytes = 1024 + 2 * kWidth * kQueries + kStages * (2 * kTileBytes + kSliceBytes);
};

/// What a row of a box holds: 64 channels, 128 bytes.
inline constexpr int kBoxChannels = 64;

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_PARAMS_SM90_HPP
