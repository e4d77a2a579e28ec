// SPDX-License-Identifier: Apache-2.0
// combine: merges the attention states of a row's splits, in order. fill: writes the rows of out and lse that no query
// stands for.
#ifndef SIATTN_GPU_KERNELS_COMBINE_HPP
#define SIATTN_GPU_KERNELS_COMBINE_HPP

#include "gpu/kernels/rows.hpp"

namespace siattn::gpu {

/// A block for each row of a sequence that has several splits.
template <class T>
SIATTN_DEVICE void combine(const Forward& f) {
  std::int64_t index = block_x();
  const int query = static_cast<int>(index % f.state_rows);
  index /= f.state_rows;
  const int head = static_cast<int>(index % f.query_heads);
  const std::int64_t b = index / f.query_heads;
  const Sequence s = load_sequence(f, b);
  const int splits = splits_of(f.causal, f.window, s, f.query_heads / f.kv_heads).count;
  if (query >= s.query_len || splits == 1) return;
  const std::int64_t slot = state_slot(f, b, head, query, 0);
  float highest = minus_infinity();
  for (int n = 0; n < splits; ++n) highest = max_of(highest, load_global(f.state_max + slot + n));
  const float reference = reference_of(highest);
  float total = 0.0F;
  for (int n = 0; n < splits; ++n) {
    total += exp2_approx(load_global(f.state_max + slot + n) - reference) * load_global(f.state_sum + slot + n);
  }
  if (thread_index() == 0) store_lse(f, s, head, query, highest, total);
  for (int channel = thread_index(); channel < f.value_dim; channel += kRowThreads) {
    float x = 0.0F;
    for (int n = 0; n < splits; ++n) {
      const float weight = exp2_approx(load_global(f.state_max + slot + n) - reference);
      x += weight * load_global(f.state_out + (slot + n) * f.value_dim + channel);
    }
    store_element<T>(f.out.data, out_row(f, s, head, query) + channel, divided(x, total));
  }
}

/// A thread for each row.
template <class T>
SIATTN_DEVICE void fill(const Forward& f) {
  std::int64_t index = static_cast<std::int64_t>(block_x()) * kRowThreads + thread_index();
  const int query = static_cast<int>(index % f.fill_rows);
  index /= f.fill_rows;
  const int head = static_cast<int>(index % f.query_heads);
  const std::int64_t b = index / f.query_heads;
  if (b >= f.batch) return;
  const Sequence s = load_sequence(f, b);
  if (query < s.query_len || query >= s.query_rows) return;
  const std::int64_t row = out_row(f, s, head, query);
  for (int channel = 0; channel < f.value_dim; ++channel) store_element<T>(f.out.data, row + channel, 0.0F);
  store_lse(f, s, head, query, minus_infinity(), 0.0F);
}

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_KERNELS_COMBINE_HPP
