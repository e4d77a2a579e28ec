// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_PICTURES_RANGE_ENTROPY_HPP
#define SIATTN_VERIFY_PICTURES_RANGE_ENTROPY_HPP

#include <string>

#include "verify/pictures/picture.hpp"

namespace siattn::verify {

/// E[H] within [t, t Delta) for Delta = 2, 5, 10, against ln t and against its root: what Fig. 2 and Fig. 6 show.
struct RangeEntropies {
  std::vector<Panel> panels;  ///< curves by quadrature, points drawn, straight lines fitted to the curves
  double log_residual = 0;    ///< largest distance of a curve from its straight line, nats
  double root_residual = 0;
  std::string method;
};
/// stream: of random numbers; 16 from it on are used.
RangeEntropies range_entropies(const LogitTransform& transform, const ClaimOptions& options, std::uint32_t stream);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_PICTURES_RANGE_ENTROPY_HPP
