// SPDX-License-Identifier: Apache-2.0
#include "tools/io/save.hpp"

#include <sys/stat.h>

#include <utility>

#include <fmt/format.h>

#include "tools/io/guarded.hpp"
#include "tools/io/npy.hpp"
#include "tools/io/text.hpp"

namespace siattn::io {
namespace {

/// As parse_location, but a device or a pipe has no ending to go by.
Result<TensorLocation> parse_output(std::string_view spec) {
  TensorLocation location{std::string(spec), FileFormat::npy, ""};
  struct stat info {};
  const bool exists = ::stat(location.path.c_str(), &info) == 0;
  if (exists && (S_ISCHR(info.st_mode) || S_ISFIFO(info.st_mode)) && !spec.ends_with(".safetensors")) return location;
  return parse_location(spec);
}

}  // namespace

Status save(std::string_view spec, const Tensor& tensor) {
  OutputSet outputs;
  if (Status status = outputs.reserve(spec, "tensor"); !status) return status;
  return outputs.commit({&tensor});
}

Status OutputSet::reserve(std::string_view spec, std::string_view default_name) {
  return guarded(spec, [&]() -> Status {
    Result<TensorLocation> location = parse_output(spec);
    if (!location) return location.status();
    if (location->name.empty()) location->name = default_name;
    Result<AtomicFile> file = AtomicFile::create(location->path);
    if (!file) return file.status();
    for (std::size_t i = 0; i < files_.size() && !file->writes_through(); ++i) {
      if (files_[i].target() != file->target()) continue;
      for (const Slot& slot : slots_) {
        const bool same = slot.file == i && (location->format == FileFormat::npy || slot.name == location->name);
        if (same) return at_path(spec, Status::invalid("two outputs go there, expected another file or name"));
      }
      slots_.push_back({i, std::move(location->name)});
      return {};
    }
    files_.reserve(files_.size() + 1);
    formats_.push_back(location->format);
    slots_.push_back({files_.size(), std::move(location->name)});
    files_.push_back(*std::move(file));
    return {};
  });
}

Status OutputSet::commit(const std::vector<const Tensor*>& tensors, const Metadata& metadata) {
  return guarded("outputs", [&]() -> Status {
    // Whatever happens below, the files that are not in place by then go with this set.
    OutputSet set = std::exchange(*this, OutputSet());
    if (tensors.size() != set.slots_.size()) {
      return Status(StatusCode::internal,
                    fmt::format("outputs: {} tensors for {} outputs", tensors.size(), set.slots_.size()));
    }
    for (std::size_t i = 0; i < set.files_.size(); ++i) {
      if (Status status = set.write(i, tensors, metadata); !status) return status;
    }
    return AtomicFile::commit_all(set.files_);
  });
}

Status OutputSet::write(std::size_t file, const std::vector<const Tensor*>& tensors, const Metadata& metadata) {
  std::vector<NamedTensor> named;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].file == file) named.push_back({slots_[i].name, tensors[i]});
  }
  if (formats_[file] == FileFormat::npy) return write_npy(files_[file], *named.front().tensor);
  return write_safetensors(files_[file], named, metadata);
}

}  // namespace siattn::io
