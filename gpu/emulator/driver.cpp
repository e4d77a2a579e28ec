// SPDX-License-Identifier: Apache-2.0
#include "gpu/emulator/driver.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "gpu/emulator/memory.hpp"

namespace siattn::gpu::emulator {
namespace {

constexpr CuResult kInvalidContext = 201;
constexpr CuResult kLaunchFailed = 719;
constexpr std::int64_t kSharedUnasked = 48 * 1024;

struct Work {
  std::function<CuResult()> run;
  bool frees = false;  ///< done also after an error, so that nothing stays behind
};
struct Stream {
  std::deque<Work> work;
};

struct State {
  std::recursive_mutex mutex;
  DriverControl control;
  std::map<CuStream, Stream> streams;
  std::deque<char> stream_handles;  ///< whose addresses the streams are
  std::map<CuPointer, CuDevice> allocations;
  std::map<CuFunction, std::int64_t> shared_allowed;
  std::string launch_error;  ///< the first, which stays
};

State& state() {
  static State the;
  return the;
}

thread_local std::vector<CuContext> contexts;

// Handles: numbers that are no addresses.
CuContext context_of(CuDevice device) { return reinterpret_cast<CuContext>(static_cast<std::uintptr_t>(device) + 1); }
CuDevice device_of_current() { return static_cast<CuDevice>(reinterpret_cast<std::uintptr_t>(contexts.back()) - 1); }
const Kernel* kernel_of(CuFunction function) { return reinterpret_cast<const Kernel*>(function); }
void* host(CuPointer pointer) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(pointer)); }

/// Notes the call; its result if it is to fail, else 0.
CuResult begin(const char* symbol, bool needs_context) {
  State& s = state();
  s.control.calls.emplace_back(symbol);
  if (s.control.fail == symbol && s.control.fail_after-- <= 0) return s.control.fail_with;
  if (needs_context && contexts.empty()) return kInvalidContext;
  return kCuSuccess;
}

CuResult finish(CuStream stream) {
  State& s = state();
  std::deque<Work>& work = s.streams[stream].work;
  while (!work.empty()) {
    const Work next = std::move(work.front());
    work.pop_front();
    if (next.frees || s.launch_error.empty()) static_cast<void>(next.run());
  }
  return s.launch_error.empty() ? kCuSuccess : kLaunchFailed;
}

CuResult finish_all() {
  CuResult result = kCuSuccess;
  for (auto& [stream, ignored] : state().streams) result = std::max(result, finish(stream));
  return result;
}

void enqueue(CuStream stream, std::function<CuResult()> run, bool frees = false) {
  state().streams[stream].work.push_back({std::move(run), frees});
}

/// Whether these bytes are device memory as a whole; the launch error says so where they are not.
bool on_device(CuPointer pointer, std::size_t bytes, bool write) {
  if (window_of(host(pointer), bytes, write).end != 0) return true;
  state().launch_error = "a copy touches what is no device memory";
  return false;
}

CuResult free_now(CuPointer pointer) {
  State& s = state();
  if (s.allocations.erase(pointer) == 0) return kCuInvalidValue;
  return release(host(pointer)) ? kCuSuccess : kCuInvalidValue;
}

// ---- the calls ----

