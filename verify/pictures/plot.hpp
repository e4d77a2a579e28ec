// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_PICTURES_PLOT_HPP
#define SIATTN_VERIFY_PICTURES_PLOT_HPP

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

/// What a picture shows, as numbers and words: svg.hpp draws it, json_of() writes it down.
namespace siattn::verify {

struct Axis {
  std::string label;                         ///< with its unit: "distance t (tokens)"
  bool log = false;                          ///< logarithmic; values <= 0 are then not shown
  std::optional<double> low = std::nullopt;  ///< the ends; without them the data's, and a little more
  std::optional<double> high = std::nullopt;
  std::vector<std::string> categories = {};  ///< not empty: names that stand at 0, 1, 2, ... in place of numbers
};

enum class Draw : std::uint8_t {
  line,          ///< straight from point to point; a band between low and high
  line_markers,  ///< the same with a marker at each point
  markers,       ///< with whiskers from low to high
  bars,          ///< from 0; those of several series stand side by side; whiskers
  guide,         ///< a thin grey line: what the data is compared with
};

/// A series keeps its colour, dash pattern and marker by its name: the same in every panel of a plot.
struct Series {
  std::string name;  ///< in the legend; empty: not there
  Draw draw = Draw::line;
  std::vector<double> x = {}, y = {};       ///< of one length; where a value is NaN or infinite there is a gap
  std::vector<double> low = {}, high = {};  ///< error bars or bands; empty or as long as y
  int style = -1;  ///< 0 .. 6, for one method to look alike in all pictures; -1: by order of names
};

/// Cells in one colour of growing strength.
struct HeatMap {
  std::vector<double> x_edges, y_edges;  ///< growing; cells lie between neighbours
  std::vector<double> values;            ///< [y][x], (y_edges - 1) (x_edges - 1) of them; NaN: left empty
  std::string label;                     ///< of the values, with the unit
  bool log = false;                      ///< the colours go by the logarithm
  std::optional<double> low = std::nullopt;
  std::optional<double> high = std::nullopt;
};

struct Panel {
  std::string title;
  Axis x, y;
  std::vector<Series> series;
  std::optional<HeatMap> heat = std::nullopt;  ///< below the series
};

/// A figure of one or more panels, row by row. Legends and everything said in words need no markup.
struct Plot {
  std::string title;
  std::string description;  ///< for those who cannot see it: what is drawn and what it shows
  std::vector<Panel> panels;
  int columns = 0;  ///< panels in a row; 0: up to three
};

/// Every number of the plot, as it is drawn: {"title", "panels": [{"title", "x", "y", "series": [{"name", "x", "y",
/// "low", "high"}], "heat"}]}. Numbers that JSON lacks are the strings "inf", "-inf", "nan".
nlohmann::ordered_json json_of(const Plot& plot);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_PICTURES_PLOT_HPP
