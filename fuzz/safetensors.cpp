// SPDX-License-Identifier: Apache-2.0
// The reader of .safetensors files: its tensors cover the data of a file that it accepts, and come back from the writer.
#include "tools/io/safetensors.hpp"

#include <set>

#include "fuzz/files.hpp"

namespace siattn::fuzz {
namespace {

constexpr std::size_t length_bytes = 8;

std::uint64_t header_bytes(std::string_view file) {
  std::uint64_t length = 0;
  for (std::size_t i = length_bytes; i-- > 0;) length = length << 8 | static_cast<unsigned char>(file[i]);
  return length;
}

unsigned bits_of(std::string_view dtype) {
  for (const auto& [spelling, bits] : {std::pair<std::string_view, unsigned>{"F64", 64},
                                       {"F32", 32},
                                       {"F16", 16},
                                       {"BF16", 16},
                                       {"I64", 64},
                                       {"U64", 64},
                                       {"I32", 32},
                                       {"U32", 32},
                                       {"I16", 16},
                                       {"U16", 16},
                                       {"I8", 8},
                                       {"U8", 8},
                                       {"BOOL", 8}}) {
    if (dtype == spelling) return bits;
  }
  return 0;
}

/// The entries lie one after the other from the first byte of the data to the last.
void require_cover(const io::SafetensorsFile& file, std::uint64_t data_bytes) {
  std::uint64_t covered = 0;
  std::set<std::string> names;
  for (const io::SafetensorsEntry& entry : file.entries()) {
    require(entry.begin == covered && entry.begin <= entry.end, "tensors follow each other without a gap", entry.name);
    covered = entry.end;
    require(names.insert(entry.name).second, "names are there once", entry.name);
    if (bits_of(entry.dtype) == 0) continue;
    Wide bits = bits_of(entry.dtype);
    for (const std::int64_t extent : entry.shape) {
      require(extent >= 0, "no extent is negative", entry.name);
      bits = std::min(bits, Wide{1} << 80) * extent;
    }
    require(bits == Wide{8} * (entry.end - entry.begin), "the bytes are those of type and shape", entry.name);
  }
  require(covered == data_bytes, "tensors end where the file does");
}

struct Held {
  std::string name;
  io::Tensor tensor;
};

void require_round_trip(const std::vector<Held>& held, const io::Metadata& metadata) {
  // What the writer takes for a name: the reader is told to take a little more.
  const auto writable = [](const std::string& name) { return !name.empty() && name != "__metadata__"; };
  io::Metadata words;
  for (const auto& word : metadata) {
    if (writable(word.first)) words.push_back(word);
  }
  std::vector<io::NamedTensor> named;
  for (const Held& one : held) {
    if (writable(one.name)) named.push_back({one.name, &one.tensor});
  }
  const auto write = [&](io::AtomicFile& to) { return io::write_safetensors(to, named, words); };
  const std::string first = written(write);
  const auto back = io::SafetensorsFile::open(output_path());
  require(back.ok(), "what was written can be read", back.status().message());
  require_cover(*back, first.size() - length_bytes - header_bytes(first));
  require(back->metadata() == words, "metadata come back from the writer");
  require(back->entries().size() == named.size(), "as many tensors come back as were written");
  require((length_bytes + header_bytes(first)) % 64 == 0, "data are written at a multiple of 64 bytes");
  for (const io::NamedTensor& one : named) {
    const Result<io::Tensor> tensor = back->read(one.name);
    require(tensor.ok(), "a tensor that was written can be read", tensor.status().message());
    require_same_tensor(*one.tensor, *tensor, "a tensor comes back from the writer");
  }
  for (const io::SafetensorsEntry& entry : back->entries()) {
    require(entry.begin % (bits_of(entry.dtype) / 8) == 0, "tensors are written aligned to their element", entry.name);
  }
  require(written(write) == first, "writing is deterministic");
}

void test(std::string_view file) {
  io::write_bytes(input_path(), file);
  LargestAllocation::reset();
  const auto opened = io::SafetensorsFile::open(input_path());
  require_justified_allocation(file.size());
  const auto again = io::SafetensorsFile::open(input_path());
  require(same(opened.status(), again.status()), "the same file gives the same verdict");
  if (!opened) return require_file_error(opened.status());

  const std::uint64_t data_begin = length_bytes + header_bytes(file);
  require(data_begin <= file.size(), "the header lies in the file");
  require_cover(*opened, file.size() - data_begin);
  std::vector<Held> held;
  for (const io::SafetensorsEntry& entry : opened->entries()) {
    LargestAllocation::reset();
    Result<io::Tensor> tensor = opened->read(entry.name);
    require_justified_allocation(file.size());
    const bool readable = bits_of(entry.dtype) >= 16 && (entry.dtype[0] == 'F' || entry.dtype[0] == 'B');
    require(tensor.ok() == readable, "F64, F32, F16 and BF16 can be read, and no other type", entry.dtype);
    if (!tensor) {
      require_file_error(tensor.status());
      continue;
    }
    require_consistent(*tensor);
    require(tensor->shape() == entry.shape, "a tensor has the shape of its entry", entry.name);
    const std::string_view bytes = file.substr(data_begin + entry.begin, entry.end - entry.begin);
    require(tensor->bytes() == bytes.size() &&
                (bytes.empty() || std::memcmp(tensor->data(), bytes.data(), bytes.size()) == 0),
            "a tensor holds the bytes of its entry", entry.name);
    held.push_back({entry.name, *std::move(tensor)});
  }
  const Result<io::Tensor> only = opened->read_only_one();
  require(only.ok() == (opened->entries().size() == 1 && held.size() == 1), "the only tensor is read where it is one");
  if (!only) require_file_error(only.status());
  const Result<io::Tensor> missing = opened->read("no such tensor \xff");
  require(!missing.ok(), "a tensor that is not there is an error");
  require_file_error(missing.status());

  require_round_trip(held, opened->metadata());
  for (const std::string& changed : {std::string(file.substr(0, file.size() - 1)), std::string(file) + 'x'}) {
    io::write_bytes(input_path(), changed);
    const auto refused = io::SafetensorsFile::open(input_path());
    require(!refused.ok(), "a file that is a byte short or long is refused");
    require_file_error(refused.status());
  }
}

/// Makes the length field tell where the JSON text ends.
void repair(std::string& file) {
  const std::size_t end = file.rfind('}');
  if (end == std::string::npos || end < length_bytes) return;
  const std::uint64_t length = end + 1 - length_bytes;
  for (std::size_t i = 0; i < length_bytes; ++i) file[i] = static_cast<char>(length >> (8 * i) & 0xFF);
}

}  // namespace
}  // namespace siattn::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  if (seed % 4 == 0) return size;
  std::string file(reinterpret_cast<const char*>(data), size);
  siattn::fuzz::repair(file);
  std::copy(file.begin(), file.end(), data);
  return file.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  siattn::fuzz::test({reinterpret_cast<const char*>(data), size});
  return 0;
}
