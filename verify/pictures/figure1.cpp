// SPDX-License-Identifier: Apache-2.0
// The top row of Fig. 1: what becomes of entropy and of local attention as the sequence grows.
#include "verify/pictures/list.hpp"
#include "verify/pictures/support.hpp"

namespace siattn::verify {
namespace {

Panel panel_of(const IidProfile& iid, const std::string& title, const Axis& y, Estimate LengthProfile::*quantity) {
  Panel panel{title, {"sequence length N (tokens)", true}, y, {}};
  for (std::size_t k = 0; k < iid.methods.size(); ++k) {
    if (std::holds_alternative<Alibi>(iid.methods[k].transform)) continue;  // not in the paper's figure
    Series series{.name = iid.methods[k].name, .draw = Draw::line_markers, .style = iid.methods[k].style};
    for (std::size_t j = 0; j < iid.lengths.size(); ++j) {
      add_point(series, static_cast<double>(iid.length(j)), iid.profiles[k][j].*quantity);
    }
    panel.series.push_back(std::move(series));
  }
  return panel;
}

Picture make(const PictureInputs& inputs) {
  return {
      .id = {},
      .plot = {"Fig. 1, top row: attention over longer and longer sequences",
               "Three panels against sequence length up to 100000 tokens, for no transform, LogN and scale-invariant: "
               "entropy of all weights, entropy within the outermost decade, and attention on the last 100 tokens.",
               {panel_of(inputs.iid, "Entropy of all weights", {"entropy (nats)"}, &LengthProfile::entropy),
                panel_of(inputs.iid, "Entropy within [N/10, N)", {"entropy (nats)"},
                         &LengthProfile::outer_decade_entropy),
                panel_of(inputs.iid, "Attention on the last 100 tokens", {"sum of weights", false, 0, 1.02},
                         &LengthProfile::last_100)}},
      .caption =
          "Without a transform entropy grows like ln N everywhere and local attention dies as 100/N. LogN holds "
          "entropy back, but local attention still dies. Under the scale-invariant map entropy grows slowly, and the "
          "last 100 tokens keep a share that falls as 1/ln N only: each further decade takes about as much as the "
          "others.",
      .method = iid_words(inputs) + " The query stands at the end and sees N keys."};
}

}  // namespace

constinit const PictureMaker kFigure1Picture = {"figure-1", "Fig. 1: entropy and local attention by length", make};

}  // namespace siattn::verify
