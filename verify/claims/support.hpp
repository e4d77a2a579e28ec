// SPDX-License-Identifier: Apache-2.0
// What the claims share: the worst deviation seen, the transform with or without a planted mistake, the grids, and the
// quadrature.
#ifndef SIATTN_VERIFY_CLAIMS_SUPPORT_HPP
#define SIATTN_VERIFY_CLAIMS_SUPPORT_HPP

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "reference/closed_forms.hpp"
#include "reference/equations.hpp"
#include "reference/real.hpp"
#include "verify/claim.hpp"

namespace siattn::verify {

using reference::Real100;
using reference::Real50;

/// The two sides of an identity at one precision. The deviation is |left - right| / size.
template <class Real>
struct Sides {
  Real left;
  Real right;
  Real size;
};

/// Sides whose deviation is relative to the right one, or absolute where that is 0.
template <class Real>
Sides<Real> sides(const Real& left, const Real& right) {
  using std::abs;
  return {left, right, right == 0 ? Real(1) : Real(abs(right))};
}

/// Keeps the largest deviation and where it was. `where` is called only when a new maximum is found.
class Worst {
 public:
  template <class Real, class Where>
  void see(const Real& deviation, Where where) {
    auto figure = static_cast<double>(deviation);
    if (std::isnan(figure)) figure = std::numeric_limits<double>::infinity();
    if (figure < result_.figure || (figure == result_.figure && !result_.witness.empty())) return;
    result_.figure = figure;
    result_.witness = where();
  }

  /// By how much `excess` is above 0; a bound that is kept counts 0.
  template <class Real, class Where>
  void see_excess(const Real& excess, Where where) {
    see(excess > 0 || excess != excess ? excess : Real(0), where);
  }

  /// An identity at 50 and at 100 digits: identity(Real{}) gives its Sides. Either side at 50 digits and the left one
  /// at 100 must agree with the right one at 100.
  template <class Identity, class Where>
  void see_identity(Identity identity, Where where) {
    const Sides<Real50> narrow = identity(Real50{});
    const Sides<Real100> wide = identity(Real100{});
    for (const Real100& value : {Real100(narrow.left), Real100(narrow.right), wide.left}) {
      see(Real100(abs(value - wide.right) / wide.size), where);
    }
  }

  Measurement result(std::string note = {}) && {
    result_.note = std::move(note);
    return std::move(result_);
  }

