// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_JSON_NUMBER_HPP
#define SIATTN_VERIFY_JSON_NUMBER_HPP

#include <cmath>
#include <nlohmann/json.hpp>

namespace siattn::verify {

/// A number; what JSON lacks is one of the strings "nan", "inf", "-inf".
inline nlohmann::ordered_json json_number(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_JSON_NUMBER_HPP
