// SPDX-License-Identifier: Apache-2.0
#include "dispatch/logit_row.hpp"

#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace siattn::dispatch {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
constexpr double kFar = 600;                                  // exp(-kFar) is a normal number and vanishes beside 1
constexpr std::int64_t kAnyDistance = std::int64_t{1} << 33;  // above every distance, and far from overflow

/// Sum of the weights of some keys, Z, and of w log w, N~, about whatever logit has weight 1: H = log Z - N~/Z.
struct Range {
  double z = 0;
  double n = 0;

  /// w = exp(l)
  void add(double w, double l) {
    z += w;
    if (w != 0) n += w * l;  // 0 log 0 = 0; NaN comes through
  }
  void add(const Range& other) {
    z += other.z;
    n += other.n;
  }
  double entropy() const { return z == 0 ? 0 : std::max(std::log(z) - n / z, 0.0); }
};

/// -infinity without values, NaN if any is NaN.
double largest(std::span<const double> values) {
  double max = kMinusInfinity;
  for (const double x : values) {
    if (std::isnan(x) || x > max) max = x;  // a NaN, once taken, stays: no later comparison with it is true
  }
  return max;
}

}  // namespace

KeyRange visible_keys(const SequenceBounds& sequence, const AttentionOptions& options, std::int64_t i) noexcept {
  if (i >= sequence.query_len) return {};
  const std::int64_t position = sequence.query_offset + i;
  const std::int64_t window = std::min(options.window.value_or(kAnyDistance), kAnyDistance);
  const std::int64_t reach = options.mask == Mask::causal ? 1 : window;
  const KeyRange keys{std::max<std::int64_t>(position - window + 1, 0), std::min(position + reach, sequence.kv_len)};
  return keys.size() > 0 ? keys : KeyRange{};
}

LogitRow::LogitRow(const AttentionOptions& options, const AttentionShape& shape)
    : transform_(options, shape), depends_(transform_.dependence()), n_sink_(options.n_sink) {}

/// Rows are mostly asked for in order, so what is there is extended where it can be; else it is made anew, so that it
/// never holds more than the distances of rows that follow each other.
void LogitRow::cover(std::int64_t h, std::int64_t least, std::int64_t greatest) {
  const auto end = least_ + static_cast<std::int64_t>(scales_.size());
  const bool other_head = h != head_ && (depends_.scale || depends_.shift);
  if (other_head || least > end || greatest < least_ - 1) {
    scales_.clear();
    shifts_.clear();
    least_ = least;
  }
  head_ = h;
  if (least < least_) {
    const auto added = static_cast<std::size_t>(least_ - least);
    scales_.insert(scales_.begin(), added, 0.0);
    shifts_.insert(shifts_.begin(), added, 0.0);
    least_ = least;
    for (std::size_t k = 0; k < added; ++k) {
      scales_[k] = transform_.scale(h, least + static_cast<std::int64_t>(k));
      shifts_[k] = transform_.shift(h, least + static_cast<std::int64_t>(k));
    }
  }
  for (std::int64_t t = least_ + static_cast<std::int64_t>(scales_.size()); t <= greatest; ++t) {
    scales_.push_back(transform_.scale(h, t));
    shifts_.push_back(transform_.shift(h, t));
  }
}

void LogitRow::transform(std::int64_t h, std::int64_t position, KeyRange keys, std::span<double> values) {
  const std::int64_t begin = std::max(keys.first, n_sink_);
  if (begin >= keys.last) return;  // sinks only, which keep L = S
  const std::int64_t nearest = std::clamp(position, begin, keys.last - 1);
  cover(h, std::abs(position - nearest), std::max(std::abs(position - begin), std::abs(position - (keys.last - 1))));
  const double factor = transform_.row_factor(h, keys.size());
  for (std::int64_t j = begin; j < keys.last; ++j) {
    const auto at = static_cast<std::size_t>(std::abs(position - j) - least_);
    double& x = values[static_cast<std::size_t>(j - keys.first)];
    x = reference::logit(factor * scales_[at], x, shifts_[at]);
  }
}

RowSummary summarize(std::int64_t position, KeyRange keys, std::int64_t n_sink, std::span<double> values) {
  const double max = largest(values);
  RowSummary summary{.keys = keys.size(), .max_logit = max, .lse = max};
  const KeyRange counted{std::max(keys.first, n_sink), keys.last};
  const auto part_of = [&](KeyRange part) {
    return values.subspan(static_cast<std::size_t>(part.first - keys.first), static_cast<std::size_t>(part.size()));
  };
  // Entropies are taken about `origin`, the row's largest logit, but for a decade that lies so far below it that weights
  // would vanish: its own largest.
  std::array<double, kDistanceDecades> origin;
  origin.fill(kMinusInfinity);
  for_each_decade(position, counted, [&](std::size_t k, KeyRange part) {
    summary.decades[k].keys += part.size();
    origin[k] = std::max(origin[k], largest(part_of(part)));
  });
  if (max == kMinusInfinity) {
    std::fill(values.begin(), values.end(), 0.0);
    return summary;
  }
  for (double& x : origin) {
    if (x == kMinusInfinity || !(x < max - kFar)) x = max;
  }

  const auto add = [&](Range& range, double about, KeyRange part) {
    for (double& x : part_of(part)) {
      const double l = x - max;
      x = std::exp(l);
      range.add(about == max ? x : std::exp(l + (max - about)), l + (max - about));
    }
  };
  Range sinks;
  std::array<Range, kDistanceDecades> ranges;
  add(sinks, max, {keys.first, std::min(keys.last, n_sink)});
  for_each_decade(position, counted, [&](std::size_t k, KeyRange part) { add(ranges[k], origin[k], part); });

  Range all = sinks;
  for (std::size_t k = 0; k < kDistanceDecades; ++k) {
    if (origin[k] == max || std::isnan(max)) all.add(ranges[k]);  // the others are below its rounding errors
  }
  summary.lse = max + std::log(all.z);
  summary.entropy = all.entropy();
  summary.sink_mass = sinks.z / all.z;
  for (std::size_t k = 0; k < kDistanceDecades; ++k) {
    summary.decades[k].mass = ranges[k].z * std::exp(origin[k] - max) / all.z;
    // Of a row with a NaN every figure is one, also of decades that hold none.
    summary.decades[k].entropy = std::isnan(all.z) ? all.z : ranges[k].entropy();
  }
  for (double& x : values) x /= all.z;
  return summary;
}

}  // namespace siattn::dispatch
