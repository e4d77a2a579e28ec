// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <siattn/kv_cache.hpp>

#include "cpu/append.hpp"
#include "dispatch/boundary.hpp"
#include "dispatch/message.hpp"
#include "dispatch/operands.hpp"
#include "dispatch/validate.hpp"

namespace siattn {
namespace {

using dispatch::text;

/// An append, looked at from all sides.
struct Append {
  const KvCacheView& cache;
  const KvTokens& tokens;
  std::span<const std::int64_t> lengths;

  std::int64_t sequences() const { return static_cast<std::int64_t>(lengths.size()); }
  bool ragged() const { return !tokens.cu_tokens.empty(); }
  bool paged() const { return !cache.pages.empty(); }
  std::int64_t first_token(std::int64_t b) const {
    return ragged() ? tokens.cu_tokens[static_cast<std::size_t>(b)] : 0;
  }
  std::int64_t new_tokens(std::int64_t b) const {
    return ragged() ? tokens.cu_tokens[static_cast<std::size_t>(b) + 1] - first_token(b) : tokens.key.shape[2];
  }
  /// What a sequence can hold.
  std::int64_t capacity() const {
    return paged() ? cache.pages.stride * cache.pages.page_size : cache.key.shape[2];
  }
};

bool is_float(DType dtype) {
  return dtype == DType::float32 || dtype == DType::bfloat16 || dtype == DType::float16;
}

Status validate_types(const Append& a) {
  const DType cache = a.cache.key.dtype;
  if (!is_float(cache) && cache != DType::int8) {
    return Status::invalid(text("cache key has type ", name_of(cache), ": expected f32, bf16, f16 or i8"));
  }
  for (const auto& [name, dtype] : {std::pair{"key", a.tokens.key.dtype}, std::pair{"value", a.tokens.value.dtype}}) {
    if (!is_float(dtype)) {
      return Status::invalid(text(name, " has type ", name_of(dtype), ": expected f32, bf16 or f16"));
    }
  }
  return {};
}

Status validate_extents(const Append& a) {
  const std::int64_t most = std::numeric_limits<std::int32_t>::max();
  for (const auto& [name, extent] :
       {std::pair{"kv_heads", a.cache.key.shape[1]}, std::pair{"head_dim", a.cache.key.shape[3]},
        std::pair{"value_dim", a.cache.value.shape[3]}}) {
    if (extent < 1 || extent > most) {
      return Status::invalid(text(name, " of the cache = ", extent, ": expected 1 .. ", most));
    }
  }
  return {};
}

Status validate_counts(const Append& a) {
  const PageTable& table = a.cache.pages;
  if (Status status = a.paged() ? dispatch::validate_page_table(table) : Status{}; !status) return status;
  if (a.ragged() && a.tokens.cu_tokens.sequences() != a.sequences()) {
    return Status::invalid(text("cu_tokens has ", a.tokens.cu_tokens.sequences(), " sequences: lengths has ",
                                a.sequences()));
  }
  if (a.ragged() && a.tokens.cu_tokens[0] != 0) {
    return Status::invalid(text("cu_tokens[0] = ", a.tokens.cu_tokens[0], ": expected 0"));
  }
  for (std::int64_t b = 0; b < a.sequences(); ++b) {
    const auto at = static_cast<std::size_t>(b);
    if (a.ragged() && a.tokens.cu_tokens[at + 1] < a.tokens.cu_tokens[at]) {
      return Status::invalid(text("cu_tokens[", b + 1, "] = ", a.tokens.cu_tokens[at + 1], ": sequence ", b,
                                  " begins at ", a.tokens.cu_tokens[at], " and cannot end before it"));
    }
    if (a.ragged() && a.tokens.cu_tokens[at + 1] > a.tokens.key.shape[2]) {
      return Status::invalid(text("cu_tokens[", b + 1, "] = ", a.tokens.cu_tokens[at + 1], ": key has ",
                                  a.tokens.key.shape[2], " tokens"));
    }
    if (a.lengths[at] < 0 || a.lengths[at] > a.capacity() || a.new_tokens(b) > a.capacity() - a.lengths[at]) {
      return Status::invalid(text("lengths[", b, "] = ", a.lengths[at], ": with ", a.new_tokens(b),
                                  " new tokens sequence ", b, " would outgrow its room for ", a.capacity()));
    }
  }
  return {};
}

/// Every page that is written exists and belongs to one sequence only.
Status validate_pages(const Append& a) {
  if (!a.paged()) return {};
  const PageTable& table = a.cache.pages;
  const std::int64_t pages = a.cache.key.shape[0];
  const int shift = std::countr_zero(static_cast<std::uint64_t>(table.page_size));
  const auto count = [&](std::int64_t keys) { return (keys + table.page_size - 1) >> shift; };
  // A bit for each page that is written, by anyone; then every other entry that holds keys is asked for it.
  std::vector<std::uint64_t> written(static_cast<std::size_t>(pages / 64 + 1));
  const auto bit = [&written](std::int32_t page) -> std::pair<std::uint64_t&, std::uint64_t> {
    return {written[static_cast<std::size_t>(page) / 64], std::uint64_t{1} << (page % 64)};
  };
  const auto entry = [&](std::int64_t b, std::int64_t k) { return table.pages[b * table.stride + k]; };
  const auto twice = [&](std::int64_t b, std::int64_t k) {
    return Status::invalid(text("page ", k, " of sequence ", b, " is ", entry(b, k),
                                ": it would be written and is in use in another place as well"));
  };
  for (std::int64_t b = 0; b < a.sequences(); ++b) {
    const std::int64_t length = a.lengths[static_cast<std::size_t>(b)];
    if (a.new_tokens(b) == 0) continue;
    for (std::int64_t k = length >> shift; k < count(length + a.new_tokens(b)); ++k) {
      if (table.pages == nullptr || entry(b, k) < 0 || entry(b, k) >= pages) {
        return Status::invalid(text("page ", k, " of sequence ", b, " is ",
                                    table.pages == nullptr ? "missing" : text(entry(b, k)), ": key has pages 0 .. ",
                                    pages - 1));
      }
      const auto [word, mask] = bit(entry(b, k));
      if ((word & mask) != 0) return twice(b, k);
      word |= mask;
    }
  }
  for (std::int64_t b = 0; b < a.sequences(); ++b) {
    const std::int64_t length = a.lengths[static_cast<std::size_t>(b)];
    // Those before the first that this sequence writes itself.
    const std::int64_t others = a.new_tokens(b) > 0 ? length >> shift : count(length);
    if (others > 0 && table.pages == nullptr) {
      return Status::invalid(text("pages is null: sequence ", b, " has ", length, " keys"));
    }
    const std::int32_t* const row = table.pages + b * table.stride;
    for (std::int64_t k = 0; k < others; ++k) {
      const auto page = static_cast<std::uint32_t>(row[k]);
      if (page >= static_cast<std::uint64_t>(pages)) continue;  // not ours to judge: attention will
      if ((written[page / 64] >> (page % 64) & 1) != 0) return twice(b, k);
    }
  }
  return {};
}

Status validate_views(const Append& a) {
  const Shape4& key = a.cache.key.shape;
  const std::int64_t heads = key[1];
  const std::int64_t outer = a.paged() ? std::max<std::int64_t>(key[0], 0) : a.sequences();
  const std::int64_t slots = a.paged() ? a.cache.pages.page_size : std::max<std::int64_t>(key[2], 0);
  const std::int64_t token_outer = a.ragged() ? 1 : a.sequences();
  const std::int64_t new_tokens = std::max<std::int64_t>(a.tokens.key.shape[2], 0);
  const DType dtype = a.cache.key.dtype;
  const bool scaled = dtype == DType::int8;
  const auto cache_shape = [&](std::int64_t dim) { return Shape4{outer, heads, slots, dim}; };
  const std::int64_t head_dim = key[3];
  const std::int64_t value_dim = a.cache.value.shape[3];
  std::array<dispatch::Operand, 6> operands{
      {{"key", a.tokens.key, false, a.tokens.key.dtype, {token_outer, heads, new_tokens, head_dim}},
       {"value", a.tokens.value, false, a.tokens.value.dtype, {token_outer, heads, new_tokens, value_dim}},
       {"cache key", a.cache.key, true, dtype, cache_shape(head_dim)},
       {"cache value", a.cache.value, true, dtype, cache_shape(value_dim)},
       {"cache key_scale", a.cache.key_scale, true, DType::float32, cache_shape(1), scaled},
       {"cache value_scale", a.cache.value_scale, true, DType::float32, cache_shape(1), scaled}}};
  return dispatch::validate_operands(operands);
}

/// The new tokens of one sequence, in a tensor shaped like theirs.
template <class Void>
BasicTensorView<Void> tokens_of(const Append& a, BasicTensorView<Void> x, std::int64_t b) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
  x.data = static_cast<Byte*>(x.data) +
           row_offset(x, a.ragged() ? 0 : b, 0, a.first_token(b)) * static_cast<std::int64_t>(size_of(x.dtype));
  x.shape[0] = 1;
  x.shape[2] = a.new_tokens(b);
  return x;
}

/// Rotated keys, in memory of their own, so that nothing is written to the cache before all of them are there.
Status rotate(const Append& a, const PositionEncoding& encoding, std::unique_ptr<std::byte[]>& memory,
              TensorView& key) {
  Shape4 shape = a.tokens.key.shape;
  if (a.ragged()) shape[2] = a.tokens.cu_tokens[a.lengths.size()];  // what lies behind the last sequence stays
  const std::size_t elements = static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]);
  memory = std::make_unique_for_overwrite<std::byte[]>(std::max<std::size_t>(elements * size_of(key.dtype), 1));
  const MutableTensorView rotated(memory.get(), key.dtype, shape);
  for (std::int64_t b = 0; b < a.sequences(); ++b) {
    const Status status = apply(encoding, tokens_of(a, a.tokens.key, b), tokens_of(a, rotated, b),
                                a.lengths[static_cast<std::size_t>(b)]);
    if (!status) return status;
  }
  key = rotated;
  return {};
}

