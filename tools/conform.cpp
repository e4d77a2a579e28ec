// SPDX-License-Identifier: Apache-2.0
// siattn conform: every backend against the reference, elementwise within the error bound.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include <siattn/version.hpp>

#include "tools/command.hpp"
#include "tools/reports.hpp"
#include "verify/conform.hpp"
#include "verify/report.hpp"

namespace siattn::tools {
namespace {

struct ConformArguments {
  verify::ConformOptions options;
  ReportArguments report;
};

int run_conform(const ConformArguments& arguments) {
  const auto backends = require(verify::backends_of(arguments.options));
  ReportFiles files(arguments.report, {"report.txt", "report.json", "junit.xml"});
  const Progress progress;
  const auto runs =
      verify::run_conformance(backends, arguments.options, [&progress](const verify::ConformProgress& at) {
        progress.show(at.done, at.count, at.run->backend + " " + at.run->dtype + " " + at.run->name);
      });
  progress.clear();
  if (runs.empty()) {
    throw Failure(fmt::format("--case {}: no such case{}{}", arguments.options.only,
                              arguments.options.dtype.empty() ? "" : " with --dtype ", arguments.options.dtype));
  }

  const verify::ReportHeader header{"conformance",
                                    {{"version", version()}, {"mode", arguments.options.quick ? "quick" : "full"}}};
  const std::string text = verify::conform_text(runs);
  const auto checks = verify::conform_checks(runs);
  const std::string json = verify::json_report(header, checks);
  files.write({{"report.txt", text}, {"report.json", json}, {"junit.xml", verify::junit_report(header, checks)}});
  fmt::print("{}", arguments.report.json ? json : text);
  const bool good = std::all_of(runs.begin(), runs.end(), [](const verify::ConformRun& run) { return run.good(); });
  return good ? kGood : kCheckFailed;
}

}  // namespace

void add_conform(CLI::App& app, int& exit_status) {
  auto* command =
      app.add_subcommand("conform", "Every backend against the reference, elementwise within the error bound");
  const auto arguments = std::make_shared<ConformArguments>();
  command->add_option("--backend", arguments->options.backend, "name, family, or all")->capture_default_str();
  command->add_option("--dtype", arguments->options.dtype, "one type only [all]")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  command->add_option("--case", arguments->options.only, "cases whose name begins with this [all]");
  command->add_flag("--quick", arguments->options.quick, "a part of the cases that takes seconds");
  command->add_flag("--fail-fast", arguments->options.fail_fast, "end with the first case that fails");
  arguments->report.add_to(*command, "report.txt, report.json and junit.xml");
  command->callback([arguments, &exit_status] { exit_status = run_conform(*arguments); });
}

}  // namespace siattn::tools
