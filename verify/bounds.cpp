// SPDX-License-Identifier: Apache-2.0
#include "verify/bounds.hpp"

#include <cmath>
#include <limits>
#include <numbers>

namespace siattn::verify {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// g_k of Higham; infinite when k u reaches 1.
double gamma(double k, double u) { return k * u < 1 ? k * u / (1 - k * u) : kInfinity; }

/// Half the least subnormal of the arithmetic, float32 (or the least, float64): what a result that underflows may be off by.
double underflow(double u) { return u > 0x1p-40 ? 0x1p-150 : 0x1p-1074; }

/// 0 times infinity is 0 here: a term that is absent has no error, whatever its factor.
double times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

/// Beyond this arithmetic with unit roundoff u may overflow; infinities among the inputs are another matter.
double range_limit(double u) { return u > 0x1p-40 ? 0x1p127 : 0x1p1000; }
bool overflows(double x, double u) { return std::isfinite(x) && std::abs(x) >= range_limit(u); }

/// E_j: how far the logit of key j may be off.
struct LogitError {
  double error = 0;
  bool overflow = false;
};

LogitError logit_error(const AttentionProblem& problem, const AttentionTensors& tensors,
                       const reference::Transform<double>& transform, const Numerics& numerics, std::int64_t b,
                       std::int64_t h, std::int64_t i, std::int64_t j, const reference::Row<double>& row) {
  const AttentionShape& shape = problem.shape;
  const reference::Sequence s = reference::sequence(shape, problem.options, tensors, b);
  const std::int64_t g = h / (shape.query_heads / shape.kv_heads);
  const double softmax_scale =
      std::abs(problem.options.softmax_scale.value_or(reference::default_softmax_scale<double>(shape.head_dim)));
  double products = 0;
  double flushed = 0;
  const auto subnormal = [](double x) { return x != 0 && std::abs(x) < 0x1p-126; };
  for (std::int64_t d = 0; d < shape.head_dim; ++d) {
    const double q = reference::query_element<double>(tensors, tensors.query, b, h, i, d);
    const double k = reference::key_element<double>(tensors, b, g, j, d);
    products += std::abs(q * k);
    if (numerics.flushes_operands && (subnormal(q) || subnormal(k))) flushed += std::abs(q * k);
  }
  const std::int64_t t = std::abs(s.query_offset + i - j);
  const bool sink = j < problem.options.n_sink;
  const double scale = sink ? 1 : std::abs(transform.row_factor(h, row.n_visible) * transform.scale(h, t));
  const double shift = sink ? 0 : std::abs(transform.shift(h, t));
  const double shift_terms = sink ? 0 : transform.shift_terms(h, t);
  const double u = numerics.unit_roundoff;
  // An int8 element counts as its product with the row's scale, rounded: one factor more.
  const double factors = static_cast<double>(shape.head_dim) + (tensors.key.dtype == DType::int8 ? 2 : 1);
  const double dot_error = gamma(factors, std::max(u, numerics.score_unit_roundoff));
  const double lost = flushed + static_cast<double>(shape.head_dim + 1) * (underflow(u) + numerics.underflow);
  LogitError result;
  result.error = times(scale * softmax_scale * products, dot_error) + scale * softmax_scale * lost +
                 6 * u * scale * std::abs(row.scores[j]) + 2 * u * shift + 0x1p-50 * shift_terms;
  result.overflow = overflows(products, u) || overflows(scale * row.scores[j] * std::numbers::log2e, u) ||
                    overflows(row.logits[j] * std::numbers::log2e, u);
  return result;
}

/// How often the running maximum over ascending keys can rise, and by how much in all.
struct Rise {
  double count = 0;
  double total = 0;
};

Rise running_maximum(const reference::Row<double>& row, const std::vector<std::int64_t>& keys) {
  Rise rise{.count = 1};  // the merge of splits
  double running = row.logits[keys.front()];
  for (const std::int64_t j : keys) {
    if (row.logits[j] > running) {
      rise.count += 1;
      if (std::isfinite(running)) rise.total += row.logits[j] - running;
      running = row.logits[j];
    }
  }
  return rise;
}

}  // namespace

