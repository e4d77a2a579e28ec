// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>

#include "tools/command.hpp"

namespace siattn::tools {
namespace {

/// Empty when the whole text is a number of this type.
template <class Number>
std::string complaint(const std::string& text, const char* expected) {
  Number number{};
  const char* first = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, number);
  if (error == std::errc::result_out_of_range) return fmt::format("'{}' is out of range: expected {}", text, expected);
  if (error != std::errc{} || end != last || first == last) return fmt::format("'{}': expected {}", text, expected);
  return {};
}

CLI::Validator strict_check(const std::string& type) {
  return {[type](std::string& text) -> std::string {
            if (text.empty()) return "an empty value";
            if (type.starts_with("UINT")) return complaint<std::uint64_t>(text, "a whole number, 0 .. 2^64 - 1");
            if (type.starts_with("INT")) return complaint<std::int64_t>(text, "a whole number");
            if (type.starts_with("FLOAT")) return complaint<double>(text, "a number that float64 can hold");
            return {};
          },
          ""};
}

}  // namespace

void check_values_strictly(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands(nullptr)) {
    for (CLI::Option* option : command->get_options()) {
      if (option->get_items_expected_max() > 0) option->check(strict_check(option->get_type_name()));
    }
  }
}

}  // namespace siattn::tools
