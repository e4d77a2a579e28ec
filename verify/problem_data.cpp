// SPDX-License-Identifier: Apache-2.0
#include "verify/problem_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <siattn/backend.hpp>

#include "reference/attention.hpp"
#include "verify/random.hpp"

namespace siattn::verify {
namespace {

void store(std::byte* at, DType dtype, double value) {
  const auto put = [at](auto rounded) { std::memcpy(at, &rounded, sizeof(rounded)); };
  switch (dtype) {
    case DType::float32: return put(static_cast<float>(value));
    case DType::float64: return put(value);
    case DType::bfloat16: return put(to_bfloat16(value));
    case DType::float16: return put(to_float16(value));
    case DType::int8: return put(static_cast<std::int8_t>(std::lround(std::clamp(value, -127.0, 127.0))));
  }
}

Shape4 strides_of(const Shape4& shape, const Placement& placement) {
  const std::int64_t row = shape[3] + placement.row_padding;
  if (placement.heads_inside) return {shape[2] * shape[1] * row, row, shape[1] * row, 1};
  return {shape[1] * shape[2] * row, shape[2] * row, row, 1};
}

}  // namespace

GuardedTensor::GuardedTensor(DType dtype, const Shape4& shape, const Placement& placement, const char* name)
    : dtype_(dtype), shape_(shape), strides_(strides_of(shape, placement)) {
  const std::int64_t rows = shape[0] * shape[1] * shape[2];
  // The gap behind the last row is no part of the tensor.
  const std::int64_t gap = rows > 0 && placement.guard != Guard::bytes ? placement.row_padding : 0;
  const auto elements = static_cast<std::size_t>(rows * (shape[3] + placement.row_padding) - gap);
  memory_ = GuardedMemory(name, elements * size_of(dtype), placement.guard,
                          static_cast<std::size_t>(placement.misalignment) * size_of(dtype));
}

MutableTensorView GuardedTensor::view() noexcept { return {memory_.data(), dtype_, shape_, strides_}; }

void GuardedTensor::set(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d, double value) {
  const std::int64_t offset = row_offset(view(), b, h, i) + d;
  store(memory_.data() + static_cast<std::size_t>(offset) * size_of(dtype_), dtype_, value);
}

void GuardedTensor::set_row(std::int64_t offset, double* scale, const std::function<double(std::int64_t)>& value) {
  double largest = 0;
  if (dtype_ == DType::int8) {
    for (std::int64_t d = 0; d < shape_[3]; ++d) {
      const double x = std::abs(value(d));
      if (!(x <= largest)) largest = x;  // a NaN stays
    }
    *scale = static_cast<float>(largest / 127);
  }
  for (std::int64_t d = 0; d < shape_[3]; ++d) {
    const double x = dtype_ == DType::int8 ? (largest > 0 && std::isfinite(largest) ? value(d) / *scale : 0) : value(d);
    store(memory_.data() + static_cast<std::size_t>(offset + d) * size_of(dtype_), dtype_, x);
  }
}

double GuardedTensor::get(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) const {
  return reference::element<double>(view(), b, h, i, d);
}

template <class Visit>
void GuardedTensor::for_each_row(Visit visit) const {
  for (std::int64_t b = 0; b < shape_[0]; ++b) {
    for (std::int64_t h = 0; h < shape_[1]; ++h) {
      for (std::int64_t i = 0; i < shape_[2]; ++i) {
        const std::int64_t offset = b * strides_[0] + h * strides_[1] + i * strides_[2];
        visit(memory_.start() + static_cast<std::size_t>(offset) * size_of(dtype_),
              static_cast<std::size_t>(shape_[3]) * size_of(dtype_));
      }
    }
  }
}

void GuardedTensor::clear() { std::fill_n(memory_.all().data(), memory_.all().size(), std::byte{0xFF}); }

bool GuardedTensor::intact() const {
  std::vector<std::byte> copy(memory_.all().begin(), memory_.all().end());
  for_each_row([&copy](std::size_t at, std::size_t bytes) { std::memset(copy.data() + at, 0xFF, bytes); });
  return std::all_of(copy.begin(), copy.end(), [](std::byte x) { return x == std::byte{0xFF}; });
}

std::vector<std::byte> GuardedTensor::bits() const {
  std::vector<std::byte> result;
  for_each_row([&](std::size_t at, std::size_t bytes) {
    const auto row = memory_.all().subspan(at, bytes);
    result.insert(result.end(), row.begin(), row.end());
  });
  return result;
}

ProblemData::ProblemData(const AttentionProblem& problem, const Placement& placement)
    : ProblemData(problem, placement, {}, {}, {}) {}

ProblemData::ProblemData(const AttentionProblem& problem, const Placement& placement, const Batching& batching,
                         std::vector<std::int64_t> query_lengths_, std::vector<std::int64_t> kv_lengths_)
    : query_lengths(std::move(query_lengths_)),
      kv_lengths(std::move(kv_lengths_)),
      problem_(problem),
      guard_(placement.guard),
      batching_(batching) {
  const AttentionShape& s = problem.shape;
  cu_query_ = {0};
  cu_kv_ = {0};
  for (std::int64_t b = 0; b < s.batch; ++b) {
    cu_query_.push_back(cu_query_.back() + query_len(b));
    cu_kv_.push_back(cu_kv_.back() + static_cast<std::int32_t>(kv_len(b)));
  }
  if (batching_.page_size > 0) hand_out_pages();
  Shape4 queries{s.batch, s.query_heads, s.query_len, 0};
  if (batching_.ragged_queries) queries = {1, s.query_heads, cu_query_.back() + batching_.spare_tokens, 0};
  Shape4 keys{s.batch, s.kv_heads, s.kv_len, 0};
  if (batching_.ragged_keys) keys = {1, s.kv_heads, cu_kv_.back() + batching_.spare_tokens, 0};
  if (batching_.page_size > 0) keys = {page_count_, s.kv_heads, batching_.page_size, 0};
  const auto with_dim = [](Shape4 shape, std::int64_t dim) {
    shape[3] = dim;
    return shape;
  };
  const DType kv = problem.kv_dtype.value_or(problem.dtype);
  query = GuardedTensor(problem.dtype, with_dim(queries, s.head_dim), placement, "query");
  key = GuardedTensor(kv, with_dim(keys, s.head_dim), placement, "key");
  value = GuardedTensor(kv, with_dim(keys, s.value_dim), placement, "value");
  if (kv == DType::int8) {
    key_scale = GuardedTensor(DType::float32, with_dim(keys, 1), placement, "key_scale");
    value_scale = GuardedTensor(DType::float32, with_dim(keys, 1), placement, "value_scale");
  }
  out = GuardedTensor(problem.dtype, with_dim(queries, s.value_dim), placement, "out");
  lse = GuardedTensor(problem.dtype == DType::float64 ? DType::float64 : DType::float32, with_dim(queries, 1), placement,
                      "lse");
}

std::int64_t ProblemData::query_len(std::int64_t b) const {
  return query_lengths.empty() ? problem_.shape.query_len : query_lengths[static_cast<std::size_t>(b)];
}
std::int64_t ProblemData::kv_len(std::int64_t b) const {
  return kv_lengths.empty() ? problem_.shape.kv_len : kv_lengths[static_cast<std::size_t>(b)];
}

/// Page numbers go up by a step that is prime to their number: neighbours lie apart, and every third page is nobody's.
/// What the table holds behind a sequence's last page must not be looked at.
void ProblemData::hand_out_pages() {
  const std::int64_t size = batching_.page_size;
  const auto pages_of = [size](std::int64_t keys) { return (keys + size - 1) / size; };
  std::int64_t used = 0;
  std::int64_t shortest = problem_.shape.kv_len;
  for (std::int64_t b = 0; b < problem_.shape.batch; ++b) {
    pages_a_sequence_ = std::max(pages_a_sequence_, pages_of(kv_len(b)) + 1);
    used += pages_of(kv_len(b));
    if (kv_len(b) > 0) shortest = std::min(shortest, kv_len(b));
  }
  page_count_ = used + used / 2 + 3;
  std::int64_t step = page_count_ / 2 + 1;
  while (std::gcd(step, page_count_) != 1) ++step;
  std::int64_t next = 0;
  const auto take = [&] { return static_cast<std::int32_t>(next++ * step % page_count_); };
  const std::int64_t shared = batching_.shared_pages ? shortest / size : 0;
  std::vector<std::int32_t> common(static_cast<std::size_t>(shared));
  for (std::int32_t& page : common) page = take();
  for (std::int64_t b = 0; b < problem_.shape.batch; ++b) {
    for (std::int64_t k = 0; k < pages_a_sequence_; ++k) {
      const bool in_use = k < pages_of(kv_len(b));
      pages_.push_back(!in_use ? -1 : k < shared ? common[static_cast<std::size_t>(k)] : take());
    }
  }
}

void ProblemData::fill(const Fill& query_fill, const Fill& key_fill, const Fill& value_fill) {
  const AttentionTensors t = tensors();
  const AttentionShape& s = problem_.shape;
  const bool all_queries = !batching_.ragged_queries;
  const bool all_keys = !batching_.ragged_keys && batching_.page_size == 0;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.query_heads; ++h) {
      const RowOffsets rows = query_rows(t, t.query, b, h);
      for (std::int64_t i = 0; i < (all_queries ? s.query_len : query_len(b)); ++i) {
        query.set_row(rows.offset(i), nullptr, [&](std::int64_t d) { return query_fill(b, h, i, d); });
      }
    }
    const auto fill_kv = [&](GuardedTensor& tensor, const TensorView& view, GuardedTensor& scale,
                             const TensorView& scale_view, const Fill& f) {
      for (std::int64_t h = 0; h < s.kv_heads; ++h) {
        const RowOffsets rows = kv_rows(t, view, b, h);
        const RowOffsets scales = kv_rows(t, scale_view, b, h);
        for (std::int64_t j = 0; j < (all_keys ? s.kv_len : kv_len(b)); ++j) {
          double row_scale = 0;
          tensor.set_row(rows.offset(j), &row_scale, [&](std::int64_t d) { return f(b, h, j, d); });
          if (view.dtype == DType::int8) {
            scale.set_row(scales.offset(j), nullptr, [&](std::int64_t) { return row_scale; });
          }
        }
      }
    };
    fill_kv(key, t.key, key_scale, t.key_scale, key_fill);
    fill_kv(value, t.value, value_scale, t.value_scale, value_fill);
  }
}

