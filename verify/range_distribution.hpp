// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_RANGE_DISTRIBUTION_HPP
#define SIATTN_VERIFY_RANGE_DISTRIBUTION_HPP

#include <complex>
#include <functional>
#include <vector>

#include <siattn/logit_transform.hpp>

#include "verify/range_sampling.hpp"

/// The law of Z and the mean of H within a range of distances for independent standard normal base logits, by
/// quadrature: no sample, at t = 10 and at t = 1e300 alike.
///
/// With phi_t(s) = E[exp(-s A~_t)], the Laplace transform of Z is E[exp(-s Z)] = prod_t phi_t(s), and
///     E[log Z] = int_0^oo (exp(-s) - E[exp(-s Z)]) ds/s
///     E[N~/Z]  = int_0^oo E[N~ exp(-s Z)] ds = int_0^oo sum_t E[L_t A~_t exp(-s A~_t)] / phi_t(s) E[exp(-s Z)] ds
/// so that E[H] = E[log Z] - E[N~/Z] (Eq. 6); and P(Z <= z) is the inverse transform of E[exp(-s Z)]/s.
///
/// Accuracy: trapezoidal rules on analytic integrands, errors near 1e-13; a range's distances from t = 100 on are
/// integrated instead of summed, relative error about 1/(24 t^2) at the first: 4e-6 at t = 100, 4e-8 at t = 1000. The
/// inversion (Abate and Whitt 1992) adds 1e-8 in probability where the law is broad, and more the narrower it is: against
/// twice as many terms 2e-7 at t = 1e50, 1e-5 at 1e100, 2e-4 in the tails and 3e-5 at the median at 1e300.
namespace siattn::verify {

class RangeDistribution {
 public:
  /// Transforms as affine_map() takes them, with a > 0; the query sees the keys up to the end of the range.
  RangeDistribution(const LogitTransform& transform, const DistanceRange& range);
  /// Any map of the distance; smooth on the scale of t from t = 100 on. a > 0.
  RangeDistribution(const std::function<AffineMap(double t)>& map, const DistanceRange& range);

  double mean_total() const;    ///< E[Z]
  double mean_entropy() const;  ///< E[H], nats
  /// P(Z <= z), z > 0. Not where the law is all but a point: the spread of Z has to be a tenth of its mean or more (of
  /// unscaled logits it is less beyond t = 100).
  double below(double z) const;
  /// The z with P(Z <= z) = p, 1e-6 < p < 1 - 1e-6, to 1e-6 of itself besides.
  double quantile(double p) const;

 private:
  /// Distances that share one map, with what their integrals over the base logit z need, at z = low + k step.
  struct Node {
    double count;  ///< how many distances it stands for: a weight of the rule that replaces their sum
    AffineMap map;
    double low, step;
    std::vector<double> weight;   ///< A~ = exp(a z + m)
    std::vector<double> density;  ///< of N(0, 1) at z, times step
  };
  struct AtReal {
    double log_laplace;  ///< log E[exp(-s Z)]
    double slope;        ///< E[N~ exp(-s Z)] / E[exp(-s Z)]
  };

  void add_node(double count, const AffineMap& map);
  AtReal at(double s) const;
  std::complex<double> log_laplace(std::complex<double> s) const;

  std::vector<Node> nodes_;
};

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_RANGE_DISTRIBUTION_HPP
