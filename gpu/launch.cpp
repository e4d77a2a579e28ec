// SPDX-License-Identifier: Apache-2.0
#include "gpu/launch.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "gpu/kernels/shapes.hpp"

namespace siattn::gpu {
namespace {

bool uses_tensor_cores(DType dtype, std::int64_t head_dim, std::int64_t value_dim) noexcept {
  return dtype != DType::float32 && std::max(head_dim, value_dim) <= kMaxTensorCoreDim;
}

/// Every row of the tensor consists of whole 16-byte vectors at multiples of 16 bytes.
bool whole_vectors(const TensorView& x) noexcept {
  const auto vector = static_cast<std::int64_t>(16 / size_of(x.dtype));
  const bool extents = x.strides[0] % vector == 0 && x.strides[1] % vector == 0 && x.strides[2] % vector == 0 &&
                       x.shape[3] % vector == 0;
  return extents && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
}

bool whole_words(const MutableTensorView& x) noexcept {
  const bool even = x.strides[0] % 2 == 0 && x.strides[1] % 2 == 0 && x.strides[2] % 2 == 0 && x.shape[3] % 2 == 0;
  return even && reinterpret_cast<std::uintptr_t>(x.data) % 4 == 0;
}

Rows rows_of(const TensorView& x) noexcept {
  return {x.data, x.strides[1], x.strides[2], x.strides[0], whole_vectors(x)};
}

/// The entry of this kernel for this type and width.
const char* prefill_entry(DType dtype, int width) noexcept {
  if (dtype == DType::bfloat16) {
    return width == 64 ? "siattn_prefill_bf16_64" : width == 96 ? "siattn_prefill_bf16_96" : "siattn_prefill_bf16_128";
  }
  return width == 64 ? "siattn_prefill_f16_64" : width == 96 ? "siattn_prefill_f16_96" : "siattn_prefill_f16_128";
}

const char* decode_entry(DType dtype, int width) noexcept {
  if (dtype == DType::bfloat16) {
    return width == 64 ? "siattn_decode_bf16_64" : width == 96 ? "siattn_decode_bf16_96" : "siattn_decode_bf16_128";
  }
  return width == 64 ? "siattn_decode_f16_64" : width == 96 ? "siattn_decode_f16_96" : "siattn_decode_f16_128";
}

const char* plain_entry(DType dtype, bool wide) noexcept {
  switch (dtype) {
    case DType::bfloat16: return "siattn_plain_bf16_512";  // narrower: tensor cores
    case DType::float16: return "siattn_plain_f16_512";
    default: return wide ? "siattn_plain_f32_512" : "siattn_plain_f32_128";
  }
}

const char* combine_entry(DType dtype) noexcept {
  switch (dtype) {
    case DType::bfloat16: return "siattn_combine_bf16";
    case DType::float16: return "siattn_combine_f16";
    default: return "siattn_combine_f32";
  }
}

const char* fill_entry(DType dtype) noexcept {
  return dtype == DType::float32 ? "siattn_fill_f32" : "siattn_fill_16";  // zeros of both 16-bit types are the same
}

/// A kernel of four bytes' worth of constants, by width.
template <template <int> class Shape>
Launch shaped(const char* entry, std::int64_t blocks, int width) noexcept {
  const int bytes = width == 64   ? Shape<64>::kSharedBytes
                    : width == 96 ? Shape<96>::kSharedBytes
                                  : Shape<128>::kSharedBytes;
  return {entry, blocks, Shape<64>::kThreads, bytes};
}

int prefill_queries(int width) noexcept {
  return width == 64 ? PrefillShape<64>::kQueries : PrefillShape<128>::kQueries;
}
static_assert(PrefillShape<96>::kQueries == PrefillShape<128>::kQueries);

}  // namespace

Status supported_by_kernels(const AttentionProblem& problem) {
  if (problem.dtype == DType::float64) {
    return {StatusCode::unsupported, "dtype = f64: backend cuda computes in float32; use the backend reference"};
  }
  if (problem.kv_dtype.value_or(problem.dtype) != problem.dtype) {
    return {StatusCode::unsupported, "kv_dtype = " + std::string(name_of(*problem.kv_dtype)) +
                                         ": backend cuda takes keys and values of the type of query"};
  }
  const std::int64_t dim = std::max(problem.shape.head_dim, problem.shape.value_dim);
  if (dim > kMaxDim) {
    const bool head = problem.shape.head_dim > kMaxDim;
    return {StatusCode::unsupported, std::string(head ? "head_dim = " : "value_dim = ") +
                                         std::to_string(head ? problem.shape.head_dim : problem.shape.value_dim) +
                                         ": backend cuda takes up to " + std::to_string(kMaxDim) +
                                         "; use the backend reference"};
  }
  const std::int64_t rows = problem.shape.query_heads / problem.shape.kv_heads * problem.shape.query_len;
  if (rows > kMaxLength) {
    return {StatusCode::unsupported, "query_len = " + std::to_string(problem.shape.query_len) +
                                         ": backend cuda takes " + std::to_string(kMaxLength) +
                                         " query rows for a kv head, not " + std::to_string(rows)};
  }
  if (problem.shape.kv_len > kMaxLength) {
    return {StatusCode::unsupported, "kv_len = " + std::to_string(problem.shape.kv_len) +
                                         ": backend cuda takes up to " + std::to_string(kMaxLength)};
  }
  return {};
}

std::vector<Entry> device_tables(const LogitTables& tables, std::int64_t query_heads) {
  const std::int64_t entries = std::max<std::int64_t>(tables.t_max - tables.t_min + 1, 0);
  const std::int64_t heads = tables.scales_per_head || tables.shifts_per_head ? query_heads : 1;
  std::vector<Entry> list;
  list.reserve(static_cast<std::size_t>(heads * entries));
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t i = 0; i < entries; ++i) list.push_back({tables.scale(h)[i], tables.shift(h)[i]});
  }
  return list;
}

