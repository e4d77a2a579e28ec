// SPDX-License-Identifier: Apache-2.0
#include "gpu/driver.hpp"

#if defined(SIATTN_HAS_CUDA)
#include <dlfcn.h>
#endif

#include <string>
#include <string_view>

namespace siattn::gpu {
namespace {

#if !defined(SIATTN_HAS_CUDA)

Result<Driver> load() {
  return Status::unavailable("this build has no CUDA kernels: nvcc was not found, or SIATTN_CUDA is OFF");
}

#else

constexpr const char* kLibrary = "libcuda.so.1";

Result<Driver> load() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    return Status::unavailable("no NVIDIA driver: " + std::string(reason != nullptr ? reason : kLibrary));
  }
  Driver driver;
  const char* missing = nullptr;
#define SIATTN_CUDA_LOAD(member, symbol, parameters)                                  \
  driver.member = reinterpret_cast<decltype(driver.member)>(dlsym(library, #symbol)); \
  if (driver.member == nullptr && missing == nullptr) missing = #symbol;
  SIATTN_CUDA_FUNCTIONS(SIATTN_CUDA_LOAD)
#undef SIATTN_CUDA_LOAD
  if (missing != nullptr) {
    return Status::unavailable(std::string(kLibrary) + " has no " + missing + ": the NVIDIA driver is older than 11.2");
  }
  return driver;  // never closed: what it has started does not end before the program
}

#endif

}  // namespace

const Result<Driver>& load_driver() {
  static const Result<Driver> driver = load();
  return driver;
}

Status status_of(const Driver& driver, CuResult result, const char* symbol) {
  if (result == kCuSuccess) return {};
  const char* name = nullptr;
  if (driver.error_name(result, &name) != kCuSuccess || name == nullptr) name = "unknown error";
  std::string_view function = symbol;
  if (function.ends_with("_v2")) function.remove_suffix(3);  // a matter of the library's versions
  const StatusCode code = result == kCuOutOfMemory                                  ? StatusCode::out_of_memory
                          : result == kCuNoDevice || result == kCuNotInitialized ? StatusCode::unavailable
                                                                                 : StatusCode::internal;
  std::string message = std::string(function) + ": " + name + " (" + std::to_string(result) + ")";
  if (result == kCuNotInitialized) message += ": the driver does not survive a fork";
  return {code, std::move(message)};
}

}  // namespace siattn::gpu
