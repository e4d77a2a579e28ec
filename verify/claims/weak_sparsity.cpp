// SPDX-License-Identifier: Apache-2.0
// The paper leaves weak sparsity unproven (Fig. 2: E[H] against log t and against sqrt(log t)). Here E[H] is integrated,
// not sampled, so that t can be as large as doubles are.
//
// Why sqrt: a_t^2 = 2 log(t) + O(1) is the critical point of the random energy model. The weight exp(a z + m) then puts
// on the base logit z the half z <= a of a normal law around a, so that -log A_t = log Z - L has the mean
// log Z - beta/alpha + a E|x|, and E[H] = a_t sqrt(2/pi) + O(1).
#include <numbers>

#include "verify/claims/list.hpp"
#include "verify/claims/support.hpp"
#include "verify/range_distribution.hpp"

namespace siattn::verify {
namespace {

constexpr std::array<std::string_view, 4> kWrong = {"no scaling (a = 1, m = 0)", "LogN in its place (s = 0.4)",
                                                    "a_t^2 half as large (Lemma 1 kept by m_t)",
                                                    "a_t^2 twice as large (Lemma 1 kept by m_t)"};

/// The map as published or with a mistake, for a query that sees the keys up to distance n.
AffineMap map_of(std::size_t variant, double t, double n) {
  switch (variant) {
    case 1: return affine_map(NoTransform{}, t, n);
    case 2: return affine_map(LogN{}, t, n);
    default: break;
  }
  AffineMap map = affine_map(ScaleInvariant{}, t, n);
  if (variant == 0) return map;
  const double log_mean = map.m + map.a * map.a / 2;
  map.a *= variant == 3 ? std::numbers::sqrt2 / 2 : std::numbers::sqrt2;
  return {map.a, log_mean - map.a * map.a / 2};
}

double mean_entropy(std::size_t variant, double t, double delta) {
  const DistanceRange range{t, t * delta};
  return RangeDistribution([&](double at) { return map_of(variant, at, range.last); }, range).mean_entropy();
}

/// The p of E[H] = c + d (log t)^p through three distances whose logarithms are as 1 : 4 : 16.
double growth_exponent(std::size_t variant, double t, double delta) {
  const double near = mean_entropy(variant, t, delta);
  const double middle = mean_entropy(variant, std::pow(t, 4), delta);
  const double far = mean_entropy(variant, std::pow(t, 16), delta);
  return std::log((far - middle) / (middle - near)) / std::log(4.0);
}

/// Root mean square of what a straight line leaves of y(x).
double residual(std::span<const double> x, std::span<const double> y) {
  const auto n = static_cast<double>(x.size());
  double mx = 0, my = 0, xx = 0, xy = 0, left = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mx += x[i] / n;
    my += y[i] / n;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mx) * (x[i] - mx);
    xy += (x[i] - mx) * (y[i] - my);
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double r = y[i] - my - xy / xx * (x[i] - mx);
    left += r * r / n;
  }
  return std::sqrt(left);
}

/// The paper's Fig. 2 and 6 as figures, and how well either law fits.
void tabulate(const ClaimOptions& options, Measurement& m) {
  Table entropies{"Mean entropy within [t, Delta t), independent standard normal logits (Fig. 2, 6)",
                  {"Delta", "t (tokens)", "E[H] scale-invariant (nats)", "E[H] unscaled (nats)", "E[H] LogN s = 0.4 (nats)"},
                  {}};
  Table fits{"Straight lines through E[H] over [t, Delta t): root mean square of what they leave",
             {"Delta", "logits", "largest t (tokens)", "against sqrt(log t) (nats)", "against log t (nats)"},
             {}};
  for (const double delta : {2.0, 5.0, 10.0}) {
    std::vector<double> log_t, root, scaled, plain;
    const int last = options.full ? 12 : 6;
    for (int e = 1; e <= last; ++e) {
      const double t = std::pow(10.0, e);
      log_t.push_back(std::log(t));
      root.push_back(std::sqrt(log_t.back()));
      scaled.push_back(mean_entropy(0, t, delta));
      plain.push_back(mean_entropy(1, t, delta));
      entropies.rows.push_back({delta, t, scaled.back(), plain.back(), mean_entropy(2, t, delta)});
    }
    const double largest = std::pow(10.0, last);
    fits.rows.push_back({delta, "scale-invariant", largest, residual(root, scaled), residual(log_t, scaled)});
    fits.rows.push_back({delta, "unscaled", largest, residual(root, plain), residual(log_t, plain)});
  }
  m.tables = {std::move(entropies), std::move(fits)};
}

Measurement measure(const ClaimOptions& options, std::size_t variant) {
  Worst worst;
  std::string note;
  for (const double delta : {10.0, 2.0, 5.0}) {
    if (!options.full && delta != 10) continue;
    const double p = growth_exponent(variant, 1e4, delta);
    worst.see(std::abs(p - 0.5), [&] { return fmt::format("t = 1e4, 1e16, 1e64, Delta = {}", delta); });
    if (delta == 10) note = fmt::format("E[H] of [t, 10 t) grows as (log t)^{:.3f}", p);
  }
  if (options.full) {
    const double slope = (mean_entropy(variant, 1e300, 10) - mean_entropy(variant, 1e100, 10)) /
                         (map_of(0, 1e300, 1e301).a - map_of(0, 1e100, 1e101).a);
    worst.see(std::abs(slope - std::sqrt(2 / std::numbers::pi)), [] { return "slope of E[H] over a_t, t = 1e100 to 1e300"; });
    note += fmt::format(", with slope {:.3f} over a_t from 1e100 to 1e300 (sqrt(2/pi) = 0.798)", slope);
  }
  Measurement m = std::move(worst).result(std::move(note));
  if (variant == 0) tabulate(options, m);
  return m;
}

}  // namespace

constinit const Claim kWeakSparsity = {
    .id = "weak-sparsity",
    .title = "Entropy grows as sqrt(log t)",
    .reference = "Fig. 2, 6",
    .statement =
        "E[H] over [t, Delta t) grows as (log t)^p with p = 1/2 (p = 1 for unscaled logits) and, full, as "
        "sqrt(2/pi) a_t. The paper shows it in a figure up to finite t and leaves it unproven; here E[H] is integrated "
        "for independent standard normal logits.",
    .method = Method::quadrature,
    .threshold = 0.05,
    .threshold_reason =
        "corrections of order log(log t)/log t: p between 1e4 and 1e64 is off by 0.03; the quadrature's own error is "
        "below 1e-6",
    .wrong_variants = kWrong,
    .measure = measure,
};

}  // namespace siattn::verify
