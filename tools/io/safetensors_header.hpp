// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_TOOLS_IO_SAFETENSORS_HEADER_HPP
#define SIATTN_TOOLS_IO_SAFETENSORS_HEADER_HPP

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <siattn/status.hpp>

#include "tools/io/tensor.hpp"

namespace siattn::io {

/// Words about a file as a whole, by their keys.
using Metadata = std::vector<std::pair<std::string, std::string>>;

/// One tensor of a .safetensors file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< As the file spells it: "F32", "BF16", "I64" ...
  Shape shape;
  std::uint64_t begin = 0;  ///< Bytes from the start of the data, begin <= end.
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< As their data lie in the file.
  Metadata metadata;
};

/// The type that a .safetensors file spells so, if a Tensor can hold it.
std::optional<DType> dtype_of_safetensors(std::string_view spelling);
std::string_view safetensors_spelling(DType dtype);

/// Reads the JSON header of a file that has `data_bytes` bytes after it. Refused: what is no JSON object of tensors; a
/// name or key that occurs twice; extents and offsets that are no integers from 0 to 2^63 - 1; a size that is not that
/// of dtype and shape; tensors that overlap, leave a gap or do not end where the file does. A dtype that is not known
/// here is listed with its size unchecked.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, std::uint64_t data_bytes);

}  // namespace siattn::io

#endif  // SIATTN_TOOLS_IO_SAFETENSORS_HEADER_HPP
