// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_TOOLS_IO_SAVE_HPP
#define SIATTN_TOOLS_IO_SAVE_HPP

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <siattn/status.hpp>

#include "tools/io/file.hpp"
#include "tools/io/load.hpp"
#include "tools/io/safetensors.hpp"
#include "tools/io/tensor.hpp"

namespace siattn::io {

/// Writes one tensor to FILE.npy or FILE.safetensors[:NAME] (NAME is "tensor" if left out). The file appears whole or
/// not at all, and replaces one of that name together with every tensor in it. A character device or a pipe, whatever
/// its name, gets .npy. Every error is one line that begins with the path.
Status save(std::string_view spec, const Tensor& tensor);

/// Outputs that appear together: reserve() them before the work, so that a folder that takes no file is found out
/// first, and commit() their tensors after it. Until then, and after any failure, none of the files is there.
///
///     OutputSet outputs;
///     if (Status status = outputs.reserve("r.safetensors:out", "out"); !status) return status;
///     if (Status status = outputs.reserve("r.safetensors:lse", "lse"); !status) return status;
///     ... compute ...
///     return outputs.commit({&out, &lse});
class OutputSet {
 public:
  /// `default_name` stands in for NAME. Outputs with different names may share a .safetensors file; two that would be
  /// one are an error. Errors else as of parse_location and AtomicFile::create.
  Status reserve(std::string_view spec, std::string_view default_name);

  std::size_t size() const noexcept { return slots_.size(); }

  /// Writes the tensors, in the order of reserve(), and puts all files in place. `metadata` goes into each .safetensors
  /// file. At most once; the set is empty afterwards.
  Status commit(const std::vector<const Tensor*>& tensors, const Metadata& metadata = {});

 private:
  struct Slot {
    std::size_t file;
    std::string name;
  };

  Status write(std::size_t file, const std::vector<const Tensor*>& tensors, const Metadata& metadata);

  std::vector<AtomicFile> files_;
  std::vector<FileFormat> formats_;  ///< Of each file.
  std::vector<Slot> slots_;
};

}  // namespace siattn::io

#endif  // SIATTN_TOOLS_IO_SAVE_HPP
