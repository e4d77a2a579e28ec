// SPDX-License-Identifier: Apache-2.0
// The 16-bit conversions of every instruction set that this machine has, against the scalar ones of float16.hpp: all
// 65536 patterns to float32, and to 16 bits every float around a rounding border. cpu_convert_full_test.cpp takes all.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include <siattn/float16.hpp>

#include "cpu/isa.hpp"

namespace siattn::cpu {
namespace {

class CpuConvert : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    if (const Status status = usable(isas()[GetParam()], detect_cpu(), {}); !status) GTEST_SKIP() << status.message();
  }
  const Kernels& kernels() const { return *isas()[GetParam()].kernels; }
  std::vector<std::uint16_t> narrow(Element element, const std::vector<float>& x) const {
    std::vector<std::uint16_t> y(x.size());
    kernels().narrow[element](x.data(), y.data(), static_cast<std::int64_t>(x.size()));
    return y;
  }
};

float wide(Element element, std::uint16_t bits) {
  return element == kBfloat16 ? to_float(bfloat16{bits}) : to_float(float16{bits});
}
std::uint16_t narrowed(Element element, float x) {
  return element == kBfloat16 ? to_bfloat16(x).bits : to_float16(x).bits;
}

TEST_P(CpuConvert, EveryPatternWidensExactly) {
  std::vector<std::uint16_t> patterns(65536);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
  for (const Element element : {kBfloat16, kFloat16}) {
    std::vector<float> x(65536);
    kernels().widen[element](patterns.data(), x.data(), 65536);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float want = wide(element, patterns[i]);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(x[i])) << i;
      } else {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(x[i]), std::bit_cast<std::uint32_t>(want)) << i;
      }
    }
  }
}

TEST_P(CpuConvert, EveryPatternComesBack) {
  for (const Element element : {kBfloat16, kFloat16}) {
    std::vector<float> x;
    for (std::uint32_t i = 0; i < 65536; ++i) x.push_back(wide(element, static_cast<std::uint16_t>(i)));
    const std::vector<std::uint16_t> y = narrow(element, x);
    for (std::uint32_t i = 0; i < 65536; ++i) {
      if (std::isnan(x[i])) {
        ASSERT_TRUE(std::isnan(wide(element, y[i]))) << i;
      } else {
        ASSERT_EQ(y[i], i);
      }
    }
  }
}

// Between every two neighbours: the middle, and the floats on both sides of it.
TEST_P(CpuConvert, RoundsToNearestEven) {
  for (const Element element : {kBfloat16, kFloat16}) {
    std::vector<float> x;
    for (std::uint32_t i = 0; i < 0x7FFF; ++i) {
      const float a = wide(element, static_cast<std::uint16_t>(i));
      const float b = wide(element, static_cast<std::uint16_t>(i + 1));
      if (!std::isfinite(a)) continue;
      const double middle = std::isfinite(b) ? (static_cast<double>(a) + static_cast<double>(b)) / 2
                                             : (element == kFloat16 ? 65520.0 : 0x1.FFp127);
      const auto m = static_cast<float>(middle);
      for (const float y : {std::nextafter(m, 0.0F), m, std::nextafter(m, HUGE_VALF)}) {
        x.push_back(y);
        x.push_back(-y);
      }
    }
    const std::vector<std::uint16_t> y = narrow(element, x);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], narrowed(element, x[i])) << x[i];
  }
}

TEST_P(CpuConvert, BfloatCasesThatOthersTruncate) {
  const std::vector<std::uint32_t> from{0x3E89CCD5, 0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x7F800001, 0xFF800001};
  std::vector<float> x;
  for (const std::uint32_t bits : from) x.push_back(std::bit_cast<float>(bits));
  const std::vector<std::uint16_t> y = narrow(kBfloat16, x);
  EXPECT_EQ(y[0], 0x3E8A);
  EXPECT_EQ(y[1], 0x3F80);
  EXPECT_EQ(y[2], 0x3F82);
  EXPECT_EQ(y[3], 0x7F80);
  EXPECT_TRUE(std::isnan(wide(kBfloat16, y[4])));
  EXPECT_TRUE(std::isnan(wide(kBfloat16, y[5])));
}

TEST_P(CpuConvert, EveryLengthStopsWhereItShould) {
  for (const Element element : {kFloat32, kBfloat16, kFloat16}) {
    const std::size_t size = element == kFloat32 ? 4 : 2;
    for (std::size_t n = 0; n <= 40; ++n) {
      std::vector<float> x(n, 1.5F);
      std::vector<std::uint8_t> y((n + 1) * size, 0xAB);
      kernels().narrow[element](x.data(), y.data(), static_cast<std::int64_t>(n));
      for (std::size_t i = n * size; i < y.size(); ++i) EXPECT_EQ(y[i], 0xAB);
      std::vector<float> back(n + 1, 7.0F);
      kernels().widen[element](y.data(), back.data(), static_cast<std::int64_t>(n));
      for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(back[i], 1.5F);
      EXPECT_EQ(back[n], 7.0F);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, CpuConvert, testing::Range<std::size_t>(0, isas().size()),
                         [](const auto& p) { return std::string(isas()[p.param].name); });

}  // namespace
}  // namespace siattn::cpu
