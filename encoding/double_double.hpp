// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_ENCODING_DOUBLE_DOUBLE_HPP
#define SIATTN_ENCODING_DOUBLE_DOUBLE_HPP

#include <cmath>
#include <cstdint>

/// Numbers of about 106 bits as an unevaluated sum of two doubles: what frequencies need, since an error in a frequency
/// grows by the position, up to 2^31. long double would do on x86 alone. u = 2^-53; the relative error bounds are those
/// of Joldes, Muller and Popescu, "Tight and rigorous error bounds for basic building blocks of double-word
/// arithmetic" (ACM TOMS 44, 2017). All numbers here are positive, so sums do not cancel.
namespace siattn::encoding {

struct DoubleDouble {
  double high = 0;  ///< the sum, rounded
  double low = 0;   ///< what is missing, at most half an ulp of high

  constexpr DoubleDouble() = default;
  constexpr DoubleDouble(double value) : high(value) {}  // NOLINT(google-explicit-constructor)
  constexpr DoubleDouble(double h, double l) : high(h), low(l) {}
};

/// Exact for |a| >= |b|.
inline DoubleDouble fast_two_sum(double a, double b) noexcept {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

/// Exact.
inline DoubleDouble two_sum(double a, double b) noexcept {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

/// Exact, away from underflow.
inline DoubleDouble two_product(double a, double b) noexcept {
  const double product = a * b;
  return {product, std::fma(a, b, -product)};
}

/// Relative error at most 2u^2.
inline DoubleDouble operator+(DoubleDouble a, double b) noexcept {
  const DoubleDouble sum = two_sum(a.high, b);
  return fast_two_sum(sum.high, sum.low + a.low);
}

/// Relative error at most 7u^2.
inline DoubleDouble operator*(DoubleDouble a, DoubleDouble b) noexcept {
  const DoubleDouble product = two_product(a.high, b.high);
  return fast_two_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

/// Relative error at most 15u^2: a first quotient, and what it leaves.
inline DoubleDouble operator/(DoubleDouble a, DoubleDouble b) noexcept {
  const double quotient = a.high / b.high;
  const DoubleDouble back = b * quotient;
  const double rest = (a.high - back.high) + (a.low - back.low);  // the first difference is exact
  return fast_two_sum(quotient, rest / b.high);
}

/// a^n, n >= 0. Relative error at most 7(n - 1)u^2.
inline DoubleDouble power(DoubleDouble a, std::int64_t n) noexcept {
  DoubleDouble result = 1.0;
  for (; n > 0; n >>= 1) {
    if (n & 1) result = result * a;
    if (n > 1) a = a * a;
  }
  return result;
}

/// a^(-1/n) for 1 <= a <= 1e100, n >= 1. Relative error at most 16u^2.
///
/// Newton's iteration for y^-n = a, y += y (1 - a y^n) / n, from a start with an error e0 < 2^-45. Each step leaves
/// (n + 1)/2 e^2, so for n < 2^14 two of them leave less than 2^-140, and rounding decides: 7(n + 1)u^2 in a y^n, of
/// which 1/n counts, and 2u^2 in the sum.
inline DoubleDouble inverse_root(DoubleDouble a, std::int64_t n) noexcept {
  DoubleDouble y = std::pow(a.high, -1.0 / static_cast<double>(n));
  for (int step = 0; step < 2; ++step) {
    const DoubleDouble one = a * power(y, n);
    const double rest = (1.0 - one.high) - one.low;  // the first difference is exact
    y = y + y.high * rest / static_cast<double>(n);
  }
  return y;
}

}  // namespace siattn::encoding

#endif  // SIATTN_ENCODING_DOUBLE_DOUBLE_HPP
