// SPDX-License-Identifier: Apache-2.0
#include "gpu/ptx.hpp"
#include "tests/probes/probes.hpp"

namespace siattn::test {
namespace {

using namespace siattn::gpu;

SIATTN_DEVICE void put(const ProbeParams& p, int per_thread, int n, std::uint32_t value) {
  store_global(p.out + thread_index() * per_thread + n, value);
}

/// The input's first words, as they are, in shared memory.
SIATTN_DEVICE void stage(const ProbeParams& p, int words) {
  for (int i = thread_index(); i < words; i += kProbeThreads) store_shared(shared_memory() + 4 * i, load_global(p.in + i));
  sync_threads();
}

template <bool kTransposed>
SIATTN_DEVICE void probe_ldmatrix(const ProbeParams& p) {
  stage(p, 4 * 128);
  // Rows of 16 bytes in an order of their own for each warp.
  const int row = 32 * warp_index() + (lane_index() * 5 + warp_index()) % 32;
  std::uint32_t words[4];
  if constexpr (kTransposed) {
    ldmatrix_x4_trans(words, shared_memory() + 16 * row);
  } else {
    ldmatrix_x4(words, shared_memory() + 16 * row);
  }
  for (int n = 0; n < 4; ++n) put(p, 4, n, words[n]);
}

template <class T>
SIATTN_DEVICE void probe_mma(const ProbeParams& p) {
  const std::uint32_t* const mine = p.in + 10 * thread_index();
  std::uint32_t a[4];
  float d[4];
  for (int n = 0; n < 4; ++n) {
    a[n] = load_global(mine + n);
    d[n] = static_cast<float>(n);
  }
  // Twice: the second adds to what the first has left.
  mma_m16n8k16<T>(d, a, load_global(mine + 4), load_global(mine + 5));
  mma_m16n8k16<T>(d, a, load_global(mine + 6), load_global(mine + 7));
  for (int n = 0; n < 4; ++n) put(p, 4, n, bits_of(d[n]));
}

template <int kBytes>
SIATTN_DEVICE void probe_cp_async(const ProbeParams& p) {
  // Every number of bytes, none among them; what was there before shows where too little is written.
  const SharedAddress mine = shared_memory() + 16 * thread_index();
  for (int n = 0; n < 4; ++n) store_shared(mine + 4 * n, 0xabcdabcdU);
  cp_async<kBytes>(mine, p.in + 4 * thread_index(), thread_index() % (kBytes + 1));
  cp_async_commit();
  cp_async_wait<0>();
  sync_threads();
  const int other = (thread_index() + 37) % kProbeThreads;
  for (int n = 0; n < 4; ++n) put(p, 4, n, load_shared<std::uint32_t>(shared_memory() + 16 * other + 4 * n));
}

SIATTN_DEVICE void probe_shuffles(const ProbeParams& p) {
  const std::uint32_t word = load_global(p.in + thread_index());
  for (int n = 0; n < 5; ++n) put(p, 7, n, shuffle_xor(word, 1 << n));
  put(p, 7, 5, shuffle(word, (lane_index() * 7 + 3) % 32));
  put(p, 7, 6, bits_of(shuffle_xor(float_of_bits(word), 9)));
}

SIATTN_DEVICE void probe_votes(const ProbeParams& p) {
  const std::uint32_t word = load_global(p.in + warp_index());
  put(p, 4, 0, warp_any(lane_index() == 13 && (word & 1) != 0) ? 1 : 0);
  put(p, 4, 1, warp_any(false) ? 1 : 0);
  put(p, 4, 2, sync_threads_or(thread_index() == 77) ? 1 : 0);
  put(p, 4, 3, sync_threads_or(false) ? 1 : 0);
}

SIATTN_DEVICE void probe_named_barriers(const ProbeParams& p) {
  // Warps 0 and 1 write and go on; warps 2 and 3 wait for both and read.
  const bool writes = warp_index() < 2;
  const SharedAddress at = shared_memory() + 4 * (thread_index() % 64);
  if (writes) {
    store_shared(at, load_global(p.in + thread_index()));
    named_barrier_arrive(1, kProbeThreads);
  } else {
    named_barrier_sync(1, kProbeThreads);
  }
  put(p, 1, 0, writes ? 1 : load_shared<std::uint32_t>(at));
}

/// Inputs 0 .. 4 in size: from -127 to 0 and beyond both ends.
SIATTN_DEVICE void probe_exp2(const ProbeParams& p) {
  for (int n = 0; n < 8; ++n) {
    const float x = float_of_bits(load_global(p.in + 8 * thread_index() + n));
    const float scale = n % 2 == 0 ? -1.0F : -36.0F;
    put(p, 8, n, bits_of(exp2_approx(scale * x)));
  }
}
SIATTN_DEVICE void probe_log(const ProbeParams& p) {
  for (int n = 0; n < 8; ++n) {
    const float x = float_of_bits(load_global(p.in + 8 * thread_index() + n));
    put(p, 8, n, bits_of(log_of(n % 2 == 0 ? 1.0F + x : 1e4F * x)));
  }
}
SIATTN_DEVICE void probe_max_fma(const ProbeParams& p) {
  const float nan = float_of_bits(0x7fc00000U);
  for (int n = 0; n < 4; ++n) {
    const std::uint32_t* const mine = p.in + 16 * thread_index() + 4 * n;
    // Exponents between 2^-32 and 2^32: no overflow, and no NaN but the one that is meant.
    float x[3];
    for (int k = 0; k < 3; ++k) x[k] = float_of_bits((load_global(mine + k) & 0x8fffffffU) | 0x30000000U);
    put(p, 8, 2 * n, bits_of(max_of(n == 3 ? nan : x[0], x[1])));
    put(p, 8, 2 * n + 1, bits_of(fused_multiply_add(x[0], x[1], x[2])));
  }
}

template <class T>
SIATTN_DEVICE void probe_pack(const ProbeParams& p) {
  for (int n = 0; n < 8; ++n) {
    const std::uint32_t low = load_global(p.in + 16 * thread_index() + 2 * n);
    const std::uint32_t high = load_global(p.in + 16 * thread_index() + 2 * n + 1);
    // Numbers of any size up to overflow, ties among them; NaN have no bits that are promised.
    const bool number = (low & 0x7f800000U) != 0x7f800000U && (high & 0x7f800000U) != 0x7f800000U;
    const std::uint32_t tie = n % 2 == 0 ? 0xffff8000U : 0xfffff000U;
    put(p, 8, n, number ? pack<T>(float_of_bits(low & tie), float_of_bits(high)) : 0);
  }
}

SIATTN_DEVICE void probe_unpack(const ProbeParams& p) {
  for (int n = 0; n < 4; ++n) {
    const std::uint32_t both = load_global(p.in + 4 * thread_index() + n) & 0xbfffbfffU;  // no NaN
    const Float2 b = unpack<bfloat16>(both);
    const Float2 f = unpack<float16>(both);
    put(p, 16, 4 * n, bits_of(b.x));
    put(p, 16, 4 * n + 1, bits_of(b.y));
    put(p, 16, 4 * n + 2, bits_of(f.x));
    put(p, 16, 4 * n + 3, bits_of(f.y));
  }
}

}  // namespace
}  // namespace siattn::test

