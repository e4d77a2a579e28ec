// SPDX-License-Identifier: Apache-2.0
#include "verify/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "verify/bounds.hpp"

namespace siattn::verify {
namespace {

/// Largest finite number of a type: exact results near it may round to infinity.
double largest_of(DType dtype) {
  switch (dtype) {
    case DType::float32: return 0x1.fffffep127;
    case DType::float64: return 0x1.fffffffffffffp1023;
    case DType::bfloat16: return 0x1.fep127;
    case DType::float16: return 65504;
    case DType::int8: break;
  }
  return 0;
}

/// At most 1 within the bound; infinity for a mismatch that no bound excuses.
double error_ratio(double computed, double exact, const Tolerance& tolerance, double largest) {
  constexpr double kMismatch = std::numeric_limits<double>::infinity();
  if (std::isnan(exact)) return std::isnan(computed) ? 0 : kMismatch;
  if (std::isinf(exact)) return computed == exact ? 0 : kMismatch;
  if (std::isnan(computed)) return kMismatch;
  if (std::isinf(computed)) {
    return std::abs(exact) + tolerance.total() >= largest && computed * exact > 0 ? 0 : kMismatch;
  }
  const double excess = std::abs(computed - exact) - tolerance.rounding;
  if (excess <= 0) return 0;
  return tolerance.arithmetic > 0 ? excess / tolerance.arithmetic : kMismatch;
}

class RowComparer {
 public:
  RowComparer(const AttentionProblem& problem, const AttentionTensors& tensors, const Numerics& numerics)
      : problem_(problem),
        tensors_(tensors),
        numerics_(numerics),
        transform_(problem.options, problem.shape),
        scores_(problem.shape.kv_len),
        logits_(problem.shape.kv_len),
        weights_(problem.shape.kv_len),
        out_(problem.shape.value_dim) {}

  void compare(std::int64_t b, std::int64_t h, std::int64_t i) {
    reference::Row<double> row{scores_, logits_, weights_, out_};
    attention_row(problem_.shape, problem_.options, transform_, tensors_, b, h, i, row);
    const RowBound bound = forward_bound(problem_, tensors_, transform_, numerics_, b, h, i, row);
    for (std::int64_t c = 0; c < problem_.shape.value_dim; ++c) {
      const auto k = static_cast<std::size_t>(c);
      element(reference::query_element<double>(tensors_, tensors_.out, b, h, i, c), out_[k], bound.out[k], tensors_.out.dtype,
              {b, h, i, c});
    }
    if (tensors_.lse.data != nullptr) {
      element(reference::query_element<double>(tensors_, tensors_.lse, b, h, i, 0), row.lse, bound.lse, tensors_.lse.dtype,
              {b, h, i, -1});
    }
  }

  /// A token behind the last sequence: a row that sees no key.
  void compare_unused(std::int64_t h, std::int64_t i) {
    for (std::int64_t c = 0; c < problem_.shape.value_dim; ++c) {
      element(reference::element<double>(tensors_.out, 0, h, i, c), 0, {}, tensors_.out.dtype, {0, h, i, c});
    }
    if (tensors_.lse.data == nullptr) return;
    element(reference::element<double>(tensors_.lse, 0, h, i, 0), -std::numeric_limits<double>::infinity(), {},
            tensors_.lse.dtype, {0, h, i, -1});
  }

  Comparison result;

 private:
  void element(double computed, double exact, const Tolerance& tolerance, DType dtype, const Shape4& at) {
    ++result.elements;
    if (!tolerance.promised) {
      ++result.unpromised;
      return;
    }
    const double ratio = error_ratio(computed, exact, tolerance, largest_of(dtype));
    if (ratio > result.worst_ratio) {
      result.worst_ratio = ratio;
      result.worst_error = std::abs(computed - exact);
      result.worst_at = at;
    }
    if (ratio <= 1) return;
    if (result.failures++ == 0) {
      result.first_failure = fmt::format("{} = {:.9g}: the reference has {:.9g} and allows {:.3g}", element_name(at),
                                         computed, exact, tolerance.total());
    }
  }

  const AttentionProblem& problem_;
  const AttentionTensors& tensors_;
  const Numerics& numerics_;
  reference::Transform<double> transform_;
  std::vector<double> scores_, logits_, weights_, out_;
};

/// Keeps the earlier of two failures and of two equal ratios, so that the result does not depend on threads.
void merge(Comparison& into, const Comparison& later) {
  into.elements += later.elements;
  into.unpromised += later.unpromised;
  if (later.worst_ratio > into.worst_ratio) {
    into.worst_ratio = later.worst_ratio;
    into.worst_error = later.worst_error;
    into.worst_at = later.worst_at;
  }
  if (into.failures == 0) into.first_failure = later.first_failure;
  into.failures += later.failures;
}

}  // namespace

std::string element_name(const Shape4& at) {
  if (at[3] < 0) return fmt::format("lse[{}, {}, {}]", at[0], at[1], at[2]);
  return fmt::format("out[{}, {}, {}, {}]", at[0], at[1], at[2], at[3]);
}

Comparison compare_with_reference(const AttentionProblem& problem, const AttentionTensors& tensors,
                                  const Numerics& numerics, std::int64_t most_rows) {
  AttentionShape shape = problem.shape;
  shape.batch = reference::sequences(problem.shape, tensors);
  const bool ragged = !tensors.cu_query.empty();
  constexpr std::int64_t kRows = 8;  // of one head, by one thread
  const std::int64_t rows = std::min(shape.query_len, most_rows);
  const std::int64_t blocks = (rows + kRows - 1) / kRows;
  const std::int64_t parts_count = shape.batch * shape.query_heads * blocks;
  std::vector<Comparison> parts(static_cast<std::size_t>(parts_count));
  // Small problems are not worth waking the other threads for.
  const bool large = parts_count * kRows * shape.kv_len * (shape.head_dim + shape.value_dim) > 1000000;
#pragma omp parallel for schedule(dynamic, 1) if (large)
  for (std::int64_t part = 0; part < parts_count; ++part) {
    const std::int64_t slice = part / blocks;
    const std::int64_t first = part % blocks * kRows;
    RowComparer comparer(problem, tensors, numerics);
    for (std::int64_t k = first; k < std::min(first + kRows, rows); ++k) {
      const std::int64_t i = rows == 1 ? shape.query_len - 1 : k * (shape.query_len - 1) / (rows - 1);
      const std::int64_t b = slice / shape.query_heads;
      if (ragged && i >= reference::sequence(shape, problem.options, tensors, b).query_len) continue;
      comparer.compare(b, slice % shape.query_heads, i);
    }
    parts[static_cast<std::size_t>(part)] = std::move(comparer.result);
  }
  Comparison total;
  for (const Comparison& part : parts) merge(total, part);
  if (!ragged) return total;
  RowComparer behind(problem, tensors, numerics);
  for (std::int64_t i = tensors.cu_query[tensors.cu_query.size() - 1]; i < tensors.query.shape[2]; ++i) {
    for (std::int64_t h = 0; h < shape.query_heads; ++h) behind.compare_unused(h, i);
  }
  merge(total, behind.result);
  return total;
}

}  // namespace siattn::verify
