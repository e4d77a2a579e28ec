// SPDX-License-Identifier: Apache-2.0
// What `verify` and `conform` share: the files their reports go to, and progress on a terminal.
#ifndef SIATTN_TOOLS_REPORTS_HPP
#define SIATTN_TOOLS_REPORTS_HPP

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "tools/io/file.hpp"

namespace siattn::tools {

/// --report DIR, --junit FILE and --json.
struct ReportArguments {
  std::string folder, junit;
  bool json = false;

  /// names: of the files in the folder, for the help.
  void add_to(CLI::App& command, const std::string& names);
};

/// The files of --report and --junit, opened before the work starts, so that a folder that takes none is found out
/// first; they appear together, whole, or not at all.
class ReportFiles {
 public:
  /// names: of the files in the folder, of which one is "junit.xml" where --junit is taken.
  ReportFiles(const ReportArguments& arguments, const std::vector<std::string>& names);
  /// Takes away a folder that was made for reports that were not written.
  ~ReportFiles();
  ReportFiles(const ReportFiles&) = delete;
  ReportFiles& operator=(const ReportFiles&) = delete;

  /// One more file, outside the folder, that appears with them.
  void reserve(const std::string& path, const std::string& name);

  /// By name, one for each. What nobody asked for is not written.
  void write(const std::map<std::string, std::string>& contents);

 private:
  std::string made_folder_;
  std::vector<io::AtomicFile> files_;
  std::vector<std::string> names_;
};

/// One line on stderr that is written over; nothing where stderr is no terminal.
class Progress {
 public:
  Progress();
  bool visible() const { return visible_; }
  /// A bar, done/count and what runs.
  void show(std::size_t done, std::size_t count, std::string_view what) const;
  void show(std::string_view what) const;  ///< where nobody knows how many there will be
  void clear() const;

 private:
  bool visible_;
};

}  // namespace siattn::tools

#endif  // SIATTN_TOOLS_REPORTS_HPP
