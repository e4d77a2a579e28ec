// SPDX-License-Identifier: Apache-2.0
#include "verify/problem_data.hpp"

#include <cmath>
#include <cstring>
#include <limits>

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
    case DType::int8: return put(static_cast<std::int8_t>(std::lround(value)));
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
    : problem_(problem), guard_(placement.guard) {
  const AttentionShape& s = problem.shape;
  query = GuardedTensor(problem.dtype, {s.batch, s.query_heads, s.query_len, s.head_dim}, placement, "query");
  key = GuardedTensor(problem.dtype, {s.batch, s.kv_heads, s.kv_len, s.head_dim}, placement, "key");
  value = GuardedTensor(problem.dtype, {s.batch, s.kv_heads, s.kv_len, s.value_dim}, placement, "value");
  out = GuardedTensor(problem.dtype, {s.batch, s.query_heads, s.query_len, s.value_dim}, placement, "out");
  lse = GuardedTensor(problem.dtype == DType::float64 ? DType::float64 : DType::float32,
                      {s.batch, s.query_heads, s.query_len, 1}, placement, "lse");
}

void ProblemData::fill(const Fill& query_fill, const Fill& key_fill, const Fill& value_fill) {
  const auto fill_one = [](GuardedTensor& tensor, const Fill& f) {
    const Shape4 shape = tensor.view().shape;
    for (std::int64_t b = 0; b < shape[0]; ++b) {
      for (std::int64_t h = 0; h < shape[1]; ++h) {
        for (std::int64_t i = 0; i < shape[2]; ++i) {
          for (std::int64_t d = 0; d < shape[3]; ++d) tensor.set(b, h, i, d, f(b, h, i, d));
        }
      }
    }
  };
  fill_one(query, query_fill);
  fill_one(key, key_fill);
  fill_one(value, value_fill);
}

void ProblemData::fill_gaussian(std::uint64_t seed) {
  const auto gaussian = [seed](std::uint32_t stream, const Shape4& shape) -> Fill {
    return [random = Random(seed, stream), shape](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) {
      const std::int64_t index = ((b * shape[1] + h) * shape[2] + i) * shape[3] + d;
      return random.gaussian(static_cast<std::uint64_t>(index));
    };
  };
  fill(gaussian(1, query.view().shape), gaussian(2, key.view().shape), gaussian(3, value.view().shape));
}

void ProblemData::fill_h_inputs() {
  const auto zero = [](std::int64_t, std::int64_t, std::int64_t, std::int64_t) { return 0.0; };
  fill(zero, zero, [](std::int64_t, std::int64_t, std::int64_t j, std::int64_t) { return static_cast<double>(j); });
}

AttentionTensors ProblemData::tensors() {
  AttentionTensors tensors;
  tensors.query = query.view();
  tensors.key = key.view();
  tensors.value = value.view();
  tensors.out = out.view();
  tensors.lse = lse.view();
  tensors.query_lengths = query_lengths;
  tensors.kv_lengths = kv_lengths;
  if (guard_ == Guard::bytes) return tensors;
  const auto between_pages = [this](const char* name, const std::vector<std::int64_t>& lengths, GuardedMemory& memory) {
    const std::size_t bytes = lengths.size() * sizeof(std::int64_t);
    memory = GuardedMemory(name, bytes, guard_);
    if (bytes > 0) std::memcpy(memory.data(), lengths.data(), bytes);
    return std::span(reinterpret_cast<const std::int64_t*>(memory.data()), lengths.size());
  };
  tensors.query_lengths = between_pages("query_lengths", query_lengths, guarded_query_lengths_);
  tensors.kv_lengths = between_pages("kv_lengths", kv_lengths, guarded_kv_lengths_);
  return tensors;
}

void ProblemData::clear_outputs() {
  out.clear();
  lse.clear();
}

bool ProblemData::intact() const {
  return query.intact() && key.intact() && value.intact() && out.intact() && lse.intact();
}

}  // namespace siattn::verify
