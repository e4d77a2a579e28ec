// SPDX-License-Identifier: Apache-2.0
#include "tools/io/npy_header.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "tools/io/text.hpp"

namespace siattn::io {
namespace {

struct Descr {
  std::string_view text;
  DType dtype;
  bool big_endian;
};

/// The first of each type is the one written.
constexpr std::array<Descr, 8> descrs{{{"<f4", DType::float32, false},
                                       {"<f8", DType::float64, false},
                                       {"<f2", DType::float16, false},
                                       {"<V2", DType::bfloat16, false},
                                       {"|V2", DType::bfloat16, false},
                                       {">f4", DType::float32, true},
                                       {">f8", DType::float64, true},
                                       {">f2", DType::float16, true}}};

constexpr std::string_view expected_descr =
    "expected one of '<f4', '<f8', '<f2', '>f4', '>f8', '>f2', or '<V2' or '|V2' for bf16";

class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Result<NpyHeader> parse() {
    if (!take('{')) return unexpected("'{'");
    while (!take('}')) {
      if (Status status = entry(); !status) return status;
      if (take(',')) continue;
      if (!take('}')) return unexpected("',' or '}'");
      break;
    }
    skip_space();
    if (position_ != text_.size()) return unexpected("nothing after '}'");
    for (const auto& [key, given] :
         {std::pair{"descr", has_descr_}, {"fortran_order", has_order_}, {"shape", has_shape_}}) {
      if (!given) return Status::invalid(fmt::format("header has no key '{}'", key));
    }
    return header_;
  }

 private:
  Status entry() {
    const std::optional<std::string_view> key = string();
    if (!key) return unexpected("a key in quotes");
    bool* given = *key == "descr"           ? &has_descr_
                  : *key == "fortran_order" ? &has_order_
                  : *key == "shape"         ? &has_shape_
                                            : nullptr;
    if (given == nullptr) {
      return Status::invalid(
          fmt::format("header has key {}, expected 'descr', 'fortran_order' and 'shape'", in_quotes(*key)));
    }
    if (*given) return Status::invalid(fmt::format("header has key {} twice", in_quotes(*key)));
    *given = true;
    if (!take(':')) return unexpected("':'");
    return given == &has_descr_ ? descr() : given == &has_order_ ? fortran_order() : shape();
  }

  Status descr() {
    if (peek() == '[' || peek() == '(') {
      return Status::unsupported(fmt::format("dtype is a structure of fields, {}", expected_descr));
    }
    const std::optional<std::string_view> text = string();
    if (!text) return unexpected("a dtype in quotes");
    for (const Descr& known : descrs) {
      if (known.text == *text) {
        header_.dtype = known.dtype;
        header_.big_endian = known.big_endian;
        return {};
      }
    }
    return Status::unsupported(fmt::format("dtype {}, {}", in_quotes(*text), expected_descr));
  }

  Status fortran_order() {
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (peek() == word[0] && text_.substr(position_, word.size()) == word) {
        position_ += word.size();
        header_.fortran_order = value;
        return {};
      }
    }
    return unexpected("True or False for 'fortran_order'");
  }

  Status shape() {
    if (!take('(')) return unexpected("'(' of the shape");
    bool comma = false;
    while (!take(')')) {
      if (!header_.shape.empty() && !comma) return unexpected("',' or ')' in the shape");
      if (Status status = extent(); !status) return status;
      comma = take(',');
    }
    // Python takes (3) for the number 3.
    if (header_.shape.size() == 1 && !comma) {
      return Status::invalid(fmt::format("shape ({0}) is no tuple, expected ({0},)", header_.shape[0]));
    }
    return {};
  }

  Status extent() {
    skip_space();
    const std::size_t start = position_;
    if (peek() == '-') ++position_;
    while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') ++position_;
    const std::string_view digits = text_.substr(start, position_ - start);
    if (digits.empty()) return unexpected("an extent of the shape, an integer >= 0");
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool leading_zero = digits.size() > 1 && digits[0] == '0';  // no number in Python
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0 || digits[0] == '-' || leading_zero) {
      return Status::invalid(
          fmt::format("shape has extent {}, expected an integer from 0 to 2^63 - 1", printable(digits, 40)));
    }
    header_.shape.push_back(value);
    return {};
  }

  /// A string in quotes of either kind, without escapes: no key or dtype needs one.
  std::optional<std::string_view> string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const std::size_t end = text_.find(quote, position_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view inside = text_.substr(position_ + 1, end - position_ - 1);
    if (inside.find('\\') != std::string_view::npos) return std::nullopt;
    position_ = end + 1;
    return inside;
  }

  void skip_space() {
    while (position_ < text_.size() && std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos) {
      ++position_;
    }
  }

  /// The next character after white space, '\0' at the end.
  char peek() {
    skip_space();
    return position_ < text_.size() ? text_[position_] : '\0';
  }

  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++position_;
    return true;
  }

  Status unexpected(std::string_view wanted) const {
    const std::string_view rest = text_.substr(position_, 20);
    return Status::invalid(fmt::format("header, byte {}: {}, expected {}", position_,
                                       rest.empty() ? "it ends" : fmt::format("found {}", in_quotes(rest)), wanted));
  }

  std::string_view text_;
  std::size_t position_ = 0;
  NpyHeader header_;
  bool has_descr_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
};

}  // namespace

Result<NpyHeader> parse_npy_header(std::string_view text) { return HeaderParser(text).parse(); }

std::string npy_header_text(DType dtype, const Shape& shape) {
  std::string extents;
  for (const std::int64_t extent : shape) extents += fmt::format("{}, ", extent);
  if (shape.size() == 1) extents.pop_back();                 // "(3,)"
  if (shape.size() > 1) extents.resize(extents.size() - 2);  // "(2, 3)"
  std::string_view text;
  for (const Descr& known : descrs) {
    if (known.dtype == dtype && text.empty()) text = known.text;
  }
  return fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", text, extents);
}

}  // namespace siattn::io
