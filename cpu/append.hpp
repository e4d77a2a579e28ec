// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_CPU_APPEND_HPP
#define SIATTN_CPU_APPEND_HPP

#include <cstdint>

#include <siattn/tensor_view.hpp>

namespace siattn::cpu {

/// Rows of one head that move into a cache, with another type perhaps. Strides are in elements, between rows.
struct CacheRows {
  const void* from = nullptr;
  DType from_type;  ///< float32, bfloat16 or float16
  std::int64_t from_stride;
  void* to = nullptr;
  DType to_type;  ///< one of these, or int8
  std::int64_t to_stride;
  float* scale = nullptr;  ///< int8 only: one for each row
  std::int64_t scale_stride;
  std::int64_t count = 0;
  std::int64_t dim;
};

/// Copies rows of one type; rounds each element once to another; quantises to int8 (include/siattn/kv_cache.hpp says how).
void write_rows(const CacheRows& rows) noexcept;

}  // namespace siattn::cpu

#endif  // SIATTN_CPU_APPEND_HPP
