// SPDX-License-Identifier: Apache-2.0
#include "encoding/rotation.hpp"

#include <cmath>

namespace siattn::encoding {

TurnRate turn_rate(DoubleDouble frequency) noexcept {
  constexpr DoubleDouble per_turn = {0x1.45f306dc9c883p-3, -0x1.6b01ec5417056p-57};  // 1 / (2 pi), within u^2
  const DoubleDouble turns = frequency * per_turn;
  const double high = turns.high * 0x1p64;
  const double low = turns.low * 0x1p64;
  // low may be negative, and more than 1 where high is so large that it has no fraction.
  TurnRate rate;
  rate.high = static_cast<std::uint64_t>(high) + static_cast<std::uint64_t>(static_cast<std::int64_t>(std::floor(low)));
  double rest = (high - std::floor(high)) + (low - std::floor(low));
  if (rest >= 1) {
    rest -= 1;
    ++rate.high;
  }
  rate.low = static_cast<std::uint32_t>(rest * 0x1p32);
  return rate;
}

Rotation rotation(TurnRate rate, std::int64_t position) noexcept {
  // |position|, so that opposite positions give opposite angles bit for bit.
  const auto steps = static_cast<std::uint64_t>(position < 0 ? -position : position);
  const std::uint64_t turns = rate.high * steps + ((rate.low * steps) >> 32);
  constexpr std::uint64_t quarter = std::uint64_t{1} << 62;
  const std::uint64_t quadrant = (turns + quarter / 2) / quarter;  // to nearest; 4 wraps to 0
  const auto rest = static_cast<std::int64_t>(turns - quadrant * quarter);
  const double angle = static_cast<double>(rest) * 0x1.921fb54442d18p-62;  // 2 pi / 2^64
  const double c = std::cos(angle);
  const double s = std::sin(angle);
  Rotation r;
  switch (quadrant) {
    case 0: r = {c, s}; break;
    case 1: r = {-s, c}; break;
    case 2: r = {-c, -s}; break;
    default: r = {s, -c}; break;
  }
  if (position < 0) r.sine = -r.sine;
  return r;
}

}  // namespace siattn::encoding