#define SIATTN_PROBE(name, body)                                                             \
  SIATTN_KERNEL(siattn_probe_##name, siattn::test::kProbeThreads, 1, siattn::test::ProbeParams) { \
    siattn::test::body(params);                                                              \
  }
SIATTN_PROBE(ldmatrix, probe_ldmatrix<false>)
SIATTN_PROBE(ldmatrix_trans, probe_ldmatrix<true>)
SIATTN_PROBE(mma_bf16, probe_mma<siattn::bfloat16>)
SIATTN_PROBE(mma_f16, probe_mma<siattn::float16>)
SIATTN_PROBE(cp_async_4, probe_cp_async<4>)
SIATTN_PROBE(cp_async_8, probe_cp_async<8>)
SIATTN_PROBE(cp_async_16, probe_cp_async<16>)
SIATTN_PROBE(shuffles, probe_shuffles)
SIATTN_PROBE(votes, probe_votes)
SIATTN_PROBE(named_barriers, probe_named_barriers)
SIATTN_PROBE(exp2, probe_exp2)
SIATTN_PROBE(log, probe_log)
SIATTN_PROBE(max_fma, probe_max_fma)
SIATTN_PROBE(pack_bf16, probe_pack<siattn::bfloat16>)
SIATTN_PROBE(pack_f16, probe_pack<siattn::float16>)
SIATTN_PROBE(unpack, probe_unpack)
#undef SIATTN_PROBE
