// SPDX-License-Identifier: Apache-2.0
// Fig. 6: the same as Fig. 2 without a transform.
#include "verify/pictures/list.hpp"
#include "verify/pictures/range_entropy.hpp"
#include "verify/pictures/support.hpp"

namespace siattn::verify {
namespace {

Picture make(const PictureInputs& inputs) {
  const RangeEntropies h = range_entropies(NoTransform{}, inputs.options, 0x50494340);
  return {.id = {},
          .plot = {"Fig. 6: entropy within a range, no transform",
                   "Expected entropy within the range from t to Delta t, for Delta 2, 5 and 10, without a transform: "
                   "straight against the logarithm of t, curved against its root.",
                   h.panels},
          .caption = fmt::format("The counterpart of Fig. 2: unscaled attention spreads over all the keys there are, "
                                 "and entropy grows like ln t. Against ln t each curve stays within {:.2f} nats of a "
                                 "straight line, against √ln t it departs by up to {:.1f}.",
                                 h.log_residual, h.root_residual),
          .method = h.method};
}

}  // namespace

constinit const PictureMaker kFigure6Picture = {"figure-6", "Fig. 6: the same without a transform", make};

}  // namespace siattn::verify
