// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_NORMAL_LAW_HPP
#define SIATTN_VERIFY_NORMAL_LAW_HPP

namespace siattn::verify {

/// log Phi(x), Phi the distribution function of the standard normal law; relative error below 1e-12 for every x, also
/// where Phi itself is no double any more. log_normal_cdf(-x) is the logarithm of the upper tail.
double log_normal_cdf(double x);

/// Phi(x); relative error below 1e-12 down to the least normal double.
double normal_cdf(double x);

/// The x with Phi(x) = p, 0 <= p <= 1; -infinity at 0, infinity at 1. NaN for any other p.
double normal_quantile(double p);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_NORMAL_LAW_HPP
