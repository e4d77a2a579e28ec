// SPDX-License-Identifier: Apache-2.0
// The reader of .npy files: what it accepts holds what the format says, and comes back from the writer.
#include "tools/io/npy.hpp"

#include "fuzz/files.hpp"
#include "tools/io/npy_header.hpp"

namespace siattn::fuzz {
namespace {

constexpr std::string_view magic = "\x93NUMPY";

/// Where the data begin, by the format: of a file that was accepted.
std::size_t data_begin(std::string_view file) {
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(file[i])); };
  return byte(6) == 1 ? 10 + (byte(8) | byte(9) << 8) : 12 + (byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24);
}

/// Every element is the one that the format puts there.
void require_elements(const io::Tensor& tensor, std::string_view file, const io::NpyHeader& header) {
  const std::string_view data = file.substr(data_begin(file));
  const std::size_t size = size_of(tensor.dtype());
  require(tensor.bytes() == data.size(), "the declared size is that of the file");
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    std::int64_t rest = i;
    std::int64_t place = i;
    if (header.fortran_order) {
      // place = i_0 + n_0 (i_1 + n_1 (i_2 + ...)), the indices of i from the last one on
      place = 0;
      for (std::size_t k = tensor.rank(); k-- > 0;) {
        place += rest % tensor.shape()[k];
        rest /= tensor.shape()[k];
        if (k > 0) place *= tensor.shape()[k - 1];
      }
    }
    for (std::size_t byte = 0; byte < size; ++byte) {
      const std::size_t there = static_cast<std::size_t>(place) * size + (header.big_endian ? size - 1 - byte : byte);
      require(static_cast<const char*>(tensor.data())[static_cast<std::size_t>(i) * size + byte] == data[there],
              "each element is where the format puts it");
    }
  }
}

void test(std::string_view file) {
  io::write_bytes(input_path(), file);
  LargestAllocation::reset();
  const Result<io::Tensor> tensor = io::read_npy(input_path());
  require_justified_allocation(file.size());
  const Result<io::Tensor> again = io::read_npy(input_path());
  require(same(tensor.status(), again.status()), "the same file gives the same verdict");
  if (!tensor) return require_file_error(tensor.status());

  require_same_tensor(*tensor, *again, "the same file gives the same tensor");
  require_consistent(*tensor);
  const std::size_t begin = data_begin(file);
  const std::size_t header_begin = file[6] == 1 ? 10 : 12;
  const Result<io::NpyHeader> header = io::parse_npy_header(file.substr(header_begin, begin - header_begin));
  require(header.ok(), "the header of an accepted file is good");
  require_elements(*tensor, file, *header);

  for (const std::string& changed : {std::string(file.substr(0, file.size() - 1)), std::string(file) + 'x'}) {
    io::write_bytes(input_path(), changed);
    const Result<io::Tensor> refused = io::read_npy(input_path());
    require(!refused.ok(), "a file that is a byte short or long is refused");
    require_file_error(refused.status());
  }

  if (tensor->rank() > 32) return;  // numpy reads no more, so no more are written
  const std::string first = written([&](io::AtomicFile& to) { return io::write_npy(to, *tensor); });
  const Result<io::Tensor> back = io::read_npy(output_path());
  require(back.ok(), "what was written can be read", back.status().message());
  require_same_tensor(*tensor, *back, "a tensor comes back from the writer");
  require(data_begin(first) % 64 == 0, "data are written at a multiple of 64 bytes");
  require(written([&](io::AtomicFile& to) { return io::write_npy(to, *back); }) == first, "writing is deterministic");
}

/// Makes the length field tell where the dictionary ends, and the data as long as the dictionary says.
void repair(std::string& file, std::size_t most, bool data_too) {
  if (file.size() < 12 || file.substr(0, magic.size()) != magic) return;
  const std::size_t width = file[6] == 1 ? 2 : 4;
  std::size_t end = file.find('}');
  if (end == std::string::npos) return;
  end = std::min(file.find_first_not_of(" \n", end + 1), file.size());
  if (end < 8 + width) return;
  const std::size_t length = end - 8 - width;
  for (std::size_t i = 0; i < width; ++i) file[8 + i] = static_cast<char>(length >> (8 * i) & 0xFF);
  if (!data_too) return;
  const Result<io::NpyHeader> header = io::parse_npy_header(std::string_view(file).substr(8 + width, length));
  if (!header) return;
  const auto bytes = io::dense_bytes(header->shape, static_cast<unsigned>(8 * size_of(header->dtype)));
  if (bytes && end + *bytes <= most) file.resize(end + *bytes, '\x3f');
}

}  // namespace
}  // namespace siattn::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  if (seed % 4 == 0) return size;
  std::string file(reinterpret_cast<const char*>(data), size);
  siattn::fuzz::repair(file, most, seed % 4 > 1);
  std::copy(file.begin(), file.end(), data);
  return file.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  siattn::fuzz::test({reinterpret_cast<const char*>(data), size});
  return 0;
}
