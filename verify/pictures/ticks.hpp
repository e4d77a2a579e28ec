// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_PICTURES_TICKS_HPP
#define SIATTN_VERIFY_PICTURES_TICKS_HPP

#include <string>
#include <vector>

namespace siattn::verify {

struct Tick {
  double value;
  std::string label;  ///< empty: a line without a number
};

/// Round numbers in [low, high] for an axis, about `most` of them with labels, `most` + 1 where both ends have one. low
/// < high, both finite; log: low > 0. Linear: multiples of 1, 2 or 5 times a power of ten; logarithmic: powers of ten,
/// every k-th with its label, and their multiples where the axis is short.
std::vector<Tick> ticks(double low, double high, bool log, int most);

/// A number for people: "0.25", "12000", "3×10⁻⁷", "−4"; `step` is the distance to the next, which sets the decimals.
std::string number_label(double value, double step);

/// "10⁶".
std::string power_label(int exponent);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_PICTURES_TICKS_HPP
