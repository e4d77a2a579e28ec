// SPDX-License-Identifier: Apache-2.0
// How values look: colours, dash patterns, markers, and the pieces of SVG for each kind of series.
#ifndef SIATTN_VERIFY_PICTURES_MARKS_HPP
#define SIATTN_VERIFY_PICTURES_MARKS_HPP

#include <string>

#include "verify/pictures/scale.hpp"

namespace siattn::verify {

inline constexpr int kStyles = 7;  ///< Styles 0 .. 6, which differ in colour, dash pattern and marker.

/// The <style> element, for light and for dark.
std::string style_sheet();

/// A coordinate, to a tenth of a pixel, as short as it goes.
std::string px(double value);

/// Where a series stands among its like: bars side by side.
struct Place {
  int style = 0;
  int index = 0;        ///< among the bars of the panel
  int count = 1;        ///< how many of them
  double radius = 4.5;  ///< of a marker
};

/// The series in the coordinates of its panel; to be clipped to it.
std::string series_marks(const Series& series, const Scale& x, const Scale& y, const Place& place);

/// Line and marker as they look, 40 wide, with the middle of its left end at (x, y).
std::string legend_sample(Draw draw, int style, double x, double y);

/// The cells of a heat map, in kHeatLevels strengths.
std::string heat_marks(const HeatMap& heat, const Scale& x, const Scale& y);
inline constexpr int kHeatLevels = 12;
/// A piece of the colour bar or of the map: level 0 .. kHeatLevels - 1, `d` the path.
std::string heat_path(int level, const std::string& d);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_PICTURES_MARKS_HPP
