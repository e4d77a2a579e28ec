// SPDX-License-Identifier: Apache-2.0
// Base logits that are not Gaussian, which the authors leave open. With K(a) = log E[exp(a S)] of any law of mean 0 and
// variance 1, the two conditions (Eq. 12, 13) for L = a S + m read
//     m + K(a) = log(alpha) - log(1 + t/tau),        m + a K'(a) = beta/alpha,
// so that a K'(a) - K(a) = beta/alpha - log(alpha) + log(1 + t/tau). The left side rises from 0 (its derivative is
// a K''(a)) to -log P(S = its greatest value): there is one a > 0, or none where that bound is in the way.
#include <boost/math/tools/toms748_solve.hpp>

#include "verify/claims/base_laws.hpp"
#include "verify/claims/list.hpp"
#include "verify/claims/support.hpp"
#include "verify/range_sampling.hpp"

namespace siattn::verify {
namespace {

constexpr std::array<std::string_view, 3> kWrong = {"a_t and m_t of Eq. 16, made for Gaussian logits",
                                                    "K'(a) in place of a K'(a)",
                                                    "the correction for the mirrored law (skewness of the other sign)"};

const reference::ScaleInvariantParameters<double>& published() {
  static const auto p = reference::parameters_of<double>(ScaleInvariant{});
  return p;
}

double wanted_rate(double t) {
  const auto& p = published();
  return p.beta / p.alpha - std::log(p.alpha) + std::log1p(t / p.tau);
}

/// The (a, m) that restores both conditions at t for this law; none where no a up to 32 does.
std::optional<AffineMap> correction(const BaseLaw& law, double t, std::size_t variant) {
  const auto& p = published();
  const double wanted = wanted_rate(t);
  const double sign = variant == 3 ? -1 : 1;
  const auto slope = [&](double a) { return sign * law.log_moment_slope(sign * a); };
  const auto excess = [&](double a) {
    return (variant == 2 ? slope(a) : a * slope(a)) - law.log_moment(sign * a) - wanted;
  };
  double low = 0;  // where a K'(a) - K(a) = 0
  if (!(excess(low) < 0)) return std::nullopt;
  double high = std::min(1.0, law.greatest_scale / 2);
  while (excess(high) < 0) {
    if (high > 30 || high - low < 1e-14) return std::nullopt;
    low = high;
    high = std::isinf(law.greatest_scale) ? 2 * high : (high + law.greatest_scale) / 2;
  }
  if (!(excess(high) >= 0)) return std::nullopt;  // a planted mistake can lead to where nothing is a number
  std::uintmax_t steps = 200;
  const auto bracket =
      boost::math::tools::toms748_solve(excess, low, high, boost::math::tools::eps_tolerance<double>(50), steps);
  const double a = (bracket.first + bracket.second) / 2;
  return AffineMap{a, p.beta / p.alpha - a * slope(a)};
}

struct Conditions {
  double total;       ///< E[exp(L)] (t/tau + 1) / alpha
  double negentropy;  ///< E[L exp(L)] (t/tau + 1) / beta
};

/// By K and its slope.
Conditions conditions_of(const BaseLaw& law, const AffineMap& map, double t) {
  if (!(map.a < law.greatest_scale)) return {INFINITY, INFINITY};
  const double total = std::exp(map.m + law.log_moment(map.a)) * (1 + t / published().tau) / published().alpha;
  return {total, total * (map.m + map.a * law.log_moment_slope(map.a)) * published().alpha / published().beta};
}

/// By integrating over the density, or summing over the values: nothing shared with K.
Conditions integrated(const BaseLaw& law, const AffineMap& map, double t) {
  const double unit = 1 + t / published().tau;
  const auto weight = [&](double s) { return std::exp(map.a * s + map.m); };
  return {law.mean(weight, map.a) * unit / published().alpha,
          law.mean([&](double s) { return (map.a * s + map.m) * weight(s); }, map.a) * unit / published().beta};
}

Measurement measure(const ClaimOptions& options, std::size_t variant) {
  Worst worst;
  Table table{"Base logits that are not Gaussian (mean 0, variance 1), tau = 10: departure from Eq. 12 and 13 under Eq. 16, "
              "and the a and m that restore both",
              {"law", "t (tokens)", "E[exp L] (t/tau+1)/alpha", "E[L exp L] (t/tau+1)/beta", "a_t of Eq. 16",
               "m_t of Eq. 16", "a restored", "m restored"},
              {}};
  std::vector<double> distances = {0, 10, 1e3, 1e6};
  if (options.full) distances = {0, 1, 3, 10, 30, 100, 300, 1e3, 1e4, 1e5, 1e6};
  int restored = 0;
  int cases = 0;
  for (const BaseLaw& law : base_laws()) {
    for (const double t : distances) {
      const AffineMap gaussian = affine_map(ScaleInvariant{}, t, 1);
      const Conditions departed = conditions_of(law, gaussian, t);
      const std::optional<AffineMap> map = variant == 1 ? gaussian : correction(law, t, variant);
      ++cases;
      std::vector<Table::Cell> row = {law.name, t, departed.total, departed.negentropy, gaussian.a, gaussian.m};
      if (map) {
        ++restored;
        row.insert(row.end(), {map->a, map->m});
        const auto where = [&](const char* what) {
          return [&law, t, what] { return fmt::format("{} at t = {:g}, {}", what, t, law.name); };
        };
        const Conditions got =
            map->a < law.greatest_scale ? integrated(law, *map, t) : Conditions{INFINITY, INFINITY};
        worst.see(std::abs(got.total - 1), where("E[exp L]"));
        worst.see(std::abs(got.negentropy - 1), where("E[L exp L]"));
      } else {
        row.insert(row.end(), {std::string("none"), std::string("none")});
      }
      if (map.has_value() != (wanted_rate(t) < law.greatest_rate)) {
        worst.see(1.0, [&law, t] { return fmt::format("whether there is a correction at t = {:g}, {}", t, law.name); });
      }
      table.rows.push_back(std::move(row));
    }
  }
  Measurement m = std::move(worst).result(fmt::format(
      "{} laws; of {} pairs of law and t, {} can be restored by another a and m, each by exactly one with a > 0", base_laws().size(),
      cases, restored));
  if (variant == 0) m.tables = {std::move(table)};
  return m;
}

}  // namespace

constinit const Claim kNotGaussian = {
    .id = "not-gaussian",
    .title = "Other laws: departure, correction",
    .reference = "Eq. 12, 13",
    .statement =
        "For skewed, heavy-tailed, bounded and mixed base logits, and those of random queries and keys, the a and m that "
        "solve a K'(a) - K(a) = beta/alpha - log(alpha) + log(1 + t/tau), m = beta/alpha - a K'(a), restore both "
        "conditions, integrated over the law; there is none exactly where -log P(greatest value) is in the way.",
    .method = Method::quadrature,
    .threshold = 1e-7,
    .threshold_reason =
        "quadrature to 1e-9, relative; a to 50 bits, exponents up to 700: 1e-12",
    .wrong_variants = kWrong,
    .measure = measure,
};

}  // namespace siattn::verify
