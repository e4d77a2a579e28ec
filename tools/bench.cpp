// SPDX-License-Identifier: Apache-2.0
// siattn bench: checks against the reference, then times.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "bench/suite.hpp"
#include "tools/command.hpp"
#include "tools/reports.hpp"

namespace siattn::tools {
namespace {

struct BenchArguments {
  bench::SuiteOptions options;
};

int run_bench(BenchArguments& arguments) {
  const Progress progress;
  arguments.options.progress = [&progress, done = 0](const bench::SuiteRow& row) mutable {
    progress.show(static_cast<std::size_t>(++done), 0, row.name);
  };
  const auto rows = require(bench::run_accept_suite(arguments.options));
  progress.clear();
  fmt::print("{}", bench::suite_text(rows));
  const bool good = std::all_of(rows.begin(), rows.end(), [](const bench::SuiteRow& row) { return row.met(); });
  return good ? kGood : kCheckFailed;
}

}  // namespace

void add_bench(CLI::App& app, int& exit_status) {
  auto* command = app.add_subcommand("bench", "Checks against the reference, then times");
  const auto arguments = std::make_shared<BenchArguments>();
  command->add_option("--case", arguments->options.only, "rows whose name begins with this [all]");
  command->add_option("--rounds", arguments->options.rounds, "how often each is timed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->callback([arguments, &exit_status] { exit_status = run_bench(*arguments); });
}

}  // namespace siattn::tools
