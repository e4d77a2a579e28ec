// SPDX-License-Identifier: Apache-2.0
// siattn info: version, backends, which one would be used and why the others not, threads.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include <siattn/attention.hpp>
#include <siattn/backend.hpp>
#include <siattn/version.hpp>

#include "tools/command.hpp"

namespace siattn::tools {
namespace {

/// The smallest problem, to see what planning would choose for a type.
AttentionProblem smallest_problem(DType dtype) {
  AttentionProblem problem;
  problem.dtype = dtype;
  problem.shape = {1, 1, 1, 1, 1, 1, 1};
  return problem;
}

void print_text(const AttentionPlan& plan) {
  fmt::print("siattn {}\n\nbackends, best first:\n", version());
  for (const Backend* backend : backends()) {
    const Status status = backend->available();
    const char* mark = backend == &plan.backend() ? "->" : "  ";
    fmt::print(" {} {:<12} {:<13} {}\n", mark, backend->name(), status ? "available" : "unavailable",
               status ? std::string(backend->description()) : status.message());
  }
  fmt::print("\n-> is used unless another is asked for (--backend, SIATTN_BACKEND)\n");
  const AttentionProblem prompt{{1, 8, 8, 512, 512, 64, 64}, DType::bfloat16, {}};
  if (const auto best = choose_backend("", prompt); best && *best != &plan.backend()) {
    fmt::print("{} where it is faster: {} prompts\n", (*best)->name(), siattn::name_of(prompt.dtype));
  }
  fmt::print("threads: {} (--threads, SIATTN_NUM_THREADS)\n", plan.prepared().threads);
  if (std::none_of(backends().begin(), backends().end(), [](const Backend* b) { return b->family() == "onednn"; })) {
    fmt::print("not in this build: onednn\n");
  }
}

void print_json(const AttentionPlan& plan) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Backend* backend : backends()) {
    const Status status = backend->available();
    nlohmann::ordered_json dtypes = nlohmann::ordered_json::array();
    for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16, DType::float64}) {
      if (backend->supports(smallest_problem(dtype))) dtypes.push_back(name_of(dtype));
    }
    list.push_back({{"name", backend->name()},
                    {"family", backend->family()},
                    {"dtypes", dtypes},
                    {"available", status.ok()},
                    {"reason", status.message()},
                    {"description", backend->description()}});
  }
  const nlohmann::ordered_json document = {{"version", version()},
                                           {"chosen", plan.backend().name()},
                                           {"threads", plan.prepared().threads},
                                           {"backends", list}};
  fmt::print("{}\n", document.dump(2));
}

}  // namespace

void add_info(CLI::App& app, int& /*exit_status*/) {
  auto* command = app.add_subcommand("info", "Version, backends, which one would be used and why, threads");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "machine-readable output");
  command->callback([json] {
    const AttentionPlan plan = require(AttentionPlan::create(smallest_problem(DType::float32)));
    *json ? print_json(plan) : print_text(plan);
  });
}

}  // namespace siattn::tools
