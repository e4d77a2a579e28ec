// SPDX-License-Identifier: Apache-2.0
#include "verify/pictures/range_entropy.hpp"

#include <algorithm>
#include <cmath>

#include "verify/pictures/support.hpp"
#include "verify/range_distribution.hpp"

namespace siattn::verify {
namespace {

constexpr double kFarthest = 1e15;

/// The least-squares line through the points, from end to end; the largest distance from it goes to `residual`.
Series fitted_line(const Series& points, double& residual) {
  const auto n = static_cast<double>(points.x.size());
  double mean_x = 0, mean_y = 0, sxx = 0, sxy = 0;
  for (std::size_t k = 0; k < points.x.size(); ++k) {
    mean_x += points.x[k] / n;
    mean_y += points.y[k] / n;
  }
  for (std::size_t k = 0; k < points.x.size(); ++k) {
    sxx += (points.x[k] - mean_x) * (points.x[k] - mean_x);
    sxy += (points.x[k] - mean_x) * (points.y[k] - mean_y);
  }
  const auto line = [&](double x) { return mean_y + sxy / sxx * (x - mean_x); };
  for (std::size_t k = 0; k < points.x.size(); ++k) {
    residual = std::max(residual, std::abs(points.y[k] - line(points.x[k])));
  }
  return {.name = "straight line, least squares",
          .draw = Draw::guide,
          .x = {points.x.front(), points.x.back()},
          .y = {line(points.x.front()), line(points.x.back())}};
}

/// The curve for one Delta, against ln t.
Series exact_curve(const LogitTransform& transform, double delta) {
  Series curve;
  for (double t = 10; t < kFarthest * 1.01; t *= std::pow(10, 0.25)) {
    curve.x.push_back(std::log(std::round(t)));
  }
  curve.y.resize(curve.x.size());
#pragma omp parallel for schedule(dynamic)
  for (std::size_t k = 0; k < curve.x.size(); ++k) {
    const double t = std::round(std::exp(curve.x[k]));
    curve.y[k] = RangeDistribution(transform, {t, std::round(t * delta)}).mean_entropy();
  }
  return curve;
}

Series sampled_points(const LogitTransform& transform, double delta, const ClaimOptions& options,
                      std::size_t repetitions, std::uint32_t stream) {
  Series points{.name = {}, .draw = Draw::markers};
  for (double t = 10; t < (options.full ? 2e5 : 2e4); t *= 10) {
    const RangeSampling sampling{{t, t * delta}, repetitions, options.seed, stream++};
    add_point(points, std::log(t), mean_entropy(sample_range({&transform, 1}, sampling).front()));
  }
  return points;
}

Series against_root(Series series) {
  for (double& x : series.x) x = std::sqrt(x);
  return series;
}

}  // namespace

RangeEntropies range_entropies(const LogitTransform& transform, const ClaimOptions& options, std::uint32_t stream) {
  const std::size_t repetitions = options.full ? 200 : 100;
  const Axis y{"E[H] within [t, tΔ) (nats)"};
  RangeEntropies result;
  result.panels = {{"Against ln t", {"ln t (t in tokens)"}, y, {}}, {"Against √ln t", {"√ln t (t in tokens)"}, y, {}}};
  int style = 0;
  for (const double delta : {2.0, 5.0, 10.0}) {
    Series curve = exact_curve(transform, delta);
    curve.name = fmt::format("Δ = {:g}", delta);
    Series points = sampled_points(transform, delta, options, repetitions, stream);
    curve.style = points.style = style++;
    stream += 5;
    const Series root_curve = against_root(curve);
    result.panels[0].series.insert(result.panels[0].series.end(),
                                   {fitted_line(curve, result.log_residual), curve, points});
    result.panels[1].series.insert(result.panels[1].series.end(),
                                   {fitted_line(root_curve, result.root_residual), root_curve, against_root(points)});
  }
  result.method =
      "Independent standard normal base logits. Curves: by quadrature (verify/range_distribution.hpp), t up to 10¹⁵. "
      "Points: drawn. " +
      sampled_words(repetitions, options.seed);
  return result;
}

}  // namespace siattn::verify