/// One of key and value: runs of rows that are neighbours on both sides.
void write(const Append& a, const TensorView& from, const MutableTensorView& to, const MutableTensorView& scale) {
  const auto from_size = static_cast<std::int64_t>(size_of(from.dtype));
  const auto to_size = static_cast<std::int64_t>(size_of(to.dtype));
  const int shift = a.paged() ? std::countr_zero(static_cast<std::uint64_t>(a.cache.pages.page_size)) : 62;
  const std::int64_t in_page = (std::int64_t{1} << shift) - 1;
  cpu::CacheRows rows{.from_type = from.dtype,
                      .from_stride = from.strides[2],
                      .to_type = to.dtype,
                      .to_stride = to.strides[2],
                      .scale_stride = scale.strides[2],
                      .dim = to.shape[3]};
  for (std::int64_t b = 0; b < a.sequences(); ++b) {
    const std::int64_t length = a.lengths[static_cast<std::size_t>(b)];
    for (std::int64_t i = 0; i < a.new_tokens(b); i += rows.count) {
      const std::int64_t slot = (length + i) & in_page;
      const std::int64_t page = a.paged() ? a.cache.pages.pages[b * a.cache.pages.stride + ((length + i) >> shift)] : b;
      rows.count = std::min(a.new_tokens(b) - i, in_page + 1 - slot);
      for (std::int64_t h = 0; h < to.shape[1]; ++h) {
        rows.from = static_cast<const std::byte*>(from.data) +
                    row_offset(from, a.ragged() ? 0 : b, h, a.first_token(b) + i) * from_size;
        rows.to = static_cast<std::byte*>(to.data) + row_offset(to, page, h, slot) * to_size;
        if (to.dtype == DType::int8) rows.scale = static_cast<float*>(scale.data) + row_offset(scale, page, h, slot);
        cpu::write_rows(rows);
      }
    }
  }
}

}  // namespace

