// SPDX-License-Identifier: Apache-2.0
#include "verify/claims/base_laws.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/quadrature/gauss.hpp>
#include <boost/math/quadrature/gauss_kronrod.hpp>
#include <boost/math/special_functions/bessel.hpp>
#include <cmath>
#include <numbers>

namespace siattn::verify {
namespace {

using Function = std::function<double(double)>;

double normal_density(double z) { return std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi); }
double normal_below(double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; }

/// The integral over [low, high] in panels of a width of at most 1, adaptively in each.
double integral(const Function& f, double low, double high) {
  const int panels = std::max(1, static_cast<int>(std::ceil(high - low)));
  const double width = (high - low) / panels;
  double sum = 0;
  for (int k = 0; k < panels; ++k) {
    sum += boost::math::quadrature::gauss_kronrod<double, 31>::integrate(f, low + k * width, low + (k + 1) * width, 5,
                                                                        1e-11);
  }
  return sum;
}

/// E[f(S)] over a density on [low, high], smooth but for a kink at 0 at most.
auto mean_over(Function density, double low, double high) {
  return [=](const Function& f, double /*a*/) {
    const auto weighted = [&](double s) { return f(s) * density(s); };
    return integral(weighted, low, 0) + integral(weighted, 0, high);
  };
}

BaseLaw skew_normal(double shape) {
  const double delta = shape / std::sqrt(1 + shape * shape);
  const double mu = delta * std::sqrt(2 / std::numbers::pi);
  const double sigma = std::sqrt(1 - mu * mu);
  BaseLaw law;
  law.name = fmt::format("skew-normal, shape {:+g}", shape);
  law.log_moment = [=](double a) {
    return -a * mu / sigma + a * a / (2 * sigma * sigma) + std::log(2 * normal_below(delta * a / sigma));
  };
  law.log_moment_slope = [=](double a) {
    const double z = delta * a / sigma;
    return -mu / sigma + a / (sigma * sigma) + delta / sigma * normal_density(z) / normal_below(z);
  };
  const auto density = [=](double s) {
    const double y = mu + sigma * s;
    return 2 * sigma * normal_density(y) * normal_below(shape * y);
  };
  law.mean = [=](const Function& f, double a) { return mean_over(density, -16, 16 + a / (sigma * sigma))(f, a); };
  return law;
}

/// K and its slope by Gauss and Legendre over a bounded density with a kink at most at 0: another rule than mean_over's.
BaseLaw bounded(std::string name, Function density, double reach) {
  BaseLaw law;
  law.name = std::move(name);
  const auto moments = [=](double a) {
    std::pair<double, double> sums{0, 0};  // of exp(a (s - reach)) and s times it
    constexpr int panels = 32;
    for (int k = -panels; k < panels; ++k) {
      const double low = k * reach / panels;
      const auto part = [&](auto f) {
        return boost::math::quadrature::gauss<double, 30>::integrate(f, low, low + reach / panels);
      };
      const auto weight = [&](double s) { return std::exp(a * s - std::abs(a) * reach) * density(s); };
      sums.first += part(weight);
      sums.second += part([&](double s) { return s * weight(s); });
    }
    return sums;
  };
  law.log_moment = [=](double a) { return std::log(moments(a).first) + std::abs(a) * reach; };
  law.log_moment_slope = [=](double a) {
    const auto [zeroth, first] = moments(a);
    return first / zeroth;
  };
  law.mean = mean_over(density, -reach, reach);
  return law;
}

/// A symmetric density cut off at `cut` and scaled to variance 1.
BaseLaw cut_off(const std::string& name, const Function& density, double cut) {
  const double mass = 2 * integral(density, 0, cut);
  const double sigma = std::sqrt(2 * integral([&](double x) { return x * x * density(x); }, 0, cut) / mass);
  return bounded(
      fmt::format("{}, cut off at {:.3g} standard deviations", name, cut / sigma),
      [=](double s) { return sigma * density(sigma * s) / mass; }, cut / sigma);
}

BaseLaw laplace() {
  BaseLaw law;
  law.name = "Laplace";
  law.greatest_scale = std::numbers::sqrt2;
  law.log_moment = [](double a) { return -std::log1p(-a * a / 2); };
  law.log_moment_slope = [](double a) { return a / (1 - a * a / 2); };
  law.mean = [](const Function& f, double a) {
    const auto density = [](double s) { return std::exp(-std::numbers::sqrt2 * std::abs(s)) / std::numbers::sqrt2; };
    const double reach = 40 / (std::numbers::sqrt2 - a);  // what is left out: exp(-40)
    double sum = integral([&](double s) { return f(s) * density(s); }, -40, 0);
    // Panels that widen: the integrand falls slowly where a is close to the end.
    for (double low = 0, width = 1; low < reach; low += width, width *= 1.5) {
      sum += boost::math::quadrature::gauss_kronrod<double, 31>::integrate(
          [&](double s) { return f(s) * density(s); }, low, std::min(low + width, reach), 10, 1e-11);
    }
    return sum;
  };
  return law;
}

/// The greater value has chance p.
BaseLaw two_points(double p) {
  const double high = std::sqrt((1 - p) / p);
  const double low = -1 / high;
  BaseLaw law;
  law.name = fmt::format("two points, the upper one with chance {:g}", p);
  law.greatest_rate = -std::log(p);
  law.log_moment = [=](double a) { return a * high + std::log(p + (1 - p) * std::exp(a * (low - high))); };
  law.log_moment_slope = [=](double a) {
    const double share = p / (p + (1 - p) * std::exp(a * (low - high)));
    return high * share + low * (1 - share);
  };
  law.mean = [=](const Function& f, double /*a*/) { return p * f(high) + (1 - p) * f(low); };
  return law;
}

/// With chance p a Gaussian of standard deviation `wide`, else one of what makes the variance 1.
BaseLaw two_gaussians(double p, double wide) {
  const double v = wide * wide;
  const double u = (1 - p * v) / (1 - p);
  BaseLaw law;
  law.name = fmt::format("two Gaussians, standard deviation {:g} with chance {:g}", wide, p);
  const auto share = [=](double a) { return p / (p + (1 - p) * std::exp(a * a * (u - v) / 2)); };
  law.log_moment = [=](double a) { return a * a * v / 2 + std::log(p) - std::log(share(a)); };
  law.log_moment_slope = [=](double a) { return a * (share(a) * v + (1 - share(a)) * u); };
  const auto density = [=](double s) {
    return p * normal_density(s / wide) / wide + (1 - p) * normal_density(s / std::sqrt(u)) / std::sqrt(u);
  };
  law.mean = [=](const Function& f, double a) { return mean_over(density, -20, 20 + a * v)(f, a); };
  return law;
}

/// <q, k>/sqrt(d) of Gaussian q and k: given q it is N(0, |q|^2/d), and |q|^2 is chi-squared.
BaseLaw gaussian_vectors(double d) {
  BaseLaw law;
  law.name = fmt::format("random q and k, both Gaussian, head_dim {:g}", d);
  law.greatest_scale = std::sqrt(d);
  law.log_moment = [=](double a) { return -d / 2 * std::log1p(-a * a / d); };
  law.log_moment_slope = [=](double a) { return a / (1 - a * a / d); };
  law.mean = [=](const Function& f, double a) {
    const double log_norm = std::lgamma(d / 2) + d / 2 * std::log(2.0);
    // Over r = |q|: density 2 r^(d-1) exp(-r^2/2) / norm; tilted by exp(a^2 r^2/(2 d)) it peaks further out.
    const double spread = 1 / std::sqrt(1 - a * a / d);
    return integral(
        [&](double r) {
          const double sigma = r / std::sqrt(d);
          const double log_density = std::log(2.0) + (d - 1) * std::log(r) - r * r / 2 - log_norm;
          // Trapezoidal over the Gaussian, around its peak under the tilt.
          double sum = 0;
          constexpr double step = 0.125;
          for (double z = -10; z <= 10; z += step) {
            const double at = z + a * sigma;
            sum += f(sigma * at) * std::exp(-at * at / 2 + log_density);
          }
          return sum * step / std::sqrt(2 * std::numbers::pi);
        },
        1e-9, (std::sqrt(d) + 9) * spread);
  };
  return law;
}

/// sqrt(d) cos(angle) of two random directions: q and k both of length sqrt(d), as QK-norm makes them.
BaseLaw directions(double d) {
  BaseLaw law;
  law.name = fmt::format("random q and k, both of length sqrt(head_dim), head_dim {:g}", d);
  const double root = std::sqrt(d);
  law.log_moment = [=](double a) {
    if (a == 0) return 0.0;
    const double x = std::abs(a) * root;
    return std::lgamma(d / 2) + (1 - d / 2) * std::log(x / 2) + std::log(boost::math::cyl_bessel_i(d / 2 - 1, x));
  };
  law.log_moment_slope = [=](double a) {
    if (a == 0) return 0.0;
    const double x = std::abs(a) * root;
    return std::copysign(root, a) * boost::math::cyl_bessel_i(d / 2, x) / boost::math::cyl_bessel_i(d / 2 - 1, x);
  };
  const double log_norm = std::lgamma(d / 2) - std::lgamma((d - 1) / 2) - std::log(d * std::numbers::pi) / 2;
  const auto density = [=](double s) { return std::exp(log_norm + (d - 3) / 2 * std::log1p(-s * s / d)); };
  law.mean = mean_over(density, -root, root);
  return law;
}

}  // namespace

const std::vector<BaseLaw>& base_laws() {
  static const std::vector<BaseLaw> laws = [] {
    const auto student = [](double x) { return std::pow(1 + x * x / 5, -3.0); };  // 5 degrees of freedom
    const auto exponential = [](double x) { return std::exp(-std::numbers::sqrt2 * std::abs(x)); };
    return std::vector<BaseLaw>{skew_normal(2),
                                skew_normal(-2),
                                cut_off("Student t, 5 degrees of freedom", student, 10),
                                laplace(),
                                cut_off("Laplace", exponential, 8),
                                two_points(0.5),
                                two_points(0.01),
                                two_gaussians(0.1, 1.5),
                                gaussian_vectors(64),
                                gaussian_vectors(128),
                                directions(64),
                                directions(128)};
  }();
  return laws;
}

}  // namespace siattn::verify
