// SPDX-License-Identifier: Apache-2.0
#include "cpu/cpu_features.hpp"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace siattn::cpu {

#if defined(__x86_64__)
namespace {

/// The register states that the operating system has enabled, 0 where it cannot be asked.
std::uint64_t enabled_states() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned osxsave = 1U << 27;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & osxsave) == 0) return 0;
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

}  // namespace

CpuFeatures detect_cpu() noexcept {
  CpuFeatures features;
  __builtin_cpu_init();
  features.sse2 = __builtin_cpu_supports("sse2") != 0;
  features.avx2 = __builtin_cpu_supports("avx2") != 0;
  features.fma = __builtin_cpu_supports("fma") != 0;
  features.avx512f = __builtin_cpu_supports("avx512f") != 0;
  features.avx512bw = __builtin_cpu_supports("avx512bw") != 0;
  features.avx512dq = __builtin_cpu_supports("avx512dq") != 0;
  features.avx512vl = __builtin_cpu_supports("avx512vl") != 0;

  // Clang 14 knows neither of these two by name.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0) features.f16c = (ecx & (1U << 29)) != 0;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) features.avx512_bf16 = (eax & (1U << 5)) != 0;

  const bool has_amx = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1U << 22)) != 0 &&
                       (edx & (1U << 24)) != 0;  // bf16, tiles

  constexpr std::uint64_t ymm = 0x06;  // bits 1 (xmm) and 2 (upper halves of ymm)
  constexpr std::uint64_t zmm = 0xE6;  // and 5 (masks), 6 (upper halves of zmm), 7 (zmm16 .. 31)
  constexpr std::uint64_t tiles = 0x60000;  // 17 (configuration), 18 (data)
  const std::uint64_t states = enabled_states();
  features.amx_bf16 = has_amx && (states & tiles) == tiles;
  features.os_ymm = (states & ymm) == ymm;
  features.os_zmm = (states & zmm) == zmm;
  return features;
}

#else

CpuFeatures detect_cpu() noexcept {
  CpuFeatures features;
#if defined(__aarch64__)
  features.neon = true;
#endif
  return features;
}

#endif

}  // namespace siattn::cpu
