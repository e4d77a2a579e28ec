// SPDX-License-Identifier: Apache-2.0
#include "verify/pictures/marks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <utility>
#include <vector>

namespace siattn::verify {
namespace {

// After Okabe and Ito, darkened for white and lightened for black until each has a contrast of 3:1 there.
constexpr std::array<const char*, kStyles> kLight = {"#0072b2", "#c84e00", "#00845c", "#a8487f",
                                                     "#a06c00", "#3a3a3a", "#2b8fc4"};
constexpr std::array<const char*, kStyles> kDark = {"#56b4e9", "#ff8a3d", "#2fc79b", "#e79bc4",
                                                    "#f0c53d", "#d8d8d8", "#8fb4ff"};
constexpr std::array<const char*, kStyles> kDashes = {"",     "9 7", "0.1 6",           "14 6 0.1 6",
                                                      "20 7", "4 6", "14 6 0.1 6 0.1 6"};

std::string rules(const std::array<const char*, kStyles>& colours, const char* back, const char* text, const char* pale,
                  const char* grid) {
  std::string out = fmt::format(".sp .bg{{fill:{}}}.sp text{{fill:{}}}.sp .p{{color:{}}}.sp .grid{{stroke:{}}}", back,
                                text, pale, grid);
  for (int style = 0; style < kStyles; ++style) {
    out += fmt::format(".sp .c{}{{color:{}}}", style, colours[static_cast<std::size_t>(style)]);
  }
  return out;
}

std::string marker(int style, double x, double y, double r) {
  const auto corners = [&](std::initializer_list<std::pair<double, double>> list) {
    std::string d;
    for (const auto& [dx, dy] : list)
      d += fmt::format("{}{} {}", d.empty() ? "M" : "L", px(x + dx * r), px(y + dy * r));
    return d;
  };
  switch (style) {
    case 1: return corners({{-.9, -.9}, {.9, -.9}, {.9, .9}, {-.9, .9}}) + "z";  // square
    case 2: return corners({{0, -1.2}, {1.1, .8}, {-1.1, .8}}) + "z";            // triangle
    case 3: return corners({{0, -1.3}, {1.3, 0}, {0, 1.3}, {-1.3, 0}}) + "z";    // diamond
    case 4: return corners({{0, 1.2}, {1.1, -.8}, {-1.1, -.8}}) + "z";           // upside down
    case 5: return corners({{-1.1, -1.1}, {1.1, 1.1}}) + corners({{1.1, -1.1}, {-1.1, 1.1}});
    case 6: return corners({{-1.3, 0}, {1.3, 0}}) + corners({{0, -1.3}, {0, 1.3}});
    default: {
      const std::string d = px(r), two = px(2 * r);
      return fmt::format("M{} {}a{} {} 0 1 0 {} 0a{} {} 0 1 0 -{} 0z", px(x - r), px(y), d, d, two, d, d, two);
    }
  }
}

/// With what the class draws: style_sheet().
std::string path(const char* kind, const std::string& d) {
  return d.empty() ? d : fmt::format("<path class=\"{}\" d=\"{}\"/>", kind, d);
}

std::string grey(const std::string& inside) {
  return inside.empty() ? inside : fmt::format("<g class=\"p\">{}</g>", inside);
}

std::string coloured(int style, const std::string& inside) {
  return inside.empty() ? inside : fmt::format("<g class=\"c{}\">{}</g>", style, inside);
}

std::string line_path(const std::string& d, int style) {
  if (d.empty()) return {};
  const char* dash = kDashes[static_cast<std::size_t>(style)];
  return fmt::format("<path class=\"l\"{} d=\"{}\"/>", *dash == 0 ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash),
                     d);
}

std::string marker_path(const std::string& d, int style) { return path(style >= 5 ? "t" : "k", d); }

struct Point {
  double x, y, low, high;
  bool shown() const { return std::isfinite(x) && std::isfinite(y); }
  bool has_band() const { return std::isfinite(x) && std::isfinite(low) && std::isfinite(high); }
};

std::vector<Point> points_of(const Series& series, const Scale& x, const Scale& y) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    const bool band = !series.low.empty();
    points.push_back({x(series.x[i]), y(series.y[i]), y(band ? series.low[i] : NAN), y(band ? series.high[i] : NAN)});
    // On a logarithmic axis a band may begin at 0 or below: then it begins under the picture.
    if (band && std::isnan(points.back().low) && std::isfinite(points.back().high))
      points.back().low = y.begin + 2 * (y.begin - y.end);
  }
  return points;
}

void add(std::string& d, const char* command, double x, double y, const char* more = "") {
  d += fmt::format("{}{} {}{}", command, px(x), px(y), more);
}

std::string polyline(const std::vector<Point>& points) {
  std::string d;
  bool drawing = false;
  for (const Point& p : points) {
    if (p.shown()) add(d, drawing ? "L" : "M", p.x, p.y, drawing ? "" : "h0");  // a point alone is a dot
    drawing = p.shown();
  }
  return d;
}

std::string band(const std::vector<Point>& points) {
  std::string d;
  for (std::size_t i = 0; i < points.size();) {
    std::size_t end = i;
    while (end < points.size() && points[end].has_band()) ++end;
    for (std::size_t k = i; k < end; ++k) add(d, k == i ? "M" : "L", points[k].x, points[k].low);
    for (std::size_t k = end; k > i; --k) add(d, "L", points[k - 1].x, points[k - 1].high);
    if (end > i) d += "z";
    i = end + 1;
  }
  return path("b", d);
}

