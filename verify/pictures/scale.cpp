// SPDX-License-Identifier: Apache-2.0
#include "verify/pictures/scale.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace siattn::verify {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool shown(double value, bool log) { return std::isfinite(value) && (!log || value > 0); }

struct Extent {
  bool log;
  double low = kInfinity, high = -kInfinity;

  void see(double value) {
    if (!shown(value, log)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void see(std::span<const double> values) {
    for (const double value : values) see(value);
  }
  bool empty() const { return !(low <= high); }
};

/// A little room on both sides; for one value alone as much as shows it in the middle.
void widen(Extent& extent, double share) {
  if (extent.empty()) {
    extent.low = extent.log ? 1 : 0;
    extent.high = extent.log ? 10 : 1;
  } else if (extent.log) {
    const double factor = extent.low < extent.high ? std::pow(extent.high / extent.low, share) : 2;
    extent.low = std::max(extent.low / factor, std::numeric_limits<double>::min());
    extent.high = std::min(extent.high * factor, std::numeric_limits<double>::max());
  } else {
    const double size = extent.high - extent.low;
    const double room = size > 0 && std::isfinite(size) ? size * share : std::max(std::abs(extent.high) / 10, 1e-300);
    const bool from_zero = extent.low >= 0 && extent.low < room;
    extent.low = from_zero ? 0 : extent.low - room;
    extent.high += room;
  }
}

Scale scale_of(const Axis& axis, Extent extent, double share) {
  if (!axis.categories.empty()) return {-0.5, static_cast<double>(axis.categories.size()) - 0.5, false, 0, 1};
  widen(extent, share);
  if (axis.low && shown(*axis.low, axis.log)) extent.low = *axis.low;
  if (axis.high && shown(*axis.high, axis.log)) extent.high = *axis.high;
  if (!(extent.low < extent.high))
    extent.high = axis.log ? extent.low * 10 : extent.low + std::max(1.0, std::abs(extent.low));
  return {extent.low, extent.high, axis.log, 0, 1};
}

Extent x_extent(const Panel& panel) {
  Extent extent{panel.x.log};
  for (const Series& series : panel.series) extent.see(series.x);
  if (panel.heat) extent.see(panel.heat->x_edges);
  return extent;
}

Extent y_extent(const Panel& panel) {
  Extent extent{panel.y.log};
  for (const Series& series : panel.series) {
    for (const auto* values : {&series.y, &series.low, &series.high}) extent.see(*values);
    if (series.draw == Draw::bars) extent.see(0.0);
  }
  if (panel.heat) extent.see(panel.heat->y_edges);
  return extent;
}

}  // namespace

double Scale::operator()(double value) const {
  if (!shown(value, log)) return std::numeric_limits<double>::quiet_NaN();
  const double share = log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  // Far outside is as good as outside, and keeps the numbers of the picture short.
  return begin + std::clamp(share, -10.0, 10.0) * (end - begin);
}

Scale x_scale(const Panel& panel) { return scale_of(panel.x, x_extent(panel), panel.heat ? 0 : 0.02); }

Scale y_scale(const Panel& panel) { return scale_of(panel.y, y_extent(panel), panel.heat ? 0 : 0.05); }

Scale value_scale(const HeatMap& heat) {
  Extent extent{heat.log};
  extent.see(heat.values);
  return scale_of({.label = {}, .log = heat.log, .low = heat.low, .high = heat.high}, extent, 0);
}

bool has_data(const Panel& panel) {
  for (const Series& series : panel.series) {
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (series.draw != Draw::guide && shown(series.x[i], panel.x.log) && shown(series.y[i], panel.y.log)) return true;
    }
  }
  return panel.heat && std::any_of(panel.heat->values.begin(), panel.heat->values.end(),
                                   [&panel](double value) { return shown(value, panel.heat->log); });
}

}  // namespace siattn::verify
