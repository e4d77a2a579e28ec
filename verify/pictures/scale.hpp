// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_PICTURES_SCALE_HPP
#define SIATTN_VERIFY_PICTURES_SCALE_HPP

#include "verify/pictures/plot.hpp"

namespace siattn::verify {

/// From the values of an axis to places in the picture.
struct Scale {
  double low = 0, high = 1;  ///< low < high
  bool log = false;
  double begin = 0, end = 1;  ///< the places of low and high

  /// NaN where the axis cannot show the value at all; a value outside [low, high] gets a place outside.
  double operator()(double value) const;
};

/// The range of a panel's x or y axis: as the axis says, or what the data takes. `begin` and `end` are left to set.
Scale x_scale(const Panel& panel);
Scale y_scale(const Panel& panel);

/// The range of a heat map's values.
Scale value_scale(const HeatMap& heat);

/// Whether the axes can show any value of the panel.
bool has_data(const Panel& panel);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_PICTURES_SCALE_HPP
