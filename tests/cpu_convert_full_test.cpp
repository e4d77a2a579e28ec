// SPDX-License-Identifier: Apache-2.0
// Every float to bfloat16 and float16, on every instruction set that this machine has. The floats that round to one
// 16-bit number are an interval that ends halfway to its neighbours, halves included where the number is even.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include <siattn/float16.hpp>

#include "cpu/isa.hpp"

namespace siattn::cpu {
namespace {

float wide(Element element, std::uint32_t bits) {
  const auto b = static_cast<std::uint16_t>(bits);
  return element == kBfloat16 ? to_float(bfloat16{b}) : to_float(float16{b});
}

constexpr std::uint32_t kInfinity = 0x7F800000U;
constexpr std::uint32_t kBlock = 8192;

/// Narrows the floats first .. last (bits) and counts the results that `right` refuses.
template <class Right>
std::uint64_t wrong(const Kernels& kernels, Element element, std::uint32_t first, std::uint32_t last, Right right) {
  alignas(64) static std::array<std::uint32_t, kBlock> from;
  alignas(64) static std::array<std::uint16_t, kBlock> to;
  std::uint64_t count = 0;
  for (std::uint64_t start = first; start <= last; start += kBlock) {
    const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(kBlock, last - start + 1));
    for (std::uint32_t i = 0; i < n; ++i) from[i] = static_cast<std::uint32_t>(start) + i;
    kernels.narrow[element](reinterpret_cast<const float*>(from.data()), to.data(), n);
    std::uint32_t bad = 0;
    for (std::uint32_t i = 0; i < n; ++i) bad += right(to[i]) ? 0 : 1;
    count += bad;
  }
  return count;
}

class CpuConvertFull : public testing::TestWithParam<std::size_t> {};

TEST_P(CpuConvertFull, EveryFloatNarrows) {
  const Isa& isa = isas()[GetParam()];
  if (const Status status = usable(isa, detect_cpu(), {}); !status) GTEST_SKIP() << status.message();
  for (const Element element : {kBfloat16, kFloat16}) {
    const std::uint32_t infinity = element == kBfloat16 ? 0x7F80 : 0x7C00;
    const double overflow = element == kBfloat16 ? 0x1.FFp127 : 65520.0;  // halfway to the number that is not there
    for (const std::uint32_t sign : {0U, 1U}) {
      std::uint64_t covered = 0;
      std::uint32_t first = 0;  // of the interval, sign aside
      for (std::uint32_t v = 0; v <= infinity; ++v) {
        std::uint32_t end = kInfinity;  // last float that rounds to v
        if (v < infinity) {
          const double middle =
              v + 1 == infinity
                  ? overflow
                  : (static_cast<double>(wide(element, v)) + static_cast<double>(wide(element, v + 1))) / 2;
          end = std::bit_cast<std::uint32_t>(static_cast<float>(middle)) - v % 2;
        }
        const auto want = static_cast<std::uint16_t>(v | sign << 15);
        ASSERT_EQ(wrong(isa.kernels[0], element, first | sign << 31, end | sign << 31,
                        [want](std::uint16_t got) { return got == want; }),
                  0U)
            << isa.name << " near " << wide(element, want);
        covered += end - first + 1;
        first = end + 1;
      }
      ASSERT_EQ(wrong(isa.kernels[0], element, first | sign << 31, 0x7FFFFFFFU | sign << 31,
                      [&](std::uint16_t got) { return (got & 0x7FFFU) > infinity; }),
                0U)
          << isa.name << ": NaN";
      covered += 0x80000000U - first;
      ASSERT_EQ(covered, std::uint64_t{1} << 31);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, CpuConvertFull, testing::Range<std::size_t>(0, isas().size()),
                         [](const auto& p) { return std::string(isas()[p.param].name); });

}  // namespace
}  // namespace siattn::cpu
