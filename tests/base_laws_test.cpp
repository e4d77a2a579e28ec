// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "verify/claims/base_laws.hpp"

namespace siattn::verify {
namespace {

TEST(BaseLaws, HaveMassOneMeanZeroAndVarianceOne) {
  for (const BaseLaw& law : base_laws()) {
    EXPECT_NEAR(law.mean([](double) { return 1.0; }, 0), 1, 1e-10) << law.name;
    EXPECT_NEAR(law.mean([](double s) { return s; }, 0), 0, 1e-10) << law.name;
    EXPECT_NEAR(law.mean([](double s) { return s * s; }, 0), 1, 1e-9) << law.name;
  }
}

TEST(BaseLaws, MomentsAreThoseOfTheDensity) {
  for (const BaseLaw& law : base_laws()) {
    for (const double a : {0.0, 0.3, 1.0, 3.0}) {
      if (a >= law.greatest_scale) continue;
      const double mean = law.mean([a](double s) { return std::exp(a * s); }, a);
      EXPECT_NEAR(std::exp(law.log_moment(a)) / mean, 1, 1e-9) << law.name << ", a = " << a;
      const double weighted = law.mean([a](double s) { return s * std::exp(a * s); }, a);
      EXPECT_NEAR(law.log_moment_slope(a), weighted / mean, 1e-8) << law.name << ", a = " << a;
    }
  }
}

TEST(BaseLaws, SlopeIsTheDerivative) {
  constexpr double h = 1e-4;
  for (const BaseLaw& law : base_laws()) {
    for (const double a : {-0.7, 0.2, 1.2}) {
      const double difference = (law.log_moment(a + h) - law.log_moment(a - h)) / (2 * h);
      EXPECT_NEAR(law.log_moment_slope(a), difference, 1e-6) << law.name << ", a = " << a;
    }
  }
}

}  // namespace
}  // namespace siattn::verify
