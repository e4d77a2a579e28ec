// SPDX-License-Identifier: Apache-2.0
#include "dispatch/validate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dispatch/message.hpp"

namespace siattn::dispatch {
namespace {

constexpr std::int64_t kLargestPosition = std::numeric_limits<std::int32_t>::max();

Status check_extent(const char* name, std::int64_t value, std::int64_t least) {
  if (value >= least && value <= kLargestPosition) return {};
  return Status::invalid(text(name, " = ", value, ": expected ", least, " .. ", kLargestPosition));
}

Status validate_shape(const AttentionShape& s) {
  struct Row {
    const char* name;
    std::int64_t value;
    std::int64_t least;
  };
  for (const Row& row : {Row{"batch", s.batch, 0}, Row{"query_heads", s.query_heads, 1}, Row{"kv_heads", s.kv_heads, 1},
                         Row{"query_len", s.query_len, 0}, Row{"kv_len", s.kv_len, 0}, Row{"head_dim", s.head_dim, 1},
                         Row{"value_dim", s.value_dim, 1}}) {
    if (Status status = check_extent(row.name, row.value, row.least); !status) return status;
  }
  if (s.query_heads % s.kv_heads != 0) {
    return Status::invalid(text("query_heads = ", s.query_heads, " is not a multiple of kv_heads = ", s.kv_heads));
  }
  // Offsets are computed in 64 bits: no tensor, dense, may reach 2^60 elements.
  struct Product {
    const char* name;
    std::int64_t factors[4];
  };
  for (const Product& p : {Product{"query", {s.batch, s.query_heads, s.query_len, s.head_dim}},
                           Product{"key", {s.batch, s.kv_heads, s.kv_len, s.head_dim}},
                           Product{"value", {s.batch, s.kv_heads, s.kv_len, s.value_dim}},
                           Product{"out", {s.batch, s.query_heads, s.query_len, s.value_dim}},
                           Product{"tables", {1, 1, s.query_heads, s.query_len + s.kv_len}}}) {
    double elements = 1;
    for (const std::int64_t factor : p.factors) elements *= static_cast<double>(factor);
    if (elements >= 0x1p60) {
      return Status::invalid(text(p.name, " would have ", p.factors[0], " x ", p.factors[1], " x ", p.factors[2], " x ",
                                  p.factors[3], " elements: expected fewer than 2^60"));
    }
  }
  return {};
}

Status validate_options(const AttentionShape& s, const AttentionOptions& o) {
  if (o.mask != Mask::causal && o.mask != Mask::bidirectional) {
    return Status::invalid(text("mask = ", static_cast<int>(o.mask), ": expected causal or bidirectional"));
  }
  if (o.window && *o.window < 1) return Status::invalid(text("window = ", *o.window, ": expected at least 1"));
  if (o.n_sink < 0) return Status::invalid(text("n_sink = ", o.n_sink, ": expected at least 0"));
  if (o.softmax_scale && !std::isfinite(*o.softmax_scale)) {
    return Status::invalid(text("softmax_scale = ", *o.softmax_scale, ": expected a finite number"));
  }
  if (o.query_offset) {
    const std::int64_t room = kLargestPosition - std::max<std::int64_t>(s.query_len - 1, 0);
    if (*o.query_offset < -kLargestPosition || *o.query_offset > room) {
      return Status::invalid(text("query_offset = ", *o.query_offset, ": with query_len = ", s.query_len, " expected ",
                                  -kLargestPosition, " .. ", room));
    }
  }
  return {};
}

/// One value, or one for each query head, each of which `good` accepts.
template <class Good>
Status check_per_head(const char* name, const PerHead& per_head, std::int64_t heads, Good good, const char* expected) {
  const auto count = static_cast<std::int64_t>(per_head.values.size());
  if (count != 1 && count != heads) {
    return Status::invalid(text(name, " has ", count, " values: expected 1 or query_heads = ", heads));
  }
  for (const double value : per_head.values) {
    if (!good(value)) return Status::invalid(text(name, " = ", value, ": expected ", expected));
  }
  return {};
}

bool is_finite(double x) { return std::isfinite(x); }

struct TransformCheck {
  std::int64_t heads;

