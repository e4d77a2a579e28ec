// SPDX-License-Identifier: Apache-2.0
// siattn verify: the claims of the paper, each with its figure and a planted mistake that it rejects.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include <siattn/version.hpp>

#include "tools/command.hpp"
#include "tools/io/file.hpp"
#include "verify/claim.hpp"
#include "verify/report.hpp"

namespace siattn::tools {
namespace {

struct VerifyArguments {
  bool quick = false;
  verify::ClaimOptions options;
  std::string report, junit;
  bool json = false;
};

io::AtomicFile reserve(const std::string& path) { return require(io::AtomicFile::create(path)); }

void write(io::AtomicFile& file, const std::string& text) { require(file.write(text.data(), text.size())); }

/// Files wanted, opened before the work starts, so that a folder that takes none is found out first.
struct Outputs {
  std::vector<io::AtomicFile> files;
  std::vector<std::string (*)(const verify::ReportHeader&, std::span<const verify::CheckResult>)> writers;

  void add(const std::string& path, decltype(writers)::value_type writer) {
    files.push_back(reserve(path));
    writers.push_back(writer);
  }
};

Outputs reserve_outputs(const VerifyArguments& arguments) {
  Outputs outputs;
  if (!arguments.report.empty()) {
    if (::mkdir(arguments.report.c_str(), 0777) != 0 && errno != EEXIST) {
      throw Failure(fmt::format("--report {}: cannot make the folder: {}", arguments.report, std::strerror(errno)));
    }
    outputs.add(arguments.report + "/report.txt", verify::text_report);
    outputs.add(arguments.report + "/report.json", verify::json_report);
    outputs.add(arguments.report + "/junit.xml", verify::junit_report);
  }
  if (!arguments.junit.empty()) outputs.add(arguments.junit, verify::junit_report);
  return outputs;
}

/// One line on stderr that is written over, on a terminal only.
void show_progress(const verify::ClaimProgress& progress) {
  if (progress.result == nullptr) {
    fmt::print(stderr, "\r\033[K{}/{} {}", progress.index + 1, progress.count, progress.claim->title);
  } else if (progress.index + 1 == progress.count) {
    fmt::print(stderr, "\r\033[K");
  }
  std::fflush(stderr);
}

int run_verify(const VerifyArguments& arguments) {
  if (arguments.quick && arguments.options.full) throw Failure("--quick and --full: choose one");
  Outputs outputs = reserve_outputs(arguments);
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  const auto results =
      verify::run_claims(arguments.options, terminal ? verify::ClaimCallback(show_progress) : verify::ClaimCallback());

  const verify::ReportHeader header{"claims",
                                    {{"version", version()},
                                     {"mode", arguments.options.full ? "full" : "quick"},
                                     {"seed", std::to_string(arguments.options.seed)}}};
  for (std::size_t k = 0; k < outputs.files.size(); ++k) write(outputs.files[k], outputs.writers[k](header, results));
  require(io::AtomicFile::commit_all(outputs.files));
  fmt::print("{}", arguments.json ? verify::json_report(header, results) : verify::text_report(header, results));
  return verify::tally(results).good() ? kGood : kCheckFailed;
}

}  // namespace

void add_verify(CLI::App& app, int& exit_status) {
  auto* command = app.add_subcommand("verify", "The claims of the paper: figures, verdicts, planted mistakes rejected");
  const auto arguments = std::make_shared<VerifyArguments>();
  command->add_flag("--quick", arguments->quick, "seconds; the default");
  command->add_flag("--full", arguments->options.full, "denser grids and longer sums");
  command->add_option("--seed", arguments->options.seed, "for what is drawn at random")->capture_default_str();
  command->add_option("--report", arguments->report, "folder for report.txt, report.json and junit.xml");
  command->add_option("--junit", arguments->junit, "file for JUnit XML");
  command->add_flag("--json", arguments->json, "machine-readable output");
  command->callback([arguments, &exit_status] { exit_status = run_verify(*arguments); });
}

}  // namespace siattn::tools