void ProblemData::fill_gaussian(std::uint64_t seed) {
  const auto gaussian = [seed](std::uint32_t stream, const Shape4& shape) -> Fill {
    return [random = Random(seed, stream), shape](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) {
      const std::int64_t index = ((b * shape[1] + h) * shape[2] + i) * shape[3] + d;
      return random.gaussian(static_cast<std::uint64_t>(index));
    };
  };
  const AttentionShape& s = problem_.shape;
  fill(gaussian(1, {s.batch, s.query_heads, s.query_len, s.head_dim}),
       gaussian(2, {s.batch, s.kv_heads, s.kv_len, s.head_dim}),
       gaussian(3, {s.batch, s.kv_heads, s.kv_len, s.value_dim}));
}

void ProblemData::fill_h_inputs() {
  const auto zero = [](std::int64_t, std::int64_t, std::int64_t, std::int64_t) { return 0.0; };
  fill(zero, zero, [](std::int64_t, std::int64_t, std::int64_t j, std::int64_t) { return static_cast<double>(j); });
}

template <class T>
std::span<const T> ProblemData::between_guards(const char* name, const std::vector<T>& values) {
  if (guard_ == Guard::bytes) return values;
  const std::size_t bytes = values.size() * sizeof(T);
  GuardedMemory& memory = guarded_.emplace_back(name, bytes, guard_);
  if (bytes > 0) std::memcpy(memory.data(), values.data(), bytes);
  return std::span(reinterpret_cast<const T*>(memory.data()), values.size());
}

