// SPDX-License-Identifier: Apache-2.0
// Runs kernels on a CPU, a fibre for each of their threads. For tests: it is exact about order and about what may be
// touched, and says nothing of speed.
//
// What it checks: accesses to shared memory (bounds, alignment, races: see races.hpp) and to global memory (bounds of
// registered buffers, alignment); that warps act together; that blocks come to an end. What it does not know: bank
// conflicts, the rounding inside mma and ex2.approx (here: float32 sums in order of k, and the nearest float), caches.
#ifndef SIATTN_GPU_EMULATOR_EMULATOR_HPP
#define SIATTN_GPU_EMULATOR_EMULATOR_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace siattn::gpu {
struct TensorMap;
}

namespace siattn::gpu::emulator {

/// Which block, warp and lane goes on when several can.
enum class Order : std::uint8_t { ascending, descending, random };
/// When an asynchronous copy or product takes place: at once, at the last legal moment, or one or the other by chance.
enum class Moment : std::uint8_t { earliest, latest, random };

struct Schedule {
  Order order = Order::ascending;
  Moment moment = Moment::earliest;
  std::uint64_t seed = 1;
  bool races = true;  ///< false: only what the schedule makes visible is seen
};

/// The schedules under which every kernel is tested: all orders with both moments, and a random one.
std::vector<Schedule> schedules();

/// An entry that SIATTN_KERNEL has defined.
struct Kernel {
  Kernel(const char* kernel_name, std::size_t bytes, int most_threads, void (*body)(const void* params));

  const char* name;
  std::size_t params_bytes;
  int max_threads;
  void (*run)(const void* params);
  const Kernel* next;
};
/// Null: no such kernel in this program.
const Kernel* find_kernel(std::string_view name);

struct Launch {
  const Kernel* kernel = nullptr;
  int grid[3] = {1, 1, 1};
  int threads = 32;              ///< of a block
  std::size_t shared_bytes = 0;  ///< dynamic shared memory of a block
  const void* params = nullptr;  ///< kernel->params_bytes of them
};

/// Runs all blocks, one after the other. Empty, or what went wrong first: where, in which block and thread. After an
/// error the output is whatever was written until then. Each host thread may launch on its own.
std::string launch(const Launch& launch, const Schedule& schedule = {});

// ---- global memory ----

/// From now on kernels may read (and write) these bytes. Buffers do not overlap.
void add_buffer(const void* begin, std::size_t bytes, bool writable);
void remove_buffer(const void* begin);
/// A new buffer whose bytes are 0xff (NaN), at a multiple of 256. Zero bytes give an address as well.
void* allocate(std::size_t bytes);
/// False: not from allocate().
bool release(void* begin);
/// Whether the address lies in a buffer from allocate().
bool allocated(const void* address);

/// For as long as it lives.
class Buffer {
 public:
  template <class T>
  explicit Buffer(std::vector<T>& data, bool writable = true)
      : Buffer(data.data(), data.size() * sizeof(T), writable) {}
  Buffer(const void* begin, std::size_t bytes, bool writable) : begin_(begin) { add_buffer(begin, bytes, writable); }
  ~Buffer() { remove_buffer(begin_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

 private:
  const void* begin_;
};

/// As cuTensorMapEncodeTiled for a tensor of four dimensions of 16-bit elements with 128-byte swizzle and zeros outside:
/// sizes and the box in elements, fastest first; strides of dimensions 1 to 3 in bytes. Empty, or why it is refused.
std::string encode_tensor_map(TensorMap& map, const void* base, const std::uint64_t (&sizes)[4],
                              const std::uint64_t (&strides)[3], const std::uint32_t (&box)[4]);

}  // namespace siattn::gpu::emulator

#endif  // SIATTN_GPU_EMULATOR_EMULATOR_HPP
