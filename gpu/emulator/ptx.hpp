// SPDX-License-Identifier: Apache-2.0
// The functions of gpu/ptx.hpp, which says what they do, for a CPU. Included by it alone. `where` is for reports.
#ifndef SIATTN_GPU_EMULATOR_PTX_HPP
#define SIATTN_GPU_EMULATOR_PTX_HPP

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "gpu/emulator/machine.hpp"

#define SIATTN_DEVICE inline
#define SIATTN_UNROLL
#define SIATTN_NO_UNROLL
#define SIATTN_KERNEL(name, threads, blocks, Params)                                                                 \
  static void name##_body(const Params& params);                                                                     \
  static const siattn::gpu::emulator::Kernel name##_kernel(                                                          \
      #name, sizeof(Params), threads, [](const void* params) { name##_body(*static_cast<const Params*>(params)); }); \
  static_assert((threads) % 32 == 0 && (blocks) > 0 && std::is_trivially_copyable_v<Params> &&                       \
                sizeof(Params) <= 4096);                                                                             \
  static void name##_body(const Params& params)

namespace siattn::gpu {

namespace emulator {

/// Numbers as products take them.
template <class T>
float number(std::uint16_t bits) {
  return to_float(T{bits});
}
template <>
inline float number<float16>(std::uint16_t bits) {
  static const std::vector<float> all = [] {
    std::vector<float> table(65536);
    for (std::uint32_t b = 0; b < 65536; ++b) table[b] = to_float(float16{static_cast<std::uint16_t>(b)});
    return table;
  }();
  return all[bits];
}
template <class T>
std::uint16_t rounded(float x) {
  if constexpr (std::is_same_v<T, bfloat16>) return to_bfloat16(x).bits;
  if constexpr (std::is_same_v<T, float16>) return to_float16(x).bits;
}

/// A lane's fragments of a product.
struct Fragments {
  float* d;
  const std::uint32_t* a;
  std::uint32_t b[2];
};

/// d += A B of a warp, summed in order of k. Both fragments of 16 x 16 come as mma_m16n8k16 wants them.
template <class T>
void multiply(void* const* args) {
  float a[16][16], b[16][8], d[16][8];
  for (int l = 0; l < 32; ++l) {
    const auto& mine = *static_cast<const Fragments*>(args[l]);
    const int g = l / 4, c = 2 * (l % 4);
    for (int half = 0; half < 2; ++half) {
      const int shift = 16 * half;
      for (int i = 0; i < 4; ++i) {
        a[g + 8 * (i % 2)][c + 8 * (i / 2) + half] = number<T>(static_cast<std::uint16_t>(mine.a[i] >> shift));
        d[g + 8 * (i / 2)][c + i % 2] = mine.d[i];
      }
      for (int i = 0; i < 2; ++i) b[c + 8 * i + half][g] = number<T>(static_cast<std::uint16_t>(mine.b[i] >> shift));
    }
  }
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k) {
      for (int j = 0; j < 8; ++j) d[i][j] += a[i][k] * b[k][j];
    }
  }
  for (int l = 0; l < 32; ++l) {
    const auto& mine = *static_cast<const Fragments*>(args[l]);
    for (int i = 0; i < 4; ++i) mine.d[i] = d[l / 4 + 8 * (i / 2)][2 * (l % 4) + i % 2];
  }
}

/// Four matrices of 8 x 8 from the rows that the lanes name.
struct MatrixRows {
  std::uint32_t row;
  std::uint32_t* to;
};
template <bool trans>
void load_matrices(Warp& warp, void* const* args, const Where& where) {
  Machine& machine = Machine::here();
  for (int m = 0; m < 4; ++m) {
    std::uint16_t matrix[8][8];
    for (int r = 0; r < 8; ++r) {
      const std::uint32_t at = static_cast<const MatrixRows*>(args[8 * m + r])->row;
      std::memcpy(matrix[r], machine.shared(at, 16, 16, where), 16);
      if (machine.checks_races()) {
        machine.fail_if(machine.races().read_by_warp(warp.index, machine.offset(at), 16, where.line()), where);
      }
    }
    for (int l = 0; l < 32; ++l) {
      const int i = l / 4, j = 2 * (l % 4);
      const std::uint32_t low = trans ? matrix[j][i] : matrix[i][j];
      const std::uint32_t high = trans ? matrix[j + 1][i] : matrix[i][j + 1];
      static_cast<const MatrixRows*>(args[l])->to[m] = low | high << 16;
    }
  }
}

