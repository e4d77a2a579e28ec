// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_TOOLS_IO_LOAD_HPP
#define SIATTN_TOOLS_IO_LOAD_HPP

#include <cstdint>
#include <string>
#include <string_view>

#include <siattn/status.hpp>

#include "tools/io/tensor.hpp"

namespace siattn::io {

enum class FileFormat : std::uint8_t { npy, safetensors };

/// Where a tensor lies.
struct TensorLocation {
  std::string path;
  FileFormat format = FileFormat::npy;
  std::string name;  ///< In a .safetensors file; empty where none was given.
};

/// Takes "FILE.npy", "FILE.safetensors" or "FILE.safetensors:NAME" apart. NAME is what follows the last
/// ".safetensors:", so colons elsewhere belong to the file or to the name; a spec that is itself the path of a file is
/// always that file. Another ending is an error that names both.
Result<TensorLocation> parse_location(std::string_view spec);

/// Reads the tensor at FILE.npy, FILE.safetensors:NAME, or FILE.safetensors if the file has but one. Every error is one
/// line: the file, what is wrong with it, the value, what was expected.
Result<Tensor> load(std::string_view spec);

}  // namespace siattn::io

#endif  // SIATTN_TOOLS_IO_LOAD_HPP
