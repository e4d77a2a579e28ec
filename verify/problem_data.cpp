// SPDX-License-Identifier: Apache-2.0
#include "verify/problem_data.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "reference/attention.hpp"
#include "verify/random.hpp"

namespace siattn::verify {
namespace {

constexpr std::size_t kGuardBytes = 256;
constexpr std::byte kGuard{0xFF};  // 0xFF..FF is a NaN in every floating-point type

void store(std::byte* at, DType dtype, double value) {
  const auto put = [at](auto rounded) { std::memcpy(at, &rounded, sizeof(rounded)); };
  switch (dtype) {
    case DType::float32: return put(static_cast<float>(value));
    case DType::float64: return put(value);
    case DType::bfloat16: return put(to_bfloat16(value));
    case DType::float16: return put(to_float16(value));
  }
}

Shape4 strides_of(const Shape4& shape, const Placement& placement) {
  const std::int64_t row = shape[3] + placement.row_padding;
  if (placement.heads_inside) return {shape[2] * shape[1] * row, row, shape[1] * row, 1};
  return {shape[1] * shape[2] * row, shape[2] * row, row, 1};
}

}  // namespace

GuardedTensor::GuardedTensor(DType dtype, const Shape4& shape, const Placement& placement)
    : dtype_(dtype), shape_(shape), strides_(strides_of(shape, placement)) {
  const std::size_t elements =
      static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * (shape[3] + placement.row_padding));
  memory_.assign(2 * kGuardBytes + 128 + elements * size_of(dtype), kGuard);
  const auto base = reinterpret_cast<std::uintptr_t>(memory_.data());
  const std::uintptr_t aligned = (base + kGuardBytes + 63) / 64 * 64;
  start_ = aligned - base + static_cast<std::size_t>(placement.misalignment) * size_of(dtype);
}

MutableTensorView GuardedTensor::view() noexcept { return {memory_.data() + start_, dtype_, shape_, strides_}; }

void GuardedTensor::set(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d, double value) {
  const std::int64_t offset = row_offset(view(), b, h, i) + d;
  store(memory_.data() + start_ + static_cast<std::size_t>(offset) * size_of(dtype_), dtype_, value);
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
        visit(start_ + static_cast<std::size_t>(offset) * size_of(dtype_),
              static_cast<std::size_t>(shape_[3]) * size_of(dtype_));
      }
    }
  }
}

void GuardedTensor::clear() { std::fill(memory_.begin(), memory_.end(), kGuard); }

bool GuardedTensor::intact() const {
  std::vector<std::byte> copy = memory_;
  for_each_row([&copy](std::size_t at, std::size_t bytes) { std::memset(copy.data() + at, 0xFF, bytes); });
  return std::all_of(copy.begin(), copy.end(), [](std::byte x) { return x == kGuard; });
}

std::vector<std::byte> GuardedTensor::bits() const {
  std::vector<std::byte> result;
  for_each_row([&](std::size_t at, std::size_t bytes) {
    result.insert(result.end(), memory_.begin() + static_cast<std::ptrdiff_t>(at),
                  memory_.begin() + static_cast<std::ptrdiff_t>(at + bytes));
  });
  return result;
}

ProblemData::ProblemData(const AttentionProblem& problem, const Placement& placement) : problem_(problem) {
  const AttentionShape& s = problem.shape;
  query = GuardedTensor(problem.dtype, {s.batch, s.query_heads, s.query_len, s.head_dim}, placement);
  key = GuardedTensor(problem.dtype, {s.batch, s.kv_heads, s.kv_len, s.head_dim}, placement);
  value = GuardedTensor(problem.dtype, {s.batch, s.kv_heads, s.kv_len, s.value_dim}, placement);
  out = GuardedTensor(problem.dtype, {s.batch, s.query_heads, s.query_len, s.value_dim}, placement);
  lse = GuardedTensor(problem.dtype == DType::float64 ? DType::float64 : DType::float32,
                      {s.batch, s.query_heads, s.query_len, 1}, placement);
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
