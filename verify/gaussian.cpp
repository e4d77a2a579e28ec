// SPDX-License-Identifier: Apache-2.0
#include "verify/gaussian.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "verify/parallel.hpp"

namespace siattn::verify {
namespace {

constexpr std::size_t kQuantiles = 161;
constexpr std::size_t kDecades = 11;  // t = 0, [1, 10), ..., [10^9, 10^10): positions end at 2^31

/// Everything about one head that two passes collect.
struct HeadSums {
  Moments moments;
  double least = std::numeric_limits<double>::infinity();
  double greatest = -std::numeric_limits<double>::infinity();
  std::int64_t rows_left_out = 0;
  Moments calibrated;
  std::vector<Moments> by_decade = std::vector<Moments>(kDecades);
  StandardHistogram histogram;
};

/// Calls visit(position of the query, S of the keys n_sink .. that it sees) for each row of a head whose logits are
/// finite; returns how many are not.
template <class Visit>
std::int64_t for_each_row(const LogitRows& rows, const GaussianOptions& options, std::int64_t h, const Visit& visit) {
  std::vector<double> row(static_cast<std::size_t>(rows.kv_len()));
  std::int64_t left_out = 0;
  for (std::int64_t b = 0; b < rows.batch(); ++b) {
    for (std::int64_t i = 0; i < rows.query_len(); ++i) {
      const std::int64_t position = options.query_offset + i;
      const std::int64_t end = std::min(rows.kv_len(), position + 1);  // causal
      if (end <= options.n_sink) continue;
      const std::span<double> visible(row.data(), static_cast<std::size_t>(end));
      rows.read(b, h, i, visible);
      const auto counted = visible.subspan(static_cast<std::size_t>(options.n_sink));
      if (!std::all_of(counted.begin(), counted.end(), [](double s) { return std::isfinite(s); })) {
        ++left_out;
        continue;
      }
      visit(position, counted);
    }
  }
  return left_out;
}

void first_pass(const LogitRows& rows, const GaussianOptions& options, std::int64_t h, HeadSums& sums) {
  sums.rows_left_out = for_each_row(rows, options, h, [&](std::int64_t /*position*/, std::span<const double> scores) {
    sums.moments.add(scores);
    const auto [least, greatest] = std::minmax_element(scores.begin(), scores.end());
    sums.least = std::min(sums.least, *least);
    sums.greatest = std::max(sums.greatest, *greatest);
  });
}

/// Moments and histogram of z = (S - mean) / sd. A run of neighbouring keys shares a decade of distance.
void second_pass(const LogitRows& rows, const GaussianOptions& options, std::int64_t h, HeadSums& sums) {
  const double mean = sums.moments.mean();
  const double sd = sums.moments.standard_deviation();
  for_each_row(rows, options, h, [&](std::int64_t position, std::span<double> scores) {
    for (double& s : scores) {
      s = (s - mean) / sd;
      sums.histogram.add(s);
    }
    sums.calibrated.add(scores);
    // Key j = n_sink + k stands at distance position - j; from the last key back.
    std::int64_t key = options.n_sink + static_cast<std::int64_t>(scores.size()) - 1;
    std::int64_t first = 0;
    for (std::size_t decade = 0; decade < kDecades && key >= options.n_sink; ++decade) {
      const std::int64_t last = decade == 0 ? 1 : 10 * std::max<std::int64_t>(first, 1);
      const std::int64_t end = std::max(position - last, options.n_sink - 1);  // the first key back that is farther
      if (end < key) {
        sums.by_decade[decade].add(
            scores.subspan(static_cast<std::size_t>(end + 1 - options.n_sink), static_cast<std::size_t>(key - end)));
        key = end;
      }
      first = last;
    }
  });
}

LawDistance distance_of(const StandardHistogram& histogram, double mean, double sd) {
  return {histogram.kolmogorov_distance(mean, sd), histogram.anderson_darling(mean, sd)};
}

HeadMarginals marginals_of(const MomentSummary& moments, const StandardHistogram& histogram, double band_level) {
  HeadMarginals result;
  result.moments = moments;
  result.from_standard = distance_of(histogram, moments.mean.value, moments.standard_deviation.value);
  result.from_fitted = distance_of(histogram, 0, 1);
  result.p_value = anderson_darling_p_value(result.from_fitted.anderson_darling);
  result.quantiles = histogram.quantile_points(plot_probabilities(moments.count, kQuantiles),
                                               dkw_half_width(moments.count, band_level));
  return result;
}

Status check(const std::vector<HeadSums>& heads) {
  for (std::size_t h = 0; h < heads.size(); ++h) {
    const Moments& m = heads[h].moments;
    if (m.count() < 8) {
      return Status::invalid(
          fmt::format("head {} has {} pairs of query and key with finite logits, sinks left out: "
                      "expected at least 8",
                      h, m.count()));
    }
    if (!(m.standard_deviation() > 0)) {
      return Status::invalid(
          fmt::format("all base logits of head {} are {}: there is nothing to calibrate", h, m.mean()));
    }
    if (!std::isfinite(m.standard_deviation()) || !std::isfinite(m.excess_kurtosis())) {
      return Status::invalid(fmt::format("the base logits of head {} reach from {} to {}: their moments overflow", h,
                                         heads[h].least, heads[h].greatest));
    }
  }
  return {};
}

}  // namespace

Calibration GaussianReport::calibration() const {
  Calibration calibration;
  calibration.mean.values.clear();
  calibration.standard_deviation.values.clear();
  for (const HeadMarginals& head : heads) {
    calibration.mean.values.push_back(head.moments.mean.value);
    calibration.standard_deviation.values.push_back(head.moments.standard_deviation.value);
  }
  return calibration;
}

Result<GaussianReport> measure_gaussian(const LogitRows& rows, const GaussianOptions& options) {
  std::vector<HeadSums> heads(static_cast<std::size_t>(rows.heads()));
  for_each_index(heads.size(),
                 [&](std::size_t h) { first_pass(rows, options, static_cast<std::int64_t>(h), heads[h]); });
  if (Status status = check(heads); !status) return status;
  GaussianReport report;
  report.heads.resize(heads.size());
  report.band_level = options.band_level;
  report.band = dkw_half_width(heads.front().moments.count(), options.band_level);
  for_each_index(heads.size(), [&](std::size_t h) {
    second_pass(rows, options, static_cast<std::int64_t>(h), heads[h]);
    report.heads[h] = marginals_of(summary_of(heads[h].moments), heads[h].histogram, options.band_level);
    report.heads[h].least = heads[h].least;
    report.heads[h].greatest = heads[h].greatest;
  });
  HeadSums all;
  for (const HeadSums& head : heads) {
    all.moments.merge(head.moments);
    all.calibrated.merge(head.calibrated);
    all.histogram.merge(head.histogram);
    for (std::size_t k = 0; k < kDecades; ++k) all.by_decade[k].merge(head.by_decade[k]);
    report.rows_left_out += head.rows_left_out;
    all.least = std::min(all.least, (head.least - head.moments.mean()) / head.moments.standard_deviation());
    all.greatest = std::max(all.greatest, (head.greatest - head.moments.mean()) / head.moments.standard_deviation());
  }
  report.pooled = summary_of(all.moments);
  report.pooled_calibrated = marginals_of(summary_of(all.calibrated), all.histogram, options.band_level);
  report.pooled_calibrated.least = all.least;
  report.pooled_calibrated.greatest = all.greatest;
  const std::int64_t farthest = options.query_offset + rows.query_len() - 1 - options.n_sink;
  std::int64_t first = 0;
  for (std::size_t k = 0; k < kDecades; ++k) {
    const std::int64_t last = k == 0 ? 1 : 10 * std::max<std::int64_t>(first, 1);
    if (all.by_decade[k].count() > 0)
      report.by_distance.push_back({first, std::min(last, farthest + 1), all.by_decade[k]});
    first = last;
  }
  return report;
}

}  // namespace siattn::verify
