// SPDX-License-Identifier: Apache-2.0
// The file of calibration factors: `siattn gaussian` writes it, the other subcommands read it.
#ifndef SIATTN_TOOLS_CALIBRATION_HPP
#define SIATTN_TOOLS_CALIBRATION_HPP

#include <nlohmann/json.hpp>
#include <string>

#include <siattn/logit_transform.hpp>

namespace siattn::tools {

/// {"mean": [one for each query head], "standard_deviation": [likewise], and what else is worth telling}.
nlohmann::ordered_json json_of(const Calibration& calibration);

/// Reads "mean" and "standard_deviation", each a list or one number, from a JSON object; the failure names option, file
/// and member. Whether the values will do is for the library to say.
Calibration load_calibration(const char* option, const std::string& path);

}  // namespace siattn::tools

#endif  // SIATTN_TOOLS_CALIBRATION_HPP
