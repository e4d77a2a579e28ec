// SPDX-License-Identifier: Apache-2.0
#include "verify/range_distribution.hpp"

#include <algorithm>
#include <boost/math/quadrature/gauss.hpp>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "verify/parallel.hpp"

namespace siattn::verify {
namespace {

constexpr double kSummedBelow = 100;  // distances below are taken one by one

}  // namespace

void RangeDistribution::add_node(double count, const AffineMap& map) {
  // exp(-s A~) is analytic in z and bounded by 1 where |Im z| < pi/(2a): the rule's error is exp(-2 pi (pi/2a) / step).
  // Its integrands peak at z <= a, no broader than a Gaussian.
  Node node{count, map, -9, std::numbers::pi * std::numbers::pi / (35 * std::max(map.a, 1.0)), {}, {}};
  const auto last = static_cast<std::size_t>((std::max(map.a, 0.0) + 9 - node.low) / node.step);
  for (std::size_t k = 0; k <= last; ++k) {
    const double z = node.low + static_cast<double>(k) * node.step;
    node.weight.push_back(std::exp(map.a * z + map.m));
    node.density.push_back(node.step * std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi));
  }
  nodes_.push_back(std::move(node));
}

RangeDistribution::RangeDistribution(const LogitTransform& transform, const DistanceRange& range)
    : RangeDistribution([&](double t) { return affine_map(transform, t, range.last); }, range) {}

RangeDistribution::RangeDistribution(const std::function<AffineMap(double t)>& map, const DistanceRange& range) {
  if (!(range.first >= 0) || !(range.last > range.first)) {
    throw std::invalid_argument("a range of distances must not be empty or start below 0");
  }
  double t = range.first;
  for (; t < std::min(range.last, kSummedBelow); ++t) add_node(1, map(t));
  if (!(t < range.last)) return;
  // The rest: the integral over log(t), each sum from a to b as the integral from a - 1/2 to b - 1/2.
  using Rule = boost::math::quadrature::gauss<double, 15>;
  const double low = std::log(t - 0.5);
  const double high = std::log(range.last - 0.5);
  const int panels = static_cast<int>(std::ceil((high - low) / std::log(12.0)));
  const double half = (high - low) / panels / 2;
  for (int panel = 0; panel < panels; ++panel) {
    const double middle = low + (2 * panel + 1) * half;
    for (std::size_t k = 0; k < Rule::abscissa().size(); ++k) {
      for (const double sign : {-1.0, 1.0}) {
        if (sign < 0 && Rule::abscissa()[k] == 0) continue;
        const double at = std::exp(middle + sign * Rule::abscissa()[k] * half);
        add_node(Rule::weights()[k] * half * at, map(at));
      }
    }
  }
}

double RangeDistribution::mean_total() const {
  double sum = 0;
  for (const Node& node : nodes_) sum += node.count * std::exp(node.map.m + node.map.a * node.map.a / 2);
  return sum;
}

RangeDistribution::AtReal RangeDistribution::at(double s) const {
  AtReal result{0, 0};
  for (const Node& node : nodes_) {
    double gone = 0;  // 1 - phi
    double negentropy = 0;
    for (std::size_t k = 0; k < node.weight.size(); ++k) {
      const double lost = std::expm1(-s * node.weight[k]);
      const double logit = node.map.a * (node.low + static_cast<double>(k) * node.step) + node.map.m;
      gone -= lost * node.density[k];
      negentropy += logit * node.weight[k] * (1 + lost) * node.density[k];
    }
    result.log_laplace += node.count * std::log1p(-gone);
    result.slope += node.count * negentropy / (1 - gone);
  }
  return result;
}

