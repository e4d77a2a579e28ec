// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_RANGE_SAMPLING_HPP
#define SIATTN_VERIFY_RANGE_SAMPLING_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <siattn/logit_transform.hpp>

#include "verify/marginals.hpp"

/// Total attention and entropy within a range of distances, sampled: base logits independent standard normal, then the
/// map of a transform. Results depend on the arguments alone, never on the number of threads.
///
/// What a sample can tell: E[H] and quantiles of Z. The sample mean of Z is no estimate of E[Z]: one term's variance is
/// e (1 + t/tau)^2 - 1 times its squared mean, and with 20 repetitions at t = 1e6 it came out at 0.7 of the exact value.
/// E[Z] has a closed form (reference/closed_forms.hpp); exact E[H] and quantiles of Z: verify/range_distribution.hpp.
namespace siattn::verify {

/// L = a S + m at one distance.
struct AffineMap {
  double a;
  double m;
};

/// The map of head 0 at distance t >= 0 for a query that sees n >= 1 keys; t need not fit an integer. Throws
/// std::invalid_argument for a transform that needs a head_dim (InfoScale) or a head count (ALiBi without a slope).
AffineMap affine_map(const LogitTransform& transform, double t, double n);

/// Distances first <= t < last, whole numbers.
struct DistanceRange {
  double first;
  double last;

  double size() const noexcept { return last - first; }
};

struct RangeSample {
  double total;    ///< Z, Eq. 4
  double entropy;  ///< H, Eq. 6, nats
};

struct RangeSampling {
  DistanceRange range;
  std::size_t repetitions = 100;
  std::uint64_t seed = 1;
  std::uint32_t stream = 0;  ///< different ones give independent samples
};

/// result[k][r]: repetition r under transforms[k], the same base logits for every transform. The query sees the keys up
/// to the end of the range. About 25 ns for each base logit and repetition on one thread. range.last < 2^53.
std::vector<std::vector<RangeSample>> sample_range(std::span<const LogitTransform> transforms,
                                                   const RangeSampling& sampling);

/// The same law for ranges too long to draw (last up to 1e300): the `largest` greatest base logits are drawn exactly, as
/// uniform order statistics U_(i) = G_i / G_(n+1) with G sums of exponentials, at positions drawn uniformly (with
/// replacement); all the others count with their conditional mean given that they are smaller. Needs n > largest >= 2.
///
/// What is left out is the spread of that rest, whose standard deviation is about 1/sqrt(largest) of it:
/// neglected_spread() says how much.
std::vector<RangeSample> sample_range_by_extremes(const LogitTransform& transform, const RangeSampling& sampling,
                                                  std::size_t largest);

/// Standard deviation of the part of Z that sample_range_by_extremes() replaces by its mean, as a share of that part and
/// of the exact E[Z]. (Of base logits below the quantile at largest / n.)
struct NeglectedSpread {
  double of_rest;
  double of_mean;
};
NeglectedSpread neglected_spread(const LogitTransform& transform, const DistanceRange& range, std::size_t largest);

/// The mean of a sample and its standard error.
Estimate mean_entropy(std::span<const RangeSample> samples);
Estimate mean_total(std::span<const RangeSample> samples);  ///< see above: misleads under the scale-invariant map
double median_total(std::span<const RangeSample> samples);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_RANGE_SAMPLING_HPP
