// SPDX-License-Identifier: Apache-2.0
// a_t and m_t of Eq. 16 by distance.
#include "verify/pictures/list.hpp"
#include "verify/pictures/support.hpp"

namespace siattn::verify {
namespace {

Picture make(const PictureInputs&) {
  Panel a{"Factor aₜ", {"distance t (tokens)", true}, {"aₜ, multiplies the base logit"}, {}};
  Panel m{"Shift mₜ", {"distance t (tokens)", true}, {"mₜ, added to the logit (nats)"}, {}};
  for (const double tau : {1.0, 10.0, 100.0}) {
    Series factor{.name = fmt::format("τ = {:g}", tau)}, shift = factor;
    for (int k = 0; k <= 7 * 16; ++k) {
      const double t = std::pow(10, k / 16.0);
      const AffineMap map = affine_map(ScaleInvariant{.tau = tau}, t, 1);
      factor.x.push_back(t);
      factor.y.push_back(map.a);
      shift.x.push_back(t);
      shift.y.push_back(map.m);
    }
    a.series.push_back(std::move(factor));
    m.series.push_back(std::move(shift));
  }
  return {
      .id = {},
      .plot = {"The scale-invariant transform",
               "Two panels over distance, for tau 1, 10 and 100: the factor grows like the root of the logarithm of "
               "the distance, the shift falls like twice the logarithm.",
               {a, m}},
      .caption =
          "L = aₜ S + mₜ with aₜ = √(1 + 2 ln(1 + t/τ)) and mₜ = −2 ln(1 + t/τ). Up to t ≈ τ logits stay nearly as "
          "they are (a₀ = 1, m₀ = 0); beyond, the mean logit falls and its spread grows, so that few distant tokens "
          "can win, and most do not.",
      .method = "Eq. 16 at real t, in double precision: nothing is sampled."};
}

}  // namespace

constinit const PictureMaker kTransformCurvesPicture = {"transform", "a_t and m_t by distance", make};

}  // namespace siattn::verify
