// SPDX-License-Identifier: Apache-2.0
#include "bench/ceilings.hpp"

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "cpu/cpu_features.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace siattn::bench {
namespace {

/// Independent chains, enough to hide the latency of a multiply-add on two ports.
constexpr int kChains = 12;
constexpr int kSteps = 16384;

/// Chains of x = x a + b that stay near 1. Each operation is one vector; `add_up` ends them in a number.
#define SIATTN_CHAINS(Vector, set1, step, zero_sum)                                                     \
  Vector chain[kChains];                                                                                \
  for (int i = 0; i < kChains; ++i) chain[i] = set1(1.0F + 1e-3F * static_cast<float>(i));              \
  const Vector factor = set1(0.999F);                                                                   \
  const Vector term = set1(0.001F);                                                                     \
  for (int s = 0; s < kSteps; ++s) {                                                                    \
    _Pragma("GCC unroll 12") for (int i = 0; i < kChains; ++i) chain[i] = step(chain[i], factor, term); \
  }                                                                                                     \
  for (int i = 0; i < kChains; ++i) zero_sum

#if defined(__x86_64__)

__attribute__((target("avx512f"))) void fma_512(double* result) {
  SIATTN_CHAINS(__m512, _mm512_set1_ps, _mm512_fmadd_ps, *result += static_cast<double>(_mm512_cvtss_f32(chain[i])));
}

__attribute__((target("avx2,fma"))) void fma_256(double* result) {
  SIATTN_CHAINS(__m256, _mm256_set1_ps, _mm256_fmadd_ps, *result += static_cast<double>(_mm256_cvtss_f32(chain[i])));
}

inline __m128 multiply_and_add(__m128 a, __m128 b, __m128 c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }

void multiply_add_128(double* result) {
  SIATTN_CHAINS(__m128, _mm_set1_ps, multiply_and_add, *result += static_cast<double>(_mm_cvtss_f32(chain[i])));
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) void bf16_dot_512(double* result) {
  __m512 chain[kChains];
  for (int i = 0; i < kChains; ++i) chain[i] = _mm512_set1_ps(1.0F + 1e-3F * static_cast<float>(i));
  const __m512bh a = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3A83));  // about 0.001
  for (int s = 0; s < kSteps; ++s) {
    _Pragma("GCC unroll 12") for (int i = 0; i < kChains; ++i) chain[i] = _mm512_dpbf16_ps(chain[i], a, a);
  }
  for (int i = 0; i < kChains; ++i) *result += static_cast<double>(_mm512_cvtss_f32(chain[i]));
}

__attribute__((target("avx512f"))) std::uint64_t read_512(const std::byte* from, std::size_t bytes) {
  __m512i sum[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
  std::size_t at = 0;
  for (; at + 256 <= bytes; at += 256) {
    for (int i = 0; i < 4; ++i) sum[i] = _mm512_or_si512(sum[i], _mm512_loadu_si512(from + at + 64 * i));
    _mm_prefetch(reinterpret_cast<const char*>(from + at + 8192), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(from + at + 8192 + 64), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(from + at + 8192 + 128), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(from + at + 8192 + 192), _MM_HINT_T0);
  }
  const __m512i all = _mm512_or_si512(_mm512_or_si512(sum[0], sum[1]), _mm512_or_si512(sum[2], sum[3]));
  return static_cast<std::uint64_t>(_mm512_reduce_or_epi64(all));
}

/// Tiles of 16 rows of 64 bytes: four sums, so that one need not wait for itself. Asks the system for the tiles' state.
__attribute__((target("amx-tile,amx-bf16"))) void amx_bf16(double* result) {
  struct alignas(64) Configuration {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  constexpr long kRequest = 0x1023, kTileData = 18;  // arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
  if (::syscall(SYS_arch_prctl, kRequest, kTileData) != 0) return;
  const Configuration configuration;
  _tile_loadconfig(&configuration);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  for (int s = 0; s < kSteps; s += 4) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 6);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 6);
  }
  alignas(64) float sums[16 * 16];
  _tile_stored(0, sums, 64);
  *result += static_cast<double>(sums[0]);
  _tile_release();
}

