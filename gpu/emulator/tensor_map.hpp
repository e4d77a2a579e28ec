// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_GPU_EMULATOR_TENSOR_MAP_HPP
#define SIATTN_GPU_EMULATOR_TENSOR_MAP_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "gpu/ptx_sm90.hpp"

namespace siattn::gpu::emulator {

/// What encode_tensor_map puts into a TensorMap. Elements have 16 bits, rows of a box 64 of them.
struct EncodedMap {
  static constexpr std::uint64_t kMagic = 0x7369'6174'746e'6d61;
  static constexpr std::size_t kRowBytes = 128;

  std::uint64_t magic;
  const std::byte* base;
  std::uint64_t sizes[4];    ///< in elements, fastest first
  std::uint64_t strides[3];  ///< of dimensions 1 to 3, in bytes
  std::uint32_t box[4];

  std::size_t box_rows() const { return std::size_t{box[1]} * box[2] * box[3]; }
  std::size_t box_bytes() const { return kRowBytes * box_rows(); }

  /// row(number of the row in the box, its address, how many of its elements lie in the tensor): these come first, as
  /// no box here begins before the tensor's first element of a row.
  template <class F>
  void for_each_row(const std::array<int, 4>& at, F row) const {
    for (std::size_t r = 0; r < box_rows(); ++r) {
      const std::int64_t x[4] = {at[0], at[1] + static_cast<std::int64_t>(r % box[1]),
                                 at[2] + static_cast<std::int64_t>(r / box[1] % box[2]),
                                 at[3] + static_cast<std::int64_t>(r / box[1] / box[2])};
      const std::byte* from = base + x[0] * 2;
      bool inside = x[0] >= 0;
      for (int i = 1; i < 4; ++i) {
        inside = inside && x[i] >= 0 && x[i] < static_cast<std::int64_t>(sizes[i]);
        if (inside) from += x[i] * static_cast<std::int64_t>(strides[i - 1]);
      }
      const std::int64_t left = static_cast<std::int64_t>(sizes[0]) - x[0];
      row(r, from, inside ? static_cast<std::size_t>(std::clamp<std::int64_t>(left, 0, box[0])) : 0);
    }
  }
};

}  // namespace siattn::gpu::emulator

#endif  // SIATTN_GPU_EMULATOR_TENSOR_MAP_HPP
