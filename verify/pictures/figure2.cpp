// SPDX-License-Identifier: Apache-2.0
// Fig. 2: weak sparsity. Entropy within a range under the scale-invariant map.
#include "verify/pictures/list.hpp"
#include "verify/pictures/range_entropy.hpp"
#include "verify/pictures/support.hpp"

namespace siattn::verify {
namespace {

Picture make(const PictureInputs& inputs) {
  const RangeEntropies h = sample_range_entropies(ScaleInvariant{}, inputs.options, 0x50494310);
  return {.id = {},
          .plot = {"Fig. 2: entropy within a range, scale-invariant (τ = 10)",
                   "Expected entropy within the range from t to Delta t, for Delta 2, 5 and 10: curved against the "
                   "logarithm of "
                   "t, nearly straight against its root.",
                   range_entropy_panels(h)},
          .caption = fmt::format(
              "Entropy within a range grows with its distance, but ever more slowly: against √ln t the points "
              "are at most {:.2f} nats from a straight line, against ln t {:.2f}.",
              h.root_residual, h.log_residual),
          .method = "Independent standard normal base logits. " + sampled_words(h.repetitions, inputs.options.seed)};
}

}  // namespace

constinit const PictureMaker kFigure2 = {"figure-2", "Fig. 2: entropy within a range", make};

}  // namespace siattn::verify
