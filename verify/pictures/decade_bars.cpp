// SPDX-License-Identifier: Apache-2.0
// Attention and entropy of each decade of distance.
#include "verify/pictures/list.hpp"
#include "verify/pictures/support.hpp"

namespace siattn::verify {
namespace {

std::vector<std::string> decade_names(std::size_t count) {
  static constexpr const char* names[] = {"0", "1–9", "10–99", "100–999", "10³–10⁴", "10⁴–10⁵"};
  return {names, names + std::min(count, std::size(names))};
}

Picture make(const PictureInputs& inputs) {
  const IidProfile& iid = inputs.iid;
  const std::size_t longest = iid.lengths.size() - 1;
  const auto names = decade_names(iid.profiles.front()[longest].decade_mass.size());
  Panel mass{"Attention within each decade",
             {"distance t (tokens)", false, {}, {}, names},
             {"share of attention", false, 0},
             {}};
  Panel entropy{
      "Entropy within each decade", {"distance t (tokens)", false, {}, {}, names}, {"entropy (nats)", false, 0}, {}};
  for (std::size_t k = 0; k < iid.methods.size(); ++k) {
    Series share{.name = iid.methods[k].name, .draw = Draw::bars, .style = iid.methods[k].style}, nats = share;
    const LengthProfile& profile = iid.profiles[k][longest];
    for (std::size_t d = 0; d < names.size(); ++d) {
      add_point(share, static_cast<double>(d), profile.decade_mass[d]);
      add_point(nats, static_cast<double>(d), profile.decade_entropy[d]);
    }
    mass.series.push_back(std::move(share));
    entropy.series.push_back(std::move(nats));
  }
  return {.id = {},
          .plot = {"Attention and entropy by decade of distance, 10⁵ keys",
                   "Bars for each decade of distance, for no transform, LogN, scale-invariant and ALiBi: the share of "
                   "attention that falls there, and the entropy of the weights within it.",
                   {mass, entropy}},
          .caption =
              "Scale-invariant total attention: about the same share to every decade from t = 10 on. And attention "
              "gets sparser with distance: the entropy within a decade of n tokens stays far below ln n, which plain "
              "softmax comes near. LogN is as sparse, but leaves nothing to near tokens; ALiBi leaves nothing to far "
              "ones.",
          .method = iid_words(inputs) + " Entropy is that of the weights renormalised within the decade (Eq. 6)."};
}

}  // namespace

constinit const PictureMaker kDecadeBarsPicture = {"decades", "Attention and entropy by decade", make};

}  // namespace siattn::verify
