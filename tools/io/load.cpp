// SPDX-License-Identifier: Apache-2.0
#include "tools/io/load.hpp"

#include <sys/stat.h>

#include <fmt/format.h>

#include "tools/io/guarded.hpp"
#include "tools/io/npy.hpp"
#include "tools/io/safetensors.hpp"
#include "tools/io/text.hpp"

namespace siattn::io {
namespace {

constexpr std::string_view npy_ending = ".npy";
constexpr std::string_view safetensors_ending = ".safetensors";
constexpr std::string_view safetensors_separator = ".safetensors:";

bool is_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

}  // namespace

Result<TensorLocation> parse_location(std::string_view spec) {
  return guarded(spec, [&]() -> Result<TensorLocation> {
    TensorLocation location{std::string(spec), FileFormat::npy, ""};
    if (spec.empty()) return Status::invalid("the path is empty, expected FILE.npy or FILE.safetensors[:NAME]");
    const bool npy = spec.ends_with(npy_ending);
    location.format = npy ? FileFormat::npy : FileFormat::safetensors;
    const std::size_t separator = spec.rfind(safetensors_separator);
    const bool has_name = separator != std::string_view::npos;
    const bool known_ending = npy || spec.ends_with(safetensors_ending);
    if (known_ending && (!has_name || is_file(location.path))) return location;
    if (has_name) {
      location.format = FileFormat::safetensors;
      const std::size_t path_end = separator + safetensors_ending.size();
      location.path = spec.substr(0, path_end);
      location.name = spec.substr(path_end + 1);
      if (!location.name.empty()) return location;
      return at_path(spec, Status::invalid("the name after ':' is empty, expected that of a tensor"));
    }
    if (spec.find(".npy:") != std::string_view::npos) {
      return at_path(spec, Status::invalid("an .npy file holds one tensor without a name, expected no ':' after .npy"));
    }
    const std::string_view base = spec.substr(spec.rfind('/') + 1);  // npos + 1 == 0
    const std::size_t dot = base.rfind('.');
    const std::string_view ending = dot == std::string_view::npos ? base : base.substr(dot);
    return at_path(spec,
                   Status::invalid(fmt::format("ends in {}, expected .npy or .safetensors[:NAME]", in_quotes(ending))));
  });
}

Result<Tensor> load(std::string_view spec) {
  return guarded(spec, [&]() -> Result<Tensor> {
    const Result<TensorLocation> location = parse_location(spec);
    if (!location) return location.status();
    if (location->format == FileFormat::npy) return read_npy(location->path);
    const Result<SafetensorsFile> file = SafetensorsFile::open(location->path);
    if (!file) return file.status();
    return location->name.empty() ? file->read_only_one() : file->read(location->name);
  });
}

}  // namespace siattn::io
