// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_TOOLS_IO_TEXT_HPP
#define SIATTN_TOOLS_IO_TEXT_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <siattn/status.hpp>

/// Words for error messages. A message is one line of UTF-8 whatever a file or a command line holds.
namespace siattn::io {

/// Whether `text` is well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text) noexcept;

/// `text` with control characters and bytes that are no UTF-8 as \xNN, cut to about `limit` bytes with "..." after it.
std::string printable(std::string_view text, std::size_t limit = 100);

/// printable(text) in single quotes.
std::string in_quotes(std::string_view text);

/// "[2, 3]"; of a long shape the first extents and "...".
std::string shape_text(std::span<const std::int64_t> shape);

/// The same failure with "PATH: " in front of its message.
Status at_path(std::string_view path, const Status& status);

}  // namespace siattn::io

#endif  // SIATTN_TOOLS_IO_TEXT_HPP
