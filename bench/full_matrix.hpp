// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_BENCH_FULL_MATRIX_HPP
#define SIATTN_BENCH_FULL_MATRIX_HPP

#include <siattn/backend.hpp>

namespace siattn::bench {

/// What one would write in a day, to be compared with: for each head all of Q K^T by one oneDNN matmul, transform and
/// softmax row by row (by this library's kernels), P V by another. Dense tensors, float32 or bfloat16. nullptr in a
/// build without oneDNN.
const Backend* full_matrix_backend() noexcept;

}  // namespace siattn::bench

#endif  // SIATTN_BENCH_FULL_MATRIX_HPP
