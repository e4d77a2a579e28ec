// SPDX-License-Identifier: Apache-2.0
// siattn verify: the claims of the paper, each with its figure and a planted mistake that it rejects.
#include <fmt/format.h>

#include <memory>

#include <siattn/version.hpp>

#include "tools/command.hpp"
#include "tools/reports.hpp"
#include "verify/claim.hpp"

namespace siattn::tools {
namespace {

struct VerifyArguments {
  bool quick = false;
  verify::ClaimOptions options;
  ReportArguments report;
};

int run_verify(const VerifyArguments& arguments) {
  if (arguments.quick && arguments.options.full) throw Failure("--quick and --full: choose one");
  ReportFiles files(arguments.report);
  const Progress progress;
  const auto results = verify::run_claims(arguments.options, [&progress](const verify::ClaimProgress& at) {
    if (at.result == nullptr) progress.show(at.index + 1, at.count, at.claim->title);
  });
  progress.clear();

  const verify::ReportHeader header{"claims",
                                    {{"version", version()},
                                     {"mode", arguments.options.full ? "full" : "quick"},
                                     {"seed", std::to_string(arguments.options.seed)}}};
  const std::string text = verify::text_report(header, results);
  files.write(text, header, results);
  fmt::print("{}", arguments.report.json ? verify::json_report(header, results) : text);
  return verify::tally(results).good() ? kGood : kCheckFailed;
}

}  // namespace

void add_verify(CLI::App& app, int& exit_status) {
  auto* command = app.add_subcommand("verify", "The claims of the paper: figures, verdicts, planted mistakes rejected");
  const auto arguments = std::make_shared<VerifyArguments>();
  command->add_flag("--quick", arguments->quick, "seconds; the default");
  command->add_flag("--full", arguments->options.full, "denser grids and longer sums");
  command->add_option("--seed", arguments->options.seed, "for what is drawn at random")->capture_default_str();
  arguments->report.add_to(*command);
  command->callback([arguments, &exit_status] { exit_status = run_verify(*arguments); });
}

}  // namespace siattn::tools
