// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_PICTURES_RANGE_ENTROPY_HPP
#define SIATTN_VERIFY_PICTURES_RANGE_ENTROPY_HPP

#include "verify/pictures/picture.hpp"

namespace siattn::verify {

/// E[H] within [t, t Delta) for Delta = 2, 5, 10, sampled: what Fig. 2 and Fig. 6 show.
struct RangeEntropies {
  std::vector<Series> by_log, by_root;  ///< against log t and against sqrt(log t), with straight lines fitted
  double log_residual = 0;              ///< largest distance from the straight line over all Delta, nats
  double root_residual = 0;
  std::size_t repetitions = 0;
};
RangeEntropies sample_range_entropies(const LogitTransform& transform, const ClaimOptions& options,
                                      std::uint32_t stream);

/// The two panels.
std::vector<Panel> range_entropy_panels(const RangeEntropies& entropies);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_PICTURES_RANGE_ENTROPY_HPP
