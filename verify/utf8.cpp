// SPDX-License-Identifier: Apache-2.0
#include "verify/utf8.hpp"

#include <cstdint>

namespace siattn::verify {
namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// Length in bytes of the character of XML 1.0 that the (not empty) text starts with; 0 if it starts with none: bad or
/// overlong UTF-8, surrogates, U+FFFE, U+FFFF, control characters but tab, line feed and carriage return.
std::size_t xml_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return first >= 0x20 || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  std::uint32_t code = first & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (!continues(text[i])) return 0;
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < least[length] || surrogate || code == 0xFFFE || code == 0xFFFF || code > 0x10FFFF ? 0 : length;
}

}  // namespace

std::size_t utf8_length(std::string_view text) noexcept {
  std::size_t n = 0;
  for (const char c : text) n += continues(c) ? 0 : 1;
  return n;
}

std::string utf8_cut(std::string_view text, std::size_t columns) {
  if (utf8_length(text) <= columns) return std::string(text);
  const std::size_t kept = columns > 3 ? columns - 3 : columns;
  std::size_t end = 0;
  for (std::size_t n = 0; end < text.size(); ++end) {
    if (!continues(text[end]) && n++ == kept) break;
  }
  return std::string(text.substr(0, end)) + (columns > 3 ? "..." : "");
}

std::string xml_escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = xml_character(text);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (length > 1) {
      out += text.substr(0, length);
    } else {
      switch (text[0]) {
        case '&': out += "&amp;"; break;
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '"': out += "&quot;"; break;
        case '\'': out += "&apos;"; break;
        case '\t': out += "&#9;"; break;
        case '\n': out += "&#10;"; break;
        case '\r': out += "&#13;"; break;
        default: out += text[0];
      }
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace siattn::verify
