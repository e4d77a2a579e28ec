// SPDX-License-Identifier: Apache-2.0
// The part of CUDA's driver interface that is declared by hand: against cuda.h where that is installed; what errors say.
#include "gpu/driver.hpp"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "gpu/params_sm90.hpp"

#if __has_include(<cuda.h>)
#include <cuda.h>
#define SIATTN_HAS_CUDA_HEADER
#endif

namespace siattn::gpu {
namespace {

#if defined(SIATTN_HAS_CUDA_HEADER)

template <class Ours, class Theirs>
constexpr bool same_word() {
  if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>) {
    return std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>;
  } else {
    return sizeof(Ours) == sizeof(Theirs) && !std::is_class_v<Ours> && !std::is_class_v<Theirs>;
  }
}

/// Functions that take and return words of the same sizes in the same order are called alike.
template <class Ours, class Theirs>
struct SameCall : std::false_type {};
template <class... Ours, class... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct SameCall<CuResult (*)(Ours...), CUresult (*)(Theirs...)>
    : std::bool_constant<sizeof(CuResult) == sizeof(CUresult) && (same_word<Ours, Theirs>() && ...)> {};

#define SIATTN_SAME_CALL(member, symbol, parameters) \
  static_assert(SameCall<decltype(Driver::member), decltype(&::symbol)>::value, #symbol);
SIATTN_CUDA_FUNCTIONS(SIATTN_SAME_CALL)
#undef SIATTN_SAME_CALL

// The check can fail.
static_assert(!SameCall<CuResult (*)(int), decltype(&::cuMemFree_v2)>::value);
static_assert(!SameCall<CuResult (*)(CuPointer*), decltype(&::cuMemFree_v2)>::value);
static_assert(!SameCall<CuResult (*)(CuPointer, int), decltype(&::cuMemFree_v2)>::value);

static_assert(kCuInvalidValue == int{CUDA_ERROR_INVALID_VALUE} && kCuOutOfMemory == int{CUDA_ERROR_OUT_OF_MEMORY} &&
              kCuNotInitialized == int{CUDA_ERROR_NOT_INITIALIZED} && kCuNoDevice == int{CUDA_ERROR_NO_DEVICE} &&
              kCuNoBinary == int{CUDA_ERROR_NO_BINARY_FOR_GPU} && kCuNotFound == int{CUDA_ERROR_NOT_FOUND});
static_assert(int{kCuMaxPitch} == CU_DEVICE_ATTRIBUTE_MAX_PITCH &&
              int{kCuMultiprocessors} == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT &&
              int{kCuComputeMajor} == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR &&
              int{kCuComputeMinor} == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR &&
              int{kCuSharedMemoryOptIn} == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN &&
              int{kCuMemoryPools} == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
static_assert(int{kCuPointerMemoryType} == CU_POINTER_ATTRIBUTE_MEMORY_TYPE &&
              int{kCuPointerDeviceOrdinal} == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL &&
              int{kCuMaxDynamicSharedBytes} == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
              int{kCuReleaseThreshold} == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
static_assert(int{kCuTensorFloat16} == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 &&
              int{kCuTensorBfloat16} == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 &&
              int{kCuTensorInterleaveNone} == CU_TENSOR_MAP_INTERLEAVE_NONE &&
              int{kCuTensorSwizzle128} == CU_TENSOR_MAP_SWIZZLE_128B &&
              int{kCuTensorPromotion256} == CU_TENSOR_MAP_L2_PROMOTION_L2_256B &&
              int{kCuTensorFillZeros} == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && sizeof(TensorMap) == sizeof(CUtensorMap));
static_assert(unsigned{kCuHostMemory} == CU_MEMORYTYPE_HOST && unsigned{kCuDeviceMemory} == CU_MEMORYTYPE_DEVICE);

#define SIATTN_SAME_FIELD(ours, theirs)                                                                  \
  (offsetof(CuPoolProperties, ours) == offsetof(CUmemPoolProps, theirs) &&                               \
   sizeof(CuPoolProperties::ours) == sizeof(CUmemPoolProps::theirs))
static_assert(sizeof(CuPoolProperties) == sizeof(CUmemPoolProps) && SIATTN_SAME_FIELD(allocation_type, allocType) &&
              SIATTN_SAME_FIELD(handle_types, handleTypes) && SIATTN_SAME_FIELD(location_type, location.type) &&
              SIATTN_SAME_FIELD(windows_security, win32SecurityAttributes) && SIATTN_SAME_FIELD(max_size, maxSize) &&
              SIATTN_SAME_FIELD(usage, usage) && SIATTN_SAME_FIELD(reserved, reserved));
static_assert(offsetof(CuPoolProperties, location_id) == offsetof(CUmemPoolProps, location.id));
#undef SIATTN_SAME_FIELD
static_assert(CuPoolProperties{}.allocation_type == int{CU_MEM_ALLOCATION_TYPE_PINNED} &&
              CuPoolProperties{}.location_type == int{CU_MEM_LOCATION_TYPE_DEVICE} &&
              CuPoolProperties{}.handle_types == int{CU_MEM_HANDLE_TYPE_NONE});

#define SIATTN_SAME_FIELD(ours, theirs)                                  \
  (offsetof(CuCopy2D, ours) == offsetof(CUDA_MEMCPY2D, theirs) &&        \
   sizeof(CuCopy2D::ours) == sizeof(CUDA_MEMCPY2D::theirs))
static_assert(sizeof(CuCopy2D) == sizeof(CUDA_MEMCPY2D) && SIATTN_SAME_FIELD(source_x, srcXInBytes) &&
              SIATTN_SAME_FIELD(source_y, srcY) && SIATTN_SAME_FIELD(source_type, srcMemoryType) &&
              SIATTN_SAME_FIELD(source_host, srcHost) && SIATTN_SAME_FIELD(source_device, srcDevice) &&
              SIATTN_SAME_FIELD(source_array, srcArray) && SIATTN_SAME_FIELD(source_pitch, srcPitch) &&
              SIATTN_SAME_FIELD(target_x, dstXInBytes) && SIATTN_SAME_FIELD(target_y, dstY) &&
              SIATTN_SAME_FIELD(target_type, dstMemoryType) && SIATTN_SAME_FIELD(target_host, dstHost) &&
              SIATTN_SAME_FIELD(target_device, dstDevice) && SIATTN_SAME_FIELD(target_array, dstArray) &&
              SIATTN_SAME_FIELD(target_pitch, dstPitch) && SIATTN_SAME_FIELD(width_in_bytes, WidthInBytes) &&
              SIATTN_SAME_FIELD(height, Height));
#undef SIATTN_SAME_FIELD

TEST(GpuDriver, DeclarationsAreThoseOfCudaH) { SUCCEED() << "compiled against CUDA " << CUDA_VERSION; }

#else

TEST(GpuDriver, DeclarationsAreThoseOfCudaH) { GTEST_SKIP() << "no cuda.h here"; }

#endif

CuResult name_of_error(CuResult result, const char** name) {
  if (result == 12345) return kCuInvalidValue;
  *name = result == kCuOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_SOMETHING";
  return kCuSuccess;
}

TEST(GpuDriver, ErrorsNameTheCallTheResultAndItsNumber) {
  Driver driver;
  driver.error_name = name_of_error;
  EXPECT_TRUE(status_of(driver, kCuSuccess, call::allocate).ok());
  const Status memory = status_of(driver, kCuOutOfMemory, call::allocate);
  EXPECT_EQ(memory.message(), "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)");
  EXPECT_EQ(memory.code(), StatusCode::out_of_memory);
  const Status fault = status_of(driver, 700, call::synchronize);
  EXPECT_EQ(fault.message(), "cuStreamSynchronize: CUDA_ERROR_SOMETHING (700)");
  EXPECT_EQ(fault.code(), StatusCode::internal);
  EXPECT_EQ(status_of(driver, 12345, call::launch).message(), "cuLaunchKernel: unknown error (12345)");
  EXPECT_EQ(status_of(driver, kCuNoDevice, call::init).code(), StatusCode::unavailable);
  const Status forked = status_of(driver, kCuNotInitialized, call::context_push);
  EXPECT_EQ(forked.code(), StatusCode::unavailable);
  EXPECT_NE(forked.message().find("fork"), std::string::npos) << forked.message();
}

/// On a machine with a driver it is all there; on others it is said what is missing. Both times the same object.
TEST(GpuDriver, IsLoadedWholeOrSaysWhyNot) {
  const Result<Driver>& driver = load_driver();
  EXPECT_EQ(&driver, &load_driver());
  if (driver) {
    EXPECT_NE(driver->launch, nullptr);
    EXPECT_NE(driver->synchronize, nullptr);
  } else {
    EXPECT_EQ(driver.status().code(), StatusCode::unavailable);
    const std::string& message = driver.status().message();
    EXPECT_TRUE(message.find("libcuda.so.1") != std::string::npos || message.find("this build") != std::string::npos)
        << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace siattn::gpu
