// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_TOOLS_IO_SAFETENSORS_HPP
#define SIATTN_TOOLS_IO_SAFETENSORS_HPP

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <siattn/status.hpp>

#include "tools/io/file.hpp"
#include "tools/io/safetensors_header.hpp"
#include "tools/io/tensor.hpp"

/// Files of several tensors by their names: eight bytes that tell the length of a JSON header, the header, the data.
namespace siattn::io {

/// A file whose header has been read and found sound, see parse_safetensors_header. Every error begins with the path.
class SafetensorsFile {
 public:
  /// Takes no memory but for the header, whose length is at most 10^8 bytes and inside the file.
  static Result<SafetensorsFile> open(const std::string& path);

  const std::string& path() const noexcept { return file_.path(); }
  /// Tensors of every dtype, as their data lie in the file.
  const std::vector<SafetensorsEntry>& entries() const noexcept { return header_.entries; }
  const Metadata& metadata() const noexcept { return header_.metadata; }

  /// F32, F64, F16 and BF16; another dtype has code unsupported. A name that is not there: the error lists those that
  /// are, up to a dozen.
  Result<Tensor> read(std::string_view name) const;

  /// The only tensor. If there are more, or none, an error that says so and lists them.
  Result<Tensor> read_only_one() const;

 private:
  SafetensorsFile(InputFile file, SafetensorsHeader header, std::uint64_t data_begin)
      : file_(std::move(file)), header_(std::move(header)), data_begin_(data_begin) {}
  Result<Tensor> read(const SafetensorsEntry& entry) const;
  std::string names() const;

  InputFile file_;
  SafetensorsHeader header_;
  std::uint64_t data_begin_ = 0;
};

struct NamedTensor {
  std::string name;
  const Tensor* tensor = nullptr;
};

/// Writes them all. The data begin at a multiple of 64 bytes, wider types first, so that each tensor is aligned to its
/// element. An error: a name or metadata key that is empty, not UTF-8 or there twice; the name "__metadata__".
Status write_safetensors(AtomicFile& file, std::span<const NamedTensor> tensors, const Metadata& metadata = {});

}  // namespace siattn::io

#endif  // SIATTN_TOOLS_IO_SAFETENSORS_HPP
