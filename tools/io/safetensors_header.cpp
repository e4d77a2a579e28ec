// SPDX-License-Identifier: Apache-2.0
#include "tools/io/safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/io/text.hpp"

namespace siattn::io {
namespace {

struct KnownDType {
  std::string_view spelling;
  unsigned bits;
  std::optional<DType> dtype;
};

constexpr std::array<KnownDType, 20> known_dtypes{{
    {"F32", 32, DType::float32},
    {"F64", 64, DType::float64},
    {"F16", 16, DType::float16},
    {"BF16", 16, DType::bfloat16},
    {"BOOL", 8, {}},
    {"U8", 8, {}},
    {"I8", 8, {}},
    {"U16", 16, {}},
    {"I16", 16, {}},
    {"U32", 32, {}},
    {"I32", 32, {}},
    {"U64", 64, {}},
    {"I64", 64, {}},
    {"C64", 64, {}},
    {"F8_E4M3", 8, {}},
    {"F8_E5M2", 8, {}},
    {"F8_E8M0", 8, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
    {"F4", 4, {}},
}};

/// Takes the header event by event. The library's own tree would keep the last of two equal keys and recurse into
/// whatever is nested; here each event is judged where it occurs, and the first bad one ends the parse.
class HeaderEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsHeader header;
  Status status;

  bool null() override { return unexpected("null"); }
  bool boolean(bool value) override { return unexpected(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return unexpected(fmt::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return unexpected(printable(text, 40)); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (where_ == Where::shape && value <= largest) {
      entry().shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (where_ == Where::offsets && value <= largest && offsets_ < 2) {
      (offsets_++ == 0 ? entry().begin : entry().end) = value;
      return true;
    }
    return unexpected(fmt::to_string(value));
  }

  bool string(string_t& value) override {
    if (where_ == Where::metadata) {
      header.metadata.back().second = value;
      return true;
    }
    if (where_ == Where::tensor && field_ == "dtype") {
      entry().dtype = value;
      return true;
    }
    return unexpected(in_quotes(value));
  }

  bool start_object(std::size_t) override {
    if (where_ == Where::start) {
      where_ = Where::top;
      return true;
    }
    if (where_ != Where::top) return unexpected("an object");
    fields_.clear();
    where_ = field_ == "__metadata__" ? Where::metadata : Where::tensor;
    if (where_ == Where::tensor) header.entries.emplace_back().name = field_;
    return true;
  }

  bool key(string_t& name) override {
    const bool is_new = (where_ == Where::top ? names_ : fields_).insert(name).second;
    if (!is_new) return fail(fmt::format("{}key {} occurs twice", place(), in_quotes(name)));
    if (where_ == Where::tensor && name != "dtype" && name != "shape" && name != "data_offsets") {
      return fail(fmt::format("{}key {}, expected dtype, shape and data_offsets", place(), in_quotes(name)));
    }
    if (where_ == Where::metadata) header.metadata.emplace_back(name, "");
    field_ = name;
    return true;
  }

  bool start_array(std::size_t) override {
    if (where_ == Where::tensor && field_ == "shape") {
      where_ = Where::shape;
      return true;
    }
    if (where_ == Where::tensor && field_ == "data_offsets") {
      where_ = Where::offsets;
      offsets_ = 0;
      return true;
    }
    return unexpected("an array");
  }

  bool end_array() override {
    if (where_ == Where::offsets && offsets_ != 2) return fail(place() + "data_offsets lack a number, expected two");
    where_ = Where::tensor;
    return true;
  }

  bool end_object() override {
    if (where_ == Where::tensor) {
      for (const char* field : {"dtype", "shape", "data_offsets"}) {
        if (!fields_.contains(field)) return fail(fmt::format("{}has no {}", place(), field));
      }
    }
    where_ = where_ == Where::top ? Where::start : Where::top;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token, const nlohmann::detail::exception& error) override {
    constexpr int number_out_of_range = 406;  // 1e400: good JSON, but no double
    if (error.id == number_out_of_range) return unexpected(printable(token, 40));
    return fail(fmt::format("header is no valid JSON at byte {}, after {}", position, in_quotes(token)));
  }

 private:
  enum class Where { start, top, metadata, tensor, shape, offsets };
  static constexpr std::uint64_t largest = INT64_MAX;

  SafetensorsEntry& entry() { return header.entries.back(); }

  /// "tensor 'q': " inside one.
  std::string place() {
    if (where_ == Where::start || where_ == Where::top) return "header: ";
    if (where_ == Where::metadata) return "__metadata__: ";
    return fmt::format("tensor {}: ", in_quotes(entry().name));
  }

  std::string_view expected() const {
    switch (where_) {
      case Where::start:
      case Where::top: return "an object";
      case Where::metadata: return "a string";
      case Where::tensor: return field_ == "dtype" ? "a string" : "an array";
      case Where::shape: return "integers from 0 to 2^63 - 1";
      case Where::offsets: return "two integers from 0 to 2^63 - 1";
    }
    return "";
  }

  bool unexpected(std::string_view found) {
    const bool in_array = where_ == Where::shape || where_ == Where::offsets;
    return fail(fmt::format("{}{} {} {}, expected {}", place(), printable(field_), in_array ? "holds" : "is", found,
                            expected()));
  }

  bool fail(std::string message) {
    status = Status::invalid(std::move(message));
    return false;
  }

  Where where_ = Where::start;
  std::string field_ = "it";  ///< The key read last.
  int offsets_ = 0;           ///< How many of data_offsets are read.
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> fields_;
};

Status check_size(const SafetensorsEntry& entry) {
  const std::string place = fmt::format("tensor {}: ", in_quotes(entry.name));
  if (entry.begin > entry.end) {
    return Status::invalid(
        fmt::format("{}data_offsets [{}, {}], expected begin <= end", place, entry.begin, entry.end));
  }
  for (const KnownDType& known : known_dtypes) {
    if (known.spelling != entry.dtype) continue;
    const Result<std::uint64_t> bytes = dense_bytes(entry.shape, known.bits);
    if (!bytes) return Status(bytes.status().code(), place + bytes.status().message());
    if (*bytes != entry.end - entry.begin) {
      return Status::invalid(fmt::format("{}data_offsets [{}, {}] hold {} bytes, expected {} for {} of shape {}", place,
                                         entry.begin, entry.end, entry.end - entry.begin, *bytes, entry.dtype,
                                         shape_text(entry.shape)));
    }
  }
  return {};
}

/// Every byte of the data belongs to exactly one tensor. Sorts the entries as they lie.
Status check_cover(std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t covered = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.end > data_bytes) {
      return Status::invalid(
          fmt::format("tensor {}: data_offsets [{}, {}] reach beyond the file, which has {} bytes of data",
                      in_quotes(entry.name), entry.begin, entry.end, data_bytes));
    }
    if (entry.begin != covered) {
      return Status::invalid(fmt::format("tensor {}: data begin at {} and {} the tensor before, expected {}",
                                         in_quotes(entry.name), entry.begin,
                                         entry.begin < covered ? "overlap" : "leave a gap after", covered));
    }
    covered = entry.end;
  }
  if (covered != data_bytes) {
    return Status::invalid(fmt::format("{} bytes of data after the header, the tensors take {}", data_bytes, covered));
  }
  return {};
}

}  // namespace

std::optional<DType> dtype_of_safetensors(std::string_view spelling) {
  for (const KnownDType& known : known_dtypes) {
    if (known.spelling == spelling) return known.dtype;
  }
  return std::nullopt;
}

std::string_view safetensors_spelling(DType dtype) {
  for (const KnownDType& known : known_dtypes) {
    if (known.dtype == dtype) return known.spelling;
  }
  return "?";
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, std::uint64_t data_bytes) {
  // The parser takes a NUL for the end of its input, so what follows one would go unread.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return Status::invalid(fmt::format("header is no valid JSON: byte {} is NUL", nul));
  }
  if (text.substr(0, 1) != "{") {
    return Status::invalid(fmt::format("header begins with {}, expected '{{'", in_quotes(text.substr(0, 1))));
  }
  HeaderEvents events;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &events)) return events.status;
  for (const SafetensorsEntry& entry : events.header.entries) {
    if (Status status = check_size(entry); !status) return status;
  }
  if (Status status = check_cover(events.header.entries, data_bytes); !status) return status;
  return std::move(events.header);
}

}  // namespace siattn::io
