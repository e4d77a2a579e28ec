// SPDX-License-Identifier: Apache-2.0
#include "gpu/ptx_sm90.hpp"
#include "tests/probes/probes.hpp"

namespace siattn::test {
namespace {

using namespace siattn::gpu;

/// A tensor copy of a box of 64 rows of 64 elements of which some lie outside, as it lies in shared memory.
SIATTN_DEVICE void probe_tensor_load(const ProbeParams& p) {
  const SharedAddress barrier = shared_memory();
  const SharedAddress tile = shared_memory() + 1024;
  constexpr int kBytes = 64 * 128;
  if (thread_index() == 0) mbarrier_init(barrier, 1);
  fence_mbarrier_init();
  sync_threads();
  if (thread_index() == 0) {
    tensor_prefetch(p.map);
    mbarrier_arrive_expect(barrier, kBytes);
    tensor_load(tile, p.map, barrier, 0, 96, 0, 0);
  }
  mbarrier_wait(barrier, 0);
  for (int i = thread_index(); i < kBytes / 4; i += kProbeThreads) {
    store_global(p.out + i, load_shared<std::uint32_t>(tile + 4 * i));
  }
}

/// Word `word` (two elements) of row `row` of a tile with 128-byte swizzle.
SIATTN_DEVICE SharedAddress swizzled(SharedAddress tile, int row, int word) {
  return tile + 128 * row + 16 * ((word / 4) ^ (row % 8)) + 4 * (word % 4);
}

SIATTN_DEVICE void stage_rows(const ProbeParams& p, SharedAddress tile, int rows, int first) {
  for (int i = thread_index(); i < 32 * rows; i += kProbeThreads) {
    store_shared(swizzled(tile, i / 32, i % 32), load_global(p.in + first + i));
  }
}

template <int kCount>
SIATTN_DEVICE void put_all(const ProbeParams& p, const float (&d)[kCount]) {
  SIATTN_UNROLL
  for (int n = 0; n < kCount; ++n) store_global(p.out + kCount * thread_index() + n, bits_of(d[n]));
}

/// d = A B^T over all 64 of k, four steps of 16.
template <class T, int kN>
SIATTN_DEVICE void probe_wgmma_shared(const ProbeParams& p) {
  const SharedAddress a = shared_memory();
  const SharedAddress b = shared_memory() + 128 * 64;
  stage_rows(p, a, 64, 0);
  stage_rows(p, b, kN, 64 * 32);
  fence_async_proxy();
  sync_threads();
  float d[kN / 2];
  SIATTN_UNROLL
  for (int n = 0; n < kN / 2; ++n) d[n] = 1.0F;  // which the first product does not add to
  wgmma_fence();
  SIATTN_UNROLL
  for (int k = 0; k < 4; ++k) {
    wgmma_shared<T, kN>(d, matrix_descriptor(a + 32 * k, 0, 1024), matrix_descriptor(b + 32 * k, 0, 1024), k > 0);
  }
  wgmma_commit();
  wgmma_wait<0>();
  hold_registers(d);
  put_all(p, d);
}

/// d += A B, A in registers, B of 16 rows with n along them, in halves of 64.
template <class T, int kN>
SIATTN_DEVICE void probe_wgmma_registers(const ProbeParams& p) {
  const SharedAddress b = shared_memory();
  constexpr int kHalf = 128 * 64;
  for (int half = 0; half < kN / 64; ++half) stage_rows(p, b + kHalf * half, 64, 64 * 32 * half);
  fence_async_proxy();
  sync_threads();
  float d[kN / 2];
  SIATTN_UNROLL
  for (int n = 0; n < kN / 2; ++n) d[n] = static_cast<float>(n % 7);
  std::uint32_t a[4][4];
  SIATTN_UNROLL
  for (int k = 0; k < 4; ++k) {
    SIATTN_UNROLL
    for (int n = 0; n < 4; ++n) a[k][n] = load_global(p.in + 8192 + 16 * thread_index() + 4 * k + n);
  }
  wgmma_fence();
  SIATTN_UNROLL
  for (int k = 0; k < 4; ++k) wgmma_registers<T, kN>(d, a[k], matrix_descriptor(b + 2048 * k, kHalf, 1024));
  wgmma_commit();
  wgmma_wait<0>();
  hold_registers(d);
  put_all(p, d);
}

}  // namespace
}  // namespace siattn::test

#define SIATTN_PROBE(name, ...)                                                                   \
  SIATTN_KERNEL(siattn_probe_##name, siattn::test::kProbeThreads, 1, siattn::test::ProbeParams) { \
    siattn::test::__VA_ARGS__(params);                                                            \
  }
SIATTN_PROBE(tensor_load, probe_tensor_load)
SIATTN_PROBE(wgmma_shared_64, probe_wgmma_shared<siattn::bfloat16, 64>)
SIATTN_PROBE(wgmma_shared_128, probe_wgmma_shared<siattn::float16, 128>)
SIATTN_PROBE(wgmma_registers_64, probe_wgmma_registers<siattn::bfloat16, 64>)
SIATTN_PROBE(wgmma_registers_128, probe_wgmma_registers<siattn::float16, 128>)
#undef SIATTN_PROBE
