// SPDX-License-Identifier: Apache-2.0
#include "verify/pictures/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "verify/pictures/marks.hpp"
#include "verify/pictures/ticks.hpp"
#include "verify/utf8.hpp"

namespace siattn::verify {
namespace {

constexpr double kText = 16;              // height of the letters, and
constexpr double kLetter = 0.58 * kText;  // about their width: no font is known here
constexpr double kColourBar = 96;         // with its numbers, beside a heat map

double width_of(const std::string& text) { return kLetter * static_cast<double>(utf8_length(text)); }

enum class Anchor { start, middle, end };

std::string words(double x, double y, Anchor anchor, const std::string& text, const char* more = "") {
  static constexpr const char* names[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
  return fmt::format("<text x=\"{}\" y=\"{}\"{}{}>{}</text>", px(x), px(y), names[static_cast<int>(anchor)], more,
                     xml_escaped(text));
}

void check(const Plot& plot) {
  for (const Panel& panel : plot.panels) {
    for (const Series& series : panel.series) {
      const bool banded = !series.low.empty() || !series.high.empty();
      if (series.x.size() != series.y.size() ||
          (banded && (series.low.size() != series.y.size() || series.high.size() != series.y.size()))) {
        throw std::invalid_argument(fmt::format("series \"{}\": x, y and band differ in length: {}, {}, {}, {}",
                                                series.name, series.x.size(), series.y.size(), series.low.size(),
                                                series.high.size()));
      }
    }
    if (!panel.heat) continue;
    const HeatMap& heat = *panel.heat;
    if (heat.x_edges.empty() || heat.y_edges.empty() ||
        heat.values.size() != (heat.x_edges.size() - 1) * (heat.y_edges.size() - 1)) {
      throw std::invalid_argument(fmt::format("heat map: {} values between {} and {} edges", heat.values.size(),
                                              heat.x_edges.size(), heat.y_edges.size()));
    }
  }
}

struct LegendEntry {
  std::string name;
  Draw draw;
  int style;
};

/// Colours and marks by name, and where everything goes.
struct Layout {
  std::map<std::string, int> styles;
  std::vector<LegendEntry> legend;
  std::size_t columns = 1;
  bool shared_labels = false;  ///< a grid of many: labels of axes at its edges only
  double width = 0, height = 0;
  double cell_width = 0, cell_height = 0;
  double left = 0, right = 14, panel_top = 0, area_width = 0, area_height = 0;  // within a cell
  double legend_top = 0, cells_top = 0;

  explicit Layout(const Plot& plot);
  int style_of(const Series& series) const {
    return series.style >= 0 ? series.style % kStyles : styles.at(series.name);
  }
  double legend_entry_width(const LegendEntry& entry) const { return 40 + 8 + width_of(entry.name) + 22; }
};

std::vector<Tick> axis_ticks(const Axis& axis, const Scale& scale, int most) {
  if (axis.categories.empty()) return ticks(scale.low, scale.high, scale.log, most);
  std::vector<Tick> list;
  for (std::size_t k = 0; k < axis.categories.size(); ++k) list.push_back({static_cast<double>(k), axis.categories[k]});
  return list;
}

std::vector<Tick> y_ticks(const Panel& panel, double area_height) {
  return axis_ticks(panel.y, y_scale(panel), std::max(4, static_cast<int>(area_height / 48)));
}

/// As many as have room beside each other.
std::vector<Tick> x_ticks(const Panel& panel, double area_width) {
  std::vector<Tick> list;
  for (int most = 10; most >= 2; --most) {
    list = axis_ticks(panel.x, x_scale(panel), most);
    double used = 0;
    for (const Tick& tick : list) used += tick.label.empty() ? 0 : width_of(tick.label) + kText;
    if (used <= area_width) break;
  }
  return list;
}

double widest(const std::vector<Tick>& list) {
  double width = 0;
  for (const Tick& tick : list) width = std::max(width, width_of(tick.label));
  return width;
}

Layout::Layout(const Plot& plot) {
  for (const Panel& panel : plot.panels) {
    for (const Series& series : panel.series) {
      if (series.draw != Draw::guide && series.style < 0)
        styles.emplace(series.name, static_cast<int>(styles.size()) % kStyles);
      const auto same = [&series](const LegendEntry& entry) { return entry.name == series.name; };
      if (series.name.empty() || std::any_of(legend.begin(), legend.end(), same)) continue;
      legend.push_back({series.name, series.draw, series.draw == Draw::guide ? 0 : style_of(series)});
    }
  }
  std::stable_partition(legend.begin(), legend.end(),
                        [](const LegendEntry& entry) { return entry.draw != Draw::guide; });
  const std::size_t count = std::max<std::size_t>(plot.panels.size(), 1);
  columns = std::min(count, plot.columns > 0 ? static_cast<std::size_t>(plot.columns) : 3);
  shared_labels = columns > 3;
  width = columns == 1 ? 900 : 1200;
  cell_width = width / static_cast<double>(columns);
  area_height = columns == 1 ? 400 : columns == 2 ? 350 : 320;

  double tick_width = kLetter * 2;
  bool titled = false, has_heat = false;
  for (const Panel& panel : plot.panels) {
    tick_width = std::max(tick_width, widest(y_ticks(panel, area_height)));
    titled = titled || !panel.title.empty();
    has_heat = has_heat || panel.heat;
  }
  left = (shared_labels ? 6 : 32) + tick_width + 8;
  if (has_heat) right = kColourBar;
  const double edge = shared_labels ? 28 : 0;  // the one label on the left
  cell_width = (width - edge) / static_cast<double>(columns);
  area_width = cell_width - left - right;
  if (shared_labels) area_height = area_width;
  panel_top = titled ? 28 : 8;
  cell_height = panel_top + area_height + 26 + (shared_labels ? 0 : 26) + 8;

  legend_top = plot.title.empty() ? 6 : 40;
  double used = 0, rows = legend.empty() ? 0 : 1;
  for (const LegendEntry& entry : legend) {
    if (used > 0 && used + legend_entry_width(entry) > width - 40) {
      used = 0;
      ++rows;
    }
    used += legend_entry_width(entry);
  }
  cells_top = legend_top + 28 * rows + 4;
  const double rows_of_cells = std::ceil(static_cast<double>(plot.panels.size()) / static_cast<double>(columns));
  height = cells_top + rows_of_cells * cell_height + (shared_labels ? 32 : 4);
}

std::string draw_legend(const Layout& layout) {
  std::string out;
  double x = 20, y = layout.legend_top + 14;
  for (const LegendEntry& entry : layout.legend) {
    const double wide = layout.legend_entry_width(entry);
    if (x > 20 && x + wide > layout.width - 20) {
      x = 20;
      y += 28;
    }
    out += legend_sample(entry.draw, entry.style, x, y) + words(x + 48, y + 5.5, Anchor::start, entry.name);
    x += wide;
  }
  return out;
}

/// Lines at the ticks and their numbers; (x0, y0) is the upper left corner of the area.
std::string draw_axes(const Panel& panel, const Scale& x, const Scale& y, const Layout& layout) {
  const double bottom = y.begin, top = y.end;
  std::string grid, labels;
  for (const Tick& tick : x_ticks(panel, layout.area_width)) {
    const double at = x(tick.value);
    if (panel.x.categories.empty()) grid += fmt::format("M{} {}V{}", px(at), px(bottom), px(top));
    if (!tick.label.empty()) labels += words(at, bottom + 20, Anchor::middle, tick.label);
  }
  for (const Tick& tick : y_ticks(panel, layout.area_height)) {
    const double at = y(tick.value);
    if (panel.y.categories.empty()) grid += fmt::format("M{} {}H{}", px(x.begin), px(at), px(x.end));
    if (!tick.label.empty()) labels += words(x.begin - 8, at + 5.5, Anchor::end, tick.label);
  }
  return "<path class=\"grid\" d=\"" + grid + "\"/>" + labels;
}

std::string draw_colour_bar(const HeatMap& heat, double x, double top, double bottom) {
  Scale scale = value_scale(heat);
  std::string out = "<g class=\"c0\">";
  for (int level = 0; level < kHeatLevels; ++level) {
    const double height = (bottom - top) / kHeatLevels;
    out += heat_path(level, fmt::format("M{} {}h16v{}h-16z", px(x), px(bottom - (level + 1) * height), px(height)));
  }
  out += "</g><g class=\"p\"><path class=\"ax\" d=\"" + fmt::format("M{} {}h16V{}h-16z", px(x), px(top), px(bottom)) +
         "\"/></g>";
  scale.begin = bottom;
  scale.end = top;
  for (const Tick& tick : ticks(scale.low, scale.high, scale.log, 6)) {
    if (!tick.label.empty()) out += words(x + 21, scale(tick.value) + 5.5, Anchor::start, tick.label);
  }
  const double middle = (top + bottom) / 2, edge = x + 76;
  return out + words(edge, middle, Anchor::middle, heat.label,
                     fmt::format(" transform=\"rotate(-90 {} {})\"", px(edge), px(middle)).c_str());
}

std::string draw_marks(const Panel& panel, const Scale& x, const Scale& y, const Layout& layout) {
  std::string inside;
  if (panel.heat) inside += heat_marks(*panel.heat, x, y);
  const auto is_bars = [](const Series& series) { return series.draw == Draw::bars; };
  Place place{.count = static_cast<int>(std::count_if(panel.series.begin(), panel.series.end(), is_bars)),
              .radius = layout.shared_labels ? 2.2 : 4.5};
  for (const Series& series : panel.series) {
    place.style = series.draw == Draw::guide ? 0 : layout.style_of(series);
    inside += series_marks(series, x, y, place);
    if (is_bars(series)) ++place.index;
  }
  if (!has_data(panel)) inside += words((x.begin + x.end) / 2, (y.begin + y.end) / 2, Anchor::middle, "no data");
  // A nested element clips what lies outside the axes, with no id.
  const double x0 = x.begin, y0 = y.end, wide = x.end - x.begin, high = y.begin - y.end;
  return fmt::format("<svg x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\" viewBox=\"{0} {1} {2} {3}\">{4}</svg>",
                     px(x0), px(y0), px(wide), px(high), inside);
}

std::string draw_panel(const Panel& panel, const Layout& layout, double left, double top) {
  Scale x = x_scale(panel), y = y_scale(panel);
  x.begin = left + layout.left;
  x.end = x.begin + layout.area_width;
  y.end = top + layout.panel_top;
  y.begin = y.end + layout.area_height;
  std::string out = draw_axes(panel, x, y, layout) + draw_marks(panel, x, y, layout);
  out += fmt::format("<g class=\"p\"><path class=\"ax\" d=\"M{} {}V{}H{}\"/></g>", px(x.begin), px(y.end), px(y.begin),
                     px(x.end));
  if (!panel.title.empty())
    out += words((x.begin + x.end) / 2, y.end - 10, Anchor::middle, panel.title, " font-weight=\"600\"");
  if (panel.heat) out += draw_colour_bar(*panel.heat, x.end + 12, y.end, y.begin);
  if (layout.shared_labels) return out;
  out += words((x.begin + x.end) / 2, y.begin + 46, Anchor::middle, panel.x.label);
  const double edge = x.begin - widest(y_ticks(panel, layout.area_height)) - 20, middle = (y.begin + y.end) / 2;
  return out + words(edge, middle, Anchor::middle, panel.y.label,
                     fmt::format(" transform=\"rotate(-90 {} {})\"", px(edge), px(middle)).c_str());
}

std::string draw_shared_labels(const Plot& plot, const Layout& layout) {
  if (!layout.shared_labels) return {};
  const Panel& panel = plot.panels.front();
  const double middle = (layout.cells_top + layout.height - 32) / 2;
  return words(layout.width / 2, layout.height - 12, Anchor::middle, panel.x.label) +
         words(18, middle, Anchor::middle, panel.y.label,
               fmt::format(" transform=\"rotate(-90 18 {})\"", px(middle)).c_str());
}

}  // namespace

std::string svg(const Plot& plot) {
  check(plot);
  const Layout layout(plot);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"sp\" role=\"img\" aria-label=\"{2}\" viewBox=\"0 0 {0} {1}\" "
      "width=\"{0}\" height=\"{1}\">\n",
      px(layout.width), px(layout.height), xml_escaped(plot.title));
  out += "<title>" + xml_escaped(plot.title) + "</title>\n<desc>" + xml_escaped(plot.description) + "</desc>\n" +
         style_sheet() + "\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n";
  if (!plot.title.empty()) out += words(20, 26, Anchor::start, plot.title, " class=\"title\"") + '\n';
  out += draw_legend(layout) + '\n';
  const double edge = layout.shared_labels ? 28 : 0;
  for (std::size_t k = 0; k < plot.panels.size(); ++k) {
    const double left = edge + static_cast<double>(k % layout.columns) * layout.cell_width;
    const double top = layout.cells_top + static_cast<double>(k / layout.columns) * layout.cell_height;
    out += draw_panel(plot.panels[k], layout, left, top) + '\n';
  }
  return out + draw_shared_labels(plot, layout) + "</svg>\n";
}

}  // namespace siattn::verify