std::complex<double> RangeDistribution::log_laplace(std::complex<double> s) const {
  // With s = |s| e^(i angle) the path z - i angle/a makes s A~ real again: nothing oscillates but the density,
  // whose factor there is exp(i z angle/a + angle^2/(2 a^2)).
  const double size = std::abs(s);
  const double angle = std::arg(s);
  std::complex<double> result = 0;
  for (const Node& node : nodes_) {
    const double turn = angle / node.map.a;
    const double height = std::exp(turn * turn / 2);
    const double step_re = std::cos(turn * node.step);
    const double step_im = std::sin(turn * node.step);
    double re = height * std::cos(turn * node.low);
    double im = height * std::sin(turn * node.low);
    std::complex<double> gone = 0;
    for (std::size_t k = 0; k < node.weight.size(); ++k) {
      const double lost = -std::expm1(-size * node.weight[k]) * node.density[k];
      gone += std::complex<double>(lost * re, lost * im);
      const double turned = re * step_re - im * step_im;
      im = re * step_im + im * step_re;
      re = turned;
    }
    // log(1 - gone) without cancellation for small gone: |1 - gone|^2 - 1 = -2 Re gone + |gone|^2.
    const double modulus = std::log1p(std::norm(gone) - 2 * gone.real()) / 2;
    result += node.count * std::complex<double>(modulus, std::atan2(-gone.imag(), 1 - gone.real()));
  }
  return result;
}

double RangeDistribution::mean_entropy() const {
  // Over y = log s. The integrands are analytic for |Im y| < pi/2: error exp(-pi^2 / step) = 7e-18.
  constexpr double step = 0.25;
  constexpr int first = -144;  // e^-36 E[Z] is left out below
  constexpr int last = 200;
  std::vector<double> terms(last - first + 1, 0.0);
  const double scale = mean_total();  // s is counted in units of 1/E[Z]
  for_each_index(terms.size(), [&](std::size_t k) {
    const double s = std::exp((first + static_cast<double>(k)) * step) / scale;
    const double reference = std::exp(-s * scale);
    const AtReal here = at(s);
    // Nothing is left of it, nor of exp(-s E[Z]), which is smaller (Jensen); a phi may have rounded to 0 or below.
    if (!(here.log_laplace > -700)) return;
    const double laplace = std::exp(here.log_laplace);
    terms[k] = reference - laplace - s * here.slope * laplace;
  });
  double sum = 0;
  for (const double term : terms) sum += term;
  return std::log(scale) + sum * step;
}

double RangeDistribution::below(double z) const {
  // Abate and Whitt's Fourier series with Euler summation: error of the series exp(-a), of rounding exp(a/2) 1e-15.
  constexpr double a = 20;
  constexpr int plain = 60;
  constexpr int averaged = 12;
  std::vector<double> terms(plain + averaged + 1);
  for_each_index(terms.size(), [&](std::size_t k) {
    const std::complex<double> s = std::complex<double>(a, 2 * std::numbers::pi * static_cast<double>(k)) / (2 * z);
    const double value = (std::exp(log_laplace(s)) / s).real();
    terms[k] = (k == 0 ? 0.5 : k % 2 == 0 ? 1.0 : -1.0) * value;
  });
  double sum = 0;
  for (int k = 0; k <= plain; ++k) sum += terms[static_cast<std::size_t>(k)];
  double total = 0;
  double binomial = 1;
  for (int j = 0; j <= averaged; ++j) {
    total += binomial * sum;
    binomial = binomial * (averaged - j) / (j + 1);
    if (j < averaged) sum += terms[static_cast<std::size_t>(plain + j + 1)];
  }
  return std::exp(a / 2) / z * total / std::exp2(averaged);
}

double RangeDistribution::quantile(double p) const {
  const double mean = mean_total();
  const auto excess = [&](double y) { return below(mean * std::exp(y)) - p; };
  double low = -1;
  double high = 1;
  while (excess(low) > 0) low *= 2;
  while (excess(high) < 0) high *= 2;
  std::uintmax_t steps = 60;
  const auto [left, right] =
      boost::math::tools::toms748_solve(excess, low, high, boost::math::tools::eps_tolerance<double>(24), steps);
  return mean * std::exp((left + right) / 2);
}

}  // namespace siattn::verify