Sequence sequence_of(const PreparedAttention& problem, const AttentionTensors& tensors, std::int64_t b) noexcept {
  const SequenceBounds bounds = sequence_bounds(problem, tensors, b);
  Sequence s;
  s.query = query_rows(tensors, tensors.query, b, 0).base;
  s.key = kv_rows(tensors, tensors.key, b, 0).base;
  s.value = kv_rows(tensors, tensors.value, b, 0).base;
  s.out = query_rows(tensors, tensors.out, b, 0).base;
  s.lse = tensors.lse.data == nullptr ? 0 : query_rows(tensors, tensors.lse, b, 0).base;
  s.query_offset = bounds.query_offset;
  s.query_len = static_cast<std::int32_t>(bounds.query_len);
  s.query_rows = static_cast<std::int32_t>(tensors.cu_query.empty() ? problem.shape.query_len : bounds.query_len);
  s.kv_len = static_cast<std::int32_t>(bounds.kv_len);
  return s;
}

std::vector<Sequence> sequences_of(const PreparedAttention& problem, const AttentionTensors& tensors) {
  const std::int64_t count = sequences(problem, tensors);
  std::vector<Sequence> list;
  list.reserve(static_cast<std::size_t>(count) + 1);
  for (std::int64_t b = 0; b < count; ++b) list.push_back(sequence_of(problem, tensors, b));
  if (tensors.cu_query.empty()) return list;
  // Tokens that belong to nobody: rows of a sequence without queries.
  const std::int64_t used = tensors.cu_query[static_cast<std::size_t>(count)];
  if (used == tensors.out.shape[2]) return list;
  Sequence rest;
  rest.out = used * tensors.out.strides[2];
  rest.lse = used * tensors.lse.strides[2];
  rest.query_rows = static_cast<std::int32_t>(tensors.out.shape[2] - used);
  list.push_back(rest);
  return list;
}

std::vector<std::int32_t> pages_of(const AttentionTensors& tensors, std::span<Sequence> sequences) {
  std::vector<std::int32_t> pages;
  const PageTable& table = tensors.pages;
  if (table.empty()) return pages;
  for (std::size_t b = 0; b < tensors.kv_lengths.size(); ++b) {
    sequences[b].pages = static_cast<std::int64_t>(pages.size());
    const std::int32_t* const first = table.pages + static_cast<std::int64_t>(b) * table.stride;
    pages.insert(pages.end(), first, first + divide_up<std::int64_t>(sequences[b].kv_len, table.page_size));
  }
  return pages;
}

std::int64_t state_bytes(const Forward& f) noexcept {
  if (f.max_splits == 1) return 0;
  const std::int64_t slots = std::int64_t{f.batch} * f.query_heads * f.state_rows * f.max_splits;
  return slots * (f.value_dim + 2) * static_cast<std::int64_t>(sizeof(float));
}

