// SPDX-License-Identifier: Apache-2.0
// All the pictures, twice: with other numbers of threads they are the same to the last bit.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "verify/claims/list.hpp"
#include "verify/pictures/picture.hpp"
#include "verify/pictures/svg.hpp"

namespace siattn::verify {
namespace {

/// With three threads.
const std::vector<Picture>& all_pictures() {
  static const std::vector<Picture> pictures = [] {
    const std::vector<CheckResult> checks = {run_claim(kNotGaussian)};
    const int before = omp_get_max_threads();
    omp_set_num_threads(3);
    std::vector<Picture> list = make_pictures({}, checks);
    omp_set_num_threads(before);
    return list;
  }();
  return pictures;
}

TEST(Pictures, AreCompleteAndDoNotDependOnThreads) {
  const std::vector<CheckResult> checks = {run_claim(kNotGaussian)};
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const std::vector<Picture> again = make_pictures({}, checks);
  omp_set_num_threads(before);
  const std::vector<Picture>& pictures = all_pictures();
  ASSERT_EQ(pictures.size(), picture_makers().size());
  EXPECT_TRUE(json_of(pictures) == json_of(again));
  for (std::size_t k = 0; k < pictures.size(); ++k) {
    EXPECT_EQ(pictures[k].id, picture_makers()[k]->id);
    const std::string text = svg(pictures[k].plot);
    EXPECT_EQ(text.find("no data"), std::string::npos) << pictures[k].id;
    EXPECT_LT(text.size(), 60'000u) << pictures[k].id;
  }
}

/// Every curve of Fig. 2 and 6 runs through the points that were drawn: within 6 of their standard errors, which are
/// half of what is drawn; of 24 points one falls out by chance in 2e7 seeds (200 and more repetitions each, near enough
/// normal).
TEST(Pictures, CurvesRunThroughThePointsDrawn) {
  for (const Picture& picture : all_pictures()) {
    if (!picture.id.starts_with("figure-2") && !picture.id.starts_with("figure-6")) continue;
    int compared = 0;
    for (const Series& points : picture.plot.panels[0].series) {
      if (points.draw != Draw::markers) continue;
      for (const Series& curve : picture.plot.panels[0].series) {
        if (curve.draw != Draw::line || curve.style != points.style) continue;
        for (std::size_t i = 0; i < points.x.size(); ++i) {
          for (std::size_t k = 0; k < curve.x.size(); ++k) {
            if (std::abs(curve.x[k] - points.x[i]) > 1e-9) continue;
            EXPECT_NEAR(points.y[i], curve.y[k], 3 * (points.high[i] - points.y[i]))
                << picture.id << " " << points.x[i];
            ++compared;
          }
        }
      }
    }
    EXPECT_EQ(compared, 12) << picture.id;
  }
}

}  // namespace
}  // namespace siattn::verify
