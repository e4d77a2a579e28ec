// SPDX-License-Identifier: Apache-2.0
// The picture that the paper's reviewers asked for: attention weight by distance.
#include "verify/pictures/list.hpp"
#include "verify/pictures/support.hpp"

namespace siattn::verify {
namespace {

Picture make(const PictureInputs& inputs) {
  const IidProfile& iid = inputs.iid;
  Panel weight{"Weight of one token", {"distance t (tokens)", true}, {"mean weight of a token", true, 1e-9, 1}, {}};
  Panel share{"Attention by distance",
              {"distance t (tokens)", true},
              {"share of attention per decade of distance", false, 0},
              {}};
  const std::size_t longest = iid.lengths.size() - 1;
  for (std::size_t k = 0; k < iid.methods.size(); ++k) {
    Series one{.name = iid.methods[k].name, .draw = Draw::line_markers, .style = iid.methods[k].style}, decade = one;
    const auto& mass = iid.profiles[k][longest].mass;
    for (std::size_t i = 1; i < mass.size(); ++i) {  // t = 0 has no place on a logarithmic axis
      const auto first = static_cast<double>(iid.edges[i]), last = static_cast<double>(iid.edges[i + 1]);
      const double t = log_middle(first, last);
      add_log_point(one, t, scaled(mass[i], 1 / (last - first)));
      // Sums over t of f(t) are integrals from t - 1/2 to t + 1/2.
      add_point(decade, t, scaled(mass[i], 1 / std::log10((last - 0.5) / (first - 0.5))));
    }
    weight.series.push_back(std::move(one));
    share.series.push_back(std::move(decade));
  }
  return {
      .id = {},
      .plot = {"Attention weight over distance, 10⁵ keys",
               "Two panels against distance on a logarithmic axis, for no transform, LogN, scale-invariant and ALiBi: "
               "the mean weight of one token, and the share of attention per decade of distance.",
               {weight, share}},
      .caption =
          "Left: without a transform and with LogN every token weighs the same on average, near or far. ALiBi cuts off "
          "after some 16 tokens. The scale-invariant weight falls as 1/t. Right: the same, as attention per decade: "
          "level under the scale-invariant map, all of it in the last decade without one, none beyond t ≈ 100 with "
          "ALiBi.",
      .method = iid_words(inputs) + " Weights are averaged over the distances between neighbouring points."};
}

}  // namespace

constinit const PictureMaker kWeightsPicture = {"weights", "Attention weight over distance", make};

}  // namespace siattn::verify
