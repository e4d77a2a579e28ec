// SPDX-License-Identifier: Apache-2.0
// Fig. 2: weak sparsity. Entropy within a range under the scale-invariant map.
#include "verify/pictures/list.hpp"
#include "verify/pictures/range_entropy.hpp"
#include "verify/pictures/support.hpp"

namespace siattn::verify {
namespace {

Picture make(const PictureInputs& inputs) {
  const RangeEntropies h = range_entropies(ScaleInvariant{}, inputs.options, 0x50494310);
  return {
      .id = {},
      .plot =
          {"Fig. 2: entropy within a range, scale-invariant (τ = 10)",
           "Expected entropy within the range from t to Delta t, for Delta 2, 5 and 10: curved against the logarithm "
           "of t, nearly straight against its root.",
           h.panels},
      .caption = fmt::format("Weak sparsity, which the paper leaves unproven: entropy within a range grows with its "
                             "distance like √ln t. From t = 10 to 10¹⁵ each curve stays within {:.2f} nats of a "
                             "straight line against √ln t, but departs from one by up to {:.2f} against ln t.",
                             h.root_residual, h.log_residual),
      .method = h.method};
}

}  // namespace

constinit const PictureMaker kFigure2Picture = {"figure-2", "Fig. 2: entropy within a range", make};

}  // namespace siattn::verify
