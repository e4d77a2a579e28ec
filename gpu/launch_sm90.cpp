// SPDX-License-Identifier: Apache-2.0
#include "gpu/launch_sm90.hpp"

#include <algorithm>
#include <limits>

#include "gpu/kernels/shapes.hpp"

namespace siattn::gpu {
namespace {

constexpr std::int64_t kElementBytes = 2;

int width_of(std::int64_t head_dim, std::int64_t value_dim) noexcept {
  return std::max(head_dim, value_dim) <= 64 ? 64 : 128;
}

/// False: tensor copies cannot take it. `rows` of a box.
bool shape_of(const TensorView& x, std::uint32_t rows, TensorMapShape* shape) noexcept {
  shape->base = x.data;
  shape->box = {kBoxChannels, rows, 1, 1};
  const std::int64_t row_bytes = divide_up<std::int64_t>(x.shape[3] * kElementBytes, 16) * 16;
  for (std::size_t d = 0; d < 4; ++d) {
    const std::size_t axis = 3 - d;
    const std::int64_t size = x.shape[axis];
    if (size < 1 || size > std::numeric_limits<std::int32_t>::max()) return false;
    shape->sizes[d] = static_cast<std::uint64_t>(size);
    if (d == 0) continue;
    // The stride of an axis of one element may be anything.
    const std::int64_t bytes = size > 1 ? x.strides[axis] * kElementBytes : row_bytes;
    if (bytes < 16 || bytes % 16 != 0 || bytes >= std::int64_t{1} << 40) return false;
    shape->strides[d - 1] = static_cast<std::uint64_t>(bytes);
  }
  return true;
}

template <int kWidth>
Launch launch_of(const char* entry, std::int64_t blocks) noexcept {
  using Shape = PrefillSm90Shape<kWidth>;
  return {entry, blocks, Shape::kThreads, Shape::kSharedBytes};
}

}  // namespace

const char* prefill_sm90_entry(DType dtype, std::int64_t head_dim, std::int64_t value_dim) noexcept {
  const bool narrow = width_of(head_dim, value_dim) == 64;
  if (dtype == DType::bfloat16) return narrow ? "siattn_prefill_sm90_bf16_64" : "siattn_prefill_sm90_bf16_128";
  return narrow ? "siattn_prefill_sm90_f16_64" : "siattn_prefill_sm90_f16_128";
}

std::int32_t prefill_sm90_shared_bytes(std::int64_t head_dim, std::int64_t value_dim) noexcept {
  return width_of(head_dim, value_dim) == 64 ? PrefillSm90Shape<64>::kSharedBytes : PrefillSm90Shape<128>::kSharedBytes;
}

bool prefill_sm90_of(const Forward& forward, DType dtype, const AttentionTensors& tensors, PrefillSm90* prefill) {
  const std::int64_t dim = std::max(forward.head_dim, forward.value_dim);
  if (dtype == DType::float32 || dim > kMaxTensorCoreDim || forward.query_tiles == 0) return false;
  using Shape = PrefillSm90Shape<128>;
  static_assert(PrefillSm90Shape<64>::kQueries == Shape::kQueries && PrefillSm90Shape<64>::kKeys == Shape::kKeys);
  *prefill = {};
  ForwardSm90& argument = prefill->argument;
  argument.f = forward;
  argument.tensor_copies = tensors.pages.empty() && forward.query.aligned && forward.key.aligned &&
                           forward.value.aligned && shape_of(tensors.query, Shape::kQueries, &prefill->query) &&
                           shape_of(tensors.key, Shape::kKeys, &prefill->key) &&
                           shape_of(tensors.value, Shape::kKeys, &prefill->value);
  argument.query_packed = !tensors.cu_query.empty();
  argument.key_packed = !tensors.cu_kv.empty();
  const int other = tensor_core_width(forward.head_dim, forward.value_dim) == 64 ? PrefillShape<64>::kQueries
                                                                                 : PrefillShape<128>::kQueries;
  argument.f.query_tiles = divide_up(forward.query_tiles * other, Shape::kQueries);
  const std::int64_t blocks = std::int64_t{forward.batch} * forward.query_heads * argument.f.query_tiles;
  const char* const entry = prefill_sm90_entry(dtype, forward.head_dim, forward.value_dim);
  prefill->launch = width_of(forward.head_dim, forward.value_dim) == 64 ? launch_of<64>(entry, blocks)
                                                                        : launch_of<128>(entry, blocks);
  return true;
}

}  // namespace siattn::gpu
