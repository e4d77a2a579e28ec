// SPDX-License-Identifier: Apache-2.0
// What becomes of Eq. 12 when base logits are not Gaussian: the table of the claim "not-gaussian", drawn.
#include <algorithm>
#include <limits>

#include "verify/pictures/list.hpp"
#include "verify/pictures/support.hpp"

namespace siattn::verify {
namespace {

/// One of each kind: how the names of laws begin in the table, and what they are called here.
constexpr std::pair<std::string_view, std::string_view> kLaws[] = {
    {"skew-normal, shape +2", "skew-normal, to the right"},
    {"skew-normal, shape -2", "skew-normal, to the left"},
    {"Student t, 5 degrees", "Student t (5), cut off at 7.8 sd"},
    {"Laplace, cut off", "Laplace, cut off at 8 sd"},
    {"two points, the upper one with chance 0.5", "two points, ±1"},
    {"random q and k, both Gaussian, head_dim 64", "random q and k, head_dim 64"},
    {"random q and k, both of length sqrt(head_dim), head_dim 64", "the same, normalised to length 8"}};

const Table* table_of(std::span<const CheckResult> checks) {
  const auto it =
      std::find_if(checks.begin(), checks.end(), [](const auto& check) { return check.id == "not-gaussian"; });
  return it == checks.end() || it->tables.empty() ? nullptr : &it->tables.front();
}

/// The column whose name begins so; NaN where the cell is a word.
Series column_of(const Table& table, std::string_view law, std::string_view column) {
  Series series{.name = {}, .draw = Draw::line_markers};
  const auto place = std::find_if(table.columns.begin(), table.columns.end(),
                                  [column](const std::string& name) { return name.starts_with(column); });
  if (place == table.columns.end())
    throw std::logic_error(fmt::format("no column \"{}\" in \"{}\"", column, table.title));
  for (const auto& row : table.rows) {
    if (!std::get<std::string>(row[0]).starts_with(law)) continue;
    const double* value = std::get_if<double>(&row[static_cast<std::size_t>(place - table.columns.begin())]);
    series.x.push_back(std::get<double>(row[1]));
    series.y.push_back(value != nullptr ? *value : std::numeric_limits<double>::quiet_NaN());
  }
  return series;
}

Picture make(const PictureInputs& inputs) {
  const Axis distance{"distance t (tokens)", true};
  Panel mean{"Departure under Eq. 16", distance, {"mean weight, as a multiple of α/(t/τ + 1)", true, 1e-4, 1e7}, {}};
  Panel restored{
      "The factor that restores the mean weights", distance, {"a, multiplies the base logit", true, 0.5, 30}, {}};
  if (const Table* table = table_of(inputs.checks)) {
    for (const auto& [law, name] : kLaws) {
      for (auto [panel, column] : {std::pair(&mean, "E[exp L]"), std::pair(&restored, "a restored")}) {
        panel->series.push_back(column_of(*table, law, column));
        panel->series.back().name = name;
      }
    }
    for (auto [panel, column] : {std::pair(&mean, ""), std::pair(&restored, "a_t of Eq. 16")}) {
      Series gaussian =
          *column == 0 ? Series{.name = {}, .x = {1, 1e6}, .y = {1, 1}} : column_of(*table, kLaws[0].first, column);
      gaussian.name = "Gaussian, as Eq. 16 has it";
      gaussian.draw = Draw::guide;
      panel->series.push_back(std::move(gaussian));
    }
  }
  return {.id = {},
          .plot = {"Base logits that are not Gaussian",
                   "Two panels over distance for seven laws of mean 0 and variance 1: by how much the mean weight "
                   "departs from Eq. 12, and the factor a that restores it together with Eq. 13.",
                   {mean, restored}},
          .caption =
              "Eq. 16 is made for Gaussian logits. With a heavier right tail the mean weight of distant tokens comes "
              "out too large, by orders of magnitude from t ≈ 100 on; with a lighter one too small. Another a and m "
              "restore both conditions where the law is known (right; m = β/α − a K′(a), K the cumulant function). Two "
              "points have none beyond t ≈ 0.2 τ: they have no larger values to give. Scores of random queries and "
              "keys stay within a factor of two up to t ≈ 10³.",
          .method = "The table of the claim not-gaussian: quadrature, nothing sampled."};
}

}  // namespace

constinit const PictureMaker kDeparturesPicture = {"departures", "Base logits that are not Gaussian", make};

}  // namespace siattn::verify
