// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_UTF8_HPP
#define SIATTN_VERIFY_UTF8_HPP

#include <cstddef>
#include <string>
#include <string_view>

namespace siattn::verify {

/// Code points, which for the text of reports are also columns of a terminal.
std::size_t utf8_length(std::string_view text) noexcept;

/// At most `columns` code points; what is cut ends in "..." where there is room for it.
std::string utf8_cut(std::string_view text, std::size_t columns);

/// For element content and for attributes in double quotes: & < > " ' escaped, line breaks and tabs as references (an
/// attribute would turn them into spaces), everything that is not a character of XML 1.0 or not UTF-8 as U+FFFD.
std::string xml_escaped(std::string_view text);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_UTF8_HPP
