// SPDX-License-Identifier: Apache-2.0
// The equations of "Scale-invariant attention" (Anson, Wang, Aitchison, NeurIPS 2025, arXiv 2505.17083 v2), one
// function each, at any precision: double, Real50, Real100 (reference/real.hpp) or any type with what <cmath> has.
// Plain formulas, evaluated without cancellation where that matters; nothing here is meant to be fast.
// Sums over ranges of distances in closed form, their bounds and limits: reference/closed_forms.hpp.
#ifndef SIATTN_REFERENCE_EQUATIONS_HPP
#define SIATTN_REFERENCE_EQUATIONS_HPP

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include <siattn/logit_transform.hpp>

namespace siattn::reference {

// ---- Section 2: attention ------------------------------------------------------------------------------------------

/// App. A. t = i - j: tokens from the query at position i back to the key at position j. 0 is the query's own token.
constexpr std::int64_t distance(std::int64_t query_position, std::int64_t key_position) noexcept {
  return query_position - key_position;
}

/// 1 / sqrt(head_dim), the scale of Eq. 1 when none is given. head_dim >= 1.
template <class Real>
Real default_softmax_scale(std::int64_t head_dim) {
  using std::sqrt;
  return Real(1) / sqrt(Real(head_dim));
}

/// Eq. 1. S = softmax_scale <q, k>. Both of head_dim elements. Natural-log units, as all logits below.
template <class Real>
Real score(std::span<const Real> query, std::span<const Real> key, const Real& softmax_scale) {
  Real dot(0);
  for (std::size_t d = 0; d < query.size(); ++d) dot += query[d] * key[d];
  return softmax_scale * dot;
}

/// Eq. 2 (and 14, there with the base logit Lbar_t ~ N(0, 1) in place of S_t). L_t = a_t S_t + m_t.
template <class Real>
Real logit(const Real& a, const Real& s, const Real& m) {
  return a * s + m;
}

/// A~_t = exp(L_t), the unnormalised weight.
template <class Real>
Real unnormalised_weight(const Real& l) {
  using std::exp;
  return exp(l);
}

/// Eq. 3. A_t = A~_t / Z, in [0, 1]. Z > 0: the sum of A~ over every key that the query sees.
template <class Real>
Real weight(const Real& l, const Real& z) {
  return unnormalised_weight(l) / z;
}

/// Eq. 4. Z = sum A~_t over a range of keys, given by their logits. 0 for none.
template <class Real>
Real total_attention(std::span<const Real> logits) {
  Real z(0);
  for (const Real& l : logits) z += unnormalised_weight(l);
  return z;
}

/// Eq. 7. N~ = sum A~_t log A~_t over a range of keys, given by their logits (log A~_t = L_t). 0 for none.
template <class Real>
Real unnormalised_negentropy(std::span<const Real> logits) {
  Real n(0);
  for (const Real& l : logits) n += unnormalised_weight(l) * l;
  return n;
}

/// Eq. 6. H = -N~ / Z + log Z: the entropy, in nats, of the weights within a range, from its Z (Eq. 4) and N~ (Eq. 7).
/// 0 <= H <= log(number of keys). Z > 0.
///
/// Erratum: Eq. 8 of the paper prints H = -N~ / Z - log Z. The sign of log Z is a slip: with A_t = A~_t / Z,
/// -sum A_t log A_t = -sum A_t (log A~_t - log Z) = -N~ / Z + log Z, as Eq. 6 has it.
template <class Real>
Real entropy(const Real& z, const Real& n) {
  using std::log;
  return log(z) - n / z;
}

/// The definition that Eq. 6 rewrites: H = -sum A_t log A_t in nats, A_t = A~_t / Z. At least one logit; all finite.
template <class Real>
Real entropy_by_definition(std::span<const Real> logits) {
  using std::log;
  const Real z = total_attention(logits);
  Real h(0);
  for (const Real& l : logits) {
    const Real a = weight(l, z);
    if (a > 0) h -= a * log(a);  // x log x -> 0
  }
  return h;
}

// ---- Appendix B: moments of a Gaussian ------------------------------------------------------------------------------

/// App. B. E[exp X] = exp(mu + s^2/2), X ~ N(mu, s^2). s >= 0.
template <class Real>
Real mean_exp(const Real& mu, const Real& s) {
  using std::exp;
  return exp(mu + s * s / 2);
}

/// App. B. E[X exp X] = (mu + s^2) exp(mu + s^2/2), X ~ N(mu, s^2). s >= 0.
template <class Real>
Real mean_x_exp(const Real& mu, const Real& s) {
  return (mu + s * s) * mean_exp(mu, s);
}

/// App. B. E[X^2 exp 2X] = ((mu + 2 s^2)^2 + s^2) exp(2 mu + 2 s^2), X ~ N(mu, s^2). s >= 0.
template <class Real>
Real mean_x2_exp2(const Real& mu, const Real& s) {
  using std::exp;
  const Real shifted = mu + 2 * s * s;
  return (shifted * shifted + s * s) * exp(2 * shifted - 2 * s * s);
}

/// The law of which the moments of App. B are cases: for X ~ N(mu, s^2) and any f,
///     E[f(X) exp(c X)] = exp(log_factor) E[f(X')],   X' ~ N(mean, s^2),
///     log_factor = c mu + c^2 s^2 / 2,   mean = mu + c s^2.
template <class Real>
struct Tilt {
  Real log_factor;
  Real mean;
};

template <class Real>
Tilt<Real> tilt(const Real& mu, const Real& s, const Real& c) {
  return {c * mu + c * c * s * s / 2, mu + c * s * s};
}

// ---- Section 3: the scale-invariant transform -----------------------------------------------------------------------

/// tau, alpha and beta of Eq. 12 to 16 at one precision, with what Eq. 16 needs of them. Made by parameters() or
/// parameters_of(), which keep a_0 and m_0 free of cancellation.
template <class Real>
struct ScaleInvariantParameters {
  Real tau;         ///< tokens
  Real alpha;       ///< Eq. 12
  Real beta;        ///< Eq. 13
  Real a0_squared;  ///< 2 [beta/alpha - log(alpha)]
  Real m0;          ///< 2 log(alpha) - beta/alpha
};

/// From any numbers tau > 0, alpha > 0, beta >= alpha log(alpha).
template <class Real>
ScaleInvariantParameters<Real> parameters(const Real& tau, const Real& alpha, const Real& beta) {
  using std::log;
  const Real log_alpha = log(alpha);
  const Real ratio = beta / alpha;
  return {tau, alpha, beta, 2 * (ratio - log_alpha), 2 * log_alpha - ratio};
}

/// The parameters that ScaleInvariant stands for, with the tau of one query head. Each double is taken as the number it
/// is, but for kSqrtE as alpha or beta, which is exactly e^(1/2): then log(alpha) = 1/2 and beta/alpha = 1 hold without
/// error at every precision, and so do a_0 = 1 and m_0 = 0 for the default.
template <class Real>
ScaleInvariantParameters<Real> parameters_of(const ScaleInvariant& transform, std::size_t head = 0) {
  using std::exp;
  using std::log;
  const auto exact = [](double x) { return x == kSqrtE && !std::is_same_v<Real, double> ? exp(Real(1) / 2) : Real(x); };
  const Real alpha = exact(transform.alpha);
  const Real beta = exact(transform.beta);
  const Real log_alpha = transform.alpha == kSqrtE ? Real(1) / 2 : log(alpha);
  const Real ratio = transform.alpha == transform.beta ? Real(1) : beta / alpha;
  Real a0_squared = 2 * (ratio - log_alpha);
  // beta = alpha log(alpha) as a double can lie just outside at a higher precision: there a_0 is 0, not NaN.
  const Real rounding = Real(8 * std::numeric_limits<double>::epsilon() * (1 + std::abs(std::log(transform.alpha))));
  if (a0_squared < 0 && a0_squared > -rounding) a0_squared = Real(0);
  return {Real(transform.tau.at(head)), alpha, beta, a0_squared, 2 * log_alpha - ratio};
}

/// Eq. 12, right side. E[A~_t] = alpha / (t/tau + 1): the mean weight that Lemma 1 asks for. t >= 0.
template <class Real>
Real target_mean(const Real& t, const ScaleInvariantParameters<Real>& p) {
  return p.alpha / (t / p.tau + 1);
}

/// Eq. 13, right side. E[A~_t log A~_t] = beta / (t/tau + 1): what Lemma 2 asks for. t >= 0.
template <class Real>
Real target_mean_log(const Real& t, const ScaleInvariantParameters<Real>& p) {
  return p.beta / (t / p.tau + 1);
}

/// Eq. 15, first. E[A~_t] = exp(m_t + a_t^2/2) for a standard normal base logit, so L_t ~ N(m_t, a_t^2); to equal
/// Eq. 12.
template <class Real>
Real mean_weight(const Real& a, const Real& m) {
  return mean_exp(m, a);
}

/// Eq. 15, second. E[A~_t log A~_t] = (m_t + a_t^2) exp(m_t + a_t^2/2) for a standard normal base logit; to equal
/// Eq. 13.
template <class Real>
Real mean_weight_log(const Real& a, const Real& m) {
  return mean_x_exp(m, a);
}

/// Eq. 16. a_t = sqrt(2 [log(t/tau + 1) - log(alpha) + beta/alpha]), multiplies the score. t >= 0.
/// Defined where tau > 0, alpha > 0, beta > 0, beta >= alpha log(alpha); increasing in t. With alpha = beta = e^(1/2):
/// sqrt(1 + 2 log1p(t/tau)).
template <class Real>
Real scale(const Real& t, const ScaleInvariantParameters<Real>& p) {
  using std::log1p;
  using std::sqrt;
  return sqrt(2 * log1p(t / p.tau) + p.a0_squared);
}

/// Eq. 16. m_t = -a_t^2 + beta/alpha, adds to the logit; evaluated as -2 log1p(t/tau) + 2 log(alpha) - beta/alpha.
/// t >= 0; decreasing in t. With alpha = beta = e^(1/2): -2 log1p(t/tau).
template <class Real>
Real shift(const Real& t, const ScaleInvariantParameters<Real>& p) {
  using std::log1p;
  return p.m0 - 2 * log1p(t / p.tau);
}

// ---- The methods it is compared with -------------------------------------------------------------------------------

/// LogN, SSMax (Nakanishi 2025). L = s log(n) S: the factor of a query that sees n keys. n >= 1 (n = 1: 0).
template <class Real>
Real logn_factor(const Real& s, const Real& n) {
  using std::log;
  return s * log(n);
}

/// InfoScale (Li et al. 2025). L = S sqrt(1 - n^(-2/d)) / sqrt(1 - n_train^(-2/d)): the factor of a query that sees n
/// keys, d = head_dim. n >= 1 (n = 1: 0), train_length > 1, head_dim >= 1.
template <class Real>
Real infoscale_factor(const Real& n, const Real& train_length, const Real& head_dim) {
  using std::expm1;
  using std::log;
  using std::sqrt;
  // 1 - x^(-2/d) = -expm1(-2 log(x) / d): x^(-2/d) is near 1 for large d.
  return sqrt(expm1(-2 * log(n) / head_dim) / expm1(-2 * log(train_length) / head_dim));
}

/// ALiBi (Press et al. 2021). L = S - slope t: the slope of head h = 0 .. heads - 1. heads >= 1.
/// For a power of two 2^(-8 (h + 1) / heads); for other counts, with P the power of two below, first the slopes of P
/// heads, then the first, third, fifth .. of those of 2 P heads.
template <class Real>
Real alibi_slope(int h, int heads) {
  using std::pow;
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(heads)));
  const Real exponent = h < power ? 8 * (Real(h) + 1) / power : 4 * (2 * Real(h - power) + 1) / power;
  return pow(Real(2), -exponent);
}

/// ALiBi. m_t = -slope t. t >= 0.
template <class Real>
Real alibi_shift(const Real& slope, const Real& t) {
  return -slope * t;
}

}  // namespace siattn::reference

#endif  // SIATTN_REFERENCE_EQUATIONS_HPP
