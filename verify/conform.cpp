// SPDX-License-Identifier: Apache-2.0
#include "verify/conform.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "verify/far_tensors.hpp"

namespace siattn::verify {
namespace {

constexpr DType kTypes[] = {DType::float32, DType::bfloat16, DType::float16};

/// Plans and runs on this backend itself, whatever the environment says. The backend may be one that is in no list.
/// The workspace holds NaN: what is used before it is written shows.
Status run_on(const Backend& backend, const AttentionProblem& problem, int threads, const AttentionTensors& tensors,
              Guard guard) {
  const auto plan = AttentionPlan::create_on(backend, problem, {.backend = {}, .threads = threads});
  if (!plan) return plan.status();
  const std::size_t bytes = plan->workspace_bytes();
  if (guard != Guard::bytes) {
    const GuardedMemory workspace("the workspace", bytes, guard);
    std::fill_n(workspace.data(), bytes, std::byte{0xFF});
    return plan->run(tensors, {workspace.data(), bytes});
  }
  std::vector<std::byte> workspace(bytes, std::byte{0xFF});
  return plan->run(tensors, workspace);
}

ConformRun run_case(const Backend& backend, const Case& test_case, DType dtype) {
  const auto start = std::chrono::steady_clock::now();
  ConformRun run{std::string(backend.name()), std::string(name_of(dtype)), test_case.feature, test_case.name, {}, {}};
  ProblemData data = data_of(test_case, dtype);
  std::optional<FarTensors> far;
  if (test_case.far) far.emplace(data.tensors());
  run.left_out = far && !far->mapped();
  if (!run.left_out) {
    const std::string what = fmt::format("{} {} on {}", run.backend, run.dtype, run.name);
    const NamedCrashes names(what.c_str());
    run.status =
        run_on(backend, data.problem(), test_case.threads, far ? far->tensors() : data.tensors(), data.guard());
    if (far) far->copy_outputs();
  }
  if (run.status && !run.left_out) {
    run.comparison = compare_with_reference(data.problem(), data.tensors(), backend.numerics(dtype));
    run.intact = data.intact();
  }
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return run;
}

std::string why(const ConformRun& run) {
  if (run.left_out) return "left out: no address space for tensors of 2^31 elements";
  if (!run.status) return run.status.message();
  if (!run.intact) return "memory outside the outputs was written";
  return fmt::format("{} ({} of {} elements)", run.comparison.first_failure, run.comparison.failures,
                     run.comparison.elements);
}

std::string reproduce(const ConformRun& run) {
  return fmt::format("siattn conform --backend {} --dtype {} --case {}", run.backend, run.dtype, run.name);
}

std::string row_name(const ConformRun& run) { return run.backend + " " + run.dtype; }

/// Values in the order in which they first occur.
template <class Of>
std::vector<std::string> distinct(const std::vector<ConformRun>& runs, Of of) {
  std::vector<std::string> result;
  for (const ConformRun& run : runs) {
    if (std::find(result.begin(), result.end(), of(run)) == result.end()) result.push_back(of(run));
  }
  return result;
}

std::string cell_text(const std::vector<ConformRun>& runs, const std::string& row, const std::string& feature) {
  double worst = -1;
  for (const ConformRun& run : runs) {
    if (row_name(run) != row || run.feature != feature) continue;
    if (!run.good()) return "FAIL";
    worst = std::max(worst, run.comparison.worst_ratio);
  }
  return worst < 0 ? "-" : fmt::format("{:.3f}", worst);
}

}  // namespace

Result<std::vector<const Backend*>> backends_of(const ConformOptions& options) {
  std::vector<const Backend*> result;
  std::string refusals;
  for (const Backend* backend : backends()) {
    const bool all = options.backend == "all";
    if (!all && options.backend != backend->name() && options.backend != backend->family()) continue;
    const Status status = backend->available();
    if (status) {
      result.push_back(backend);
    } else {
      refusals += fmt::format("{}{}: {}", refusals.empty() ? "" : "; ", backend->name(), status.message());
    }
  }
  if (!result.empty()) return result;
  if (!refusals.empty()) return Status::unavailable(refusals);
  return Status::invalid(
      fmt::format("backend = '{}': expected 'all' or a name that siattn info lists", options.backend));
}

std::vector<ConformRun> run_conformance(std::span<const Backend* const> backends, const ConformOptions& options,
                                        const std::function<void(const ConformProgress&)>& progress) {
  struct Job {
    const Backend* backend;
    const Case* test_case;
    DType dtype;
  };
  const std::vector<Case> cases = conformance_cases(options.quick);
  std::vector<Job> jobs;
  for (const Backend* backend : backends) {
    for (const DType dtype : kTypes) {
      if (!options.dtype.empty() && options.dtype != name_of(dtype)) continue;
      for (const Case& test_case : cases) {
        if (!test_case.name.starts_with(options.only)) continue;
        AttentionProblem problem = test_case.problem;
        problem.dtype = dtype;
        if (backend->supports(problem)) jobs.push_back({backend, &test_case, dtype});
      }
    }
  }
  std::vector<ConformRun> runs;
  for (const Job& job : jobs) {
    runs.push_back(run_case(*job.backend, *job.test_case, job.dtype));
    if (progress) progress({runs.size(), jobs.size(), &runs.back()});
    if (options.fail_fast && !runs.back().good()) break;
  }
  return runs;
}

std::string conform_text(const std::vector<ConformRun>& runs) {
  const auto rows = distinct(runs, row_name);
  const auto features = distinct(runs, [](const ConformRun& run) { return run.feature; });
  std::string text = fmt::format("largest error / bound, by backend and type ({} runs)\n\n{:<17}", runs.size(), "");
  for (const std::string& feature : features) text += fmt::format(" {:>10}", feature);
  text += '\n';
  for (const std::string& row : rows) {
    text += fmt::format("{:<17}", row);
    for (const std::string& feature : features) text += fmt::format(" {:>10}", cell_text(runs, row, feature));
    text += '\n';
  }
  text += "\nworst case of each row\n";
  for (const std::string& row : rows) {
    const ConformRun* worst = nullptr;
    for (const ConformRun& run : runs) {
      if (row_name(run) != row || !run.status) continue;
      if (worst == nullptr || run.comparison.worst_ratio > worst->comparison.worst_ratio) worst = &run;
    }
    if (worst == nullptr) continue;
    text += fmt::format("{:<17} {:.3f}  {} at {}, error {:.3g}\n", row, worst->comparison.worst_ratio, worst->name,
                        element_name(worst->comparison.worst_at), worst->comparison.worst_error);
  }
  std::int64_t unpromised = 0;
  for (const ConformRun& run : runs) unpromised += run.comparison.unpromised;
  if (unpromised > 0)
    text += fmt::format("\n{} elements not compared: float32 overflows on the way to them\n", unpromised);
  const auto left_out = std::count_if(runs.begin(), runs.end(), [](const ConformRun& run) { return run.left_out; });
  if (left_out > 0)
    text += fmt::format("\n{} runs left out: no address space for tensors of 2^31 elements\n", left_out);
  if (std::any_of(runs.begin(), runs.end(), [](const ConformRun& run) { return run.backend == "reference"; })) {
    text += "\nrows of the reference compare it with itself: they check how it reads, rounds and writes, no more\n";
  }
  const auto failures = std::count_if(runs.begin(), runs.end(), [](const ConformRun& run) { return !run.good(); });
  if (failures > 0) text += fmt::format("\nfailures ({})\n", failures);
  constexpr std::ptrdiff_t kShown = 20;
  std::ptrdiff_t shown = 0;
  for (const ConformRun& run : runs) {
    if (run.good() || shown++ >= kShown) continue;
    text += fmt::format("  {}\n    {}\n", reproduce(run), why(run));
  }
  if (failures > kShown) text += fmt::format("  ... and {} more (--json has all)\n", failures - kShown);
  text += fmt::format("\n{} passed, {} failed\n", static_cast<std::ptrdiff_t>(runs.size()) - failures, failures);
  return text;
}

std::vector<CheckResult> conform_checks(const std::vector<ConformRun>& runs) {
  std::vector<CheckResult> checks;
  std::map<std::string, std::size_t> index;
  for (const ConformRun& run : runs) {
    const std::string id = fmt::format("{}/{}/{}", run.backend, run.dtype, run.feature);
    if (index.emplace(id, checks.size()).second) {
      CheckResult check;
      check.id = id;
      check.title = fmt::format("{} {}: {}", run.backend, run.dtype, run.feature);
      check.reference = "verify/bounds.hpp";
      check.statement = "every element within the error bound of the reference";
      check.method = "float64 reference";
      check.threshold = 1;
      check.threshold_reason = "error / bound";
      check.verdict = Verdict::pass;
      checks.push_back(std::move(check));
    }
    CheckResult& check = checks[index[id]];
    check.seconds += run.seconds;
    if (run.comparison.worst_ratio > check.figure || check.witness.empty()) {
      check.figure = run.comparison.worst_ratio;
      check.witness = run.name;
    }
    if (run.good() && !run.left_out) continue;
    if (!run.left_out) check.verdict = Verdict::fail;
    check.message += fmt::format("{}{}: {}", check.message.empty() ? "" : "\n", reproduce(run), why(run));
  }
  return checks;
}

}  // namespace siattn::verify
