// SPDX-License-Identifier: Apache-2.0
// One run of a problem: what all backends that use the vector kernels do.
#ifndef SIATTN_CPU_RUN_HPP
#define SIATTN_CPU_RUN_HPP

#include <cstddef>
#include <span>
#include <string>

#include <siattn/backend.hpp>

#include "cpu/kernels.hpp"
#include "cpu/products.hpp"

namespace siattn::cpu {

/// Good, or what of the problem the kernels cannot do; `who` says so.
Status supported_by_kernels(const std::string& who, const AttentionProblem& problem);

std::size_t workspace_bytes_on(const Kernels& kernels, const Products* products,
                               const PreparedAttention& problem) noexcept;

/// Computes out and lse, or a slice of them; prefill with these products, or by the kernels alone. False: the products
/// reported an error.
bool run_on(const Kernels& kernels, const Products* products, const PreparedAttention& problem,
            const AttentionTensors& tensors, std::span<std::byte> workspace, const Slice* slice = nullptr) noexcept;

}  // namespace siattn::cpu

#endif  // SIATTN_CPU_RUN_HPP