 private:
  Measurement result_;
};

/// The transform as published, or with one mistake.
enum class Plant : std::uint8_t { none, no_shift, tau_off, no_constant, logn, no_scaling, alibi };

constexpr std::string_view name_of(Plant plant) noexcept {
  switch (plant) {
    case Plant::none: return "as published";
    case Plant::no_shift: return "m_t = 0";
    case Plant::tau_off: return "tau 1 % too large";
    case Plant::no_constant: return "a_t and m_t without their constants (no +1 in a_t^2)";
    case Plant::logn: return "LogN in its place (s = 0.4, n = 65536)";
    case Plant::no_scaling: return "no scaling (a = 1, m = 0)";
    case Plant::alibi: return "ALiBi in its place (slope 1/256)";
  }
  return "?";
}

/// The names of plants[1 ..]: plants[0] is the claim as stated.
template <std::size_t n>
constexpr std::array<std::string_view, n - 1> wrong_names(const std::array<Plant, n>& plants) {
  std::array<std::string_view, n - 1> names;
  for (std::size_t i = 1; i < n; ++i) names[i - 1] = name_of(plants[i]);
  return names;
}

template <class Real>
struct Affine {
  Real a;
  Real m;
};

/// a_t and m_t of Eq. 16 for these parameters, or what the mistake makes of them.
template <class Real>
Affine<Real> transform_at(Plant plant, const Real& t, const reference::ScaleInvariantParameters<Real>& p) {
  const Real zero(0);
  reference::ScaleInvariantParameters<Real> q = p;
  switch (plant) {
    case Plant::none: break;
    case Plant::no_shift: return {reference::scale(t, p), zero};
    case Plant::tau_off: q.tau = p.tau * 101 / 100; break;
    case Plant::no_constant: q.a0_squared = q.m0 = zero; break;
    case Plant::logn: return {reference::logn_factor<Real>(Real(4) / 10, Real(65536)), zero};
    case Plant::no_scaling: return {Real(1), zero};
    case Plant::alibi: return {Real(1), reference::alibi_shift<Real>(Real(1) / 256, t)};
  }
  return {reference::scale(t, q), reference::shift(t, q)};
}

/// Parameters over their range: the default first, tau on both sides of 1, beta above and just above alpha log(alpha).
inline std::vector<ScaleInvariant> settings(bool full) {
  std::vector<ScaleInvariant> list = {
      {10.0, kSqrtE, kSqrtE}, {0.5, 1, 1}, {1.0, kSqrtE, kSqrtE}, {1000.0, 0.5, 0.25}, {3.7, 3, 3.5}};
  if (full) {
    for (const double tau : {1e-3, 0.1, 64.0, 1e6}) {
      for (const auto& [alpha, beta] : {std::pair{kSqrtE, kSqrtE}, {0.01, 1.0}, {2.0, 3.0}, {20.0, 60.0}}) {
        list.push_back({tau, alpha, beta});
      }
    }
  }
  return list;
}

inline std::string text_of(const ScaleInvariant& s) {
  return fmt::format("tau = {}, alpha = {:.6g}, beta = {:.6g}", s.tau.at(0), s.alpha, s.beta);
}

/// Distances from the query's own token to far beyond any context, whole numbers all.
inline std::vector<double> distances(bool full) {
  if (!full) return {0, 1, 7, 100, 65536, 1e12, 1e300};
  return {0, 1, 2, 3, 7, 10, 31, 100, 1000, 4096, 65536, 1e6, 1e7, 2147483647, 1e12, 1e15, 1e50, 1e100, 1e200, 1e300};
}

/// The integrals over the real line of the two parts of f(z), by the trapezoidal rule h sum f(k h). Each part is
/// g(z) exp(c z - z^2/2), |c| <= reach, with g a polynomial, perhaps times cos(w z + b), |w| <= frequency.
///
/// Error, proved, relative to the integral of |f|, for W = sqrt(2 (bits + 20) ln 2):
/// - f is entire, and on the lines Im z = +-y at most about exp(y^2/2 + frequency y) times what it is on the real line;
///   so the rule's error is about exp(y^2/2 + frequency y - 2 pi y/h) (Trefethen and Weideman 2014, Theorem 5.1), at
///   best exp(-(2 pi/h - frequency)^2/2): with h <= 2 pi/(W + frequency) below 2^-(bits + 20);
/// - what lies further than W from the peak at c is below exp(-W^2/2) = 2^-(bits + 20) as well.
template <class Real, class F>
std::array<Real, 2> integrals_over_line(F f, double reach, double frequency = 0) {
  const double w = std::sqrt(2 * (std::numeric_limits<Real>::digits + 20) * 0.6931471805599453);
  const double h =
      std::exp2(std::floor(std::log2(6.283185307179586 / (w + frequency))));  // a power of two: k h is exact
  const int n = static_cast<int>(std::ceil((reach + w) / h));
  std::array<Real, 2> sums{};
  for (int k = -n; k <= n; ++k) {
    const std::array<Real, 2> values = f(Real(k) * h);
    sums[0] += values[0];
    sums[1] += values[1];
  }
  return {sums[0] * h, sums[1] * h};
}

template <class Real>
const Real& root_two_pi() {
  using std::atan;
  using std::sqrt;
  static const Real value = sqrt(8 * atan(Real(1)));
  return value;
}

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_CLAIMS_SUPPORT_HPP
