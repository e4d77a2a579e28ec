// SPDX-License-Identifier: Apache-2.0
// Instruction probes: what each function of gpu/ptx.hpp does, as bits, so that a device and the emulator can be compared.
// One block of 128 threads each, random words in, words out. Those for sm_90a are in probes_sm90.cu.
#ifndef SIATTN_TESTS_PROBES_PROBES_HPP
#define SIATTN_TESTS_PROBES_PROBES_HPP

#include <cstdint>

#include "gpu/params_sm90.hpp"

namespace siattn::test {

inline constexpr int kProbeThreads = 128;
inline constexpr int kProbeWords = 1 << 14;  ///< of input, and of output at most
inline constexpr int kProbeShared = 96 * 1024;

struct ProbeParams {
  alignas(64) gpu::TensorMap map;  ///< of the input as [1][1][128][64] elements of 16 bits; for probes of tensor copies
  const std::uint32_t* in = nullptr;
  std::uint32_t* out = nullptr;
};

/// What the input words are, and how far the outputs may differ.
enum class ProbeInput { any_bits, halves_bf16, halves_f16, floats };
enum class ProbeAgreement {
  exact,
  sums,       ///< float32 sums of at most 64 products of numbers around 1: by 2^-18
  exp2,       ///< relative 2^-21: of the device 2^-22, and the emulator's rounding
  logarithm,  ///< relative 2^-21, absolute 2^-21 near 0
};

struct Probe {
  const char* name;
  ProbeInput input;
  ProbeAgreement agreement;
  int capability;  ///< 80: that or newer; 90: this only
};

inline constexpr Probe kProbes[] = {
    {"siattn_probe_ldmatrix", ProbeInput::any_bits, ProbeAgreement::exact, 80},
    {"siattn_probe_ldmatrix_trans", ProbeInput::any_bits, ProbeAgreement::exact, 80},
    {"siattn_probe_mma_bf16", ProbeInput::halves_bf16, ProbeAgreement::sums, 80},
    {"siattn_probe_mma_f16", ProbeInput::halves_f16, ProbeAgreement::sums, 80},
    {"siattn_probe_cp_async_4", ProbeInput::any_bits, ProbeAgreement::exact, 80},
    {"siattn_probe_cp_async_8", ProbeInput::any_bits, ProbeAgreement::exact, 80},
    {"siattn_probe_cp_async_16", ProbeInput::any_bits, ProbeAgreement::exact, 80},
    {"siattn_probe_shuffles", ProbeInput::any_bits, ProbeAgreement::exact, 80},
    {"siattn_probe_votes", ProbeInput::any_bits, ProbeAgreement::exact, 80},
    {"siattn_probe_named_barriers", ProbeInput::any_bits, ProbeAgreement::exact, 80},
    {"siattn_probe_exp2", ProbeInput::floats, ProbeAgreement::exp2, 80},
    {"siattn_probe_log", ProbeInput::floats, ProbeAgreement::logarithm, 80},
    {"siattn_probe_max_fma", ProbeInput::any_bits, ProbeAgreement::exact, 80},
    {"siattn_probe_pack_bf16", ProbeInput::any_bits, ProbeAgreement::exact, 80},
    {"siattn_probe_pack_f16", ProbeInput::any_bits, ProbeAgreement::exact, 80},
    {"siattn_probe_unpack", ProbeInput::any_bits, ProbeAgreement::exact, 80},
    {"siattn_probe_tensor_load", ProbeInput::any_bits, ProbeAgreement::exact, 90},
    {"siattn_probe_wgmma_shared_64", ProbeInput::halves_bf16, ProbeAgreement::sums, 90},
    {"siattn_probe_wgmma_shared_128", ProbeInput::halves_f16, ProbeAgreement::sums, 90},
    {"siattn_probe_wgmma_registers_64", ProbeInput::halves_bf16, ProbeAgreement::sums, 90},
    {"siattn_probe_wgmma_registers_128", ProbeInput::halves_f16, ProbeAgreement::sums, 90},
};

}  // namespace siattn::test

#endif  // SIATTN_TESTS_PROBES_PROBES_HPP
