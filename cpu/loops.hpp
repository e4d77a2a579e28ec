// SPDX-License-Identifier: Apache-2.0
// What the loops over a problem share.
#ifndef SIATTN_CPU_LOOPS_HPP
#define SIATTN_CPU_LOOPS_HPP

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>

#include <siattn/backend.hpp>

#include "cpu/kernels.hpp"
#include "cpu/products.hpp"

namespace siattn::cpu {

/// One run.
struct Run {
  const Kernels& kernels;
  const Products* products;  ///< nullptr: the kernels form all products
  const PreparedAttention& problem;
  const AttentionTensors& tensors;
  Element element;
  Element kv_element;
  std::byte* workspace;  ///< aligned to 64 bytes
  const Slice* slice;    ///< nullptr: all of it, by a team of threads; else this share, in this thread alone
};

inline Element element_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::bfloat16: return kBfloat16;
    case DType::float16: return kFloat16;
    case DType::int8: return kInt8;
    default: return kFloat32;
  }
}

constexpr std::int64_t round_up(std::int64_t n, std::int64_t multiple) noexcept {
  return (n + multiple - 1) / multiple * multiple;
}
constexpr std::int64_t divide_up(std::int64_t n, std::int64_t by) noexcept { return (n + by - 1) / by; }

/// Where row (b, h, i) of query, out or lse begins.
inline const std::byte* row_address(const AttentionTensors& tensors, const TensorView& x, std::int64_t b,
                                    std::int64_t h, std::int64_t i) noexcept {
  return static_cast<const std::byte*>(x.data) +
         query_rows(tensors, x, b, h).offset(i) * static_cast<std::int64_t>(size_of(x.dtype));
}
inline std::byte* row_address(const AttentionTensors& tensors, const MutableTensorView& x, std::int64_t b,
                              std::int64_t h, std::int64_t i) noexcept {
  return static_cast<std::byte*>(x.data) +
         query_rows(tensors, x, b, h).offset(i) * static_cast<std::int64_t>(size_of(x.dtype));
}

/// Lays out arrays behind each other, each aligned to 64 bytes: asked without memory it only counts.
class Layout {
 public:
  explicit Layout(std::byte* at = nullptr) noexcept : at_(at) {}

  template <class T>
  T* take(std::int64_t count) noexcept {
    std::byte* const here = at_ == nullptr ? nullptr : at_ + bytes_;
    bytes_ += round_up(count * static_cast<std::int64_t>(sizeof(T)), 64);
    return reinterpret_cast<T*>(here);
  }
  std::int64_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* at_;
  std::int64_t bytes_ = 0;
};

/// Writes a row of out and its lse from the row's attention state.
inline void write_row(const Run& run, std::int64_t b, std::int64_t h, std::int64_t i, float maximum, const float* sum,
                      const float* out) noexcept {
  const float total =
      run.kernels.finish[run.element](sum, out, run.problem.shape.value_dim,
                                      row_address(run.tensors, run.tensors.out, b, h, i));
  if (run.tensors.lse.data == nullptr) return;
  // The maximum is base two. No weight at all: log 0 = -infinity, also where the maximum is 0 or above.
  const double lse = std::numbers::ln2 * static_cast<double>(maximum) + std::log(static_cast<double>(total));
  *reinterpret_cast<float*>(row_address(run.tensors, run.tensors.lse, b, h, i)) =
      std::isnan(lse) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(lse);  // one NaN, as in finish
}

}  // namespace siattn::cpu

#endif  // SIATTN_CPU_LOOPS_HPP