struct Exchange {
  std::uint32_t value;
  int from;
  std::uint32_t result;
};
inline void exchange(Warp&, void* const* args, const Where&) {
  for (int l = 0; l < 32; ++l) {
    auto& mine = *static_cast<Exchange*>(args[l]);
    mine.result = static_cast<const Exchange*>(args[mine.from & 31])->value;
  }
}
inline void vote(Warp&, void* const* args, const Where&) {
  std::uint32_t any = 0;
  for (int l = 0; l < 32; ++l) any |= static_cast<Exchange*>(args[l])->value;
  for (int l = 0; l < 32; ++l) static_cast<Exchange*>(args[l])->result = any;
}
inline void order_memory(Warp& warp, void* const*, const Where&) {
  Machine& machine = Machine::here();
  if (!machine.checks_races()) return;
  int threads[32];
  for (int l = 0; l < 32; ++l) threads[l] = 32 * warp.index + l;
  machine.races().join(threads);
}

}  // namespace emulator

// ---- who am I ----

SIATTN_DEVICE int thread_index() { return emulator::Machine::here().thread(); }
SIATTN_DEVICE int block_threads() { return emulator::Machine::here().threads(); }
SIATTN_DEVICE int lane_index() { return thread_index() % 32; }
/// A shuffle on a device: here too all lanes have to be there.
SIATTN_DEVICE int warp_index(emulator::Where where = emulator::Where::current()) {
  emulator::Machine& machine = emulator::Machine::here();
  machine.together([](emulator::Warp&, void* const*, const emulator::Where&) {}, nullptr, "warp_index", where);
  return machine.thread() / 32;
}
SIATTN_DEVICE int block_x() { return emulator::Machine::here().block()[0]; }
SIATTN_DEVICE int block_y() { return emulator::Machine::here().block()[1]; }
SIATTN_DEVICE int block_z() { return emulator::Machine::here().block()[2]; }
SIATTN_DEVICE int grid_x() { return emulator::Machine::here().grid()[0]; }
SIATTN_DEVICE int grid_y() { return emulator::Machine::here().grid()[1]; }
SIATTN_DEVICE int grid_z() { return emulator::Machine::here().grid()[2]; }

// ---- memory ----

SIATTN_DEVICE SharedAddress shared_memory() { return emulator::kSharedBegin; }

template <class T>
SIATTN_DEVICE T load_shared(SharedAddress at, emulator::Where where = emulator::Where::current()) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
  emulator::Machine& machine = emulator::Machine::here();
  T value;
  std::memcpy(&value, machine.shared(at, sizeof(T), sizeof(T), where), sizeof(T));
  if (machine.checks_races()) {
    machine.fail_if(machine.races().read(machine.thread(), machine.offset(at), sizeof(T), where.line()), where);
  }
  return value;
}
template <class T>
SIATTN_DEVICE void store_shared(SharedAddress at, const T& value, emulator::Where where = emulator::Where::current()) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
  emulator::Machine& machine = emulator::Machine::here();
  std::memcpy(machine.shared(at, sizeof(T), sizeof(T), where), &value, sizeof(T));
  if (machine.checks_races()) {
    machine.fail_if(machine.races().write(machine.thread(), machine.offset(at), sizeof(T), where.line()), where);
  }
}
template <class T>
SIATTN_DEVICE T load_global(const T* at, emulator::Where where = emulator::Where::current()) {
  emulator::Machine::here().check_global(at, sizeof(T), sizeof(T), false, where);
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
template <class T>
SIATTN_DEVICE void store_global(T* at, const T& value, emulator::Where where = emulator::Where::current()) {
  emulator::Machine::here().check_global(at, sizeof(T), sizeof(T), true, where);
  std::memcpy(at, &value, sizeof(T));
}

template <int Bytes>
SIATTN_DEVICE void cp_async(SharedAddress to, const void* from, int bytes,
                            emulator::Where where = emulator::Where::current()) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
  emulator::Machine& machine = emulator::Machine::here();
  machine.copy({machine.lane().copies_group + 1, to, from, bytes, Bytes}, where);
}
SIATTN_DEVICE void cp_async_commit() { ++emulator::Machine::here().lane().copies_group; }
template <int Pending>
SIATTN_DEVICE void cp_async_wait() {
  emulator::Machine& machine = emulator::Machine::here();
  const std::uint32_t groups = machine.lane().copies_group;
  machine.wait_copies(groups - std::min<std::uint32_t>(groups, Pending));
}

