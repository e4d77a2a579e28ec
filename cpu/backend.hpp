// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_CPU_BACKEND_HPP
#define SIATTN_CPU_BACKEND_HPP

#include <span>

#include <siattn/backend.hpp>

namespace siattn::cpu {

/// One backend for each instruction set that was built, best first: "cpu-avx512", "cpu-avx2", "cpu-sse2" or "cpu-neon".
/// float32, bfloat16 and float16; head_dim and value_dim up to 512.
std::span<const Backend* const> backends() noexcept;

}  // namespace siattn::cpu

#endif  // SIATTN_CPU_BACKEND_HPP