Forward forward_of(const PreparedAttention& problem, const AttentionTensors& tensors,
                   std::span<const Sequence> sequences, const DeviceArrays& arrays) noexcept {
  const AttentionShape& shape = problem.shape;
  const std::int64_t group = shape.query_heads / shape.kv_heads;
  const bool tensor_cores = uses_tensor_cores(problem.dtype, shape.head_dim, shape.value_dim);
  const LogitTables& tables = *problem.tables;
  Forward f;
  f.query = rows_of(tensors.query);
  f.key = rows_of(tensors.key);
  f.value = rows_of(tensors.value);
  f.out = {tensors.out.data, tensors.out.strides[1], tensors.out.strides[2], whole_words(tensors.out)};
  f.lse = {tensors.lse.data, tensors.lse.strides[1], tensors.lse.strides[2], false};
  f.sequences = arrays.sequences;
  f.batch = static_cast<std::int32_t>(sequences.size());
  f.query_heads = static_cast<std::int32_t>(shape.query_heads);
  f.kv_heads = static_cast<std::int32_t>(shape.kv_heads);
  f.head_dim = static_cast<std::int32_t>(shape.head_dim);
  f.value_dim = static_cast<std::int32_t>(shape.value_dim);
  f.pages = arrays.pages;
  if (!tensors.pages.empty()) {
    f.page_shift = std::countr_zero(static_cast<std::uint64_t>(tensors.pages.page_size));
  }
  f.causal = problem.options.mask == Mask::causal;
  f.window = std::min(problem.options.window.value_or(kNoWindow), kNoWindow);
  f.sinks = static_cast<std::int32_t>(std::min<std::int64_t>(problem.options.n_sink, shape.kv_len));
  f.sink_scale = tables.sink_scale;
  f.tables = arrays.tables;
  f.entries = std::max<std::int64_t>(tables.t_max - tables.t_min + 1, 0);
  f.t_max = tables.t_max;
  f.tables_per_head = tables.scales_per_head || tables.shifts_per_head;
  f.row_factors = arrays.row_factors;
  f.row_factor_count = tables.row_factor_count;
  f.row_factors_per_head = tables.row_factors_per_head;
  const int tile = prefill_queries(tensor_core_width(f.head_dim, f.value_dim));
  for (const Sequence& s : sequences) {
    if (s.query_rows > s.query_len) f.fill_rows = std::max(f.fill_rows, s.query_rows);
    if (s.query_len == 0) continue;
    if (tensor_cores && !decodes(s.query_len, group)) {
      f.query_tiles = std::max(f.query_tiles, divide_up(s.query_len, tile));
      continue;
    }
    const std::int64_t blocks = divide_up<std::int64_t>(s.query_len * group, kPackedRows);
    f.row_blocks = std::max(f.row_blocks, static_cast<std::int32_t>(blocks));
    const Splits splits = splits_of(f.causal, f.window, s, group);
    f.max_splits = std::max(f.max_splits, splits.count);
    if (splits.count > 1) f.state_rows = std::max(f.state_rows, s.query_len);
  }
  if (arrays.states != nullptr) {
    const std::int64_t slots = std::int64_t{f.batch} * f.query_heads * f.state_rows * f.max_splits;
    f.state_max = static_cast<float*>(arrays.states);
    f.state_sum = f.state_max + slots;
    f.state_out = f.state_sum + slots;
  }
  return f;
}

Status launches_of(const Forward& f, DType dtype, Launches* launches) {
  const bool tensor_cores = uses_tensor_cores(dtype, f.head_dim, f.value_dim);
  const int width = tensor_core_width(f.head_dim, f.value_dim);
  const std::int64_t heads = std::int64_t{f.batch} * f.query_heads;
  const std::int64_t packed = std::int64_t{f.batch} * f.kv_heads * f.row_blocks * f.max_splits;
  *launches = {};
  const auto add = [&](const Launch& launch) {
    if (launch.blocks > 0) launches->list[static_cast<std::size_t>(launches->count++)] = launch;
  };
  add({fill_entry(dtype), divide_up<std::int64_t>(heads * f.fill_rows, kRowThreads), kRowThreads, 0});
  if (tensor_cores) {
    if (f.query_tiles > 0) launches->prefill = launches->count;
    add(shaped<PrefillShape>(prefill_entry(dtype, width), heads * f.query_tiles, width));
    add(shaped<DecodeShape>(decode_entry(dtype, width), packed, width));
  } else {
    const bool wide = std::max(f.head_dim, f.value_dim) > 128;
    add({plain_entry(dtype, wide), packed, PlainShape::kThreads, PlainShape::shared_bytes(f.head_dim)});
  }
  if (f.max_splits > 1) add({combine_entry(dtype), heads * f.state_rows, kRowThreads, 0});
  for (const Launch& launch : *launches) {
    if (launch.blocks > std::numeric_limits<std::int32_t>::max()) {
      return {StatusCode::unsupported,
              "backend cuda: " + std::to_string(launch.blocks) + " blocks of " + launch.entry + " are beyond 2^31 - 1"};
    }
  }
  return {};
}

}  // namespace siattn::gpu
