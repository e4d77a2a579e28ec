// SPDX-License-Identifier: Apache-2.0
// What the makers of pictures share.
#ifndef SIATTN_VERIFY_PICTURES_SUPPORT_HPP
#define SIATTN_VERIFY_PICTURES_SUPPORT_HPP

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "verify/marginals.hpp"
#include "verify/pictures/picture.hpp"

namespace siattn::verify {

/// A point with a band of two standard errors on either side.
inline void add_point(Series& series, double x, const Estimate& y) {
  series.x.push_back(x);
  series.y.push_back(y.value);
  series.low.push_back(y.value - 2 * y.standard_error);
  series.high.push_back(y.value + 2 * y.standard_error);
}

/// The same for a logarithmic axis: two standard errors of the logarithm.
inline void add_log_point(Series& series, double x, const Estimate& y) {
  const double factor = std::exp(2 * y.standard_error / y.value);
  series.x.push_back(x);
  series.y.push_back(y.value);
  series.low.push_back(y.value / factor);
  series.high.push_back(y.value * factor);
}

/// The same in other units.
inline Estimate scaled(const Estimate& e, double factor) { return {e.value * factor, e.standard_error * factor}; }

/// The middle of the distances first .. last - 1 on a logarithmic axis. first >= 1.
inline double log_middle(double first, double last) { return std::sqrt(first * (last - 1)); }

inline std::string sampled_words(std::size_t repetitions, std::uint64_t seed) {
  return fmt::format(
      "Sampled: {} repetitions, seed {}; bands and whiskers are two standard errors on either side, on logarithmic "
      "axes of the logarithm.",
      repetitions, seed);
}

/// The first words of the method of pictures from an IidProfile.
inline std::string iid_words(const PictureInputs& inputs) {
  return "Independent standard normal base logits, the same for every method. " +
         sampled_words(inputs.iid.repetitions, inputs.options.seed);
}

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_PICTURES_SUPPORT_HPP
