// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_KV_CACHE_HPP
#define SIATTN_KV_CACHE_HPP

#include <cstdint>
#include <span>

#include <siattn/attention.hpp>
#include <siattn/export.h>
#include <siattn/position_encoding.hpp>

/// Keys and values of the tokens so far, for a server that holds many sequences: in memory that the caller owns, who
/// also decides which page belongs to whom. The library writes new tokens with append() and reads the cache where
/// attention runs; nothing is copied in between.
namespace siattn SIATTN_EXPORT {

/// A cache of one layer.
///
/// Paged: key [pages, kv_heads, page_size, head_dim], value [pages, kv_heads, page_size, value_dim], and a page table.
/// Strides are free but for the innermost (so [pages, page_size, kv_heads, head_dim] memory works as well), pages may be
/// shared between sequences, and offsets are 64-bit throughout.
/// Contiguous (no page table): key [sequences, kv_heads, capacity, head_dim], value likewise.
///
/// Type: float32, bfloat16 or float16; or int8, with key_scale and value_scale of type float32, shaped like key and value
/// but for one element a row: element = scale * int8.
struct KvCacheView {
  MutableTensorView key;
  MutableTensorView value;
  MutableTensorView key_scale = {};
  MutableTensorView value_scale = {};
  PageTable pages = {};
};

/// New tokens of some sequences.
///
/// key [1, kv_heads, tokens, head_dim] and value [1, kv_heads, tokens, value_dim] hold the new tokens of all sequences
/// behind each other, those of sequence b as rows cu_tokens[b] .. cu_tokens[b + 1]; types and strides of their own.
/// Without cu_tokens they are [sequences, kv_heads, n, ..], n new tokens for each.
struct KvTokens {
  TensorView key;
  TensorView value;
  CumulativeLengths cu_tokens = {};
};

/// Writes new tokens behind those that each sequence has: token i of sequence b becomes key lengths[b] + i, at that
/// position. Afterwards sequence b has lengths[b] + (its new tokens); the caller keeps count.
///
/// Values of another type are rounded once to the cache's; float32, bfloat16 and float16 are taken. int8: each row of a
/// head gets scale = max |x| / 127 and the integers nearest to x / scale (by its reciprocal: ties may fall either way),
/// so |error| <= scale (1/2 + 2^-15); a row whose largest element is below 2^-100 becomes 0, one that holds NaN or
/// infinity becomes NaN throughout. With an encoding keys are rotated first, at their positions, and rounded to the
/// type in which they came.
///
/// Errors, before anything is written: wrong shapes, types and strides, pages out of range, a sequence longer than its
/// pages or capacity, a page that would be written and belongs to another sequence as well: the message names the
/// sequence and the index. out_of_memory: some memory is needed to check the pages and to rotate keys.
///
/// Runs in the calling thread. Different calls may run at once where they write different pages.
Status append(const KvCacheView& cache, const KvTokens& tokens, std::span<const std::int64_t> lengths,
              const PositionEncoding& encoding = NoEncoding{}) noexcept;

/// Sets what attention reads: key, value, scales, pages and lengths (after append: with the new tokens). The cache and
/// the lengths must outlive the run.
void read_from(const KvCacheView& cache, std::span<const std::int64_t> lengths, AttentionTensors& tensors) noexcept;

}  // namespace siattn

#endif  // SIATTN_KV_CACHE_HPP
