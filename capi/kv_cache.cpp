// SPDX-License-Identifier: Apache-2.0
#include <siattn/siattn.h>
#include <siattn/kv_cache.hpp>

#include "capi/describe.hpp"
#include "capi/guard.hpp"

namespace siattn::capi {
namespace {

Status copy_cache(const siattn_kv_cache* cache, siattn_kv_cache& to) {
  return copy_descriptor("kv_cache", cache, SIATTN_SIZE_UP_TO(siattn_kv_cache, pages), to);
}

Result<KvCacheView> cache_of(const siattn_kv_cache* cache) {
  siattn_kv_cache c{};
  if (Status status = copy_cache(cache, c); !status) return status;
  KvCacheView view;
  const struct {
    const char* name;
    const siattn_tensor& from;
    MutableTensorView& to;
  } tensors[] = {{"cache.key", c.key, view.key},
                 {"cache.value", c.value, view.value},
                 {"cache.key_scale", c.key_scale, view.key_scale},
                 {"cache.value_scale", c.value_scale, view.value_scale}};
  for (const auto& [name, from, to] : tensors) {
    const auto tensor = view_of(name, from);
    if (!tensor) return tensor.status();
    to = *tensor;
  }
  view.pages = {c.pages.pages, c.pages.stride, c.pages.page_size};
  return view;
}

Result<KvTokens> tokens_of(const siattn_kv_tokens* tokens) {
  siattn_kv_tokens t{};
  Status status = copy_descriptor("kv_tokens", tokens, SIATTN_SIZE_UP_TO(siattn_kv_tokens, cu_tokens), t);
  if (!status) return status;
  const auto key = view_of("tokens.key", t.key);
  if (!key) return key.status();
  const auto value = view_of("tokens.value", t.value);
  if (!value) return value.status();
  const auto cumulative = cumulative_of("cu_tokens", t.cu_tokens);
  if (!cumulative) return cumulative.status();
  return KvTokens{*key, *value, *cumulative};
}

Status append_tokens(const siattn_kv_cache* cache, const siattn_kv_tokens* tokens, const siattn_int64s& lengths,
                     const siattn_encoding* encoding) {
  const auto view = cache_of(cache);
  if (!view) return view.status();
  const auto rows = tokens_of(tokens);
  if (!rows) return rows.status();
  const auto counts = span_of("lengths", lengths);
  if (!counts) return counts.status();
  if (encoding == nullptr) return append(*view, *rows, *counts);
  const auto method = encoding_of(encoding);
  if (!method) return method.status();
  return append(*view, *rows, *counts, *method);
}

/// What read_from() of C++ does, between descriptors.
Status read(const siattn_kv_cache* cache, const siattn_int64s& lengths, siattn_tensors* tensors) {
  siattn_kv_cache c{};
  if (Status status = copy_cache(cache, c); !status) return status;
  siattn_tensors checked{};
  Status status = copy_descriptor("tensors", tensors, SIATTN_SIZE_UP_TO(siattn_tensors, stream), checked);
  if (!status) return status;
  if (const auto counts = span_of("lengths", lengths); !counts) return counts.status();
  tensors->key = c.key;
  tensors->value = c.value;
  tensors->key_scale = c.key_scale;
  tensors->value_scale = c.value_scale;
  tensors->pages = c.pages;
  tensors->kv_lengths = lengths;
  return {};
}

}  // namespace
}  // namespace siattn::capi

siattn_status siattn_kv_append(const siattn_kv_cache* cache, const siattn_kv_tokens* tokens, siattn_int64s lengths,
                               const siattn_encoding* encoding, siattn_message* message) {
  return siattn::capi::guarded(message, [&] { return siattn::capi::append_tokens(cache, tokens, lengths, encoding); });
}

siattn_status siattn_kv_read_from(const siattn_kv_cache* cache, siattn_int64s lengths, siattn_tensors* tensors,
                                  siattn_message* message) {
  return siattn::capi::guarded(message, [&] { return siattn::capi::read(cache, lengths, tensors); });
}