std::string whiskers(const std::vector<Point>& points, double shift) {
  std::string d;
  for (const Point& p : points) {
    if (!p.has_band() || !p.shown()) continue;
    for (const double end : {p.low, p.high}) d += fmt::format("M{} {}h8", px(p.x + shift - 4), px(end));
    d += fmt::format("M{} {}V{}", px(p.x + shift), px(p.low), px(p.high));
  }
  return path("w", d);
}

/// Bars from 0, which is the lower end of a logarithmic axis; the marker on top tells them apart without colour.
std::string bars(const std::vector<Point>& points, const Scale& x, const Scale& y, const Place& place) {
  const double unit = std::abs(x(1) - x(0)) * 0.8, width = unit / place.count;
  const double shift = (place.index + 0.5) * width - unit / 2;
  const double floor = y.log ? y.begin : y(0);
  std::string d, tops;
  for (const Point& p : points) {
    if (!p.shown()) continue;
    d +=
        fmt::format("M{} {}V{}h{}V{}z", px(p.x + shift - 0.45 * width), px(floor), px(p.y), px(0.9 * width), px(floor));
    tops += marker(place.style, p.x + shift, p.y, place.radius);
  }
  if (d.empty()) return {};
  return path("r", d) + whiskers(points, shift) + marker_path(tops, place.style);
}

int level_of(double share) { return std::clamp(static_cast<int>(share * kHeatLevels), 0, kHeatLevels - 1); }

}  // namespace

std::string px(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string style_sheet() {
  return "<style>.sp{font:16px system-ui,'DejaVu Sans',sans-serif}.sp .title{font-size:19px;font-weight:600}"
         ".sp .l{fill:none;stroke:currentColor;stroke-width:2.5;stroke-linejoin:round;stroke-linecap:round}"
         ".sp .w{fill:none;stroke:currentColor;stroke-width:1.6}.sp .b{fill:currentColor;fill-opacity:.2}"
         ".sp .r{fill:currentColor;fill-opacity:.35;stroke:currentColor;stroke-width:1.2}"
         ".sp .k{fill:currentColor}.sp .t{fill:none;stroke:currentColor;stroke-width:2}"
         ".sp .h{fill:currentColor;stroke:none;shape-rendering:crispEdges}"
         ".sp .grid{fill:none;stroke-width:1}.sp .ax{fill:none;stroke:currentColor;stroke-width:1.2}" +
         rules(kLight, "#fff", "#1b1b1b", "#6a6a6a", "#e0e0e0") + "@media (prefers-color-scheme:dark){" +
         rules(kDark, "#14171a", "#ececec", "#9a9a9a", "#343a40") + "}</style>";
}

std::string series_marks(const Series& series, const Scale& x, const Scale& y, const Place& place) {
  const std::vector<Point> points = points_of(series, x, y);
  if (series.draw == Draw::guide) {
    const std::string d = polyline(points);
    return grey(path("w", d));
  }
  std::string inside;
  if (series.draw == Draw::bars) {
    inside = bars(points, x, y, place);
  } else {
    const bool line = series.draw != Draw::markers;
    if (line) inside = band(points) + line_path(polyline(points), place.style);
    if (!line) inside = whiskers(points, 0);
    std::string d;
    for (const Point& p : points) {
      if (series.draw != Draw::line && p.shown()) d += marker(place.style, p.x, p.y, place.radius);
    }
    inside += marker_path(d, place.style);
  }
  return coloured(place.style, inside);
}

std::string legend_sample(Draw draw, int style, double x, double y) {
  const std::string across = fmt::format("M{} {}h40", px(x), px(y));
  if (draw == Draw::guide) return grey(path("w", across));
  std::string inside;
  if (draw == Draw::bars) {
    inside = path("r", fmt::format("M{} {}v-10h18v10z", px(x + 11), px(y + 8)));
    inside += marker_path(marker(style, x + 20, y - 2, 4.5), style);
  } else {
    if (draw != Draw::markers) inside = line_path(across, style);
    if (draw != Draw::line) inside += marker_path(marker(style, x + 20, y, 4.5), style);
  }
  return coloured(style, inside);
}

std::string heat_path(int level, const std::string& d) {
  return d.empty()
             ? ""
             : fmt::format("<path class=\"h\" fill-opacity=\"{:.2g}\" d=\"{}\"/>", (level + 1.0) / kHeatLevels, d);
}

std::string heat_marks(const HeatMap& heat, const Scale& x, const Scale& y) {
  const Scale values = value_scale(heat);
  const std::size_t columns = heat.x_edges.size() - 1;
  std::array<std::string, kHeatLevels> paths;
  for (std::size_t row = 0; row + 1 < heat.y_edges.size(); ++row) {
    const double top = y(heat.y_edges[row + 1]), bottom = y(heat.y_edges[row]);
    const auto level_at = [&](std::size_t column) {
      const double share = values(heat.values[row * columns + column]);
      return std::isfinite(share) ? level_of(share) : -1;
    };
    for (std::size_t c = 0; c < columns;) {  // neighbours of one strength are one piece
      const int level = level_at(c);
      const std::size_t first = c;
      while (c < columns && level_at(c) == level) ++c;
      const double left = x(heat.x_edges[first]), right = x(heat.x_edges[c]);
      if (level < 0 || !std::isfinite(left + right + top + bottom)) continue;
      paths[static_cast<std::size_t>(level)] +=
          fmt::format("M{} {}H{}V{}H{}z", px(left), px(top), px(right), px(bottom), px(left));
    }
  }
  std::string out;
  for (int level = 0; level < kHeatLevels; ++level) out += heat_path(level, paths[static_cast<std::size_t>(level)]);
  return coloured(0, out);
}

}  // namespace siattn::verify
