// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_RANDOM_HPP
#define SIATTN_VERIFY_RANDOM_HPP

#include <Random123/philox.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace siattn::verify {

/// Counter-based random numbers (Philox 4x32-10): a value depends on (seed, stream, index) alone, never on threads or
/// on the order in which values are drawn.
class Random {
 public:
  Random(std::uint64_t seed, std::uint32_t stream)
      : key_{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}}, stream_(stream) {}

  /// Uniform in (0, 1), 53 bits.
  double uniform(std::uint64_t index) const {
    const auto words = block(index);
    const std::uint64_t bits = (std::uint64_t{words[0]} << 32 | words[1]) >> 11;
    return (static_cast<double>(bits) + 0.5) * 0x1p-53;
  }

  /// Standard normal, by Box and Muller; |x| < 8.7.
  double gaussian(std::uint64_t index) const { return gaussian_pair(index)[0]; }

  /// Two independent standard normals, the first of which is gaussian(index).
  std::array<double, 2> gaussian_pair(std::uint64_t index) const {
    const auto words = block(index);
    const double u = (static_cast<double>((std::uint64_t{words[0]} << 32 | words[1]) >> 11) + 0.5) * 0x1p-53;
    const double angle = 2 * std::numbers::pi * static_cast<double>(words[2]) * 0x1p-32;
    const double radius = std::sqrt(-2 * std::log(u));
    return {radius * std::cos(angle), radius * std::sin(angle)};
  }

 private:
  r123::Philox4x32::ctr_type block(std::uint64_t index) const {
    return r123::Philox4x32()(
        {{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), stream_, 0}}, key_);
  }

  r123::Philox4x32::key_type key_;
  std::uint32_t stream_;
};

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_RANDOM_HPP