RowBound forward_bound(const AttentionProblem& problem, const AttentionTensors& tensors,
                       const reference::Transform<double>& transform, const Numerics& numerics, std::int64_t b,
                       std::int64_t h, std::int64_t i, const reference::Row<double>& row) {
  const AttentionShape& shape = problem.shape;
  const reference::Sequence s = reference::sequence(shape, problem.options, tensors, b);
  const std::int64_t g = h / (shape.query_heads / shape.kv_heads);
  const Rounding output = rounding_of(problem.dtype);
  const double u = numerics.unit_roundoff;
  RowBound bound;
  bound.out.resize(static_cast<std::size_t>(shape.value_dim));

  std::vector<std::int64_t> keys;
  for (std::int64_t j = 0; j < shape.kv_len; ++j) {
    if (reference::visible(s, problem.options, i, j)) keys.push_back(j);
  }
  if (keys.empty() || row.max == -kInfinity) return bound;  // out = 0 and lse = -infinity exactly

  const Rise rise = running_maximum(row, keys);
  const double chain = gamma(static_cast<double>(keys.size()) + 2, u);
  std::vector<double> weight_error(keys.size());
  double total_weight_error = 0;
  double largest_exponent = 0;
  bool overflow = false;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const double x = row.logits[keys[k]] - row.max;
    const LogitError logit = logit_error(problem, tensors, transform, numerics, b, h, i, keys[k], row);
    const double exponent = logit.error + times(u, std::abs(x)) + numerics.exp_relative_error +
                            rise.count * (numerics.exp_relative_error + 2 * u) + u * rise.total;
    weight_error[k] = times(row.weights[keys[k]], std::expm1(exponent));
    total_weight_error += weight_error[k];
    if (row.weights[keys[k]] > 0) largest_exponent = std::max(largest_exponent, exponent);
    overflow = overflow || logit.overflow;
  }

  for (std::int64_t c = 0; c < shape.value_dim; ++c) {
    const double o = row.out[static_cast<std::size_t>(c)];
    Tolerance& tolerance = bound.out[static_cast<std::size_t>(c)];
    tolerance.promised = !overflow;
    double from_weights = 0;
    double absolute = 0;
    double sum = 0;
    double largest = 0;
    double farthest = 0;
    for (std::size_t k = 0; k < keys.size(); ++k) {
      const double v = reference::value_element<double>(tensors, b, g, keys[k], c);
      const double weight = row.weights[keys[k]];
      from_weights += times(weight_error[k], std::abs(v - o));
      absolute += times(weight, std::abs(v));
      largest = std::max(largest, std::abs(v));
      farthest = std::max(farthest, std::abs(v - o));
      if (std::isfinite(v)) sum += std::abs(v);
      if (std::isinf(v) && weight < 2 * numerics.least_normal) tolerance.promised = false;
    }
    if (overflows(sum, u)) tolerance.promised = false;
    const double from_values = tensors.value.dtype == DType::int8 ? u * absolute : 0;
    tolerance.arithmetic = 1.01 * (std::min(from_weights, farthest) + chain * (absolute + std::abs(o)) +
                                   3 * u * std::abs(o) + numerics.weight_roundoff * absolute + from_values) +
                           static_cast<double>(keys.size()) * numerics.least_normal * largest +
                           (2 * static_cast<double>(keys.size()) + 3) * (underflow(u) + numerics.underflow);
    tolerance.rounding = output.unit_roundoff * std::abs(o) + output.half_subnormal;
  }
  const Rounding lse = rounding_of(problem.dtype == DType::float64 ? DType::float64 : DType::float32);
  bound.lse.promised = !overflow;
  bound.lse.arithmetic =
      1.01 * (std::min(total_weight_error, largest_exponent) + chain + 6 * u * (std::abs(row.max) + std::abs(row.lse)));
  bound.lse.rounding = lse.unit_roundoff * std::abs(row.lse) + lse.half_subnormal;
  return bound;
}

}  // namespace siattn::verify
