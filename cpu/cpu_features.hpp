// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_CPU_CPU_FEATURES_HPP
#define SIATTN_CPU_CPU_FEATURES_HPP

namespace siattn::cpu {

/// What the processor can do, and which vector registers the operating system saves when it switches threads: an
/// instruction set may be used only where both hold. A plain value, so that tests describe machines that they are not.
struct CpuFeatures {
  bool sse2 = false;
  bool avx2 = false;
  bool fma = false;
  bool f16c = false;
  bool avx512f = false;
  bool avx512bw = false;
  bool avx512dq = false;
  bool avx512vl = false;
  bool avx512_bf16 = false;
  bool amx_bf16 = false;  ///< and the operating system lets processes ask for tiles
  bool os_ymm = false;  ///< XCR0: xmm and ymm state
  bool os_zmm = false;  ///< XCR0: those, the mask registers and zmm state
  bool neon = false;    ///< AArch64, where it is part of the base architecture
};

/// The machine that this runs on, asked: on a virtual one that takes some ten microseconds.
CpuFeatures detect_cpu() noexcept;

/// The same, asked once.
inline const CpuFeatures& this_cpu() noexcept {
  static const CpuFeatures features = detect_cpu();
  return features;
}

}  // namespace siattn::cpu

#endif  // SIATTN_CPU_CPU_FEATURES_HPP
