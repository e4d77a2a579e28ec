// SPDX-License-Identifier: Apache-2.0
#include "gpu/transfer.hpp"

#include <cstdint>

namespace siattn::gpu {
namespace {

constexpr std::int64_t kRowAlignment = 16;

bool is_empty(const Shape4& shape) noexcept {
  return shape[0] == 0 || shape[1] == 0 || shape[2] == 0 || shape[3] == 0;
}

std::int64_t row_bytes(const TensorView& x) noexcept {
  return x.shape[3] * static_cast<std::int64_t>(size_of(x.dtype));
}

/// Bytes between rows of the copy.
std::int64_t copy_pitch(const TensorView& x) noexcept {
  return (row_bytes(x) + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
}

/// Rows at equal distances in host memory, whose copies lie one after the other.
struct Rows {
  std::int64_t count;
  std::int64_t pitch;  ///< bytes between rows in host memory
};

/// Axes that go on where the inner one ends count as one.
struct Blocks {
  std::int64_t batch, heads;
  Rows rows;
};

Blocks blocks_of(const TensorView& x) noexcept {
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  Blocks blocks{x.shape[0], x.shape[1], {x.shape[2], x.strides[2] * size}};
  if (blocks.rows.count == 1) blocks.rows.pitch = x.strides[1] * size;
  if (blocks.heads > 1 && x.strides[1] * size != blocks.rows.count * blocks.rows.pitch) return blocks;
  blocks.rows.count *= blocks.heads;
  blocks.heads = 1;
  if (blocks.rows.count == 1) blocks.rows.pitch = x.strides[0] * size;
  if (blocks.batch > 1 && x.strides[0] * size != blocks.rows.count * blocks.rows.pitch) return blocks;
  blocks.rows.count *= blocks.batch;
  blocks.batch = 1;
  return blocks;
}

/// One direction of copying: rows in host memory, their copies one after the other on the device.
class Copier {
 public:
  Copier(const Device& device, bool to_device, CuStream stream)
      : device_(device), driver_(device.driver()), to_device_(to_device), stream_(stream) {}

  Status copy(const MutableTensorView& x, CuPointer at) const {
    if (is_empty(x.shape)) return {};
    const Blocks blocks = blocks_of(x);
    const auto size = static_cast<std::int64_t>(size_of(x.dtype));
    auto* const base = static_cast<std::byte*>(x.data);
    for (std::int64_t b = 0; b < blocks.batch; ++b) {
      for (std::int64_t h = 0; h < blocks.heads; ++h) {
        std::byte* const host = base + (b * x.strides[0] + h * x.strides[1]) * size;
        if (Status status = rows(host, at, blocks.rows, row_bytes(x), copy_pitch(x)); !status) return status;
        at += static_cast<CuPointer>(blocks.rows.count * copy_pitch(x));
      }
    }
    return {};
  }

 private:
  Status rows(std::byte* host, CuPointer at, const Rows& rows, std::int64_t bytes, std::int64_t pitch) const {
    if (rows.pitch == pitch && bytes == pitch) return flat(host, at, rows.count * bytes);
    if (rows.count > 1 && rows.pitch >= bytes && static_cast<std::size_t>(rows.pitch) <= device_.max_pitch()) {
      return pitched(host, at, rows, bytes, pitch);
    }
    for (std::int64_t row = 0; row < rows.count; ++row) {
      Status status = flat(host + row * rows.pitch, at + static_cast<CuPointer>(row * pitch), bytes);
      if (!status) return status;
    }
    return {};
  }

  Status flat(std::byte* host, CuPointer at, std::int64_t bytes) const {
    const auto count = static_cast<std::size_t>(bytes);
    return to_device_ ? SIATTN_CUDA_CALL(driver_, copy_to_device, at, host, count, stream_)
                      : SIATTN_CUDA_CALL(driver_, copy_to_host, host, at, count, stream_);
  }

  Status pitched(std::byte* host, CuPointer at, const Rows& rows, std::int64_t bytes, std::int64_t pitch) const {
    CuCopy2D copy;
    copy.width_in_bytes = static_cast<std::size_t>(bytes);
    copy.height = static_cast<std::size_t>(rows.count);
    if (to_device_) {
      copy.source_host = host;
      copy.source_pitch = static_cast<std::size_t>(rows.pitch);
      copy.target_type = kCuDeviceMemory;
      copy.target_device = at;
      copy.target_pitch = static_cast<std::size_t>(pitch);
    } else {
      copy.source_type = kCuDeviceMemory;
      copy.source_device = at;
      copy.source_pitch = static_cast<std::size_t>(pitch);
      copy.target_host = host;
      copy.target_pitch = static_cast<std::size_t>(rows.pitch);
    }
    return SIATTN_CUDA_CALL(driver_, copy_2d, &copy, stream_);
  }

  const Device& device_;
  const Driver& driver_;
  bool to_device_;
  CuStream stream_;
};

}  // namespace

Result<int> device_of(const Driver& driver, const void* address) {
  const auto pointer = static_cast<CuPointer>(reinterpret_cast<std::uintptr_t>(address));
  unsigned type = 0;
  const CuResult result = driver.pointer_attribute(&type, kCuPointerMemoryType, pointer);
  if (result == kCuInvalidValue) return -1;  // not of CUDA's making
  if (Status status = status_of(driver, result, call::pointer_attribute); !status) return status;
  if (type != kCuDeviceMemory) return -1;
  int device = 0;
  Status status = SIATTN_CUDA_CALL(driver, pointer_attribute, &device, kCuPointerDeviceOrdinal, pointer);
  if (!status) return status;
  return device;
}

Shape4 copy_strides(const TensorView& x) noexcept {
  const std::int64_t row = copy_pitch(x) / static_cast<std::int64_t>(size_of(x.dtype));
  return {x.shape[1] * x.shape[2] * row, x.shape[2] * row, row, 1};
}

std::size_t copy_bytes(const TensorView& x) noexcept {
  return static_cast<std::size_t>(x.shape[0] * x.shape[1] * x.shape[2] * copy_pitch(x));
}

Status copy_in(const Device& device, const TensorView& host, CuPointer at, CuStream stream) {
  const MutableTensorView source{const_cast<void*>(host.data), host.dtype, host.shape, host.strides};  // read only
  return Copier(device, true, stream).copy(source, at);
}

Status copy_out(const Device& device, CuPointer at, const MutableTensorView& host, CuStream stream) {
  return Copier(device, false, stream).copy(host, at);
}

}  // namespace siattn::gpu
