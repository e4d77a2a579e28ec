// SPDX-License-Identifier: Apache-2.0
// How much hangs on tau, alpha and beta. From the closed forms (Lemma 1, 2), with w_t = tau/(t + tau):
//     d log E[Z] / d log tau = sum w_t t/(t + tau) / sum w_t,      in [0, 1),
//     d log E[Z] / d log alpha = 1, d log E[Z] / d log beta = 0, and for E[N~] with alpha and beta exchanged.
#include "verify/claims/list.hpp"
#include "verify/claims/support.hpp"
#include "verify/range_distribution.hpp"

namespace siattn::verify {
namespace {

using namespace reference;

constexpr std::array<std::string_view, 3> kWrong = {"d log E[Z] / d log tau = 1 at every t",
                                                    "(t + 1)/(t + tau) in place of t/(t + tau)",
                                                    "E[N~] proportional to alpha"};

struct Range {
  double first;
  double count;
};

template <class Real>
Real stated_tau_elasticity(std::size_t variant, const Range& range, const Real& tau) {
  if (variant == 1) return Real(1);
  Real sum(0), weighted(0);
  for (double i = 0; i < range.count; ++i) {
    const Real t = Real(range.first) + i;
    const Real w = tau / (t + tau);
    sum += w;
    weighted += w * ((variant == 2 ? t + 1 : t) / (t + tau));
  }
  return weighted / sum;
}

/// d log f / d log x at x, f positive and analytic, by a central difference: error about (step^2/6) f'''.
template <class Real, class F>
Real elasticity(F f, const Real& x) {
  const Real step = ldexp(Real(1), -std::numeric_limits<Real>::digits / 3);
  return log(f(Real(x * exp(step))) / f(Real(x * exp(-step)))) / (2 * step);
}

/// E[H] and the typical total by tau, and by alpha and beta: what a choice changes.
std::vector<Table> tables(bool full) {
  Table table{"Sensitivity of [t, 10 t): independent standard normal logits",
              {"tau", "alpha", "beta", "t (tokens)", "E[Z]", "d log E[Z] / d log tau", "E[H] (nats)"},
              {}};
  std::vector<ScaleInvariant> settings;
  for (const double tau : {1.0, 3.0, 10.0, 30.0, 100.0, 1000.0}) settings.push_back({.tau = tau});
  settings.insert(settings.end(), {{10.0, 1, 1}, {10.0, 1, 0.5}, {10.0, 1, 2}, {10.0, 3, 3.5}});
  std::vector<double> distances = {100, 1e4};
  if (full) distances = {10, 100, 1e3, 1e4, 1e5, 1e6};
  for (const ScaleInvariant& s : settings) {
    const auto p = parameters_of<double>(s);
    for (const double t : distances) {
      const auto total_by_tau = [&](double tau) {
        return expected_total<double>(t, 10 * t, parameters_of<double>(ScaleInvariant{tau, s.alpha, s.beta}));
      };
      const double slope = std::log(total_by_tau(p.tau * 1.001) / total_by_tau(p.tau / 1.001)) / (2 * std::log(1.001));
      table.rows.push_back({p.tau, s.alpha, s.beta, t, expected_total<double>(t, 10 * t, p), slope,
                            RangeDistribution(s, {t, 10 * t}).mean_entropy()});
    }
  }
  return {std::move(table)};
}

Measurement measure(const ClaimOptions& options, std::size_t variant) {
  Worst worst;
  std::vector<Range> ranges = {{0, 1}, {0, 10}, {10, 90}, {100, 900}};
  if (options.full) ranges.insert(ranges.end(), {{1000, 9000}, {0, 5000}, {1e6, 100}});
  for (const double tau : {0.5, 1.0, 10.0, 1000.0}) {
    for (const Range& range : ranges) {
      const auto where = [&](const char* what) {
        return [&range, tau, what] {
          return fmt::format("{}, [{}, {} more), tau = {}", what, range.first, range.count, tau);
        };
      };
      const Real100 t1(range.first), t2 = t1 + range.count, x(tau);
      const auto total = [&](const Real100& of_tau) { return expected_total(t1, t2, parameters<Real100>(of_tau, 2, 3)); };
      const Real100 stated = stated_tau_elasticity<Real100>(variant, range, x);
      worst.see(Real100(abs(elasticity(total, x) - stated)), where("E[Z] by tau"));
      if (!(stated >= 0 && stated < 1) && variant != 2) worst.see(1.0, where("elasticity outside [0, 1)"));
      const auto negentropy_by_alpha = [&](const Real100& alpha) {
        return variant == 3 ? expected_total(t1, t2, parameters<Real100>(x, alpha, 3))
                            : expected_negentropy(t1, t2, parameters<Real100>(x, alpha, 3));
      };
      worst.see(abs(elasticity(negentropy_by_alpha, Real100(2))), where("E[N~] by alpha"));
      const auto total_by_alpha = [&](const Real100& alpha) { return expected_total(t1, t2, parameters<Real100>(x, alpha, 3)); };
      worst.see(Real100(abs(elasticity(total_by_alpha, Real100(2)) - 1)), where("E[Z] by alpha"));
      const auto total_by_beta = [&](const Real100& beta) { return expected_total(t1, t2, parameters<Real100>(x, 2, beta)); };
      worst.see(abs(elasticity(total_by_beta, Real100(3))), where("E[Z] by beta"));
    }
  }
  Measurement m = std::move(worst).result("one percent of tau moves E[Z] of any range by less than one percent");
  if (variant == 0) m.tables = tables(options.full);
  return m;
}

}  // namespace

constinit const Claim kSensitivity = {
    .id = "sensitivity",
    .title = "What tau, alpha, beta change",
    .reference = "Eq. 16, Lemma 1, 2",
    .statement =
        "d log E[Z] / d log tau is the mean of t/(t + tau) weighted with 1/(t + tau): between 0 and 1, towards 1 for "
        "t >> tau, so a wrong tau scales all far ranges alike; alpha scales E[Z] alone, beta E[N~] alone.",
    .method = Method::exact,
    .threshold = 1e-60,
    .threshold_reason =
        "central differences with step 2^-111: step^2/6 = 2e-68 times the third derivative, rounding 100 u / step = "
        "2.6e-66, u = 1e-101, and 5000 u of the sum",
    .wrong_variants = kWrong,
    .measure = measure,
};

}  // namespace siattn::verify
