// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_CPU_ONEDNN_BACKEND_HPP
#define SIATTN_CPU_ONEDNN_BACKEND_HPP

#include <span>

#include <siattn/backend.hpp>

namespace siattn::cpu {

/// "onednn": prefill with products by oneDNN's block multiplications (AMX where the processor has it), all else by the
/// AVX-512 kernels. float32 and bfloat16; head_dim and value_dim up to 512.
std::span<const Backend* const> onednn_backends() noexcept;

}  // namespace siattn::cpu

#endif  // SIATTN_CPU_ONEDNN_BACKEND_HPP
