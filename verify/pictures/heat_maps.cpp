// SPDX-License-Identifier: Apache-2.0
// Attention by distance and by length at once.
#include "verify/pictures/list.hpp"
#include "verify/pictures/support.hpp"

namespace siattn::verify {
namespace {

/// Per decade of distance; the cells a method leaves empty are those that its query does not see.
HeatMap heat_of(const IidProfile& iid, const std::vector<LengthProfile>& profiles) {
  HeatMap heat;
  heat.label = "share of attention per decade";
  heat.low = 0;
  heat.high = 0.6;
  for (std::size_t i = 1; i < iid.edges.size(); ++i)
    heat.x_edges.push_back(static_cast<double>(iid.edges[i]) - (i == 1 ? 0.5 : 0.5));
  for (std::size_t j = 0; j < profiles.size(); ++j) {
    const auto n = static_cast<double>(iid.length(j));
    heat.y_edges.push_back(j == 0 ? n / std::pow(10, 1 / 8.0) : std::sqrt(n * static_cast<double>(iid.length(j - 1))));
  }
  heat.y_edges.push_back(static_cast<double>(iid.edges.back()) * std::pow(10, 1 / 8.0));
  for (const LengthProfile& profile : profiles) {
    for (std::size_t i = 1; i + 1 < iid.edges.size(); ++i) {
      const double decades = std::log10(heat.x_edges[i] / heat.x_edges[i - 1]);
      heat.values.push_back(i < profile.mass.size() ? profile.mass[i].value / decades : NAN);
    }
  }
  return heat;
}

Picture make(const PictureInputs& inputs) {
  const IidProfile& iid = inputs.iid;
  Plot plot{
      "Where attention falls, by distance and by length",
      "Heat maps, one for each method: distance across, sequence length upwards, both logarithmic; the colour is the "
      "share of attention per decade of distance.",
      {},
      2};
  for (std::size_t k = 0; k < iid.methods.size(); ++k) {
    Panel panel{iid.methods[k].name, {"distance t (tokens)", true}, {"sequence length N (tokens)", true}, {}};
    panel.heat = heat_of(iid, iid.profiles[k]);
    plot.panels.push_back(std::move(panel));
  }
  return {
      .id = {},
      .plot = std::move(plot),
      .caption =
          "Each row is the attention of one query. Without a transform and with LogN it moves away with the far end of "
          "the sequence; with ALiBi it never leaves the near end; under the scale-invariant map it spreads evenly over "
          "all decades there are. (0.6 and above share one colour.)",
      .method = iid_words(inputs)};
}

}  // namespace

constinit const PictureMaker kHeatMapsPicture = {"heat-map", "Attention by distance and length", make};

}  // namespace siattn::verify
