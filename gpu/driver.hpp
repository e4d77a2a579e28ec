// SPDX-License-Identifier: Apache-2.0
// The part of CUDA's driver interface that the backend calls, declared here and found at run time: nothing is linked, so
// a program built with the backend also starts where there is no driver. tests/gpu_driver_test.cpp compares every
// declaration with cuda.h, where that is installed.
#ifndef SIATTN_GPU_DRIVER_HPP
#define SIATTN_GPU_DRIVER_HPP

#include <cstddef>
#include <cstdint>

#include <siattn/status.hpp>

namespace siattn::gpu {

using CuResult = int;  ///< 0: good
using CuDevice = int;
using CuPointer = unsigned long long;  ///< an address in device memory
using CuContext = struct CuContextObject*;
using CuModule = struct CuModuleObject*;
using CuFunction = struct CuFunctionObject*;
using CuStream = struct CuStreamObject*;  ///< nullptr: the legacy default stream
using CuPool = struct CuPoolObject*;
struct TensorMap;  ///< CUtensorMap: params_sm90.hpp

/// Results that mean something to the backend.
enum : CuResult {
  kCuSuccess = 0,
  kCuInvalidValue = 1,
  kCuOutOfMemory = 2,
  kCuNotInitialized = 3,
  kCuNoDevice = 100,
  kCuNoBinary = 209,  ///< a module holds nothing for this device
  kCuNotFound = 500,
};

/// The numbers of cuda.h that are passed or read.
enum CuDeviceAttribute : int {
  kCuMaxPitch = 11,
  kCuMultiprocessors = 16,
  kCuComputeMajor = 75,
  kCuComputeMinor = 76,
  kCuSharedMemoryOptIn = 97,
  kCuMemoryPools = 115,
};
enum CuPointerAttribute : int { kCuPointerMemoryType = 2, kCuPointerDeviceOrdinal = 9 };
enum CuFunctionAttribute : int { kCuMaxDynamicSharedBytes = 8 };
enum CuMemoryType : unsigned { kCuHostMemory = 1, kCuDeviceMemory = 2 };
enum CuPoolAttribute : int { kCuReleaseThreshold = 4 };
enum CuTensorMapType : int { kCuTensorFloat16 = 6, kCuTensorBfloat16 = 9 };
enum CuTensorMapInterleave : int { kCuTensorInterleaveNone = 0 };
enum CuTensorMapSwizzle : int { kCuTensorSwizzle128 = 3 };
enum CuTensorMapPromotion : int { kCuTensorPromotion256 = 3 };  ///< what the second-level cache fetches at a time
enum CuTensorMapFill : int { kCuTensorFillZeros = 0 };

/// CUmemPoolProps
struct CuPoolProperties {
  int allocation_type = 1;  ///< pinned, which is the only one
  int handle_types = 0;
  int location_type = 1;  ///< a device
  int location_id = 0;
  void* windows_security = nullptr;
  std::size_t max_size = 0;
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
};

/// CUDA_MEMCPY2D
struct CuCopy2D {
  std::size_t source_x = 0, source_y = 0;
  CuMemoryType source_type = kCuHostMemory;
  const void* source_host = nullptr;
  CuPointer source_device = 0;
  void* source_array = nullptr;
  std::size_t source_pitch = 0;
  std::size_t target_x = 0, target_y = 0;
  CuMemoryType target_type = kCuHostMemory;
  void* target_host = nullptr;
  CuPointer target_device = 0;
  void* target_array = nullptr;
  std::size_t target_pitch = 0;
  std::size_t width_in_bytes = 0;
  std::size_t height = 0;
};

/// X(member, symbol in libcuda, parameters)
#define SIATTN_CUDA_FUNCTIONS(X)                                                                                   \
  X(init, cuInit, (unsigned))                                                                                      \
  X(error_name, cuGetErrorName, (CuResult, const char**))                                                          \
  X(device_count, cuDeviceGetCount, (int*))                                                                        \
  X(device_get, cuDeviceGet, (CuDevice*, int))                                                                     \
  X(device_name, cuDeviceGetName, (char*, int, CuDevice))                                                          \
  X(device_attribute, cuDeviceGetAttribute, (int*, CuDeviceAttribute, CuDevice))                                   \
  X(primary_context_retain, cuDevicePrimaryCtxRetain, (CuContext*, CuDevice))                                      \
  X(context_device, cuCtxGetDevice, (CuDevice*))                                                                   \
  X(context_push, cuCtxPushCurrent_v2, (CuContext))                                                                \
  X(context_pop, cuCtxPopCurrent_v2, (CuContext*))                                                                 \
  X(module_load, cuModuleLoadData, (CuModule*, const void*))                                                       \
  X(module_function, cuModuleGetFunction, (CuFunction*, CuModule, const char*))                                    \
  X(function_set, cuFuncSetAttribute, (CuFunction, CuFunctionAttribute, int))                                      \
  X(launch, cuLaunchKernel,                                                                                        \
    (CuFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CuStream, void**, void**))  \
  X(allocate, cuMemAlloc_v2, (CuPointer*, std::size_t))                                                            \
  X(free, cuMemFree_v2, (CuPointer))                                                                               \
  X(pool_create, cuMemPoolCreate, (CuPool*, const CuPoolProperties*))                                              \
  X(pool_set, cuMemPoolSetAttribute, (CuPool, CuPoolAttribute, void*))                                             \
  X(pool_allocate, cuMemAllocFromPoolAsync, (CuPointer*, std::size_t, CuPool, CuStream))                           \
  X(pool_free, cuMemFreeAsync, (CuPointer, CuStream))                                                              \
  X(copy_to_device, cuMemcpyHtoDAsync_v2, (CuPointer, const void*, std::size_t, CuStream))                         \
  X(copy_to_host, cuMemcpyDtoHAsync_v2, (void*, CuPointer, std::size_t, CuStream))                                 \
  X(copy_on_device, cuMemcpyDtoDAsync_v2, (CuPointer, CuPointer, std::size_t, CuStream))                           \
  X(copy_2d, cuMemcpy2DAsync_v2, (const CuCopy2D*, CuStream))                                                      \
  X(tensor_map_encode, cuTensorMapEncodeTiled,                                                                     \
    (TensorMap*, CuTensorMapType, std::uint32_t, void*, const std::uint64_t*, const std::uint64_t*,                \
     const std::uint32_t*, const std::uint32_t*, CuTensorMapInterleave, CuTensorMapSwizzle, CuTensorMapPromotion,  \
     CuTensorMapFill))                                                                                             \
  X(pointer_attribute, cuPointerGetAttribute, (void*, CuPointerAttribute, CuPointer))                              \
  X(synchronize, cuStreamSynchronize, (CuStream))

/// Plain pointers, so that tests can put an emulated driver in their place.
struct Driver {
#define SIATTN_CUDA_MEMBER(member, symbol, parameters) CuResult(*member) parameters = nullptr;
  SIATTN_CUDA_FUNCTIONS(SIATTN_CUDA_MEMBER)
#undef SIATTN_CUDA_MEMBER
};

/// The functions of libcuda.so.1, loaded once for the life of the program and not initialised. `unavailable`, with the
/// loader's words, where the library or one of the functions is missing, and in a build without kernels.
const Result<Driver>& load_driver();

/// The symbol of each member, as messages quote it: "cuMemAlloc".
namespace call {
#define SIATTN_CUDA_NAME(member, symbol, parameters) inline constexpr const char* member = #symbol;
SIATTN_CUDA_FUNCTIONS(SIATTN_CUDA_NAME)
#undef SIATTN_CUDA_NAME
}  // namespace call

/// Good, or an error of that call: "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)". The code is out_of_memory for that
/// result, unavailable where there is no device or a fork has left the driver behind, and internal for the rest.
Status status_of(const Driver& driver, CuResult result, const char* symbol);

/// SIATTN_CUDA_CALL(driver, allocate, &pointer, bytes): the Status of that call.
#define SIATTN_CUDA_CALL(driver, member, ...) \
  ::siattn::gpu::status_of((driver), (driver).member(__VA_ARGS__), ::siattn::gpu::call::member)

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_DRIVER_HPP
