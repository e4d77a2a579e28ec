// SPDX-License-Identifier: Apache-2.0
// exp2 of every instruction set that this machine has: the arguments at which others go wrong, and a coarse sweep.
// cpu_exp_full_test.cpp goes through every float.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "cpu/backend.hpp"
#include "cpu/isa.hpp"

namespace siattn::cpu {
namespace {

class CpuExp : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    if (const Status status = usable(isa(), detect_cpu(), {}); !status) GTEST_SKIP() << status.message();
  }
  const Isa& isa() const { return isas()[GetParam()]; }
  std::vector<float> exp2(const std::vector<float>& x) const {
    std::vector<float> y(x.size() + 1, 123.0F);
    isa().kernels->exp2(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
    EXPECT_EQ(y.back(), 123.0F) << "written past the end";
    y.pop_back();
    return y;
  }
  float exp2(float x) const { return exp2(std::vector<float>{x})[0]; }
};

TEST_P(CpuExp, ExactWhereTheResultIs) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(exp2(0.0F)), 0x3F800000U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(exp2(-0.0F)), 0x3F800000U);
  for (int n = 0; n <= 149; ++n) EXPECT_EQ(exp2(static_cast<float>(-n)), std::ldexp(1.0F, -n)) << n;
}

TEST_P(CpuExp, NeverAboveOne) {
  float x = -0.0F;
  for (int i = 0; i < 1000; ++i) {
    x = std::nextafter(x, -1.0F);
    EXPECT_LE(exp2(x), 1.0F) << x;
  }
  for (float tiny = -0x1p-149F; tiny > -0x1p-20F; tiny *= 2) EXPECT_LE(exp2(tiny), 1.0F) << tiny;
}

TEST_P(CpuExp, NoNumberIsNotANumber) {
  EXPECT_TRUE(std::isnan(exp2(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(exp2(-std::numeric_limits<float>::quiet_NaN())));
}

TEST_P(CpuExp, GoesToZeroThroughTheSubnormals) {
  EXPECT_EQ(exp2(-150.0F), 0.0F) << "half of the least subnormal, ties to even";
  EXPECT_EQ(exp2(-149.5F), 0x1p-149F);
  for (const float x : {-150.5F, -151.0F, -200.0F, -201.0F, -1e4F, -60000.0F, -1e30F, -3.4e38F})
    EXPECT_EQ(exp2(x), 0.0F) << x;
  EXPECT_EQ(exp2(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_FALSE(std::signbit(exp2(-std::numeric_limits<float>::infinity())));
}

// exp(-87) .. exp(-104) in natural-log units, where vector exponentials elsewhere end too early.
TEST_P(CpuExp, NearItsEnd) {
  for (const double natural : {-87.0, -87.5, -88.0, -88.5, -100.0, -104.0}) {
    const auto x = static_cast<float>(natural * 1.4426950408889634);
    const double want = std::exp2(static_cast<double>(x));
    EXPECT_NEAR(static_cast<double>(exp2(x)), want, 7.2e-8 * want + 0x1p-150) << natural;
  }
}

TEST_P(CpuExp, CoarseSweep) {
  std::vector<float> x;
  for (std::uint32_t bits = 0x80000000U; bits <= 0xC3200000U; bits += 0x1003) x.push_back(std::bit_cast<float>(bits));
  const std::vector<float> y = exp2(x);
  const double bound = backends()[GetParam()]->numerics(DType::float32).exp_relative_error;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp2(static_cast<double>(x[i]));
    ASSERT_LE(std::fabs(static_cast<double>(y[i]) - want), bound * want + (x[i] < -126.0F ? 0x1p-150 : 0)) << x[i];
  }
}

TEST_P(CpuExp, EveryLengthAndLaneAgree) {
  for (std::size_t n = 0; n <= 40; ++n) {
    std::vector<float> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = -0.37F * static_cast<float>(i * i);
    const std::vector<float> y = exp2(x);
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(y[i], exp2(x[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, CpuExp, testing::Range<std::size_t>(0, isas().size()),
                         [](const auto& p) { return std::string(isas()[p.param].name); });

}  // namespace
}  // namespace siattn::cpu
