// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_GPU_IMAGES_HPP
#define SIATTN_GPU_IMAGES_HPP

#include <cstddef>
#include <span>
#include <string_view>

namespace siattn::gpu {

/// One fat binary: the kernels of a file gpu/kernels/NAME.cu, for the driver to load.
struct Image {
  std::string_view name;
  const std::byte* data;
};

/// Every one that this build holds; empty where it was built without nvcc.
std::span<const Image> images() noexcept;

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_IMAGES_HPP
