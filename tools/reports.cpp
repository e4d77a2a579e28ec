// SPDX-License-Identifier: Apache-2.0
#include "tools/reports.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tools/command.hpp"

namespace siattn::tools {

void ReportArguments::add_to(CLI::App& command, const std::string& names) {
  command.add_option("--report", folder, "folder for " + names);
  command.add_option("--junit", junit, "file for JUnit XML");
  command.add_flag("--json", json, "machine-readable output");
}

ReportFiles::ReportFiles(const ReportArguments& arguments, const std::vector<std::string>& names) {
  // Without the folder first: what this throws needs no cleaning up.
  if (!arguments.junit.empty()) reserve(arguments.junit, "junit.xml");
  if (arguments.folder.empty()) return;
  if (::mkdir(arguments.folder.c_str(), 0777) == 0) {
    made_folder_ = arguments.folder;
  } else if (errno != EEXIST) {
    throw Failure(fmt::format("--report {}: cannot make the folder: {}", arguments.folder, std::strerror(errno)));
  }
  for (const std::string& name : names) reserve(arguments.folder + "/" + name, name);
}

ReportFiles::~ReportFiles() {
  files_.clear();
  if (!made_folder_.empty()) ::rmdir(made_folder_.c_str());  // refused where the reports are in it
}

void ReportFiles::reserve(const std::string& path, const std::string& name) {
  files_.push_back(require(io::AtomicFile::create(path)));
  for (std::size_t k = 0; k + 1 < files_.size(); ++k) {
    if (!files_[k].writes_through() && files_[k].target() == files_.back().target()) {
      throw Failure(fmt::format("{}: two reports cannot be one file", path));
    }
  }
  names_.push_back(name);
}

void ReportFiles::write(const std::map<std::string, std::string>& contents) {
  for (std::size_t k = 0; k < files_.size(); ++k) {
    const std::string& content = contents.at(names_[k]);
    require(files_[k].write(content.data(), content.size()));
  }
  require(io::AtomicFile::commit_all(files_));
}

Progress::Progress() : visible_(::isatty(STDERR_FILENO) == 1) {}

void Progress::show(std::size_t done, std::size_t count, std::string_view what) const {
  if (!visible_) return;
  constexpr std::size_t width = 24;
  const std::size_t full = count > 0 ? std::min(done, count) * width / count : 0;
  show(fmt::format("[{:#<{}}{:-<{}}] {}/{} {}", "", full, "", width - full, done, count, what));
}

void Progress::show(std::string_view what) const {
  if (!visible_) return;
  fmt::print(stderr, "\r\033[K{}", what);
  std::fflush(stderr);
}

void Progress::clear() const {
  if (visible_) fmt::print(stderr, "\r\033[K");
}

}  // namespace siattn::tools