// ---- barriers ----

SIATTN_DEVICE void sync_threads(emulator::Where where = emulator::Where::current()) {
  emulator::Machine::here().sync(0, 0, true, false, "sync_threads", where);
}
SIATTN_DEVICE bool sync_threads_or(bool value, emulator::Where where = emulator::Where::current()) {
  return emulator::Machine::here().sync(0, 0, true, value, "sync_threads_or", where);
}
SIATTN_DEVICE void named_barrier_sync(int id, int threads, emulator::Where where = emulator::Where::current()) {
  emulator::Machine::here().sync(id, threads, true, false, "named_barrier_sync", where);
}
SIATTN_DEVICE bool named_barrier_or(int id, int threads, bool value,
                                    emulator::Where where = emulator::Where::current()) {
  return emulator::Machine::here().sync(id, threads, true, value, "named_barrier_or", where);
}
SIATTN_DEVICE void named_barrier_arrive(int id, int threads, emulator::Where where = emulator::Where::current()) {
  emulator::Machine::here().sync(id, threads, false, false, "named_barrier_arrive", where);
}

// ---- warps ----

SIATTN_DEVICE void sync_warp(emulator::Where where = emulator::Where::current()) {
  emulator::Machine::here().together(emulator::order_memory, nullptr, "sync_warp", where);
}
template <class T>
SIATTN_DEVICE T shuffle(T value, int from, emulator::Where where = emulator::Where::current()) {
  emulator::Exchange mine{std::bit_cast<std::uint32_t>(value), from, 0};
  emulator::Machine::here().together(emulator::exchange, &mine, "shuffle", where);
  return std::bit_cast<T>(mine.result);
}
template <class T>
SIATTN_DEVICE T shuffle_xor(T value, int mask, emulator::Where where = emulator::Where::current()) {
  return shuffle(value, lane_index() ^ mask, where);
}
SIATTN_DEVICE bool warp_any(bool value, emulator::Where where = emulator::Where::current()) {
  emulator::Exchange mine{value ? 1U : 0U, 0, 0};
  emulator::Machine::here().together(emulator::vote, &mine, "warp_any", where);
  return mine.result != 0;
}

SIATTN_DEVICE void ldmatrix_x4(std::uint32_t (&to)[4], SharedAddress row,
                               emulator::Where where = emulator::Where::current()) {
  emulator::MatrixRows mine{row, to};
  emulator::Machine::here().together(emulator::load_matrices<false>, &mine, "ldmatrix_x4", where);
}
SIATTN_DEVICE void ldmatrix_x4_trans(std::uint32_t (&to)[4], SharedAddress row,
                                     emulator::Where where = emulator::Where::current()) {
  emulator::MatrixRows mine{row, to};
  emulator::Machine::here().together(emulator::load_matrices<true>, &mine, "ldmatrix_x4_trans", where);
}
template <class T>
SIATTN_DEVICE void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                                emulator::Where where = emulator::Where::current()) {
  emulator::Fragments mine{d, a, {b0, b1}};
  emulator::Machine::here().together(
      [](emulator::Warp&, void* const* args, const emulator::Where&) { emulator::multiply<T>(args); }, &mine,
      "mma_m16n8k16", where);
}

// ---- numbers ----

SIATTN_DEVICE float exp2_approx(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126F ? 0.0F : y;
}
SIATTN_DEVICE float log_of(float x) { return std::log(x); }
SIATTN_DEVICE float fused_multiply_add(float a, float b, float c) { return std::fma(a, b, c); }
SIATTN_DEVICE float max_of(float a, float b) { return std::fmax(a, b); }
template <class T>
SIATTN_DEVICE std::uint32_t pack(float low, float high) {
  return emulator::rounded<T>(low) | static_cast<std::uint32_t>(emulator::rounded<T>(high)) << 16;
}
template <class T>
SIATTN_DEVICE Float2 unpack(std::uint32_t both) {
  return {emulator::number<T>(static_cast<std::uint16_t>(both)),
          emulator::number<T>(static_cast<std::uint16_t>(both >> 16))};
}
SIATTN_DEVICE std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
SIATTN_DEVICE float float_of_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_EMULATOR_PTX_HPP
