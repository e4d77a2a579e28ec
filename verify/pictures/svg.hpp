// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_PICTURES_SVG_HPP
#define SIATTN_VERIFY_PICTURES_SVG_HPP

#include <string>

#include "verify/pictures/plot.hpp"

namespace siattn::verify {

/// The plot as one <svg> element: a file of its own, or a part of an HTML page (it holds no ids, so that several stand
/// on one page). No scripts, nothing to download. Follows prefers-color-scheme with its own background. What differs by
/// colour also differs by dash pattern or marker. Never throws for the numbers in it: what is not finite, or not
/// positive on a logarithmic axis, is left out, and a panel without data says so. Throws std::invalid_argument where
/// lengths do not fit together.
std::string svg(const Plot& plot);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_PICTURES_SVG_HPP
