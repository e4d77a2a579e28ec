// SPDX-License-Identifier: Apache-2.0
#include "tools/io/text.hpp"

#include <fmt/format.h>

namespace siattn::io {
namespace {

/// The length of the UTF-8 sequence that `text`, which is not empty, begins with; 0 if it begins with none.
std::size_t sequence_length(std::string_view text) noexcept {
  const auto byte = [text](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  // The second byte's range is what rules out overlong forms, surrogates and code points past the last.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (length == 0 || byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return length;
}

/// C0, DEL and C1: what a terminal might obey instead of showing.
bool is_control(std::string_view sequence) noexcept {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return lead < 0x20 || lead == 0x7F;
  return lead == 0xC2 && static_cast<unsigned char>(sequence[1]) < 0xA0;
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string shown;
  while (!text.empty()) {
    if (shown.size() >= limit) return shown + "...";
    const std::size_t length = sequence_length(text);
    const std::string_view sequence = text.substr(0, length == 0 ? 1 : length);
    if (length != 0 && !is_control(sequence)) {
      shown += sequence;
    } else {
      for (const char c : sequence) shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    text.remove_prefix(sequence.size());
  }
  return shown;
}

std::string in_quotes(std::string_view text) { return fmt::format("'{}'", printable(text)); }

std::string shape_text(std::span<const std::int64_t> shape) {
  constexpr std::size_t shown_extents = 8;
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) text += ", ";
    if (i == shown_extents) {
      text += "...";
      break;
    }
    text += fmt::to_string(shape[i]);
  }
  return text + "]";
}

Status at_path(std::string_view path, const Status& status) {
  constexpr std::size_t whole_path = 4096;  // PATH_MAX: no path that can be opened is cut
  return {status.code(), printable(path, whole_path) + ": " + status.message()};
}

}  // namespace siattn::io
