// SPDX-License-Identifier: Apache-2.0
// siattn bench: checks against the reference, then times, in turn with the machine's ceilings.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "bench/cases.hpp"
#include "bench/suite.hpp"
#include "tools/command.hpp"
#include "tools/reports.hpp"

namespace siattn::tools {
namespace {

struct BenchArguments {
  bench::CaseOptions cases;
  std::vector<std::int64_t> shape;
  std::string suite;
  bool json = false;
};

int run_suite(const BenchArguments& arguments, const Progress& progress) {
  bench::SuiteOptions options;
  options.rounds = arguments.cases.rounds;
  options.only = arguments.cases.only;
  options.progress = [&progress](const std::string& name) { progress.show(name); };
  const auto rows = require(arguments.suite == "accept" ? bench::run_accept_suite(options) : bench::run_serving_suite(options));
  progress.clear();
  fmt::print("{}", arguments.json ? bench::suite_json(rows) : bench::suite_text(rows));
  const bool good = std::all_of(rows.begin(), rows.end(), [](const bench::SuiteRow& row) { return row.met(); });
  return good ? kGood : kCheckFailed;
}

int run_bench(BenchArguments& arguments) {
  const Progress progress;
  if (!arguments.suite.empty()) return run_suite(arguments, progress);
  if (const auto& s = arguments.shape; !s.empty()) {
    arguments.cases.shape = AttentionShape{s[0], s[1], s[2], s[3], s[4], s[5], s.back()};
    // Before the phase is told by dividing.
    require(AttentionPlan::create({*arguments.cases.shape, DType::float32, {}}, {arguments.cases.backend, 1}));
  }
  arguments.cases.progress = [&progress](const std::string& name) { progress.show(name); };
  const auto results = require(bench::run_cases(arguments.cases));
  progress.clear();
  fmt::print("{}", arguments.json ? bench::cases_json(results) : bench::cases_text(results));
  return kGood;
}

}  // namespace

void add_bench(CLI::App& app, int& exit_status) {
  auto* command = app.add_subcommand("bench", "Checks against the reference, then times");
  const auto arguments = std::make_shared<BenchArguments>();
  bench::CaseOptions& cases = arguments->cases;
  auto* suite = command->add_option("--suite", arguments->suite,
                                    "accept: what is demanded of the CPU backends; serving: of caches, batches and "
                                    "planning; status 1 where a row misses it");
  suite->check(CLI::IsMember({"accept", "serving"}));
  const auto not_with_suite = [&](CLI::Option* option) { option->excludes(suite); };
  not_with_suite(command->add_option("--backend", cases.backend, "name or family [the best available]"));
  not_with_suite(command->add_option("--phase", cases.phase, "one phase only [both]")
                     ->check(CLI::IsMember({"prefill", "decode"})));
  not_with_suite(
      command->add_option("--dtype", cases.dtype, "one type only [all]")->check(CLI::IsMember({"f32", "bf16", "f16"})));
  not_with_suite(command
                     ->add_option("--shape", arguments->shape,
                                  "batch,query_heads,kv_heads,query_len,kv_len,head_dim[,value_dim] [some that are usual]")
                     ->delimiter(',')
                     ->expected(6, 7)
                     ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31)));
  not_with_suite(command->add_option("--threads", cases.threads, "threads [as many as OpenMP would use]")
                     ->check(CLI::Range(1, 1024)));
  command->add_option("--case", cases.only, "cases whose name begins with this [all]");
  command->add_option("--rounds", cases.rounds, "how often each is timed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "machine-readable: the format of Google Benchmark");
  command->callback([arguments, &exit_status] { exit_status = run_bench(*arguments); });
}

}  // namespace siattn::tools
