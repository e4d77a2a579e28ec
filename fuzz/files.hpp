// SPDX-License-Identifier: Apache-2.0
// What the targets for file readers share.
#ifndef SIATTN_FUZZ_FILES_HPP
#define SIATTN_FUZZ_FILES_HPP

#include <cstring>
#include <string>
#include <string_view>

#include "fuzz/support.hpp"
#include "tools/io/file.hpp"
#include "tools/io/scratch.hpp"
#include "tools/io/tensor.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace siattn::fuzz {

/// The folder of this process, and the two files in it.
inline const io::ScratchFolder& folder() {
  static const io::ScratchFolder folder;
  return folder;
}
inline const std::string& input_path() {
  static const std::string path = folder() / "input";
  return path;
}
inline const std::string& output_path() {
  static const std::string path = folder() / "output";
  return path;
}

/// An error about the input names it first.
inline void require_file_error(const Status& status) {
  require_good_error(status);
  require(status.message().rfind(input_path() + ": ", 0) == 0, "an error begins with the path", status.message());
}

/// What reading may allocate at once: a multiple of the file, for text that is parsed, and small change.
inline void require_justified_allocation(std::size_t file_bytes) {
  require(LargestAllocation::bytes() <= (std::size_t{1} << 14) + 8 * file_bytes,
          "no allocation is larger than the file justifies", std::to_string(LargestAllocation::bytes()));
}

inline void require_same_tensor(const io::Tensor& a, const io::Tensor& b, std::string_view property) {
  require(a.dtype() == b.dtype() && a.shape() == b.shape() && a.bytes() == b.bytes() &&
              (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0),
          property);
}

/// The type and shape account for every byte.
inline void require_consistent(const io::Tensor& tensor) {
  Wide bytes = static_cast<Wide>(size_of(tensor.dtype()));
  for (const std::int64_t extent : tensor.shape()) {
    require(extent >= 0, "no extent is negative");
    // Extents other than 0 are kept below 2^64 by the reader, and a 0 may follow them.
    bytes = std::min(bytes, Wide{1} << 64) * extent;
  }
  require(bytes == static_cast<Wide>(tensor.bytes()), "the bytes are those of type and shape");
}

/// Writes a file with `write` and gives its bytes; the file appears whole, and nothing beside it.
template <class Write>
std::string written(Write&& write) {
  auto file = io::AtomicFile::create(output_path());
  require(file.ok(), "the output can be made", file.status().message());
  const Status status = write(*file);
  require(status.ok(), "what was read can be written", status.message());
  const Status committed = file->commit();
  require(committed.ok(), "what was written can be put in place", committed.message());
  return io::read_bytes(output_path());
}

}  // namespace siattn::fuzz

#endif  // SIATTN_FUZZ_FILES_HPP
