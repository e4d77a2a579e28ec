// SPDX-License-Identifier: Apache-2.0
// Where the keys and values of a chunk lie, one address each: the only place that knows pages and ragged batches.
#ifndef SIATTN_CPU_CHUNK_HPP
#define SIATTN_CPU_CHUNK_HPP

#include <algorithm>
#include <cstdint>

#include <siattn/backend.hpp>

#include "cpu/kernels.hpp"
#include "cpu/loops.hpp"

namespace siattn::cpu {

/// Calls run(offset, from, until) for rows first + from .. first + until that lie one `rows.stride` behind the other, the
/// first of them `offset` elements behind the data: one run for each page.
template <class Run>
void by_runs(const RowOffsets& rows, std::int64_t first, std::int64_t count, Run run) noexcept {
  if (rows.pages == nullptr) return run(rows.base + first * rows.stride, 0, count);
  const std::int64_t page_size = std::int64_t{1} << rows.page_shift;
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t until = std::min(i + page_size - ((first + i) & (page_size - 1)), count);
    run(rows.offset(first + i), i, until);
    i = until;
  }
}

/// The keys of one (sequence, kv head) from `first` on, of `end` in all.
struct Keys {
  std::int64_t b;
  std::int64_t kv_head;
  std::int64_t first;
  std::int64_t end;
};

/// Addresses of `count` rows of K or V from keys.first on, or of as many as there are: their number.
inline std::int64_t find_rows(const AttentionTensors& tensors, const TensorView& x, const Keys& keys,
                              std::int64_t count, const void** to) noexcept {
  const RowOffsets rows = kv_rows(tensors, x, keys.b, keys.kv_head);
  const auto data = reinterpret_cast<std::uintptr_t>(x.data);
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  const auto step = static_cast<std::uintptr_t>(rows.stride * size);
  const std::int64_t exist = std::clamp<std::int64_t>(keys.end - keys.first, 0, count);
  by_runs(rows, keys.first, exist, [&](std::int64_t offset, std::int64_t from, std::int64_t until) {
    std::uintptr_t at = data + static_cast<std::uintptr_t>(offset * size);
    for (std::int64_t i = from; i < until; ++i, at += step) to[i] = reinterpret_cast<const void*>(at);
  });
  return exist;
}

/// The rows of K and V of a chunk, as the kernels take them.
class Chunk {
 public:
  static Chunk take(Layout& layout) noexcept {
    Chunk chunk;
    for (Side* side : {&chunk.key_, &chunk.value_}) {
      side->row = layout.take<const void*>(kMaxChunk + kMaxAhead);
      side->scale = layout.take<float>(kMaxChunk);
    }
    return chunk;
  }

  /// The first `count` of these keys, and `ahead` more to ask for.
  void find(const Run& run, const Keys& keys, std::int64_t count, std::int64_t ahead) noexcept {
    const AttentionTensors& t = run.tensors;
    find(run, key_, t.key, t.key_scale, keys, count, ahead, keys);
    find(run, value_, t.value, t.value_scale, keys, count, ahead, keys);
  }
  /// The same where memory is read once, in a stream: as many more as hide its latency, and behind the last those that
  /// this thread will read next.
  void find(const Run& run, const Keys& keys, std::int64_t count, const Keys& next) noexcept {
    const AttentionTensors& t = run.tensors;
    find(run, key_, t.key, t.key_scale, keys, count, reach(t.key), next);
    find(run, value_, t.value, t.value_scale, keys, count, reach(t.value), next);
  }

  KvRows key() const noexcept { return {key_.row, key_.scale, key_.ahead}; }
  KvRows value() const noexcept { return {value_.row, value_.scale, value_.ahead}; }

 private:
  struct Side {
    const void** row;
    float* scale;
    std::int32_t ahead;
  };

  /// How many rows hide the latency of memory.
  static std::int64_t reach(const TensorView& x) noexcept {
    constexpr std::int64_t bytes = 24576;
    return std::clamp<std::int64_t>(bytes / (x.shape[3] * static_cast<std::int64_t>(size_of(x.dtype))), 1, kMaxAhead);
  }

  static void find(const Run& run, Side& side, const TensorView& x, const TensorView& scale, const Keys& keys,
                   std::int64_t count, std::int64_t ahead, const Keys& next) noexcept {
    side.ahead = static_cast<std::int32_t>(ahead);
    const std::int64_t all = count + ahead;
    std::int64_t found = find_rows(run.tensors, x, keys, all, side.row);
    if (found < all) found += find_rows(run.tensors, x, next, all - found, side.row + found);
    std::fill(side.row + found, side.row + all, side.row[found - 1]);
    if (run.kv_element != kInt8) return;
    const RowOffsets scales = kv_rows(run.tensors, scale, keys.b, keys.kv_head);
    by_runs(scales, keys.first, count, [&](std::int64_t offset, std::int64_t from, std::int64_t until) {
      const float* at = static_cast<const float*>(scale.data) + offset;
      for (std::int64_t j = from; j < until; ++j, at += scales.stride) side.scale[j] = *at;
    });
  }

  Side key_{};
  Side value_{};
};

}  // namespace siattn::cpu

#endif  // SIATTN_CPU_CHUNK_HPP