  Status operator()(const NoTransform&) const { return {}; }

  Status operator()(const ScaleInvariant& t) const {
    const auto good_tau = [](double tau) { return std::isfinite(tau) && tau >= 1e-290; };
    if (Status status = check_per_head("tau", t.tau, heads, good_tau, "a finite number of at least 1e-290"); !status) {
      return status;
    }
    for (const auto& [name, value] : {std::pair{"alpha", t.alpha}, std::pair{"beta", t.beta}}) {
      if (!std::isfinite(value) || value <= 0) {
        return Status::invalid(text(name, " = ", value, ": expected a finite number above 0"));
      }
    }
    if (t.beta / t.alpha < std::log(t.alpha) || !std::isfinite(t.beta / t.alpha)) {
      return Status::invalid(text("beta = ", t.beta, ": with alpha = ", t.alpha,
                                  " expected at least alpha log(alpha) = ", t.alpha * std::log(t.alpha),
                                  " and a finite beta / alpha"));
    }
    return {};
  }

  Status operator()(const LogN& t) const {
    return check_per_head("logn scale", t.scale, heads, is_finite, "a finite number");
  }

  Status operator()(const InfoScale& t) const {
    if (std::isfinite(t.train_length) && t.train_length > 1) return {};
    return Status::invalid(text("train_length = ", t.train_length, ": expected a finite number above 1"));
  }

  Status operator()(const Alibi& t) const {
    if (t.slopes.values.empty()) return {};
    return check_per_head("ALiBi slopes", t.slopes, heads, is_finite, "a finite number");
  }
};

bool has_row_factor(const LogitTransform& transform) {
  return std::holds_alternative<LogN>(transform) || std::holds_alternative<InfoScale>(transform);
}

Status validate_calibration(const AttentionOptions& o, std::int64_t heads) {
  const Calibration& c = o.calibration;
  Status status = check_per_head("calibration mean", c.mean, heads, is_finite, "a finite number");
  if (!status) return status;
  const auto good = [](double sd) { return std::isfinite(sd) && sd >= 1e-290; };
  status = check_per_head("calibration standard_deviation", c.standard_deviation, heads, good,
                          "a finite number of at least 1e-290");
  if (!status) return status;
  for (std::size_t h = 0; h < std::max(c.mean.values.size(), c.standard_deviation.values.size()); ++h) {
    const double mean = c.mean.at(h);
    const double sd = c.standard_deviation.at(h);
    if (mean != 0 && has_row_factor(o.transform)) {
      return Status::invalid(text("calibration mean = ", mean,
                                  ": LogN and InfoScale, whose factor differs by row, take ",
                                  "a standard_deviation but no mean other than 0"));
    }
    if (!(std::abs(mean / sd) <= 1e290)) {
      return Status::invalid(
          text("calibration mean = ", mean, ": with standard_deviation = ", sd, " expected at most 1e290 of these"));
    }
  }
  return {};
}

}  // namespace

Status validate_problem(const AttentionProblem& problem) {
  if (size_of(problem.dtype) == 0 || problem.dtype == DType::int8) {
    return Status::invalid(text("dtype = ", static_cast<int>(problem.dtype), ": expected f32, bf16, f16 or f64"));
  }
  if (problem.kv_dtype && *problem.kv_dtype != problem.dtype && *problem.kv_dtype != DType::int8) {
    return Status::invalid(text("kv_dtype = ", name_of(*problem.kv_dtype), ": expected ", name_of(problem.dtype),
                                " as of the query, or i8"));
  }
  if (Status status = validate_shape(problem.shape); !status) return status;
  if (Status status = validate_options(problem.shape, problem.options); !status) return status;
  const std::int64_t heads = problem.shape.query_heads;
  if (Status status = std::visit(TransformCheck{heads}, problem.options.transform); !status) return status;
  return validate_calibration(problem.options, heads);
}

}  // namespace siattn::dispatch
