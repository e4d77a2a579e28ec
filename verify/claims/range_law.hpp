// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_CLAIMS_RANGE_LAW_HPP
#define SIATTN_VERIFY_CLAIMS_RANGE_LAW_HPP

#include <array>

#include "verify/claims/support.hpp"

/// Lemma 1 and Lemma 2 say the same of two quantities; what checks them is here, once.
namespace siattn::verify {

enum class Quantity : std::uint8_t {
  total,       ///< E[Z], Lemma 1
  negentropy,  ///< E[N~], Lemma 2
};

/// The transform as published and with mistakes; the last mistake is in the closed form: its range ends a token early.
inline constexpr std::array kRangePlants = {Plant::none, Plant::no_shift, Plant::tau_off, Plant::no_constant,
                                            Plant::logn};
inline constexpr std::array<std::string_view, kRangePlants.size()> kRangeWrong = [] {
  std::array<std::string_view, kRangePlants.size()> names;
  for (std::size_t i = 1; i < kRangePlants.size(); ++i) names[i - 1] = name_of(kRangePlants[i]);
  names.back() = "closed form a token short: psi(t2 - 1 + tau)";
  return names;
}();

/// Over distances [t1, t2) and many parameters:
/// - the closed form equals the sum of E[A~_t] (or E[A~_t log A~_t]), each from a_t and m_t by the moments of App. B;
/// - App. E's bounds hold for [t, t Delta), t up to 1e300, the upper one exactly where t1 + tau > 1;
/// - the closed form is within max(tau, 2)/t of its limit alpha tau ln(Delta) (beta tau ln(Delta)), over alpha tau:
///   App. E gives ln(Delta) - tau/t <= E/(alpha tau) <= ln(Delta) + max(0, 1 - tau)/(t - 1).
/// Deviations are relative. No sample is drawn: the sample mean of exp(L) says nothing here (its relative variance per
/// term is e (1 + t/tau)^2 - 1).
Measurement check_range_law(Quantity quantity, const ClaimOptions& options, std::size_t variant);

inline constexpr double kRangeThreshold = 1e-45;
inline constexpr std::string_view kRangeThresholdReason =
    "n <= 1e5 terms summed in turn: n u = 2.7e-46; a term's own error is below 250 u: u = 2.7e-51";

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_CLAIMS_RANGE_LAW_HPP