#define SIATTN_BEGIN(symbol, needs_context)             \
  const std::lock_guard lock(state().mutex);            \
  const CuResult begun = begin(#symbol, needs_context); \
  if (begun != kCuSuccess) return begun

CuResult init(unsigned) {
  SIATTN_BEGIN(cuInit, false);
  return kCuSuccess;
}
CuResult error_name(CuResult result, const char** name) {
  static const std::map<CuResult, const char*> names{
      {kCuInvalidValue, "CUDA_ERROR_INVALID_VALUE"},     {kCuOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {kCuNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"}, {kCuNoDevice, "CUDA_ERROR_NO_DEVICE"},
      {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},   {kCuNotFound, "CUDA_ERROR_NOT_FOUND"}};
  const std::lock_guard lock(state().mutex);
  const auto found = names.find(result);
  *name = found != names.end() ? found->second : nullptr;
  // The emulator has more to say than a number.
  if (result == kLaunchFailed) *name = state().launch_error.c_str();
  return *name != nullptr ? kCuSuccess : kCuInvalidValue;
}
CuResult device_count(int* count) {
  SIATTN_BEGIN(cuDeviceGetCount, false);
  *count = state().control.devices;
  return kCuSuccess;
}
CuResult device_get(CuDevice* device, int ordinal) {
  SIATTN_BEGIN(cuDeviceGet, false);
  *device = ordinal;
  return ordinal >= 0 && ordinal < state().control.devices ? kCuSuccess : kCuInvalidValue;
}
CuResult device_name(char* name, int length, CuDevice) {
  SIATTN_BEGIN(cuDeviceGetName, false);
  std::strncpy(name, "emulated device", static_cast<std::size_t>(length));
  return kCuSuccess;
}
CuResult device_attribute(int* value, CuDeviceAttribute attribute, CuDevice device) {
  SIATTN_BEGIN(cuDeviceGetAttribute, false);
  const DriverControl& control = state().control;
  if (device < 0 || device >= control.devices) return kCuInvalidValue;
  switch (attribute) {
    case kCuMaxPitch: *value = (1U << 31) - 1; break;
    case kCuMultiprocessors: *value = 4; break;
    case kCuComputeMajor: *value = control.capability / 10; break;
    case kCuComputeMinor: *value = control.capability % 10; break;
    case kCuSharedMemoryOptIn: *value = (control.capability >= 90 ? 227 : 163) * 1024; break;
    case kCuMemoryPools: *value = control.pools; break;
  }
  return kCuSuccess;
}
CuResult primary_context_retain(CuContext* context, CuDevice device) {
  SIATTN_BEGIN(cuDevicePrimaryCtxRetain, false);
  *context = context_of(device);
  return kCuSuccess;
}
CuResult context_device(CuDevice* device) {
  SIATTN_BEGIN(cuCtxGetDevice, true);
  *device = device_of_current();
  return kCuSuccess;
}
CuResult context_push(CuContext context) {
  SIATTN_BEGIN(cuCtxPushCurrent_v2, false);
  contexts.push_back(context);
  return kCuSuccess;
}
CuResult context_pop(CuContext* context) {
  SIATTN_BEGIN(cuCtxPopCurrent_v2, true);
  *context = contexts.back();
  contexts.pop_back();
  return kCuSuccess;
}
CuResult module_load(CuModule* module, const void* image) {
  SIATTN_BEGIN(cuModuleLoadData, true);
  *module = reinterpret_cast<CuModule>(const_cast<void*>(image));
  return kCuSuccess;
}
CuResult module_function(CuFunction* function, CuModule, const char* name) {
  SIATTN_BEGIN(cuModuleGetFunction, true);
  *function = reinterpret_cast<CuFunction>(const_cast<Kernel*>(find_kernel(name)));
  return *function != nullptr ? kCuSuccess : kCuNotFound;
}
CuResult function_set(CuFunction function, CuFunctionAttribute, int value) {
  SIATTN_BEGIN(cuFuncSetAttribute, true);
  state().shared_allowed[function] = value;
  return kCuSuccess;
}
CuResult launch_kernel(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                       unsigned block_y, unsigned block_z, unsigned shared_bytes, CuStream stream, void** arguments,
                       void**) {
  SIATTN_BEGIN(cuLaunchKernel, true);
  const Kernel& kernel = *kernel_of(function);
  const std::int64_t allowed = std::max(state().shared_allowed[function], kSharedUnasked);
  const bool blocks = grid_x > 0 && grid_x < (1U << 31) && grid_y > 0 && grid_y < 65536 && grid_z > 0 && grid_z < 65536;
  const bool threads = block_x > 0 && static_cast<int>(block_x) <= kernel.max_threads && block_y == 1 && block_z == 1;
  if (!blocks || !threads || shared_bytes > allowed) return kCuInvalidValue;
  const auto* const bytes = static_cast<const std::byte*>(arguments[0]);
  // Arguments are structs with the alignment of pointers.
  auto params = std::make_shared<std::vector<std::max_align_t>>(kernel.params_bytes / sizeof(std::max_align_t) + 1);
  std::memcpy(params->data(), bytes, kernel.params_bytes);
  Launch launch;
  launch.kernel = &kernel;
  const unsigned grid[] = {grid_x, grid_y, grid_z};
  for (std::size_t axis = 0; axis < 3; ++axis) launch.grid[axis] = static_cast<int>(grid[axis]);
  launch.threads = static_cast<int>(block_x);
  launch.shared_bytes = shared_bytes;
  enqueue(stream, [launch, params]() mutable {
    launch.params = params->data();
    state().launch_error = emulator::launch(launch, state().control.schedule);
    if (!state().launch_error.empty())
      state().launch_error = std::string(launch.kernel->name) + ": " + state().launch_error;
    return kCuSuccess;
  });
  return kCuSuccess;
}
CuResult allocate_now(CuPointer* pointer, std::size_t bytes) {
  *pointer = static_cast<CuPointer>(reinterpret_cast<std::uintptr_t>(emulator::allocate(bytes)));
  state().allocations[*pointer] = device_of_current();
  return kCuSuccess;
}
CuResult allocate_memory(CuPointer* pointer, std::size_t bytes) {
  SIATTN_BEGIN(cuMemAlloc_v2, true);
  return bytes > 0 ? allocate_now(pointer, bytes) : kCuInvalidValue;
}
CuResult free_memory(CuPointer pointer) {
  SIATTN_BEGIN(cuMemFree_v2, true);
  const CuResult finished = finish_all();
  const CuResult freed = free_now(pointer);
  return freed != kCuSuccess ? freed : finished;
}
CuResult pool_create(CuPool* pool, const CuPoolProperties* properties) {
  SIATTN_BEGIN(cuMemPoolCreate, true);
  *pool = reinterpret_cast<CuPool>(static_cast<std::uintptr_t>(properties->location_id) + 1);
  return kCuSuccess;
}
CuResult pool_set(CuPool, CuPoolAttribute, void*) {
  SIATTN_BEGIN(cuMemPoolSetAttribute, true);
  return kCuSuccess;
}
CuResult pool_allocate(CuPointer* pointer, std::size_t bytes, CuPool, CuStream) {
  SIATTN_BEGIN(cuMemAllocFromPoolAsync, true);
  return bytes > 0 ? allocate_now(pointer, bytes) : kCuInvalidValue;
}
CuResult pool_free(CuPointer pointer, CuStream stream) {
  SIATTN_BEGIN(cuMemFreeAsync, true);
  enqueue(stream, [pointer] { return free_now(pointer); }, true);
  return kCuSuccess;
}

/// Rows of bytes from host memory now, to the device later.
CuResult rows_in(CuPointer to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                 std::size_t height, CuStream stream) {
  auto bytes = std::make_shared<std::vector<std::byte>>(width * height);
  for (std::size_t y = 0; y < height; ++y) {
    std::memcpy(bytes->data() + y * width, static_cast<const std::byte*>(from) + y * from_pitch, width);
  }
  enqueue(stream, [=] {
    for (std::size_t y = 0; y < height; ++y) {
      if (!on_device(to + y * to_pitch, width, true)) return kCuInvalidValue;
      std::memcpy(host(to + y * to_pitch), bytes->data() + y * width, width);
    }
    return kCuSuccess;
  });
  return kCuSuccess;
}
CuResult rows_out(void* to, std::size_t to_pitch, CuPointer from, std::size_t from_pitch, std::size_t width,
                  std::size_t height, CuStream stream) {
  enqueue(stream, [=] {
    for (std::size_t y = 0; y < height; ++y) {
      if (!on_device(from + y * from_pitch, width, false)) return kCuInvalidValue;
      std::memcpy(static_cast<std::byte*>(to) + y * to_pitch, host(from + y * from_pitch), width);
    }
    return kCuSuccess;
  });
  return kCuSuccess;
}
CuResult copy_to_device(CuPointer to, const void* from, std::size_t bytes, CuStream stream) {
  SIATTN_BEGIN(cuMemcpyHtoDAsync_v2, true);
  return rows_in(to, 0, from, 0, bytes, 1, stream);
}
CuResult copy_to_host(void* to, CuPointer from, std::size_t bytes, CuStream stream) {
  SIATTN_BEGIN(cuMemcpyDtoHAsync_v2, true);
  return rows_out(to, 0, from, 0, bytes, 1, stream);
}
CuResult copy_on_device(CuPointer to, CuPointer from, std::size_t bytes, CuStream stream) {
  SIATTN_BEGIN(cuMemcpyDtoDAsync_v2, true);
  enqueue(stream, [=] {
    if (!on_device(from, bytes, false) || !on_device(to, bytes, true)) return kCuInvalidValue;
    std::memcpy(host(to), host(from), bytes);
    return kCuSuccess;
  });
  return kCuSuccess;
}
CuResult copy_2d(const CuCopy2D* copy, CuStream stream) {
  SIATTN_BEGIN(cuMemcpy2DAsync_v2, true);
  const CuCopy2D& c = *copy;
  if (c.source_pitch < c.width_in_bytes || c.target_pitch < c.width_in_bytes) return kCuInvalidValue;
  if (c.source_type == kCuHostMemory) {
    return rows_in(c.target_device, c.target_pitch, c.source_host, c.source_pitch, c.width_in_bytes, c.height, stream);
  }
  return rows_out(c.target_host, c.target_pitch, c.source_device, c.source_pitch, c.width_in_bytes, c.height, stream);
}
CuResult pointer_attribute(void* value, CuPointerAttribute attribute, CuPointer pointer) {
  SIATTN_BEGIN(cuPointerGetAttribute, true);
  if (window_of(host(pointer), 1, false).end == 0) return kCuInvalidValue;
  if (attribute == kCuPointerMemoryType) {
    *static_cast<unsigned*>(value) = kCuDeviceMemory;
    return kCuSuccess;
  }
  const auto& allocations = state().allocations;
  const auto behind = allocations.upper_bound(pointer);
  *static_cast<int*>(value) = behind == allocations.begin() ? 0 : std::prev(behind)->second;
  return kCuSuccess;
}
CuResult tensor_map_encode(TensorMap* map, CuTensorMapType type, std::uint32_t rank, void* base,
                           const std::uint64_t* sizes, const std::uint64_t* strides, const std::uint32_t* box,
                           const std::uint32_t* steps, CuTensorMapInterleave interleave, CuTensorMapSwizzle swizzle,
                           CuTensorMapPromotion, CuTensorMapFill fill) {
  SIATTN_BEGIN(cuTensorMapEncodeTiled, true);
  const bool known = (type == kCuTensorFloat16 || type == kCuTensorBfloat16) && rank == 4 &&
                     interleave == kCuTensorInterleaveNone && swizzle == kCuTensorSwizzle128 &&
                     fill == kCuTensorFillZeros &&
                     std::all_of(steps, steps + 4, [](std::uint32_t n) { return n == 1; });
  if (!known) return kCuInvalidValue;
  std::uint64_t four[4], three[3];
  std::uint32_t extents[4];
  std::copy_n(sizes, 4, four);
  std::copy_n(strides, 3, three);
  std::copy_n(box, 4, extents);
  return encode_tensor_map(*map, base, four, three, extents).empty() ? kCuSuccess : kCuInvalidValue;
}
CuResult synchronize(CuStream stream) {
  SIATTN_BEGIN(cuStreamSynchronize, true);
  return finish(stream);
}

#undef SIATTN_BEGIN

}  // namespace

DriverControl& driver_control() { return state().control; }

void reset_driver() {
  const std::lock_guard lock(state().mutex);
  state().control = {};
  state().launch_error.clear();
  contexts.clear();
}

const Result<Driver>& load_emulated_driver() {
  static const Result<Driver> driver = [] {
    Driver d;
    d.init = init;
    d.error_name = error_name;
    d.device_count = device_count;
    d.device_get = device_get;
    d.device_name = device_name;
    d.device_attribute = device_attribute;
    d.primary_context_retain = primary_context_retain;
    d.context_device = context_device;
    d.context_push = context_push;
    d.context_pop = context_pop;
    d.module_load = module_load;
    d.module_function = module_function;
    d.function_set = function_set;
    d.launch = launch_kernel;
    d.allocate = allocate_memory;
    d.free = free_memory;
    d.pool_create = pool_create;
    d.pool_set = pool_set;
    d.pool_allocate = pool_allocate;
    d.pool_free = pool_free;
    d.copy_to_device = copy_to_device;
    d.copy_to_host = copy_to_host;
    d.copy_on_device = copy_on_device;
    d.copy_2d = copy_2d;
    d.pointer_attribute = pointer_attribute;
    d.synchronize = synchronize;
    d.tensor_map_encode = tensor_map_encode;
    return d;
  }();
  return driver;
}

std::span<const Image> emulated_images() {
  static constexpr std::byte kNothing[1] = {};
  static constexpr Image kImages[] = {{"emulated", kNothing}};
  return kImages;
}

Status finish_streams() {
  const std::lock_guard lock(state().mutex);
  return status_of(*load_emulated_driver(), finish_all(), call::synchronize);
}

std::size_t live_allocations() {
  const std::lock_guard lock(state().mutex);
  return state().allocations.size();
}

CuStream make_stream() {
  const std::lock_guard lock(state().mutex);
  return reinterpret_cast<CuStream>(&state().stream_handles.emplace_back());
}

void set_current_device(CuDevice device) {
  contexts.clear();
  if (device >= 0) contexts.push_back(context_of(device));
}

}  // namespace siattn::gpu::emulator
