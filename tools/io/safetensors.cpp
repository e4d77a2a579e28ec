// SPDX-License-Identifier: Apache-2.0
#include "tools/io/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/io/guarded.hpp"
#include "tools/io/text.hpp"

namespace siattn::io {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and so is memory");

constexpr std::size_t length_bytes = 8;
constexpr std::uint64_t longest_header = 100'000'000;
constexpr std::size_t alignment = 64;

/// Reads the eight bytes before the header. The header then lies inside the file.
Result<std::uint64_t> header_length(const InputFile& file) {
  const auto invalid = [&](std::string message) { return at_path(file.path(), Status::invalid(std::move(message))); };
  if (file.size() < length_bytes) {
    return invalid(fmt::format("has {} bytes, expected 8 that tell the length of the header", file.size()));
  }
  std::array<unsigned char, length_bytes> bytes{};
  if (Status status = file.read_at(0, bytes.data(), bytes.size()); !status) return status;
  std::uint64_t length = 0;
  for (std::size_t i = length_bytes; i-- > 0;) length = length << 8 | bytes[i];
  if (length > file.size() - length_bytes) {
    return invalid(fmt::format("header of {} bytes from byte 8, the file has {}", length, file.size()));
  }
  if (length > longest_header) {
    return invalid(fmt::format("header of {} bytes, expected at most {}", length, longest_header));
  }
  return length;
}

/// A key of the JSON header, where `taken` are those before it.
Status check_key(const std::string& key, std::string_view what, const nlohmann::ordered_json& taken) {
  if (key.empty() || !is_utf8(key) || key == "__metadata__") {
    return Status::invalid(
        fmt::format("{} {}, expected UTF-8 that is neither empty nor __metadata__", what, in_quotes(key)));
  }
  if (taken.contains(key)) return Status::invalid(fmt::format("{} {} is there twice", what, in_quotes(key)));
  return {};
}

/// The JSON text for tensors whose data follow each other in this order.
Result<std::string> header_text(std::span<const NamedTensor> tensors, const Metadata& metadata) {
  auto header = nlohmann::ordered_json::object();
  auto words = nlohmann::ordered_json::object();
  for (const auto& [key, value] : metadata) {
    if (Status status = check_key(key, "metadata key", words); !status) return status;
    if (!is_utf8(value))
      return Status::invalid(fmt::format("metadata {} is no UTF-8: {}", in_quotes(key), in_quotes(value)));
    words[key] = value;
  }
  if (!words.empty()) header["__metadata__"] = std::move(words);
  std::uint64_t end = 0;
  for (const NamedTensor& named : tensors) {
    if (Status status = check_key(named.name, "tensor name", header); !status) return status;
    const std::uint64_t begin = end;
    if (__builtin_add_overflow(begin, named.tensor->bytes(), &end)) return Status::invalid("tensors pass 2^64 bytes");
    header[named.name] = {{"dtype", safetensors_spelling(named.tensor->dtype())},
                          {"shape", named.tensor->shape()},
                          {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  // Spaces may follow the header: they align the data.
  text.resize((length_bytes + text.size() + alignment - 1) / alignment * alignment - length_bytes, ' ');
  if (text.size() > longest_header) {
    return Status::invalid(fmt::format("header of {} bytes, expected at most {}", text.size(), longest_header));
  }
  return text;
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  return guarded(path, [&]() -> Result<SafetensorsFile> {
    Result<InputFile> file = InputFile::open(path);
    if (!file) return file.status();
    const Result<std::uint64_t> length = header_length(*file);
    if (!length) return length.status();
    std::string text(static_cast<std::size_t>(*length), '\0');
    if (Status status = file->read_at(length_bytes, text.data(), text.size()); !status) return status;
    const std::uint64_t data_begin = length_bytes + *length;
    Result<SafetensorsHeader> header = parse_safetensors_header(text, file->size() - data_begin);
    if (!header) return at_path(path, header.status());
    return SafetensorsFile(*std::move(file), *std::move(header), data_begin);
  });
}

Result<Tensor> SafetensorsFile::read(std::string_view name) const {
  return guarded(path(), [&]() -> Result<Tensor> {
    for (const SafetensorsEntry& entry : entries()) {
      if (entry.name == name) return read(entry);
    }
    return at_path(path(), Status::invalid(fmt::format("has no tensor {}; it has {}", in_quotes(name), names())));
  });
}

Result<Tensor> SafetensorsFile::read_only_one() const {
  return guarded(path(), [&]() -> Result<Tensor> {
    if (entries().size() == 1) return read(entries().front());
    return at_path(path(),
                   Status::invalid(fmt::format("has {} tensors, expected one or FILE.safetensors:NAME; it has {}",
                                               entries().size(), names())));
  });
}

Result<Tensor> SafetensorsFile::read(const SafetensorsEntry& entry) const {
  const std::optional<DType> dtype = dtype_of_safetensors(entry.dtype);
  if (!dtype) {
    return at_path(path(), Status::unsupported(fmt::format("tensor {} has dtype {}, expected F32, F64, F16 or BF16",
                                                           in_quotes(entry.name), in_quotes(entry.dtype))));
  }
  Result<Tensor> tensor = Tensor::uninitialised(*dtype, entry.shape);
  if (!tensor) return at_path(path(), tensor.status());
  if (Status status = file_.read_at(data_begin_ + entry.begin, tensor->data(), tensor->bytes()); !status) return status;
  return tensor;
}

std::string SafetensorsFile::names() const {
  constexpr std::size_t most = 12;
  if (entries().empty()) return "none";
  std::string text;
  for (std::size_t i = 0; i < entries().size(); ++i) {
    if (i == most) return text + fmt::format(" and {} more", entries().size() - most);
    text += fmt::format("{}{}", i == 0 ? "" : ", ", in_quotes(entries()[i].name));
  }
  return text;
}

Status write_safetensors(AtomicFile& file, std::span<const NamedTensor> tensors, const Metadata& metadata) {
  return guarded(file.path(), [&]() -> Status {
    std::vector<NamedTensor> ordered(tensors.begin(), tensors.end());
    std::stable_sort(ordered.begin(), ordered.end(), [](const NamedTensor& a, const NamedTensor& b) {
      return size_of(a.tensor->dtype()) > size_of(b.tensor->dtype());
    });
    const Result<std::string> text = header_text(ordered, metadata);
    if (!text) return at_path(file.path(), text.status());
    std::string start;
    for (std::size_t i = 0; i < length_bytes; ++i) start += static_cast<char>(text->size() >> (8 * i) & 0xFF);
    start += *text;
    if (Status status = file.write(start.data(), start.size()); !status) return status;
    for (const NamedTensor& named : ordered) {
      if (Status status = file.write(named.tensor->data(), named.tensor->bytes()); !status) return status;
    }
    return {};
  });
}

}  // namespace siattn::io
