// SPDX-License-Identifier: Apache-2.0
// The functions of gpu/ptx_sm90.hpp, which says what they do, for a CPU. Included by it alone.
#ifndef SIATTN_GPU_EMULATOR_PTX_SM90_HPP
#define SIATTN_GPU_EMULATOR_PTX_SM90_HPP

#include "gpu/emulator/ptx.hpp"

namespace siattn::gpu {

namespace emulator {

/// Where a descriptor finds 16 bytes: piece `piece` (of 8) of row `row` of the 8-row group at `group`.
inline std::uint32_t swizzled(std::uint32_t at) { return at ^ (at >> 7 & 7) << 4; }

struct Described {
  std::uint32_t at, leading, stride;
  explicit Described(std::uint64_t bits)
      : at(static_cast<std::uint32_t>(bits & 0x3fff) << 4),
        leading(static_cast<std::uint32_t>(bits >> 16 & 0x3fff) << 4),
        stride(static_cast<std::uint32_t>(bits >> 32 & 0x3fff) << 4) {}
  /// Element (row, k) of a matrix whose rows of 64 run along k; k < 16.
  std::uint32_t along_k(std::uint32_t row, std::uint32_t k) const {
    return swizzled(at + row / 8 * stride + row % 8 * 128 + k * 2);
  }
  /// Element (k, n) of a matrix whose rows of 64 run along n.
  std::uint32_t along_n(std::uint32_t k, std::uint32_t n) const {
    return swizzled(at + n / 64 * leading + k / 8 * stride + k % 8 * 128 + n % 64 * 2);
  }
};

/// Sixteen bytes each of the matrix that a warp's product reads: checked when it is issued, read when it is formed.
template <class F>
void check_product_read(Warp& warp, std::uint32_t rows, F address, const Where& where) {
  Machine& machine = Machine::here();
  for (std::uint32_t i = 0; i < rows; ++i) {
    const std::uint32_t at = address(i);
    machine.shared(at, 16, 16, where);
    if (!machine.checks_races()) continue;
    machine.fail_if(
        machine.races().start_read(warp.index, warp.products_group + 1, machine.offset(at), 16, where.line()), where);
  }
}

inline std::uint16_t element(std::uint32_t at) {
  std::uint16_t bits;
  std::memcpy(&bits, Machine::here().shared(at, 2, 2, Where::current()), 2);
  return bits;
}

/// d (+)= a b for the warp's 16 rows; b[k][n].
template <int N>
void accumulate(const Product& product, const float (&a)[16][16], const float (&b)[16][N]) {
  for (int row = 0; row < 16; ++row) {
    float sum[N];
    const auto held = [&](int n) -> float& {
      return product.d[static_cast<std::size_t>(row % 8 * 4 + n % 8 / 2)][n / 8 * 4 + row / 8 * 2 + n % 2];
    };
    for (int n = 0; n < N; ++n) sum[n] = product.accumulate ? held(n) : 0.0F;
    for (int k = 0; k < 16; ++k) {
      for (int n = 0; n < N; ++n) sum[n] += a[row][k] * b[k][n];
    }
    for (int n = 0; n < N; ++n) held(n) = sum[n];
  }
}

template <class T, int N>
void form_shared(const Product& product) {
  float a[16][16], b[16][N];
  const Described left(product.a), right(product.b);
  for (std::uint32_t k = 0; k < 16; ++k) {
    for (std::uint32_t row = 0; row < 16; ++row) a[row][k] = number<T>(element(left.along_k(product.row + row, k)));
    for (std::uint32_t n = 0; n < N; ++n) b[k][n] = number<T>(element(right.along_k(n, k)));
  }
  accumulate<N>(product, a, b);
}

template <class T, int N>
void form_registers(const Product& product) {
  float a[16][16], b[16][N];
  const Described right(product.b);
  for (std::size_t l = 0; l < 32; ++l) {
    for (std::size_t i = 0; i < 4; ++i) {
      const Float2 both = {number<T>(static_cast<std::uint16_t>(product.registers[l][i])),
                           number<T>(static_cast<std::uint16_t>(product.registers[l][i] >> 16))};
      float* row = a[l / 4 + 8 * (i % 2)] + 2 * (l % 4) + 8 * (i / 2);
      row[0] = both.x;
      row[1] = both.y;
    }
  }
  for (std::uint32_t k = 0; k < 16; ++k) {
    for (std::uint32_t n = 0; n < N; ++n) b[k][n] = number<T>(element(right.along_n(k, n)));
  }
  accumulate<N>(product, a, b);
}

/// What a lane brings to a product.
struct Factors {
  float* d;
  const std::uint32_t* registers;
  std::uint64_t a;
  std::uint64_t b;
  bool accumulate;
};

inline Product common_product(Warp& warp, void* const* args, const Where& where) {
  Machine& machine = Machine::here();
  if (!warp.registers_fenced) machine.fail("wgmma without wgmma_fence before it", where);
  const auto& first = *static_cast<const Factors*>(args[0]);
  Product product{};
  product.accumulate = first.accumulate;
  product.a = first.a;
  product.b = first.b;
  product.row = static_cast<std::uint32_t>(warp.index % 4 * 16);
  for (std::size_t l = 0; l < 32; ++l) {
    const auto& mine = *static_cast<const Factors*>(args[l]);
    if (mine.a != first.a || mine.b != first.b || mine.accumulate != first.accumulate) {
      machine.fail("wgmma whose operands differ within a warp", where);
    }
    product.d[l] = mine.d;
    product.registers[l] = mine.registers;
  }
  if (product.a >> 62 > 1 || product.b >> 62 != 1) machine.fail("a matrix descriptor without 128-byte swizzle", where);
  return product;
}

}  // namespace emulator

// ---- mbarriers ----

SIATTN_DEVICE void mbarrier_init(SharedAddress barrier, int arrivals,
                                 emulator::Where where = emulator::Where::current()) {
  emulator::Machine::here().init_mbarrier(barrier, arrivals, where);
}
SIATTN_DEVICE void fence_async_proxy() {
  emulator::Machine& machine = emulator::Machine::here();
  if (machine.checks_races()) machine.races().fence(machine.thread());
}
SIATTN_DEVICE void fence_mbarrier_init() { fence_async_proxy(); }
SIATTN_DEVICE void mbarrier_arrive(SharedAddress barrier, emulator::Where where = emulator::Where::current()) {
  emulator::Machine::here().arrive(barrier, 0, where);
}
SIATTN_DEVICE void mbarrier_arrive_expect(SharedAddress barrier, int bytes,
                                          emulator::Where where = emulator::Where::current()) {
  emulator::Machine::here().arrive(barrier, bytes, where);
}
SIATTN_DEVICE void mbarrier_wait(SharedAddress barrier, int parity,
                                 emulator::Where where = emulator::Where::current()) {
  emulator::Machine::here().wait_phase(barrier, parity, where);
}

// ---- tensor copies ----

SIATTN_DEVICE void tensor_load(SharedAddress to, const TensorMap& map, SharedAddress barrier, int x0, int x1, int x2,
                               int x3, emulator::Where where = emulator::Where::current()) {
  emulator::Machine::here().tensor_copy({to, barrier, &map, {x0, x1, x2, x3}}, where);
}
SIATTN_DEVICE void tensor_prefetch(const TensorMap&) {}

// ---- registers ----

template <int Count>
SIATTN_DEVICE void raise_registers(emulator::Where where = emulator::Where::current()) {
  static_assert(Count % 8 == 0 && Count >= 24 && Count <= 256);
  emulator::Machine::here().together(
      [](emulator::Warp& warp, void* const*, const emulator::Where&) { warp.registers = Count; }, nullptr,
      "raise_registers", where);
}
template <int Count>
SIATTN_DEVICE void lower_registers(emulator::Where where = emulator::Where::current()) {
  raise_registers<Count>(where);
}

// ---- wgmma ----

SIATTN_DEVICE void wgmma_fence(emulator::Where where = emulator::Where::current()) {
  emulator::Machine::here().together(
      [](emulator::Warp& warp, void* const*, const emulator::Where&) { warp.registers_fenced = true; }, nullptr,
      "wgmma_fence", where);
}
SIATTN_DEVICE void wgmma_commit(emulator::Where where = emulator::Where::current()) {
  emulator::Machine::here().together(
      [](emulator::Warp& warp, void* const*, const emulator::Where&) {
        ++warp.products_group;
        warp.products_open = false;
        warp.registers_fenced = false;
      },
      nullptr, "wgmma_commit", where);
}
template <int Pending>
SIATTN_DEVICE void wgmma_wait(emulator::Where where = emulator::Where::current()) {
  emulator::Machine::here().together(
      [](emulator::Warp& warp, void* const*, const emulator::Where&) {
        warp.registers_fenced = false;
        const std::uint32_t groups = warp.products_group;
        emulator::Machine::here().finish_products(warp, groups - std::min<std::uint32_t>(groups, Pending));
      },
      nullptr, "wgmma_wait", where);
}
template <int Count>
SIATTN_DEVICE void hold_registers(float (&)[Count]) {}

template <class T, int N>
SIATTN_DEVICE void wgmma_shared(float (&d)[N / 2], std::uint64_t a, std::uint64_t b, bool accumulate,
                                emulator::Where where = emulator::Where::current()) {
  emulator::Factors mine{d, nullptr, a, b, accumulate};
  const auto execute = [](emulator::Warp& warp, void* const* args, const emulator::Where& at) {
    emulator::Product product = emulator::common_product(warp, args, at);
    product.form = emulator::form_shared<T, N>;
    product.accumulators = N / 2;
    const emulator::Described left(product.a), right(product.b);
    emulator::check_product_read(
        warp, 32, [&](auto i) { return left.along_k(product.row + i / 2, i % 2 * 8); }, at);
    emulator::check_product_read(
        warp, 2 * N, [&](auto i) { return right.along_k(i / 2, i % 2 * 8); }, at);
    emulator::Machine::here().issue(product, warp);
  };
  emulator::Machine::here().together(execute, &mine, "wgmma_shared", where);
}
template <class T, int N>
SIATTN_DEVICE void wgmma_registers(float (&d)[N / 2], const std::uint32_t (&a)[4], std::uint64_t b,
                                   emulator::Where where = emulator::Where::current()) {
  emulator::Factors mine{d, a, 0, b, true};
  const auto execute = [](emulator::Warp& warp, void* const* args, const emulator::Where& at) {
    emulator::Product product = emulator::common_product(warp, args, at);
    product.form = emulator::form_registers<T, N>;
    product.accumulators = N / 2;
    const emulator::Described right(product.b);
    emulator::check_product_read(
        warp, 2 * N, [&](auto i) { return right.along_n(i / (N / 8), i % (N / 8) * 8); }, at);
    emulator::Machine::here().issue(product, warp);
  };
  emulator::Machine::here().together(execute, &mine, "wgmma_registers", where);
}

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_EMULATOR_PTX_SM90_HPP
