// SPDX-License-Identifier: Apache-2.0
// siattn verify: the claims of the paper, each with its figure and a planted mistake that it rejects.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include <siattn/version.hpp>

#include "tools/command.hpp"
#include "tools/reports.hpp"
#include "verify/claim.hpp"
#include "verify/pictures/html_report.hpp"
#include "verify/pictures/picture.hpp"
#include "verify/pictures/svg.hpp"

namespace siattn::tools {
namespace {

struct VerifyArguments {
  bool quick = false;
  std::string only;
  verify::ClaimOptions options;
  ReportArguments report;
};

std::vector<std::string> report_names() {
  std::vector<std::string> names = {"report.txt", "report.json", "report.html", "junit.xml"};
  for (const verify::PictureMaker* maker : verify::picture_makers()) names.push_back(fmt::format("{}.svg", maker->id));
  return names;
}

/// The contents of the files. Pictures are computed only where a folder is there for them.
std::map<std::string, std::string> contents_of(const VerifyArguments& arguments, const verify::ReportHeader& header,
                                               const std::string& text, std::span<const verify::ClaimResult> results,
                                               const Progress& progress) {
  std::map<std::string, std::string> contents = {{"report.txt", text},
                                                 {"junit.xml", verify::junit_report(header, results)}};
  if (arguments.report.folder.empty()) return contents;
  const auto pictures = verify::make_pictures(
      arguments.options, results, [&progress](std::size_t index, std::size_t count, std::string_view title) {
        progress.show(index + 1, count, fmt::format("picture: {}", title));
      });
  progress.clear();
  const std::string command =
      fmt::format("siattn verify {}{}{} --seed {} --report DIR", arguments.options.full ? "--full" : "--quick",
                  arguments.only.empty() ? "" : " --claim ", arguments.only, arguments.options.seed);
  auto document = verify::json_document(header, results);
  document["pictures"] = verify::json_of(pictures);
  contents["report.json"] = verify::json_text(document);
  contents["report.html"] = verify::html_report(header, command, results, pictures);
  for (const verify::Picture& picture : pictures) contents[picture.id + ".svg"] = verify::svg(picture.plot);
  return contents;
}

/// The claims whose name begins with `only`, in the order of the paper.
std::vector<const verify::Claim*> claims_of(const std::string& only) {
  std::vector<const verify::Claim*> list;
  std::string known;
  for (const verify::Claim* claim : verify::claims()) {
    if (claim->id.starts_with(only)) list.push_back(claim);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", claim->id);
  }
  if (list.empty()) throw Failure(fmt::format("--claim {}: no such claim: expected one of {}", only, known));
  return list;
}

std::string chance_text(double chance) { return chance == 0 ? "0" : fmt::format("{:.0e}", chance); }

/// On a terminal: a bar, how many claims have ended, and those that run.
verify::ClaimCallback shown_on(const Progress& progress) {
  return [&progress, running = std::vector<std::string_view>()](const verify::ClaimProgress& at) mutable {
    if (at.result == nullptr) {
      running.push_back(at.claim->id);
    } else {
      std::erase(running, at.claim->id);
    }
    progress.show(at.done, at.count, fmt::format("{}", fmt::join(running, ", ")));
  };
}

int run_verify(const VerifyArguments& arguments) {
  if (arguments.quick && arguments.options.full) throw Failure("--quick and --full: choose one");
  const std::vector<const verify::Claim*> list = claims_of(arguments.only);
  ReportFiles files(arguments.report, report_names());
  const Progress progress;
  const auto results = verify::run_claims(list, arguments.options, shown_on(progress));
  progress.clear();

  const verify::ReportHeader header{"claims",
                                    {{"version", version()},
                                     {"mode", arguments.options.full ? "full" : "quick"},
                                     {"seed", std::to_string(arguments.options.seed)},
                                     {"false alarms at most", chance_text(verify::false_alarms(results))}}};
  const std::string text = verify::text_report(header, results);
  files.write(contents_of(arguments, header, text, results, progress));
  fmt::print("{}", arguments.report.json ? verify::json_report(header, results) : text);
  return verify::tally(results).good() ? kGood : kCheckFailed;
}

}  // namespace

void add_verify(CLI::App& app, int& exit_status) {
  auto* command = app.add_subcommand("verify", "The claims of the paper: figures, verdicts, planted mistakes rejected");
  const auto arguments = std::make_shared<VerifyArguments>();
  command->add_flag("--quick", arguments->quick, "seconds; the default");
  command->add_flag("--full", arguments->options.full, "denser grids and longer sums");
  command->add_option("--claim", arguments->only, "claims whose name begins with this [all]");
  command->add_option("--seed", arguments->options.seed, "for what is drawn at random")->capture_default_str();
  arguments->report.add_to(*command,
                           "report.html with pictures, each picture.svg, report.txt, report.json and junit.xml");
  command->callback([arguments, &exit_status] { exit_status = run_verify(*arguments); });
}

}  // namespace siattn::tools
