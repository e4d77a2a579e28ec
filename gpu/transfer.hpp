// SPDX-License-Identifier: Apache-2.0
// Tensors of the caller's as kernels find them: those on the device where they are, those in host memory as copies.
#ifndef SIATTN_GPU_TRANSFER_HPP
#define SIATTN_GPU_TRANSFER_HPP

#include <cstddef>

#include <siattn/tensor_view.hpp>

#include "gpu/device.hpp"

namespace siattn::gpu {

/// Where this address is: the number of its device, or -1 for host memory (which CUDA need not know of).
Result<int> device_of(const Driver& driver, const void* address);

/// How a copy lies on the device: dense, but for rows that begin at multiples of 16 bytes.
Shape4 copy_strides(const TensorView& x) noexcept;
std::size_t copy_bytes(const TensorView& x) noexcept;

/// Enqueues copies of every element of the host tensor to `at`, laid out so, and back. Copies to the device have left
/// host memory when this returns, unless it is page-locked; those to the host are there when the stream has got so far.
Status copy_in(const Device& device, const TensorView& host, CuPointer at, CuStream stream);
Status copy_out(const Device& device, CuPointer at, const MutableTensorView& host, CuStream stream);

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_TRANSFER_HPP
