// SPDX-License-Identifier: Apache-2.0
#include "verify/pictures/range_entropy.hpp"

#include <algorithm>
#include <cmath>

#include "verify/pictures/support.hpp"

namespace siattn::verify {
namespace {

/// The least-squares line through the points, from end to end; the largest distance from it goes to `residual`.
Series fitted_line(const Series& points, double& residual) {
  const auto n = static_cast<double>(points.x.size());
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (std::size_t k = 0; k < points.x.size(); ++k) {
    sx += points.x[k] / n;
    sy += points.y[k] / n;
  }
  for (std::size_t k = 0; k < points.x.size(); ++k) {
    sxx += (points.x[k] - sx) * (points.x[k] - sx);
    sxy += (points.x[k] - sx) * (points.y[k] - sy);
  }
  const auto line = [&](double x) { return sy + sxy / sxx * (x - sx); };
  for (std::size_t k = 0; k < points.x.size(); ++k)
    residual = std::max(residual, std::abs(points.y[k] - line(points.x[k])));
  return {.name = "straight line, least squares",
          .draw = Draw::guide,
          .x = {points.x.front(), points.x.back()},
          .y = {line(points.x.front()), line(points.x.back())}};
}

}  // namespace

RangeEntropies sample_range_entropies(const LogitTransform& transform, const ClaimOptions& options,
                                      std::uint32_t stream) {
  RangeEntropies result;
  result.repetitions = options.full ? 60 : 20;
  const double longest = options.full ? 1e6 : 1e5;
  for (const double delta : {2.0, 5.0, 10.0}) {
    Series by_log{.name = fmt::format("Δ = {:g}", delta), .draw = Draw::markers}, by_root = by_log;
    for (double t = 10; t < longest * 1.01; t *= std::sqrt(10)) {
      const double first = std::round(t);
      const RangeSampling sampling{{first, std::round(first * delta)}, result.repetitions, options.seed, stream++};
      const Estimate h = mean_entropy(sample_range({&transform, 1}, sampling).front());
      add_point(by_log, std::log(first), h);
      add_point(by_root, std::sqrt(std::log(first)), h);
    }
    result.by_log.push_back(fitted_line(by_log, result.log_residual));
    result.by_root.push_back(fitted_line(by_root, result.root_residual));
    result.by_log.push_back(std::move(by_log));
    result.by_root.push_back(std::move(by_root));
  }
  return result;
}

std::vector<Panel> range_entropy_panels(const RangeEntropies& entropies) {
  const Axis y{"E[H] within [t, tΔ) (nats)"};
  return {{"Against ln t", {"ln t (t in tokens)"}, y, entropies.by_log},
          {"Against √ln t", {"√ln t (t in tokens)"}, y, entropies.by_root}};
}

}  // namespace siattn::verify
