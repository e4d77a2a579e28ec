// SPDX-License-Identifier: Apache-2.0
// What kernels say to the machine, for every device from sm_80 on: this file and ptx_sm90.hpp hold all inline PTX.
// Under nvcc each function is the instruction that its comment names; under any other compiler the same signatures come
// from the emulator, so that one kernel text runs on a device and in tests on a CPU.
//
// A kernel touches memory through these functions only: the emulator then checks bounds, alignment and races.
#ifndef SIATTN_GPU_PTX_HPP
#define SIATTN_GPU_PTX_HPP

#include <cstdint>

#include <siattn/float16.hpp>

namespace siattn::gpu {

struct alignas(8) Float2 {
  float x, y;
};
struct alignas(16) Float4 {
  float x, y, z, w;
};
struct alignas(8) Uint2 {
  std::uint32_t x, y;
};
struct alignas(16) Uint4 {
  std::uint32_t x, y, z, w;
};

/// A byte of the block's shared memory. The dynamic shared memory of a launch begins at shared_memory().
using SharedAddress = std::uint32_t;

}  // namespace siattn::gpu

#if !defined(__CUDACC__)
#include "gpu/emulator/ptx.hpp"
#else

/// A function that runs on the device.
#define SIATTN_DEVICE __device__ __forceinline__
/// Before a loop with constant bounds: unroll it wholly, so that arrays indexed in it stay in registers.
#define SIATTN_UNROLL _Pragma("unroll")
/// Before a loop that is seldom run: keep it small.
#define SIATTN_NO_UNROLL _Pragma("unroll 1")
/// Defines the entry `name` of a kernel with one plain struct `params`: SIATTN_KERNEL(name, most threads of a block,
/// blocks wanted on a multiprocessor, struct) { body(params); }
#define SIATTN_KERNEL(name, threads, blocks, Params) \
  extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ Params params)

namespace siattn::gpu {

// ---- who am I: blocks are one-dimensional ----

SIATTN_DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
SIATTN_DEVICE int block_threads() { return static_cast<int>(blockDim.x); }
SIATTN_DEVICE int lane_index() { return static_cast<int>(threadIdx.x & 31); }
/// Known to the compiler to be the same for all lanes, which call it together: a shuffle.
SIATTN_DEVICE int warp_index() { return __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x >> 5), 0); }
SIATTN_DEVICE int block_x() { return static_cast<int>(blockIdx.x); }
SIATTN_DEVICE int block_y() { return static_cast<int>(blockIdx.y); }
SIATTN_DEVICE int block_z() { return static_cast<int>(blockIdx.z); }
SIATTN_DEVICE int grid_x() { return static_cast<int>(gridDim.x); }
SIATTN_DEVICE int grid_y() { return static_cast<int>(gridDim.y); }
SIATTN_DEVICE int grid_z() { return static_cast<int>(gridDim.z); }

// ---- memory ----

/// The first byte of the launch's dynamic shared memory, at a multiple of 1024.
SIATTN_DEVICE SharedAddress shared_memory() {
  extern __shared__ __align__(1024) unsigned char siattn_dynamic_shared[];
  return static_cast<SharedAddress>(__cvta_generic_to_shared(siattn_dynamic_shared));
}

/// T of 4, 8 or 16 bytes, at a multiple of its size.
template <class T>
SIATTN_DEVICE T load_shared(SharedAddress at) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
  return *reinterpret_cast<const T*>(__cvta_shared_to_generic(at));
}
template <class T>
SIATTN_DEVICE void store_shared(SharedAddress at, const T& value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
  *reinterpret_cast<T*>(__cvta_shared_to_generic(at)) = value;
}

/// T of 1, 2, 4, 8 or 16 bytes, at a multiple of its size.
template <class T>
SIATTN_DEVICE T load_global(const T* at) {
  return *at;
}
template <class T>
SIATTN_DEVICE void store_global(T* at, const T& value) {
  *at = value;
}

/// cp.async: `bytes` bytes, 0 to Bytes, from global to shared memory, and zeros after them to Bytes (4, 8 or 16; both
/// addresses at multiples of it). With bytes = 0 nothing is read. Done when a cp_async_wait of the *same thread* says so.
template <int Bytes>
SIATTN_DEVICE void cp_async(SharedAddress to, const void* from, int bytes) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
  const std::size_t global = __cvta_generic_to_global(from);
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global), "n"(Bytes), "r"(bytes)
                 : "memory");
  }
}
/// Closes a group of the copies this thread has issued since the last one.
SIATTN_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `Pending` of this thread's latest groups are still under way.
template <int Pending>
SIATTN_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// ---- barriers ----

