// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_GAUSSIAN_HPP
#define SIATTN_VERIFY_GAUSSIAN_HPP

#include <cstdint>
#include <vector>

#include <siattn/logit_transform.hpp>
#include <siattn/status.hpp>

#include "verify/logit_rows.hpp"
#include "verify/marginals.hpp"

/// Are these base logits Gaussian? Their marginal law over all causal pairs of query and key, head by head, sinks left
/// out.
namespace siattn::verify {

/// How far logits x = mean + sd z lie from a law.
struct LawDistance {
  StandardHistogram::Distance kolmogorov;
  double anderson_darling = 0;  ///< A^2; A^2 / n does not grow with n
};

/// The law of the base logits of one head, or of all.
struct HeadMarginals {
  MomentSummary moments;
  double least = 0, greatest = 0;
  LawDistance from_standard;  ///< from N(0, 1), which the theory takes
  LawDistance from_fitted;    ///< from N(mean, sd^2) with the mean and sd of this head: the shape alone
  /// Of from_fitted, as if all pairs were independent and the mean and sd known beforehand: an indication only.
  double p_value = 1;
  std::vector<QuantilePoint> quantiles;  ///< of (S - mean) / sd
};

/// (S - mean) / sd of all heads by decade of distance: the theory has 0 and 1 at every distance.
struct DistanceMoments {
  std::int64_t first = 0, last = 0;  ///< first <= t < last
  Moments calibrated;
};

struct GaussianOptions {
  std::int64_t n_sink = 1;        ///< keys at the positions 0 .. n_sink - 1 are left out
  std::int64_t query_offset = 0;  ///< position of the first query; key j stands at j
  double band_level = 0.01;       ///< of the DKW bands of the QQ plots
};

struct GaussianReport {
  std::vector<HeadMarginals> heads;
  MomentSummary pooled;             ///< of all heads together: a mixture where their means differ
  HeadMarginals pooled_calibrated;  ///< of (S - mean_h) / sd_h of all heads together
  std::vector<DistanceMoments> by_distance;
  std::int64_t rows_left_out = 0;  ///< query rows with NaN or infinity among their visible logits
  double band_level = 0;
  double band = 0;  ///< half width of the DKW band of one head, in probability

  Calibration calibration() const;
};

/// Two passes over the rows; memory grows with heads and lengths, not with pairs. An error where a head has fewer than
/// 8 pairs, or all of its logits are equal. Does not depend on the number of threads.
Result<GaussianReport> measure_gaussian(const LogitRows& rows, const GaussianOptions& options);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_GAUSSIAN_HPP
