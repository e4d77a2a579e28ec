// SPDX-License-Identifier: Apache-2.0
// The driver interface with the emulator behind it: what a backend enqueues runs on this processor.
//
// Streams are lazy: copies and kernels happen when somebody waits for the stream (or frees memory, which waits for all),
// so that a result read too early is still NaN. What the driver reads at the call it reads then: pageable host memory,
// kernel arguments. Calls without a current context, launches beyond what a kernel was allowed, frees of what was not
// allocated are errors, as on a device. Any call can be made to fail.
#ifndef SIATTN_GPU_EMULATOR_DRIVER_HPP
#define SIATTN_GPU_EMULATOR_DRIVER_HPP

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/driver.hpp"
#include "gpu/emulator/emulator.hpp"
#include "gpu/images.hpp"

namespace siattn::gpu::emulator {

/// What a test may set, and read. One program has one driver.
struct DriverControl {
  int devices = 1;
  int capability = 80;
  int pools = 1;
  Schedule schedule;

  std::string fail;          ///< this call ("cuMemAlloc_v2") fails, with this result,
  CuResult fail_with = 999;  ///< CUDA_ERROR_UNKNOWN
  int fail_after = 0;        ///< once so many of it have been good

  std::vector<std::string_view> calls;  ///< every call, since a test last cleared this
};
DriverControl& driver_control();
/// Everything as it was at first, but for memory that has not been freed.
void reset_driver();

/// For CudaBackend.
const Result<Driver>& load_emulated_driver();
std::span<const Image> emulated_images();

/// Does what all streams hold. Good, or what went wrong.
Status finish_streams();
/// Allocations that have not been freed, of both kinds.
std::size_t live_allocations();

/// A stream; never destroyed.
CuStream make_stream();
/// A context of the device, current until the next of these calls; -1: none is.
void set_current_device(CuDevice device);

}  // namespace siattn::gpu::emulator

#endif  // SIATTN_GPU_EMULATOR_DRIVER_HPP
