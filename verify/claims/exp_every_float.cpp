// SPDX-License-Identifier: Apache-2.0
// Not a claim of the paper but of this library: the vector kernels' exp2 is as exact as the error bound takes it to be.
#include <bit>

#include "cpu/backend.hpp"
#include "cpu/isa.hpp"
#include "verify/claims/list.hpp"
#include "verify/claims/support.hpp"

namespace siattn::verify {
namespace {

constexpr std::array<std::string_view, 2> kWrong = {"each result 1e-7 of itself too large",
                                                    "0 for arguments below -126"};

// Negative floats in the order of their bits: away from zero.
constexpr std::uint32_t kZero = 0x80000000U;         // -0
constexpr std::uint32_t kLeastNormal = 0xC2FC0000U;  // -126
constexpr std::uint32_t kEnd = 0xC3160000U;          // -150
constexpr std::uint32_t kBlock = 4096;

struct Function {
  std::string_view isa;
  void (*exp2)(const float*, float*, std::int64_t);
  double promised;  ///< relative error in [-126, 0]
};

std::vector<Function> functions() {
  std::vector<Function> list;
  for (std::size_t i = 0; i < cpu::isas().size(); ++i) {
    const cpu::Isa& isa = cpu::isas()[i];
    if (!cpu::usable(isa, cpu::detect_cpu(), {})) continue;
    list.push_back({isa.name, isa.kernels->exp2, cpu::backends()[i]->numerics(DType::float32).exp_relative_error});
  }
  return list;
}

/// The error in units of what is promised: relative in [-126, 0], 2^-149 below.
double error_of(float computed, double exact, std::uint32_t bits, const Function& function, std::size_t variant) {
  auto result = static_cast<double>(computed);
  if (variant == 1) result *= 1 + 1e-7;
  if (variant == 2 && bits > kLeastNormal) result = 0;
  const double error = std::abs(result - exact);
  return bits <= kLeastNormal ? error / exact / function.promised : error / 0x1p-149;
}

Measurement measure(const ClaimOptions& options, std::size_t variant) {
  const std::vector<Function> list = functions();
  Worst worst;
  worst.see(0.0, [] { return std::string("none"); });
  std::array<float, kBlock> x;
  std::array<float, kBlock> y;
  std::array<double, kBlock> exact;
  std::int64_t arguments = 0;
  std::int64_t exceptions = 0;
  for (std::uint32_t start = kZero; start <= kEnd; start += options.full ? kBlock : 512 * kBlock) {
    const std::uint32_t n = std::min(kBlock, kEnd - start + 1);
    arguments += n;
    for (std::uint32_t i = 0; i < n; ++i) {
      x[i] = std::bit_cast<float>(start + i);
      exact[i] = std::exp2(static_cast<double>(x[i]));
    }
    for (const Function& function : list) {
      function.exp2(x.data(), y.data(), n);
      for (std::uint32_t i = 0; i < n; ++i) {
        if (error_of(y[i], exact[i], start + i, function, variant) <= 1) continue;
        ++exceptions;
        worst.see(static_cast<double>(exceptions), [&] { return fmt::format("{} at {:a}", function.isa, x[i]); });
      }
    }
  }
  return std::move(worst).result(fmt::format("{} arguments, {} instruction sets", arguments, list.size()));
}

}  // namespace

constinit const Claim kExpEveryFloat = {
    .id = "exp-every-float",
    .title = "exp2 of the vector kernels",
    .reference = "verify/bounds.hpp",
    .statement =
        "exp2 is within the error that the bound assumes, at one float in 512 of [-150, 0] (full: at every one)",
    .method = Method::exact,
    .threshold = 0,
    .threshold_reason = "no exception",
    .wrong_variants = kWrong,
    .measure = measure,
};

}  // namespace siattn::verify
