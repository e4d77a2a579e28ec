// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_CPU_ONEDNN_PRODUCTS_HPP
#define SIATTN_CPU_ONEDNN_PRODUCTS_HPP

#include <memory>
#include <string>

#include <siattn/backend.hpp>

#include "cpu/products.hpp"

namespace siattn::cpu {

/// The arithmetic of both products by oneDNN with transform and softmax by these kernels. bfloat16 units round each sum to
/// float32 and take what is subnormal, operands included, as 0.
Numerics onednn_numerics(const Kernels& kernels, DType dtype) noexcept;

/// Q K^T and P V of this shape by oneDNN's matmul, float32 or bfloat16 elements and float32 sums. nullptr where oneDNN
/// has no block multiplication for it here. `implementation` (or nullptr) gets its name for what it would use.
std::shared_ptr<const Products> onednn_products(const Kernels& kernels, DType dtype, std::int64_t head_dim,
                                                std::int64_t value_dim, std::string* implementation = nullptr);

}  // namespace siattn::cpu

#endif  // SIATTN_CPU_ONEDNN_PRODUCTS_HPP
