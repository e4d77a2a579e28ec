// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_INTERVAL_HPP
#define SIATTN_VERIFY_INTERVAL_HPP

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "reference/real.hpp"

namespace siattn::verify {

/// A closed interval of 50-digit numbers that encloses a real number, or every value of an expression over a range.
/// The operations enclose the exact result: MPFR rounds each to nearest (error at most half a unit in the last place,
/// relative 2^-168), and the ends are then moved outwards by 2^-164 of themselves.
class Interval {
 public:
  using Real = reference::Real50;

  Interval(const Real& point) : lower_(point), upper_(point) {}  // NOLINT(google-explicit-constructor)
  Interval(double point) : Interval(Real(point)) {}              // NOLINT(google-explicit-constructor)
  /// All x with lower <= x <= upper.
  Interval(const Real& lower, const Real& upper) : lower_(lower), upper_(upper) {
    if (!(lower_ <= upper_)) throw std::domain_error("interval with its ends in the wrong order, or not a number");
  }

  const Real& lower() const noexcept { return lower_; }
  const Real& upper() const noexcept { return upper_; }
  bool contains(const Real& x) const { return lower_ <= x && x <= upper_; }

  friend Interval operator+(const Interval& a, const Interval& b) {
    return outward(a.lower_ + b.lower_, a.upper_ + b.upper_);
  }
  friend Interval operator-(const Interval& a, const Interval& b) {
    return outward(a.lower_ - b.upper_, a.upper_ - b.lower_);
  }
  friend Interval operator*(const Interval& a, const Interval& b) {
    const auto [low, high] =
        std::minmax({a.lower_ * b.lower_, a.lower_ * b.upper_, a.upper_ * b.lower_, a.upper_ * b.upper_});
    return outward(low, high);
  }
  friend Interval operator/(const Interval& a, const Interval& b) {
    if (b.lower_ <= 0 && b.upper_ >= 0) throw std::domain_error("division by an interval that contains 0");
    const auto [low, high] =
        std::minmax({a.lower_ / b.lower_, a.lower_ / b.upper_, a.upper_ / b.lower_, a.upper_ / b.upper_});
    return outward(low, high);
  }
  friend Interval log1p(const Interval& a) {
    if (a.lower_ <= -1) throw std::domain_error("logarithm of an interval that reaches 0");
    return outward(log1p(a.lower_), log1p(a.upper_));
  }

 private:
  static Interval outward(const Real& lower, const Real& upper) {
    const Real margin = ldexp(Real(1), -164);
    return {lower - abs(lower) * margin, upper + abs(upper) * margin};
  }

  Real lower_;
  Real upper_;
};

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_INTERVAL_HPP
