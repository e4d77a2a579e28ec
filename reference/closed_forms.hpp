// SPDX-License-Identifier: Apache-2.0
// Sums over a range of distances [t1, t2) without summing: Lemma 1 and 2 and Theorem 1 of the paper, App. E. Good at
// t = 1 and at t = 1e300 alike, at any precision; needs the functions of <cmath> only.
#ifndef SIATTN_REFERENCE_CLOSED_FORMS_HPP
#define SIATTN_REFERENCE_CLOSED_FORMS_HPP

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "reference/equations.hpp"

namespace siattn::reference {

namespace detail {

/// B_2k / (2k) for k = 1 .. count, at [k - 1], B the Bernoulli numbers. From the tangent numbers T_k, whose recurrence
/// (Brent and Harvey 2011) adds positive integers only, so that rounding stays relative:
/// B_2k / (2k) = (-1)^(k-1) T_k / (4^k (4^k - 1)).
template <class Real>
std::vector<Real> bernoulli_quotients(int count) {
  std::vector<Real> tangent(static_cast<std::size_t>(count) + 1, Real(1));
  for (int k = 2; k <= count; ++k) tangent[k] = (k - 1) * tangent[k - 1];
  for (int k = 2; k <= count; ++k) {
    for (int j = k; j <= count; ++j) tangent[j] = (j - k) * tangent[j - 1] + (j - k + 2) * tangent[j];
  }
  std::vector<Real> result;
  Real four_to_k(1);
  for (int k = 1; k <= count; ++k) {
    four_to_k *= 4;
    result.push_back((k % 2 == 1 ? 1 : -1) * tangent[k] / (four_to_k * (four_to_k - 1)));
  }
  return result;
}

}  // namespace detail

/// psi(x + d) - psi(x), psi the digamma function. x > 0, d >= 0. For a whole number d this is sum_{k=0..d-1} 1/(x + k).
///
/// Accuracy: a small multiple of the unit roundoff u, *relative to the difference*, for every x and d, however close
/// or large (1e12 and one token, or 1e300). Two digammas subtracted would lose log10(psi / difference) digits, and at
/// 1e12 the 10 of x + tau; here d is handed over exactly and nothing cancels:
/// - below X = bits/4 the recurrence: psi(x + d) - psi(x) = [the same at x + 1] + d / (x (x + d)), all terms > 0;
/// - from X on the asymptotic series of psi, subtracted term by term, with y = x + d and l = log(y/x) = log1p(d/x):
///     l + d/(2xy) + sum_k B_2k/(2k) (x^-2k - y^-2k),      x^-2k - y^-2k = -x^-2k expm1(-2k l).
///   It envelops (DLMF 5.11.2): the error is below the first term left out, at most about exp(-2 pi X) = 2^-(2.2 bits)
///   of the result at the best place to stop, and the sum goes on until terms are below u.
template <class Real>
Real digamma_difference(Real x, const Real& d) {
  using std::abs;
  using std::expm1;
  using std::log1p;
  constexpr int bits = std::numeric_limits<Real>::digits;
  constexpr int series_terms = 8 + bits / 8;
  static const std::vector<Real> quotients = detail::bernoulli_quotients<Real>(series_terms);

  Real recurrence(0);
  for (; x < bits / 4; x += 1) recurrence += d / (x + d) / x;

  const Real l = log1p(d / x);
  Real series = l + d / (x + d) / (2 * x);
  const Real inverse_square = Real(1) / x / x;
  Real power(1);
  for (int k = 1; k <= series_terms; ++k) {
    power *= inverse_square;
    const Real term = -quotients[k - 1] * power * expm1(-2 * k * l);
    series += term;
    if (abs(term) <= series * std::numeric_limits<Real>::epsilon() / 4) break;
  }
  return recurrence + series;
}

/// E[Z] over the distances [t1, t2): alpha tau (psi(t2 + tau) - psi(t1 + tau)) = sum alpha / (t/tau + 1) (Eq. 4, 12).
/// Whole numbers 0 <= t1 <= t2. Independence of the logits is not needed: each is N(m_t, a_t^2), that is all.
template <class Real>
Real expected_total(const Real& t1, const Real& t2, const ScaleInvariantParameters<Real>& p) {
  return p.alpha * p.tau * digamma_difference<Real>(t1 + p.tau, t2 - t1);
}

/// E[N~] over the distances [t1, t2): beta tau (psi(t2 + tau) - psi(t1 + tau)) (Eq. 7, 13). As expected_total().
template <class Real>
Real expected_negentropy(const Real& t1, const Real& t2, const ScaleInvariantParameters<Real>& p) {
  return p.beta * p.tau * digamma_difference<Real>(t1 + p.tau, t2 - t1);
}

/// App. E, lower. ln((b+1)/a) <= sum_{k=a..b} 1/k for b = a + n - 1, n >= 0 terms. a > 0, not necessarily whole:
/// a = t1 + tau, n = t2 - t1. Each term: 1/k >= ln((k+1)/k).
template <class Real>
Real harmonic_lower(const Real& a, const Real& n) {
  using std::log1p;
  return log1p(n / a);
}

/// App. E, upper. sum_{k=a..b} 1/k <= ln(b/(a-1)), b = a + n - 1. Each term: 1/k <= ln(k/(k-1)), which needs k > 1.
/// Input condition: a > 1. For a <= 1, that is t1 = 0 and tau <= 1, this bound does not exist and there is no value.
template <class Real>
std::optional<Real> harmonic_upper(const Real& a, const Real& n) {
  using std::log1p;
  if (!(a > 1)) return std::nullopt;
  return log1p(n / (a - 1));
}

/// Eq. 53. E[Z] over [t, t Delta) -> alpha tau ln(Delta) as t -> infinity. Delta > 1.
template <class Real>
Real limit_total(const Real& delta, const ScaleInvariantParameters<Real>& p) {
  using std::log;
  return p.alpha * p.tau * log(delta);
}

/// Eq. 57. E[N~] over [t, t Delta) -> beta tau ln(Delta) as t -> infinity. Delta > 1.
template <class Real>
Real limit_negentropy(const Real& delta, const ScaleInvariantParameters<Real>& p) {
  using std::log;
  return p.beta * p.tau * log(delta);
}

template <class Real>
struct Bounds {
  Real lower;
  Real upper;
};

/// Theorem 1 with constants. For every t >= t0 at once (t and t Delta whole, t0 >= 1, tau > 0, Delta > 1):
///     lower <= E[Z] / (alpha tau) = E[N~] / (beta tau) <= upper        over the distances [t, t Delta).
/// App. E bounds the sum by log(1 + (Delta - 1)/(1 + c/t)) with c = tau below and c = tau - 1 above, monotone in t. So
/// the lower bound is least at t0, and the upper one greatest at t0 (tau < 1) or in the limit ln(Delta) (tau >= 1).
/// a = t + tau > 1 holds for all t >= 1, so the upper bound always exists.
template <class Real>
Bounds<Real> uniform_bounds(const Real& t0, const Real& delta, const Real& tau) {
  using std::log;
  using std::log1p;
  const Real lower = log1p((delta - 1) / (1 + tau / t0));
  const Real upper = tau < 1 ? log1p((delta - 1) / (1 + (tau - 1) / t0)) : log(delta);
  return {lower, upper};
}

}  // namespace siattn::reference

#endif  // SIATTN_REFERENCE_CLOSED_FORMS_HPP
