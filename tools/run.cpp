// SPDX-License-Identifier: Apache-2.0
// siattn run: attention on tensors in files.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include <siattn/backend.hpp>
#include <siattn/introspection.hpp>

#include "tools/command.hpp"
#include "tools/encoding_arguments.hpp"
#include "tools/io/load.hpp"
#include "tools/io/save.hpp"
#include "tools/problem_arguments.hpp"
#include "verify/compare.hpp"

namespace siattn::tools {
namespace {

struct RunArguments {
  std::string query, key, value, out, lse, weights, backend, dtype;
  int threads = 0;
  bool check = false;
  bool json = false;
  ProblemArguments problem;
  EncodingArguments encoding;
};

io::Tensor as_type(io::Tensor tensor, DType dtype) {
  return tensor.dtype() == dtype ? std::move(tensor) : require(io::convert(tensor, dtype));
}

/// [batch, query_heads, query_len, kv_len] with as many axes as the query file had; float32, computed anew in double:
/// the fused backends never hold them.
io::Tensor all_weights(const AttentionProblem& problem, const AttentionTensors& tensors, std::size_t rank,
                       int threads) {
  const AttentionShape& s = problem.shape;
  const io::Shape shape = io::shape_from_4d({s.batch, s.query_heads, s.query_len, s.kv_len}, io::Layout::bhsd, rank);
  io::Tensor result = require(io::Tensor::zeros(DType::float32, shape));
  std::vector<QueryIndex> rows;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.query_heads; ++h) {
      for (std::int64_t i = 0; i < s.query_len; ++i) rows.push_back({b, h, i});
    }
  }
  const Shape4 one_below_the_other{1, 1, static_cast<std::int64_t>(rows.size()), s.kv_len};
  require(introspect(tensors, problem.options, rows, {.weights = {result.data(), DType::float32, one_below_the_other}},
                     threads));
  return result;
}

/// [batch, query_heads, query_len] with as many axes as the query file had, less one.
io::Shape lse_shape(const AttentionShape& s, std::size_t rank) {
  io::Shape shape = io::shape_from_4d({s.batch, s.query_heads, s.query_len, 1}, io::Layout::bhsd, rank);
  shape.pop_back();
  return shape;
}

/// JSON has no infinity.
nlohmann::ordered_json finite_or_text(double x) {
  return std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json("inf");
}

void report(const RunArguments& arguments, const AttentionPlan& plan, double seconds,
            const verify::Comparison* comparison) {
  const AttentionShape& s = plan.prepared().shape;
  if (arguments.json) {
    nlohmann::ordered_json document = {{"backend", plan.backend().name()},
                                       {"threads", plan.prepared().threads},
                                       {"dtype", name_of(plan.prepared().dtype)},
                                       {"shape",
                                        {{"batch", s.batch},
                                         {"query_heads", s.query_heads},
                                         {"kv_heads", s.kv_heads},
                                         {"query_len", s.query_len},
                                         {"kv_len", s.kv_len},
                                         {"head_dim", s.head_dim},
                                         {"value_dim", s.value_dim}}},
                                       {"seconds", seconds}};
    if (comparison != nullptr) {
      document["check"] = {{"good", comparison->good()},
                           {"elements", comparison->elements},
                           {"unpromised", comparison->unpromised},
                           {"failures", comparison->failures},
                           {"worst_error_over_bound", finite_or_text(comparison->worst_ratio)},
                           {"first_failure", comparison->first_failure}};
    }
    fmt::print("{}\n", document.dump(2));
    return;
  }
  fmt::print("{} {}, {} thread{}: {} x {} heads ({} kv), {} queries, {} keys, head_dim {}: {:.1f} ms\n",
             plan.backend().name(), name_of(plan.prepared().dtype), plan.prepared().threads,
             plan.prepared().threads == 1 ? "" : "s", s.batch, s.query_heads, s.kv_heads, s.query_len, s.kv_len,
             s.head_dim, 1e3 * seconds);
  if (comparison == nullptr) return;
  fmt::print("against the float64 reference: largest error {:.3f} of the bound, at {}; {} of {} elements beyond it\n",
             comparison->worst_ratio, verify::element_name(comparison->worst_at), comparison->failures,
             comparison->elements);
  if (comparison->unpromised > 0) {
    fmt::print("{} elements were not compared: float32 overflows on the way to them\n", comparison->unpromised);
  }
  if (plan.backend().name() == "reference")
    fmt::print("(this is the reference against itself: it shows nothing new)\n");
  if (!comparison->good()) fmt::print("{}\n", comparison->first_failure);
}

/// An output replaces the file of its name, and with it every other tensor there.
void refuse_input_as_output(const RunArguments& arguments, const char* option, const std::string& spec) {
  const std::string path = require(io::parse_location(spec)).path;
  for (const auto& [input, input_spec] : {std::pair{"--query", arguments.query}, std::pair{"--key", arguments.key},
                                          std::pair{"--value", arguments.value}}) {
    std::error_code ignored;
    if (std::filesystem::equivalent(path, require(io::parse_location(input_spec)).path, ignored)) {
      throw Failure(fmt::format("{} {}: this is the file of {}, which it would replace", option, spec, input));
    }
  }
}

