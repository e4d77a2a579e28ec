// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_CLAIMS_BASE_LAWS_HPP
#define SIATTN_VERIFY_CLAIMS_BASE_LAWS_HPP

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace siattn::verify {

/// A law of base logits S, mean 0 and variance 1.
struct BaseLaw {
  std::string name;
  /// K(a) = log E[exp(a S)] and its derivative, |a| < greatest_scale.
  std::function<double(double a)> log_moment;
  std::function<double(double a)> log_moment_slope;
  /// E[f(S)] for an f that grows no faster than exp(a S) and a polynomial, from the density: independent of the above.
  std::function<double(const std::function<double(double s)>& f, double a)> mean;
  /// E[exp(a S)] is finite below it.
  double greatest_scale = std::numeric_limits<double>::infinity();
  /// sup of a K'(a) - K(a): -log P(S = its greatest value) where that has a chance above 0.
  double greatest_rate = std::numeric_limits<double>::infinity();
};

/// Skew-normal, Student's t and Laplace (cut off, the latter also whole), two points, two Gaussians, and the scores of
/// random queries and keys: both Gaussian, or both of fixed length.
const std::vector<BaseLaw>& base_laws();

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_CLAIMS_BASE_LAWS_HPP
