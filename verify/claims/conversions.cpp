// SPDX-License-Identifier: Apache-2.0
// Not a claim of the paper but of this library: 16-bit numbers become float32 exactly, float32 numbers 16-bit ones by one
// correct rounding. The floats that round to one 16-bit number are an interval that ends halfway to its neighbours, the
// ends included where the number is even.
#include <bit>

#include <siattn/float16.hpp>

#include "cpu/isa.hpp"
#include "verify/claims/list.hpp"
#include "verify/claims/support.hpp"

namespace siattn::verify {
namespace {

constexpr std::array<std::string_view, 2> kWrong = {"rounded towards zero", "ties away from zero"};

constexpr std::uint32_t kInfinity = 0x7F800000U;
constexpr std::uint32_t kBlock = 4096;

float wide(cpu::Element element, std::uint32_t bits) {
  const auto b = static_cast<std::uint16_t>(bits);
  return element == cpu::kBfloat16 ? to_float(bfloat16{b}) : to_float(float16{b});
}

struct Exceptions {
  std::int64_t count = 0;
  std::int64_t conversions = 0;
};

/// The floats first .. last (bits, all of one sign), which become 16-bit numbers for which right(number) holds.
template <class Right>
void check(Exceptions& found, const cpu::Kernels& kernels, cpu::Element element, std::uint32_t first,
           std::uint32_t last, Right right) {
  std::array<std::uint32_t, kBlock> from;
  std::array<std::uint16_t, kBlock> to;
  for (std::uint64_t start = first; start <= last; start += kBlock) {
    const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(kBlock, last - start + 1));
    for (std::uint32_t i = 0; i < n; ++i) from[i] = static_cast<std::uint32_t>(start) + i;
    kernels.narrow[element](reinterpret_cast<const float*>(from.data()), to.data(), n);
    for (std::uint32_t i = 0; i < n; ++i) found.count += right(to[i]) ? 0 : 1;
    found.conversions += n;
  }
}

/// Every 16-bit number of one type and sign: the whole interval of floats that round to it, or only its two ends.
void check_sign(Exceptions& found, const cpu::Kernels& kernels, cpu::Element element, std::uint32_t sign, bool whole,
                std::size_t variant) {
  const std::uint32_t infinity = element == cpu::kBfloat16 ? 0x7F80 : 0x7C00;
  const double overflow = element == cpu::kBfloat16 ? 0x1.FFp127 : 65520.0;  // halfway to the number that is not there
  std::uint32_t first = 0;
  for (std::uint32_t v = 0; v <= infinity; ++v) {
    std::uint32_t end = kInfinity;  // the last float that rounds to v
    if (v < infinity) {
      const double next = v + 1 == infinity ? 2 * overflow - static_cast<double>(wide(element, v))
                                            : static_cast<double>(wide(element, v + 1));
      const double middle = (static_cast<double>(wide(element, v)) + next) / 2;
      end = std::bit_cast<std::uint32_t>(static_cast<float>(variant == 1 ? next : middle));
      if (variant != 0 || v % 2 == 1) --end;  // planted: all below the next number, or never the half itself
    }
    const auto right = [want = static_cast<std::uint16_t>(v | sign << 15)](std::uint16_t got) { return got == want; };
    if (whole || end - first < 2) {
      check(found, kernels, element, first | sign << 31, end | sign << 31, right);
    } else {
      check(found, kernels, element, first | sign << 31, first | sign << 31, right);
      check(found, kernels, element, end | sign << 31, end | sign << 31, right);
    }
    first = end + 1;
  }
  check(found, kernels, element, first | sign << 31, (whole ? 0x7FFFFFFFU : first) | sign << 31,
        [&](std::uint16_t got) { return (got & 0x7FFFU) > infinity; });  // NaN
}

void check_widening(Exceptions& found, const cpu::Kernels& kernels, cpu::Element element) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto narrow = static_cast<std::uint16_t>(bits);
    float got = 0;
    kernels.widen[element](&narrow, &got, 1);
    const float want = wide(element, bits);
    const bool same =
        std::isnan(want) ? std::isnan(got) : std::bit_cast<std::uint32_t>(got) == std::bit_cast<std::uint32_t>(want);
    found.count += same ? 0 : 1;
    ++found.conversions;
  }
}

Measurement measure(const ClaimOptions& options, std::size_t variant) {
  Worst worst;
  worst.see(0.0, [] { return std::string("none"); });
  std::int64_t conversions = 0;
  for (const cpu::Isa& isa : cpu::isas()) {
    if (!cpu::usable(isa, cpu::detect_cpu(), {})) continue;
    for (const cpu::Element element : {cpu::kBfloat16, cpu::kFloat16}) {
      Exceptions found;
      check_widening(found, *isa.kernels, element);
      for (const std::uint32_t sign : {0U, 1U}) check_sign(found, *isa.kernels, element, sign, options.full, variant);
      conversions += found.conversions;
      worst.see(static_cast<double>(found.count),
                [&] { return fmt::format("{} {}", isa.name, element == cpu::kBfloat16 ? "bf16" : "f16"); });
    }
  }
  return std::move(worst).result(fmt::format("{} conversions", conversions));
}

}  // namespace

constinit const Claim kConversions = {
    .id = "conversions",
    .title = "16-bit conversions: rounded once",
    .reference = "IEEE 754",
    .statement =
        "every 16-bit number widens exactly; the ends of every rounding interval (full: all 2^32 floats) narrow to it",
    .method = Method::exact,
    .threshold = 0,
    .threshold_reason = "no exception",
    .wrong_variants = kWrong,
    .measure = measure,
};

}  // namespace siattn::verify