Status append(const KvCacheView& cache, const KvTokens& tokens, std::span<const std::int64_t> lengths,
              const PositionEncoding& encoding) noexcept {
  return dispatch::guarded<Status>([&]() -> Status {
    KvCacheView used_cache = cache;
    KvTokens used_tokens = tokens;
    const Append a{used_cache, used_tokens, lengths};
    for (const auto check : {validate_types, validate_extents, validate_counts, validate_views, validate_pages}) {
      if (Status status = check(a); !status) return status;
    }
    for (TensorView* from : {&used_tokens.key, &used_tokens.value}) dispatch::clear_unused_strides(*from);
    for (MutableTensorView* to : {&used_cache.key, &used_cache.value, &used_cache.key_scale, &used_cache.value_scale}) {
      dispatch::clear_unused_strides(*to);
    }
    TensorView key = used_tokens.key;
    std::unique_ptr<std::byte[]> rotated;
    if (!std::holds_alternative<NoEncoding>(encoding)) {
      if (Status status = rotate(a, encoding, rotated, key); !status) return status;
    }
    write(a, key, used_cache.key, used_cache.key_scale);
    write(a, used_tokens.value, used_cache.value, used_cache.value_scale);
    return {};
  });
}

void read_from(const KvCacheView& cache, std::span<const std::int64_t> lengths, AttentionTensors& tensors) noexcept {
  tensors.key = cache.key;
  tensors.value = cache.value;
  tensors.key_scale = cache.key_scale;
  tensors.value_scale = cache.value_scale;
  tensors.pages = cache.pages;
  tensors.kv_lengths = lengths;
}

}  // namespace siattn
