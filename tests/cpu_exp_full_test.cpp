// SPDX-License-Identifier: Apache-2.0
// exp2 at every float in [-150, 0], on every instruction set that this machine has. In [-126, 0] the relative error,
// below it the absolute one. Prints the worst argument; fails when the error is above what the backend promises, or so
// far below it that the promise should be mended.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "cpu/backend.hpp"
#include "cpu/isa.hpp"

namespace siattn::cpu {
namespace {

struct Worst {
  double error = 0;
  float at = 0;
  void take(double e, float x) {
    if (e > error) *this = {e, x};
  }
};

constexpr std::uint32_t kZero = 0x80000000U;         // -0
constexpr std::uint32_t kLeastNormal = 0xC2FC0000U;  // -126
constexpr std::uint32_t kEnd = 0xC3160000U;          // -150
constexpr std::uint32_t kBlock = 4096;

TEST(CpuExpFull, EveryFloat) {
  std::vector<const Isa*> usable_isas;
  std::vector<double> promised;
  for (std::size_t i = 0; i < isas().size(); ++i) {
    if (!usable(isas()[i], detect_cpu(), {})) continue;
    usable_isas.push_back(&isas()[i]);
    promised.push_back(backends()[i]->numerics(DType::float32).exp_relative_error);
  }
  std::vector<Worst> relative(usable_isas.size());
  std::vector<Worst> absolute(usable_isas.size());
  std::array<float, kBlock> x;
  std::array<float, kBlock> y;
  std::array<double, kBlock> want;
  for (std::uint32_t start = kZero; start <= kEnd; start += kBlock) {
    const std::uint32_t n = std::min(kBlock, kEnd - start + 1);
    for (std::uint32_t i = 0; i < n; ++i) {
      x[i] = std::bit_cast<float>(start + i);
      want[i] = std::exp2(static_cast<double>(x[i]));
    }
    for (std::size_t isa = 0; isa < usable_isas.size(); ++isa) {
      usable_isas[isa]->kernels->exp2(x.data(), y.data(), n);
      for (std::uint32_t i = 0; i < n; ++i) {
        const double error = std::fabs(static_cast<double>(y[i]) - want[i]);
        if (start + i <= kLeastNormal) {
          relative[isa].take(error / want[i], x[i]);
        } else {
          absolute[isa].take(error, x[i]);
        }
      }
    }
  }
  for (std::size_t isa = 0; isa < usable_isas.size(); ++isa) {
    std::printf("%s: relative error in [-126, 0] %.4e at %a; absolute in [-150, -126] %.4e at %a\n",
                usable_isas[isa]->name.data(), relative[isa].error, static_cast<double>(relative[isa].at),
                absolute[isa].error, static_cast<double>(absolute[isa].at));
    EXPECT_LE(relative[isa].error, promised[isa]);
    EXPECT_GE(relative[isa].error, promised[isa] / 1.1);
    EXPECT_LE(absolute[isa].error, 0x1p-149);
  }
}

}  // namespace
}  // namespace siattn::cpu