/// bar.sync 0: all threads of the block.
SIATTN_DEVICE void sync_threads() { __syncthreads(); }
/// The same, and whether any thread says so.
SIATTN_DEVICE bool sync_threads_or(bool value) { return __syncthreads_or(value ? 1 : 0) != 0; }
/// Named barrier `id`, 1 to 15, of `threads` threads (a multiple of 32): arrive and wait.
SIATTN_DEVICE void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// The same, and whether any of these threads says so.
SIATTN_DEVICE bool named_barrier_or(int id, int threads, bool value) {
  int any;
  asm volatile(
      "{ .reg .pred mine, all; setp.ne.s32 mine, %3, 0; bar.red.or.pred all, %1, %2, mine; selp.s32 %0, 1, 0, all; }"
      : "=r"(any)
      : "r"(id), "r"(threads), "r"(value ? 1 : 0)
      : "memory");
  return any != 0;
}
/// Arrive without waiting.
SIATTN_DEVICE void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- warps: all 32 lanes call these together ----

SIATTN_DEVICE void sync_warp() { __syncwarp(); }
/// The value of lane (own ^ mask), of lane `from`. T: float, int, uint32. Orders no memory.
template <class T>
SIATTN_DEVICE T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffU, value, mask);
}
template <class T>
SIATTN_DEVICE T shuffle(T value, int from) {
  return __shfl_sync(0xffffffffU, value, from);
}
SIATTN_DEVICE bool warp_any(bool value) { return __any_sync(0xffffffffU, value ? 1 : 0) != 0; }

/// ldmatrix.x4: four 8 x 8 matrices of 16-bit elements. Lane 8 m + r gives the address of row r (16 bytes, at a multiple
/// of 16) of matrix m. Lane l gets in to[m] elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of matrix m.
SIATTN_DEVICE void ldmatrix_x4(std::uint32_t (&to)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}
/// The same of the matrices' transposes: lane l gets rows 2 (l % 4) and 2 (l % 4) + 1 of column l / 4.
SIATTN_DEVICE void ldmatrix_x4_trans(std::uint32_t (&to)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

/// mma.sync m16n8k16, d += A B, float32 accumulators, T bfloat16 or float16. With g = lane / 4 and c = 2 (lane % 4):
///   A [16][16]: a[0] = (g, c..c+1), a[1] = (g + 8, c..), a[2] = (g, c + 8..), a[3] = (g + 8, c + 8..)
///   B [16][8]:  b[0] = (c..c+1, g), b[1] = (c + 8.., g)      d [16][8]: (g, c), (g, c + 1), (g + 8, c), (g + 8, c + 1)
template <class T>
SIATTN_DEVICE void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1);
template <>
SIATTN_DEVICE void mma_m16n8k16<bfloat16>(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                          std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
SIATTN_DEVICE void mma_m16n8k16<float16>(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- numbers ----

/// ex2.approx.ftz: 2^x with a relative error of at most 2^-22; results below 2^-126 are 0; 2^-inf = 0.
SIATTN_DEVICE float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// Natural logarithm, 1 ulp.
SIATTN_DEVICE float log_of(float x) { return logf(x); }
SIATTN_DEVICE float fused_multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
/// The greater one; of a number and a NaN the number.
SIATTN_DEVICE float max_of(float a, float b) { return fmaxf(a, b); }

/// Two numbers rounded to T (to nearest, ties to even), `low` in the low half.
template <class T>
SIATTN_DEVICE std::uint32_t pack(float low, float high);
template <>
SIATTN_DEVICE std::uint32_t pack<bfloat16>(float low, float high) {
  std::uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
template <>
SIATTN_DEVICE std::uint32_t pack<float16>(float low, float high) {
  std::uint32_t both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
/// The two halves as numbers.
template <class T>
SIATTN_DEVICE Float2 unpack(std::uint32_t both);
template <>
SIATTN_DEVICE Float2 unpack<bfloat16>(std::uint32_t both) {
  return {__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000U)};
}
template <>
SIATTN_DEVICE Float2 unpack<float16>(std::uint32_t both) {
  Float2 x;
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
      : "=f"(x.x), "=f"(x.y)
      : "r"(both));
  return x;
}
SIATTN_DEVICE std::uint32_t bits_of(float x) { return __float_as_uint(x); }
SIATTN_DEVICE float float_of_bits(std::uint32_t bits) { return __uint_as_float(bits); }

}  // namespace siattn::gpu

#endif  // __CUDACC__
#endif  // SIATTN_GPU_PTX_HPP
