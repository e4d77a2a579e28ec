// SPDX-License-Identifier: Apache-2.0
// Total attention of a range: its mean, which Lemma 1 states, and what is typical.
#include "verify/pictures/list.hpp"
#include "verify/pictures/support.hpp"
#include "verify/range_distribution.hpp"

namespace siattn::verify {
namespace {

Picture make(const PictureInputs&) {
  Series mean{.name = "mean", .draw = Draw::line_markers, .style = 0};
  Series median{.name = "median, and from the 10th to the 90th percentile", .draw = Draw::line_markers, .style = 2};
  Series limit{.name = "limit of the mean, τ√e ln 10, and half of it", .draw = Draw::guide};
  for (double t = 10; t < 1.1e15; t *= 10) mean.x.push_back(t);
  const std::size_t count = mean.x.size();
  median.x = mean.x;
  for (auto* values : {&mean.y, &median.y, &median.low, &median.high}) values->resize(count);
#pragma omp parallel for schedule(dynamic)
  for (std::size_t k = 0; k < count; ++k) {
    const RangeDistribution law(ScaleInvariant{}, {mean.x[k], 10 * mean.x[k]});
    mean.y[k] = law.mean_total();
    median.y[k] = law.quantile(0.5);
    median.low[k] = law.quantile(0.1);
    median.high[k] = law.quantile(0.9);
  }
  const double expected = 10 * kSqrtE * std::log(10.0);
  limit.x = {10, 1e15, NAN, 10, 1e15};
  limit.y = {expected, expected, NAN, expected / 2, expected / 2};
  const double last = median.y.back() / mean.y.back();
  return {.id = {},
          .plot = {"Total attention of a decade: mean and median",
                   "Mean, median and percentiles of the total unnormalised attention of the range from t to 10 t, for "
                   "t up to 10 to the 15: the mean reaches its limit at once, the median sinks slowly towards half of "
                   "it.",
                   {{"",
                     {"t (tokens); the range is [t, 10 t)", true},
                     {"total attention Z", false, 0},
                     {limit, mean, median}}}},
          .caption = fmt::format(
              "Scale invariance holds for the mean by Lemma 1, and for the typical total as well, with a constant that "
              "sinks towards half: the median is {:.2f} of the mean at t = 10 and {:.2f} at 10¹⁵. The difference is in "
              "ever rarer, ever larger weights (aₜ² is about 2 ln t with about t tokens: the critical point of the "
              "random energy model).",
              median.y.front() / mean.y.front(), last),
          .method =
              "Independent standard normal base logits, τ = 10, by quadrature and numerical inversion of the Laplace "
              "transform (verify/range_distribution.hpp): nothing is sampled."};
}

}  // namespace

constinit const PictureMaker kTypicalTotalPicture = {"typical-total",
                                                     "Mean and median of the total attention of a decade", make};

}  // namespace siattn::verify
