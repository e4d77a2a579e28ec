// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_CPU_DECODE_HPP
#define SIATTN_CPU_DECODE_HPP

#include "cpu/loops.hpp"

namespace siattn::cpu {

/// Few query rows a kv head: K and V are read as they lie, once, for all the rows of the group; the keys of a sequence
/// are split so that several threads share even a single head.
std::int64_t decode_workspace_bytes(const Kernels& kernels, const PreparedAttention& problem) noexcept;

/// The same for one slice of a run; and the most slices that have something to do.
std::int64_t decode_slice_bytes(const Kernels& kernels, const PreparedAttention& problem) noexcept;
int decode_slices(const PreparedAttention& problem) noexcept;

/// Computes the rows of every sequence that streams (sequence.hpp).
void decode(const Run& run) noexcept;

}  // namespace siattn::cpu

#endif  // SIATTN_CPU_DECODE_HPP
