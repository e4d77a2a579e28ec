// SPDX-License-Identifier: Apache-2.0
#include "tools/io/npy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tools/io/guarded.hpp"
#include "tools/io/npy_header.hpp"
#include "tools/io/text.hpp"

namespace siattn::io {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and so is memory");

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t version_end = magic.size() + 2;
/// A header that needs more has thousands of axes.
constexpr std::size_t longest_header = std::size_t{1} << 20;
constexpr std::size_t most_axes_written = 32;
constexpr std::size_t alignment = 64;

/// Where the dictionary lies.
struct HeaderRange {
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
};

/// Reads magic, version and length; the dictionary then lies inside the file.
Result<HeaderRange> find_header(const InputFile& file) {
  std::array<char, version_end + 4> start{};
  const auto available = static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), start.size()));
  if (Status status = file.read_at(0, start.data(), available); !status) return status;
  const std::string_view text(start.data(), available);
  const auto invalid = [&](std::string message) { return at_path(file.path(), Status::invalid(std::move(message))); };
  if (text.substr(0, magic.size()) != magic) {
    return invalid(fmt::format("begins with {}, expected \\x93NUMPY of an .npy file", in_quotes(text.substr(0, 6))));
  }
  if (available < version_end + 2) return invalid(fmt::format("ends at byte {} inside the .npy header", available));
  const int major = static_cast<unsigned char>(start[magic.size()]);
  const int minor = static_cast<unsigned char>(start[magic.size() + 1]);
  if (major < 1 || major > 3 || minor != 0) {
    return invalid(fmt::format(".npy version {}.{}, expected 1.0, 2.0 or 3.0", major, minor));
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  HeaderRange range;
  range.begin = version_end + length_bytes;
  if (file.size() < range.begin) return invalid(fmt::format("ends at byte {} inside the .npy header", available));
  for (std::size_t i = length_bytes; i-- > 0;) {
    range.length = range.length << 8 | static_cast<unsigned char>(start[version_end + i]);
  }
  if (range.length > file.size() - range.begin) {
    return invalid(
        fmt::format("header of {} bytes from byte {}, the file has {}", range.length, range.begin, file.size()));
  }
  if (range.length > longest_header) {
    return invalid(fmt::format("header of {} bytes, expected at most {}", range.length, longest_header));
  }
  return range;
}

template <class Word>
void reverse_bytes(Tensor& tensor) {
  auto* words = static_cast<std::byte*>(tensor.data());
  for (std::size_t i = 0; i < tensor.bytes(); i += sizeof(Word)) std::reverse(words + i, words + i + sizeof(Word));
}

/// Moves elements from column-major order (first index fastest) to row-major.
template <class Word>
void to_row_major(const Tensor& source, Tensor& target) {
  const Shape& shape = source.shape();
  std::vector<std::int64_t> stride(shape.size(), 1);
  for (std::size_t k = 1; k < shape.size(); ++k) stride[k] = stride[k - 1] * shape[k - 1];
  std::vector<std::int64_t> index(shape.size(), 0);
  const auto* from = static_cast<const Word*>(source.data());
  auto* to = static_cast<Word*>(target.data());
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < source.count(); ++i) {
    to[i] = from[offset];
    for (std::size_t k = shape.size(); k-- > 0;) {
      offset += stride[k];
      if (++index[k] < shape[k]) break;
      offset -= stride[k] * shape[k];
      index[k] = 0;
    }
  }
}

template <class Word>
Result<Tensor> arrange(Tensor tensor, const NpyHeader& header) {
  if (header.big_endian) reverse_bytes<Word>(tensor);
  if (!header.fortran_order || tensor.rank() < 2) return tensor;
  Result<Tensor> row_major = Tensor::uninitialised(tensor.dtype(), tensor.shape());
  if (row_major) to_row_major<Word>(tensor, *row_major);
  return row_major;
}

Result<Tensor> arrange(Tensor tensor, const NpyHeader& header) {
  switch (size_of(tensor.dtype())) {
    case 2: return arrange<std::uint16_t>(std::move(tensor), header);
    case 4: return arrange<std::uint32_t>(std::move(tensor), header);
    default: return arrange<std::uint64_t>(std::move(tensor), header);
  }
}

/// The bytes of the tensor, if the file has exactly so many after the header.
Status check_size(const InputFile& file, const NpyHeader& header, std::uint64_t data_begin) {
  const Result<std::uint64_t> bytes = dense_bytes(header.shape, static_cast<unsigned>(8 * size_of(header.dtype)));
  if (!bytes) return bytes.status();
  const std::uint64_t available = file.size() - data_begin;
  if (*bytes == available) return {};
  return Status::invalid(fmt::format("{} bytes of data after the header, expected {} for {} of shape {}", available,
                                     *bytes, name_of(header.dtype), shape_text(header.shape)));
}

}  // namespace

Result<Tensor> read_npy(const std::string& path) {
  return guarded(path, [&]() -> Result<Tensor> {
    const Result<InputFile> file = InputFile::open(path);
    if (!file) return file.status();
    const Result<HeaderRange> range = find_header(*file);
    if (!range) return range.status();
    std::string text(static_cast<std::size_t>(range->length), '\0');
    if (Status status = file->read_at(range->begin, text.data(), text.size()); !status) return status;
    const Result<NpyHeader> header = parse_npy_header(text);
    if (!header) return at_path(path, header.status());
    const std::uint64_t data_begin = range->begin + range->length;
    if (Status status = check_size(*file, *header, data_begin); !status) return at_path(path, status);
    Result<Tensor> tensor = Tensor::uninitialised(header->dtype, header->shape);
    if (!tensor) return at_path(path, tensor.status());
    if (Status status = file->read_at(data_begin, tensor->data(), tensor->bytes()); !status) return status;
    Result<Tensor> arranged = arrange(*std::move(tensor), *header);
    if (!arranged) return at_path(path, arranged.status());
    return arranged;
  });
}

Status write_npy(AtomicFile& file, const Tensor& tensor) {
  return guarded(file.path(), [&]() -> Status {
    if (tensor.rank() > most_axes_written) {
      return at_path(file.path(),
                     Status::unsupported(fmt::format("shape {} has {} axes, .npy takes at most {}",
                                                     shape_text(tensor.shape()), tensor.rank(), most_axes_written)));
    }
    std::string dictionary = npy_header_text(tensor.dtype(), tensor.shape());
    constexpr std::size_t begin = version_end + 2;
    const std::size_t end = (begin + dictionary.size() + 1 + alignment - 1) / alignment * alignment;
    dictionary.resize(end - begin - 1, ' ');
    dictionary += '\n';
    std::string start(magic);
    start += {'\1', '\0', static_cast<char>(dictionary.size() & 0xFF), static_cast<char>(dictionary.size() >> 8)};
    start += dictionary;
    if (Status status = file.write(start.data(), start.size()); !status) return status;
    return file.write(tensor.data(), tensor.bytes());
  });
}

}  // namespace siattn::io
