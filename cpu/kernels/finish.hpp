// SPDX-License-Identifier: Apache-2.0
// Attention states: two into one, and one into an output row.
#ifndef SIATTN_CPU_KERNELS_FINISH_HPP
#define SIATTN_CPU_KERNELS_FINISH_HPP

#include "cpu/kernels.hpp"
#include "cpu/kernels/element.hpp"
#include "cpu/kernels/exp2.hpp"
#include "cpu/kernels/softmax.hpp"

namespace siattn::cpu {
namespace {

void merge(const State& into, const State& from, std::int64_t rows) {
  alignas(64) float alpha[kMaxTileRows];
  alignas(64) float beta[kMaxTileRows];
  for (std::int64_t r = 0; r < rows; r += kLanes) {
    const Batch a = load(into.maximum + r);
    const Batch b = load(from.maximum + r);
    const Batch maximum = larger(a, b);
    const Batch subtracted = subtrahend(maximum);
    store(into.maximum + r, maximum);
    exp2_nonpositive(a - subtracted).store_aligned(alpha + r);
    exp2_nonpositive(b - subtracted).store_aligned(beta + r);
  }
  const auto add = [&](float* to, const float* other, std::int64_t r) {
    store(to, madd(Batch(alpha[r]), load(to), Batch(beta[r]) * load(other)));
  };
  for (std::int64_t r = 0; r < rows; ++r) {
    add(into.sum + r * kLanes, from.sum + r * kLanes, r);
    for (std::int64_t d = 0; d < into.out_stride; d += kLanes) {
      add(into.out + r * into.out_stride + d, from.out + r * from.out_stride + d, r);
    }
  }
}

/// The one NaN and the one zero: which operand's sign a NaN takes, or a zero after underflow, is up to the compiler and
/// to the rows that shared a register tile.
SIATTN_INLINE Batch canonical(const Batch& x) {
  return xsimd::select(x == x, x + Batch(0.0F), Batch(std::numeric_limits<float>::quiet_NaN()));
}

template <class T>
float finish(const float* sum, const float* out, std::int64_t value_dim, void* to) {
  Batch lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = load(sum);
  const Batch total = reduce_each(lanes, Add{});  // the same in every lane
  const auto no_weight = total == Batch(0.0F);
  auto* target = static_cast<typename T::Storage*>(to);
  for (std::int64_t d = 0; d < value_dim; d += kLanes) {
    const std::int64_t n = value_dim - d;
    const Batch x = canonical(xsimd::select(no_weight, Batch(0.0F), load(out + d) / total));
    if (n >= kLanes) {
      T::write(target + d, x);
    } else {
      write_some<T>(target + d, x, n);
    }
  }
  return total.get(0);
}

}  // namespace
}  // namespace siattn::cpu

#endif  // SIATTN_CPU_KERNELS_FINISH_HPP