AttentionTensors ProblemData::tensors() {
  AttentionTensors tensors;
  tensors.query = query.view();
  tensors.key = key.view();
  tensors.value = value.view();
  tensors.key_scale = key_scale.view();
  tensors.value_scale = value_scale.view();
  tensors.out = out.view();
  tensors.lse = lse.view();
  guarded_.clear();
  if (batching_.ragged_queries) {
    tensors.cu_query = between_guards("cu_query", cu_query_);
  } else {
    tensors.query_lengths = between_guards("query_lengths", query_lengths);
  }
  if (batching_.page_size > 0) {
    tensors.pages = {between_guards("the page table", pages_).data(), pages_a_sequence_, batching_.page_size};
    if (kv_lengths.empty()) kv_lengths.assign(static_cast<std::size_t>(problem_.shape.batch), problem_.shape.kv_len);
  }
  if (batching_.ragged_keys) {
    tensors.cu_kv = between_guards("cu_kv", cu_kv_);
  } else {
    tensors.kv_lengths = between_guards("kv_lengths", kv_lengths);
  }
  tensors.query_offsets = between_guards("query_offsets", batching_.query_offsets);
  return tensors;
}

std::vector<std::byte> ProblemData::output_bits() {
  const AttentionTensors t = tensors();
  std::vector<std::byte> bits;
  for (const TensorView& view : {TensorView(t.out), TensorView(t.lse)}) {
    const std::size_t size = size_of(view.dtype);
    for (std::int64_t b = 0; b < problem_.shape.batch; ++b) {
      for (std::int64_t h = 0; h < problem_.shape.query_heads; ++h) {
        const RowOffsets rows = query_rows(t, view, b, h);
        for (std::int64_t i = 0; i < query_len(b); ++i) {
          const auto* row = static_cast<const std::byte*>(view.data) + rows.offset(i) * static_cast<std::int64_t>(size);
          bits.insert(bits.end(), row, row + static_cast<std::size_t>(view.shape[3]) * size);
        }
      }
    }
  }
  return bits;
}

void ProblemData::clear_outputs() {
  out.clear();
  lse.clear();
}

bool ProblemData::intact() const {
  return query.intact() && key.intact() && value.intact() && key_scale.intact() && value_scale.intact() &&
         out.intact() && lse.intact();
}

}  // namespace siattn::verify
