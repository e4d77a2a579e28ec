// SPDX-License-Identifier: Apache-2.0
#include "verify/pictures/ticks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace siattn::verify {
namespace {

constexpr double kSlack = 1e-9;  // of a step: what rounding may take a tick beyond the end

std::string with_minus(std::string text) {  // the sign that is as wide as a plus
  return !text.empty() && text[0] == '-' ? "−" + text.substr(1) : text;
}

std::string superscript(int exponent) {
  static constexpr const char* digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string out = exponent < 0 ? "⁻" : "";
  for (const char c : std::to_string(std::abs(exponent))) out += digits[c - '0'];
  return out;
}

std::vector<Tick> linear_ticks(double low, double high, int most) {
  const double raw = high / most - low / most;  // the whole may be too large for a double
  double step = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {2.0, 2.5, 2.0, 2.0}) {  // 1, 2, 5, 10, 20
    if (step >= raw * (1 - kSlack)) break;
    step *= factor;
  }
  std::vector<Tick> list;
  const double last = std::floor(high / step + kSlack);
  for (double k = std::ceil(low / step - kSlack); k <= last && list.size() < 100; ++k) {
    list.push_back({k * step, number_label(k * step, step)});
  }
  return list;
}

/// 1, 2, 5 of each power of ten, where the axis holds few of these.
std::vector<Tick> short_log_ticks(double low, double high) {
  std::vector<Tick> list;
  for (int e = static_cast<int>(std::floor(std::log10(low))); e <= std::ceil(std::log10(high)); ++e) {
    for (const int digit : {1, 2, 5}) {
      const double value = digit * std::pow(10, e);
      if (value >= low * (1 - kSlack) && value <= high * (1 + kSlack))
        list.push_back({value, number_label(value, std::pow(10, e))});
    }
  }
  return list;
}

std::vector<Tick> log_ticks(double low, double high, int most) {
  const int first = static_cast<int>(std::ceil(std::log10(low) - kSlack));
  const int last = static_cast<int>(std::floor(std::log10(high) + kSlack));
  if (last - first < 2) {
    std::vector<Tick> list = short_log_ticks(low, high);
    if (list.size() > 1 && list.size() <= static_cast<std::size_t>(most) + 1) return list;
    if (last <= first) return linear_ticks(low, high, most);
  }
  const int every = (last - first) / most + 1;
  std::vector<Tick> list;
  for (int e = first - 1; e <= last; ++e) {
    if (e >= first) list.push_back({std::pow(10, e), (e - first) % every == 0 ? power_label(e) : ""});
    for (int digit = 2; digit < 10 && last - first <= 3; ++digit) {
      const double value = digit * std::pow(10, e);
      if (value >= low && value <= high) list.push_back({value, ""});
    }
  }
  return list;
}

}  // namespace

std::string power_label(int exponent) {
  if (exponent == 0) return "1";
  return exponent == 1 ? "10" : "10" + superscript(exponent);
}

std::string number_label(double value, double step) {
  const double size = std::max(std::abs(value), step);
  if (value == 0 || std::abs(value) < step * kSlack) return "0";
  if (size >= 1e6 || size < 1e-3) {
    const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value)) + kSlack));
    const std::string digits = fmt::format("{:.6g}", value / std::pow(10, exponent));
    return with_minus(digits == "1" ? power_label(exponent) : digits + "×" + power_label(exponent));
  }
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + kSlack)));
  return with_minus(fmt::format("{:.{}f}", value, decimals));
}

std::vector<Tick> ticks(double low, double high, bool log, int most) {
  return log ? log_ticks(low, high, most) : linear_ticks(low, high, most);
}

}  // namespace siattn::verify
