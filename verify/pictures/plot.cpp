// SPDX-License-Identifier: Apache-2.0
#include "verify/pictures/plot.hpp"

#include "verify/json_number.hpp"

namespace siattn::verify {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(json_number(value));
  return list;
}

Json json_of(const Axis& axis) {
  Json json = {{"label", axis.label}, {"log", axis.log}};
  if (!axis.categories.empty()) json["categories"] = axis.categories;
  return json;
}

Json json_of(const Series& series) {
  Json json = {{"name", series.name}, {"x", json_of(series.x)}, {"y", json_of(series.y)}};
  if (!series.low.empty()) {
    json["low"] = json_of(series.low);
    json["high"] = json_of(series.high);
  }
  return json;
}

Json json_of(const Panel& panel) {
  Json series = Json::array();
  for (const Series& one : panel.series) series.push_back(json_of(one));
  Json json = {{"title", panel.title}, {"x", json_of(panel.x)}, {"y", json_of(panel.y)}, {"series", std::move(series)}};
  if (panel.heat) {
    json["heat"] = {{"label", panel.heat->label},
                    {"x_edges", json_of(panel.heat->x_edges)},
                    {"y_edges", json_of(panel.heat->y_edges)},
                    {"values", json_of(panel.heat->values)}};
    if (panel.heat->low) json["heat"]["low"] = *panel.heat->low;
    if (panel.heat->high) json["heat"]["high"] = *panel.heat->high;
  }
  return json;
}

}  // namespace

nlohmann::ordered_json json_of(const Plot& plot) {
  Json panels = Json::array();
  for (const Panel& panel : plot.panels) panels.push_back(json_of(panel));
  return {{"title", plot.title}, {"description", plot.description}, {"panels", std::move(panels)}};
}

}  // namespace siattn::verify
