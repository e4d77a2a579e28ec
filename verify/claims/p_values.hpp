// SPDX-License-Identifier: Apache-2.0
// What the sampled claims share: chances of a result as far off or farther, if the claim holds, and how they become a
// figure.
#ifndef SIATTN_VERIFY_CLAIMS_P_VALUES_HPP
#define SIATTN_VERIFY_CLAIMS_P_VALUES_HPP

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

#include "verify/claims/support.hpp"
#include "verify/marginals.hpp"

namespace siattn::verify {

/// Each comparison of a sampled claim rejects what has a chance below this: with at most kMostComparisons of them a claim
/// as stated is found wrong by chance in one of 1e8 seeds.
inline constexpr double kComparisonLevel = 1e-10;
inline constexpr double kMostComparisons = 100;
inline constexpr double kSampledFalseAlarm = kComparisonLevel * kMostComparisons;
/// The figure of a sampled claim: -log10 of the least chance seen.
inline constexpr double kSampledThreshold = 10;

/// Two-sided, of a mean over `repetitions` independent draws against its exact value (Student's t; the draws themselves
/// are light-tailed, and no fewer than 100, so that the mean is normal as far as their skewness matters).
inline double mean_p_value(const Estimate& estimate, double exact, double repetitions) {
  if (!(estimate.standard_error > 0)) return estimate.value == exact ? 1 : 0;
  const double t = std::abs(estimate.value - exact) / estimate.standard_error;
  if (!std::isfinite(t)) return 0;
  return 2 * cdf(complement(boost::math::students_t(repetitions - 1), t));
}

/// Two-sided, of `count` successes in n independent trials of probability p: exact, twice the smaller tail.
inline double binomial_p_value(double count, double n, double p) {
  const boost::math::binomial law(n, p);
  const double below = cdf(law, count);
  const double above = count > 0 ? cdf(complement(law, count - 1)) : 1.0;
  return std::min(1.0, 2 * std::min(below, above));
}

/// Counts the comparisons, so that none is left out of the sum of false alarms. More than kMostComparisons are an error.
class Comparisons {
 public:
  template <class Where>
  void see(double p_value, Where where) {
    if (++count_ > kMostComparisons) throw std::logic_error("more comparisons than the rate of false alarms allows");
    worst_.see(p_value > 0 ? -std::log10(p_value) : std::numeric_limits<double>::infinity(), where);
  }
  Measurement result(std::string note) && { return std::move(worst_).result(std::move(note)); }

 private:
  Worst worst_;
  int count_ = 0;
};

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_CLAIMS_P_VALUES_HPP
