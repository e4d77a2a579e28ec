// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_ENCODING_ROTATION_HPP
#define SIATTN_ENCODING_ROTATION_HPP

#include <cstdint>
#include <vector>

#include "encoding/double_double.hpp"

/// # Cosine and sine of position * frequency
///
/// Reducing the angle modulo 2 pi in floating point would need more than double for it too. Measured in *turns*
/// (frequency / 2 pi) the period is 1, and with turns as a fixed-point fraction of 96 bits, an integer product that
/// wraps around *is* the reduction: exact, portable, and without branches.
///
/// Bound (*derived*, u = 2^-53, |position| < 2^31, head_dim d <= 2^14). The angle, in radians, is off by at most
///   - (23 d + 48)u^2 2^31 < 0.3u: the frequency (frequencies.hpp) and the 8u^2 of its conversion to turns;
///   - 2 pi (2^31 2^-97 + 2^-64) < 0.03u: the 96 bits of the fraction, the 64 bits kept of the product;
///   - 1.9u: what is left of the angle, at most pi/4, is converted to double (u), times 2 pi (0.36u), and rounded (u).
/// Cosine and sine have slopes of at most 1, and the C library adds less than an ulp, u at most. In all 4u.
namespace siattn::encoding {

/// Turns for each position, as a fraction of 64 + 32 bits; whole turns don't count.
struct TurnRate {
  std::uint64_t high = 0;
  std::uint32_t low = 0;
};

/// 0 <= frequency <= 1, in radians per position.
TurnRate turn_rate(DoubleDouble frequency) noexcept;

struct Rotation {
  double cosine = 1;
  double sine = 0;
};

/// Within 4u of the cosine and the sine of position times the frequency; |position| < 2^31.
Rotation rotation(TurnRate rate, std::int64_t position) noexcept;

}  // namespace siattn::encoding

#endif  // SIATTN_ENCODING_ROTATION_HPP
