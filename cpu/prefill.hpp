// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_CPU_PREFILL_HPP
#define SIATTN_CPU_PREFILL_HPP

#include "cpu/loops.hpp"

namespace siattn::cpu {

/// Many query rows a kv head: K and V are packed, chunk by chunk, for all the rows that pass by.
std::int64_t prefill_workspace_bytes(const Kernels& kernels, const Products* products,
                                     const PreparedAttention& problem) noexcept;

/// The same for one slice of a run; and the most slices that have something to do.
std::int64_t prefill_slice_bytes(const Kernels& kernels, const Products* products,
                                 const PreparedAttention& problem) noexcept;
int prefill_slices(const Kernels& kernels, const PreparedAttention& problem) noexcept;

/// Computes the rows of every sequence that does not stream (sequence.hpp). False: the products reported an error.
bool prefill(const Run& run) noexcept;

}  // namespace siattn::cpu

#endif  // SIATTN_CPU_PREFILL_HPP
