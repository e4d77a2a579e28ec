// SPDX-License-Identifier: Apache-2.0
// What `verify` and `conform` share: the files their reports go to, and progress on a terminal.
#ifndef SIATTN_TOOLS_REPORTS_HPP
#define SIATTN_TOOLS_REPORTS_HPP

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <vector>

#include "tools/io/file.hpp"
#include "verify/report.hpp"

namespace siattn::tools {

/// --report DIR, --junit FILE and --json.
struct ReportArguments {
  std::string folder, junit;
  bool json = false;

  void add_to(CLI::App& command);
};

/// The files, opened before the work starts, so that a folder that takes none is found out first; they appear together,
/// whole, or not at all.
class ReportFiles {
 public:
  explicit ReportFiles(const ReportArguments& arguments);
  /// Takes away a folder that was made for reports that were not written.
  ~ReportFiles();
  ReportFiles(const ReportFiles&) = delete;
  ReportFiles& operator=(const ReportFiles&) = delete;

  /// `text` goes into report.txt.
  void write(const std::string& text, const verify::ReportHeader& header, std::span<const verify::CheckResult> results);

 private:
  enum class Kind { text, json, junit };
  void reserve(const std::string& path, Kind kind);

  std::string made_folder_;
  std::vector<io::AtomicFile> files_;
  std::vector<Kind> kinds_;
};

/// One line on stderr that is written over; nothing where stderr is no terminal.
class Progress {
 public:
  Progress();
  bool visible() const { return visible_; }
  void show(std::size_t done, std::size_t count, std::string_view what) const;
  void show(std::string_view what) const;  ///< where nobody knows how many there will be
  void clear() const;

 private:
  bool visible_;
};

}  // namespace siattn::tools

#endif  // SIATTN_TOOLS_REPORTS_HPP
