// SPDX-License-Identifier: Apache-2.0
#include "tools/calibration.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "tools/command.hpp"
#include "tools/io/text.hpp"

namespace siattn::tools {
namespace {

/// The member as a list of numbers.
PerHead read_member(const std::string& where, const nlohmann::json& document, const char* name) {
  if (!document.is_object() || !document.contains(name)) {
    throw Failure(
        fmt::format("{}: no \"{}\": expected {{\"mean\": [...], \"standard_deviation\": [...]}}", where, name));
  }
  const nlohmann::json& member = document[name];
  const nlohmann::json list = member.is_array() ? member : nlohmann::json::array({member});
  PerHead values;
  for (const nlohmann::json& value : list) {
    if (!value.is_number()) {
      throw Failure(fmt::format("{}: \"{}\" holds {}: expected numbers", where, name, io::printable(value.dump(), 40)));
    }
    values.values.push_back(value.get<double>());
  }
  return values;
}

}  // namespace

nlohmann::ordered_json json_of(const Calibration& calibration) {
  return {{"mean", calibration.mean.values}, {"standard_deviation", calibration.standard_deviation.values}};
}

Calibration load_calibration(const char* option, const std::string& path) {
  const std::string where = fmt::format("{} {}", option, io::printable(path));
  std::ifstream file(path);
  if (!file) throw Failure(fmt::format("{}: {}", where, std::strerror(errno)));
  nlohmann::json document;
  try {
    document = nlohmann::json::parse(file);
  } catch (const nlohmann::json::exception& error) {
    throw Failure(fmt::format("{}: no JSON: {}", where, io::printable(error.what(), 200)));
  }
  return {.mean = read_member(where, document, "mean"),
          .standard_deviation = read_member(where, document, "standard_deviation")};
}

}  // namespace siattn::tools
