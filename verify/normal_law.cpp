// SPDX-License-Identifier: Apache-2.0
#include "verify/normal_law.hpp"

#include <cmath>
#include <limits>
#include <numbers>

namespace siattn::verify {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kHalfLogTwoPi = 0.5 * std::log(2 * std::numbers::pi);

}  // namespace

double log_normal_cdf(double x) {
  if (x >= 0) return std::log1p(-0.5 * std::erfc(x * std::numbers::sqrt2 / 2));
  if (x > -37) return std::log(0.5 * std::erfc(-x * std::numbers::sqrt2 / 2));
  if (x == -kInfinity) return -kInfinity;
  // Phi(x) = phi(x) / |x| (1 - 1/x^2 + 3/x^4 - 15/x^6 + ...); the next term is below 2e-11 of 1/x^2 here.
  const double y = 1 / (x * x);
  return -0.5 * x * x - kHalfLogTwoPi - std::log(-x) + std::log1p(-y * (1 - 3 * y * (1 - 5 * y * (1 - 7 * y))));
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2); }

double normal_quantile(double p) {
  if (!(p >= 0 && p <= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (p > 0.5) return -normal_quantile(1 - p);
  if (p == 0) return -kInfinity;
  // Newton's method on log Phi, which is concave: from the left of the root it never steps over it. That the start is
  // on the left follows from Phi(x) <= exp(-x^2 / 2) / 2.
  const double target = std::log(p);
  double x = -std::sqrt(-2 * std::log(2 * p));
  for (int k = 0; k < 50; ++k) {
    const double log_cdf = log_normal_cdf(x);
    const double step = (target - log_cdf) * std::exp(log_cdf + 0.5 * x * x + kHalfLogTwoPi);
    x += step;
    if (std::abs(step) <= 1e-15 * std::abs(x)) break;
  }
  return x;
}

}  // namespace siattn::verify