constexpr Peak kAmx{"bfloat16 tiles (AMX)", 2.0 * 16 * 16 * 32 * kSteps, amx_bf16};
constexpr Peak kFma512{"float32 FMA, 512 bits", 2.0 * 16 * kChains* kSteps, fma_512};
constexpr Peak kFma256{"float32 FMA, 256 bits", 2.0 * 8 * kChains* kSteps, fma_256};
constexpr Peak kFma128{"float32 multiply and add, 128 bits", 2.0 * 4 * kChains* kSteps, multiply_add_128};
constexpr Peak kDot512{"bfloat16 dot, 512 bits", 4.0 * 16 * kChains* kSteps, bf16_dot_512};

#elif defined(__aarch64__)

inline float32x4_t multiply_and_add(float32x4_t a, float32x4_t b, float32x4_t c) { return vfmaq_f32(c, a, b); }
void fma_neon(double* result) {
  SIATTN_CHAINS(float32x4_t, vdupq_n_f32, multiply_and_add,
                *result += static_cast<double>(vgetq_lane_f32(chain[i], 0)));
}
constexpr Peak kFmaNeon{"float32 FMA, 128 bits", 2.0 * 4 * kChains* kSteps, fma_neon};

#endif
#undef SIATTN_CHAINS

/// Whatever the compiler makes of it: vectors of 128 bits.
std::uint64_t read_plain(const std::byte* from, std::size_t bytes) {
  std::uint64_t sum[8] = {};
  const std::size_t end = bytes / 64 * 64;
  for (std::size_t at = 0; at < end; at += 64) {
    std::uint64_t words[8];
    __builtin_memcpy(words, from + at, 64);
    for (int i = 0; i < 8; ++i) sum[i] |= words[i];
  }
  return sum[0] | sum[1] | sum[2] | sum[3] | sum[4] | sum[5] | sum[6] | sum[7];
}

}  // namespace

const Peak* fma_peak([[maybe_unused]] std::string_view backend) noexcept {
#if defined(__x86_64__)
  if (backend == "cpu-avx512") return &kFma512;
  if (backend == "cpu-avx2") return &kFma256;
  if (backend == "cpu-sse2") return &kFma128;
#elif defined(__aarch64__)
  if (backend == "cpu-neon") return &kFmaNeon;
#endif
  return nullptr;
}

const Peak* bf16_dot_peak() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bf16")) return &kDot512;
#endif
  return nullptr;
}

const Peak* onednn_peak([[maybe_unused]] DType dtype) noexcept {
#if defined(__x86_64__)
  if (dtype == DType::float32) return &kFma512;
  return cpu::detect_cpu().amx_bf16 ? &kAmx : bf16_dot_peak();
#else
  return nullptr;
#endif
}

void read_all(std::span<const std::byte> memory, int threads, double* result) noexcept {
  double sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
  {
    const auto count = static_cast<std::size_t>(omp_get_num_threads());
    const auto me = static_cast<std::size_t>(omp_get_thread_num());
    const std::size_t begin = memory.size() / 64 * me / count * 64;
    const std::size_t end = memory.size() / 64 * (me + 1) / count * 64;
#if defined(__x86_64__)
    const bool wide = __builtin_cpu_supports("avx512f");
    sum += static_cast<double>((wide ? read_512 : read_plain)(memory.data() + begin, end - begin) & 1);
#else
    sum += static_cast<double>(read_plain(memory.data() + begin, end - begin) & 1);
#endif
  }
  *result += sum;
}

void run_peak(const Peak& peak, int calls, int threads) noexcept {
  double sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
  for (int i = 0; i < calls; ++i) peak.run(&sum);
  volatile double kept = sum;
  static_cast<void>(kept);
}

}  // namespace siattn::bench