int run_attention(const RunArguments& arguments) {
  io::Tensor query = require(io::load(arguments.query));
  const DType dtype = arguments.dtype.empty() ? query.dtype() : dtype_from(arguments.dtype);
  io::Tensor key = require(io::load(arguments.key));
  const io::Layout layout = arguments.problem.layout();
  const AttentionOptions options = arguments.problem.options().front();
  if (arguments.encoding.rotates()) {
    // In float64, so that the only rounding is the one to the type of the computation.
    query = as_type(std::move(query), DType::float64);
    key = as_type(std::move(key), DType::float64);
    arguments.encoding.encode(query, key, layout, options.query_offset);
  }
  query = as_type(std::move(query), dtype);
  key = as_type(std::move(key), dtype);
  const io::Tensor value = as_type(require(io::load(arguments.value)), dtype);
  AttentionTensors tensors;
  tensors.query = view_of(query, "--query", layout);
  tensors.key = view_of(key, "--key", layout);
  tensors.value = view_of(value, "--value", layout);

  const AttentionProblem problem = problem_of(tensors, options);
  const AttentionPlan plan = require(AttentionPlan::create(problem, {arguments.backend, arguments.threads}));
  const AttentionShape& s = problem.shape;
  io::Tensor out = require(io::Tensor::zeros(
      dtype, io::shape_from_4d({s.batch, s.query_heads, s.query_len, s.value_dim}, layout, query.rank())));
  tensors.out = require(io::as_4d(out, layout));
  io::Tensor lse =
      require(io::Tensor::zeros(dtype == DType::float64 ? dtype : DType::float32, lse_shape(s, query.rank())));
  tensors.lse = {lse.data(), lse.dtype(), {s.batch, s.query_heads, s.query_len, 1}};

  // Reserved before the work, so that a folder that takes no file is found out first.
  io::OutputSet outputs;
  std::vector<const io::Tensor*> results;
  io::Tensor weights;
  const auto reserve = [&](const char* option, const std::string& spec, const char* name, const io::Tensor& tensor) {
    if (spec.empty()) return;
    refuse_input_as_output(arguments, option, spec);
    require(outputs.reserve(spec, name));
    results.push_back(&tensor);
  };
  reserve("--out", arguments.out, "out", out);
  reserve("--lse", arguments.lse, "lse", lse);
  reserve("--weights", arguments.weights, "weights", weights);

  const auto workspace = std::make_unique_for_overwrite<std::byte[]>(plan.workspace_bytes());
  const auto start = std::chrono::steady_clock::now();
  require(plan.run(tensors, {workspace.get(), plan.workspace_bytes()}));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  if (!arguments.weights.empty()) weights = all_weights(problem, tensors, query.rank(), arguments.threads);
  verify::Comparison comparison;
  if (arguments.check) {
    comparison = verify::compare_with_reference(problem, tensors, plan.backend().numerics(dtype));
  }
  // The report first: where it cannot be written no file is left either.
  report(arguments, plan, seconds, arguments.check ? &comparison : nullptr);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) throw Failure("cannot write to standard output");
  require(outputs.commit(results));
  return comparison.good() ? kGood : kCheckFailed;
}

}  // namespace

void add_run(CLI::App& app, int& exit_status) {
  auto* command = app.add_subcommand("run", "Attention on tensors in files (.npy or FILE.safetensors:NAME)");
  const auto arguments = std::make_shared<RunArguments>();
  command->add_option("--query", arguments->query, "[batch, heads, len, dim]; 2 and 3 axes get leading ones")
      ->required();
  command->add_option("--key", arguments->key, "[batch, kv_heads, kv_len, dim]; kv_heads divides heads")->required();
  command->add_option("--value", arguments->value, "[batch, kv_heads, kv_len, value_dim]")->required();
  command->add_option("--out", arguments->out, "result, laid out like the query")->required();
  command->add_option("--lse", arguments->lse, "log-sum-exp of the logits, [batch, heads, len], natural log");
  command->add_option("--weights", arguments->weights, "attention weights, [batch, heads, len, kv_len], in double");
  command->add_option("--backend", arguments->backend, "name or family, see siattn info [best available]");
  command->add_option("--dtype", arguments->dtype, "type to compute in; inputs are rounded to it [that of --query]")
      ->check(CLI::IsMember({"f32", "bf16", "f16", "f64"}));
  command->add_option("--threads", arguments->threads, "number of threads [all]");
  command->add_flag("--check", arguments->check, "compare with the reference; status 1 when beyond the error bound");
  command->add_flag("--json", arguments->json, "machine-readable output");
  arguments->problem.add_to(*command);
  arguments->encoding.add_to(*command);
  command->callback([arguments, &exit_status] { exit_status = run_attention(*arguments); });
}

}  // namespace siattn::tools
