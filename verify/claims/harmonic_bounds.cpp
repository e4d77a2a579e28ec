// SPDX-License-Identifier: Apache-2.0
#include "verify/claims/list.hpp"
#include "verify/claims/support.hpp"
#include "verify/interval.hpp"

namespace siattn::verify {
namespace {

using namespace reference;

constexpr std::array<std::string_view, 3> kWrong = {"upper bound ln(b/a) in place of ln(b/(a-1))",
                                                    "lower bound ln((b+1)/(a-1)) in place of ln((b+1)/a)",
                                                    "the upper bound offered for a <= 1, as ln(b/|a-1|)"};

Real50 lower_of(std::size_t variant, const Real50& a, const Real50& n) {
  return variant == 2 ? Real50(log1p((n + 1) / (a - 1))) : harmonic_lower(a, n);
}

std::optional<Real50> upper_of(std::size_t variant, const Real50& a, const Real50& n) {
  if (variant == 1 && a > 1) return Real50(log1p((n - 1) / a));
  if (variant == 3 && a <= 1) return Real50(log1p(n / abs(a - 1)));
  return harmonic_upper(a, n);
}

/// Each term at once, for all k: with y = 1/k the claims are ln(1 + y) <= y on [0, oo) and y <= -ln(1 - y) on [0, 1).
/// Both sides are 0 at y = 0, so it is enough that the derivatives of their differences, y/(1 + y) and y/(1 - y), are
/// enclosed above 0. True when certified.
bool certify_every_term() {
  const Real50 below_one = 1 - ldexp(Real50(1), -150);
  const Interval y(Real50(0), below_one);
  const Interval all(Real50(0), ldexp(Real50(1), 4000));  // k down to 2^-4000: any a > 0 that a double can be
  return (all / (Interval(1.0) + all)).lower() >= 0 && (y / (Interval(1.0) - y)).lower() >= 0;
}

Measurement measure(const ClaimOptions& options, std::size_t variant) {
  Worst worst;
  if (!certify_every_term()) worst.see(1.0, [] { return std::string("the certificate for every term"); });
  std::vector<double> starts = {0x1p-20, 0.5, 1, 1.25, 1.5, 2, 10, 1000.5, 1e6, 1e12, 1e300};
  if (options.full) {
    for (int i = 0; i < 200; ++i) starts.push_back(1 + i * 0.37);
    for (double a = 3; a < 1e290; a *= 7.3) starts.push_back(a);
  }
  for (const double a : starts) {
    for (const double n : {1.0, 2.0, 3.0, 10.0, 1e4, 1e9, 9 * a}) {
      if (n != std::floor(n)) continue;
      const auto where = [&] { return fmt::format("a = {:g}, {:g} terms", a, n); };
      const Real50 sum = digamma_difference<Real50>(a, n);
      if (a > 1 || variant != 2) worst.see_excess(Real50(lower_of(variant, a, n) / sum - 1), where);
      const std::optional<Real50> upper = upper_of(variant, a, n);
      // Where a <= 1 there is nothing to divide by: a bound must not be offered, rather than be NaN or infinite.
      if (upper.has_value() != (a > 1)) worst.see(1.0, where);
      if (upper) worst.see_excess(Real50(1 - *upper / sum), where);
    }
  }
  return std::move(worst).result("the upper bound needs a = t1 + tau > 1; for t1 = 0 and tau <= 1 there is none");
}

}  // namespace

constinit const Claim kHarmonicBounds = {
    .id = "harmonic-bounds",
    .title = "Logarithms enclose harmonic sums",
    .reference = "App. E",
    .statement =
        "ln((b+1)/a) <= sum_{k=a..b} 1/k <= ln(b/(a-1)): each term for all k > 0 (lower) and k > 1 (upper) at "
        "once, and sums in closed form. Input condition of the upper bound: a = t1 + tau > 1.",
    .method = Method::certified,
    .threshold = 1e-48,
    .threshold_reason =
        "at 1e300 bounds and sum agree to 1e-299, so only rounding shows: the sum adds up to 42 + 29 "
        "terms, 100 u = 2.7e-49, u = 2.7e-51",
    .wrong_variants = kWrong,
    .measure = measure,
};

}  // namespace siattn::verify
