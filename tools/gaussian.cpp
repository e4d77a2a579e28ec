// SPDX-License-Identifier: Apache-2.0
// siattn gaussian: are these base logits what the theory takes them for, and what calibrates them.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "dispatch/validate.hpp"
#include "reference/equations.hpp"
#include "tools/calibration.hpp"
#include "tools/command.hpp"
#include "tools/encoding_arguments.hpp"
#include "tools/gaussian_report.hpp"
#include "tools/io/load.hpp"
#include "tools/problem_arguments.hpp"
#include "tools/reports.hpp"

namespace siattn::tools {
namespace {

struct GaussianArguments {
  std::string query, key, logits, calibration_out, layout = "bhsd";
  std::int64_t sinks = 1;
  std::optional<std::int64_t> query_offset;
  std::optional<double> softmax_scale;
  std::vector<double> tau{10}, logn_scale{0.4};
  EncodingArguments encoding;
  ReportArguments report;
};

/// The base logits, with what they are read from.
struct Input {
  io::Tensor query, key;  ///< logits: query alone
  AttentionShape shape;
  verify::LogitRows rows;
  std::string source;
};

void refuse_mixtures(const GaussianArguments& a) {
  if (a.logits.empty()) {
    if (a.query.empty() || a.key.empty()) throw Failure("expected --query and --key, or --logits");
    return;
  }
  const std::pair<const char*, bool> given[] = {{"--query", !a.query.empty()},
                                                {"--key", !a.key.empty()},
                                                {"--encoding", a.encoding.rotates()},
                                                {"--softmax-scale", a.softmax_scale.has_value()},
                                                {"--layout", a.layout != "bhsd"}};
  for (const auto& [option, is_given] : given) {
    if (is_given) throw Failure(fmt::format("{} has no meaning with --logits, which are taken as they stand", option));
  }
}

Input read_logits(const GaussianArguments& a) {
  Input input;
  input.query = require(io::load(a.logits));
  const TensorView view = view_of(input.query, "--logits", io::Layout::bhsd);
  input.shape = {view.shape[0], view.shape[1], view.shape[1], view.shape[2], view.shape[3], 1, 1};
  input.rows = verify::LogitRows::of_logits(view);
  input.source = a.logits;
  return input;
}

Input read_tensors(const GaussianArguments& a) {
  const io::Layout layout = a.layout == "bshd" ? io::Layout::bshd : io::Layout::bhsd;
  Input input;
  input.query = require(io::convert(require(io::load(a.query)), DType::float64));
  input.key = require(io::convert(require(io::load(a.key)), DType::float64));
  AttentionTensors tensors;
  tensors.query = view_of(input.query, "--query", layout);
  tensors.key = view_of(input.key, "--key", layout);
  if (a.encoding.rotates()) a.encoding.encode(input.query, input.key, layout, a.query_offset);
  refuse_strangers(tensors.query, tensors.key);
  tensors.value = tensors.key;  // nothing is asked about the values
  input.shape = problem_of(tensors).shape;
  AttentionProblem problem{input.shape, DType::float64, {.softmax_scale = a.softmax_scale}};
  require(dispatch::validate_problem(problem));
  const double softmax_scale = a.softmax_scale.value_or(reference::default_softmax_scale<double>(input.shape.head_dim));
  input.rows = verify::LogitRows::of_tensors(tensors.query, tensors.key, softmax_scale);
  input.source = fmt::format("{} and {}{}", a.query, a.key, a.encoding.rotates() ? ", rotated" : "");
  return input;
}

/// The transforms side by side, validated; the scale-invariant one on the logits as they are, divided by their
/// deviation, and with their mean taken away before.
std::vector<std::pair<std::string, AttentionOptions>> columns_of(const GaussianArguments& a, const Input& input,
                                                                 const Calibration& calibration) {
  const ScaleInvariant scale_invariant{.tau = a.tau};
  AttentionProblem problem;
  problem.shape = input.shape;
  problem.options.n_sink = a.sinks;
  problem.options.query_offset = a.query_offset;
  std::vector<std::pair<std::string, AttentionOptions>> columns;
  const auto add = [&](const char* name, const LogitTransform& transform, const Calibration& calibrated) {
    problem.options.transform = transform;
    problem.options.calibration = calibrated;
    require(dispatch::validate_problem(problem));
    columns.emplace_back(name, problem.options);
  };
  add("none", NoTransform{}, {});
  add("logn", LogN{a.logn_scale}, {});
  add("alibi", Alibi{}, {});
  add("scale-invariant", scale_invariant, {});
  add("calibrated, sd", scale_invariant, {.standard_deviation = calibration.standard_deviation});
  add("calibrated", scale_invariant, calibration);
  return columns;
}

std::vector<TransformTable> transform_tables(const GaussianArguments& a, const Input& input,
                                             const Calibration& calibration) {
  const auto columns = columns_of(a, input, calibration);
  std::vector<AttentionOptions> options;
  for (const auto& column : columns) options.push_back(column.second);
  const auto tables = verify::attention_by_decade(input.rows, input.shape, options, 0);
  std::vector<TransformTable> result;
  for (std::size_t k = 0; k < tables.size(); ++k) result.push_back({columns[k].first, tables[k]});
  return result;
}

std::string calibration_text(const GaussianFindings& f) {
  auto document = json_of(f.logits.calibration());
  document["of"] = "base logits of each query head: siattn run --calibration takes (S - mean) / standard_deviation";
  document["source"] = f.source;
  document["sinks_left_out"] = f.n_sink;
  document["queries"] = f.query_len;
  document["keys"] = f.kv_len;
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void refuse_input_as_output(const GaussianArguments& a) {
  for (const auto& [option, spec] :
       {std::pair{"--query", a.query}, std::pair{"--key", a.key}, std::pair{"--logits", a.logits}}) {
    std::error_code ignored;
    if (spec.empty() || a.calibration_out.empty()) continue;
    if (std::filesystem::equivalent(a.calibration_out, require(io::parse_location(spec)).path, ignored)) {
      throw Failure(fmt::format("--calibration-out {}: this is the file of {}, which it would replace",
                                a.calibration_out, option));
    }
  }
}

void run_gaussian(const GaussianArguments& a) {
  refuse_mixtures(a);
  const Input input = a.logits.empty() ? read_tensors(a) : read_logits(a);
  columns_of(a, input, {});  // what is wrong with the options comes before the work
  refuse_input_as_output(a);
  ReportFiles files(a.report, {"report.html", "report.json", "report.txt"});
  if (!a.calibration_out.empty()) files.reserve(a.calibration_out, "calibration");

  GaussianFindings findings;
  findings.source = input.source;
  findings.query_len = input.shape.query_len;
  findings.kv_len = input.shape.kv_len;
  findings.n_sink = a.sinks;
  const std::int64_t offset = a.query_offset.value_or(input.shape.kv_len - input.shape.query_len);
  const Progress progress;
  progress.show("marginal laws");
  findings.logits = require(verify::measure_gaussian(input.rows, {.n_sink = a.sinks, .query_offset = offset}));
  progress.show("transforms");
  findings.transforms = transform_tables(a, input, findings.logits.calibration());
  progress.clear();

  const std::string text = gaussian_text(findings);
  const std::string json =
      gaussian_json(findings).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  // What is printed first: where it cannot be written no file is left either.
  fmt::print("{}", a.report.json ? json : text);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) throw Failure("cannot write to standard output");
  files.write({{"report.html", a.report.folder.empty() ? "" : gaussian_html(findings)},
               {"report.json", json},
               {"report.txt", text},
               {"calibration", calibration_text(findings)}});
}

}  // namespace

void add_gaussian(CLI::App& app, int& /*exit_status*/) {
  auto* command =
      app.add_subcommand("gaussian", "Are these base logits Gaussian? Moments, tests, QQ plots, calibration");
  const auto arguments = std::make_shared<GaussianArguments>();
  GaussianArguments& a = *arguments;
  command->add_option("--query", a.query, "[batch, heads, len, dim], .npy or .safetensors:NAME");
  command->add_option("--key", a.key, "as --query, with kv_heads dividing heads");
  command->add_option("--logits", a.logits,
                      "in place of both: base logits as softmax takes them, [batch, heads, len, kv_len]");
  command->add_option("--sinks", a.sinks, "so many keys from position 0 on are left out")->capture_default_str();
  command->add_option("--query-offset", a.query_offset, "position of the first query [kv_len - query_len]");
  command->add_option("--softmax-scale", a.softmax_scale, "factor of <q, k> [1 / sqrt(head_dim)]");
  command->add_option("--layout", a.layout, "axes of the files: batch, heads, sequence, dim, or sequence before heads")
      ->check(CLI::IsMember({"bhsd", "bshd"}))
      ->capture_default_str();
  const auto per_head = [&](const char* name, std::vector<double>& values, const char* text) {
    command->add_option(name, values, text)->delimiter(',')->allow_extra_args(false)->capture_default_str();
  };
  per_head("--tau", a.tau, "of the scale-invariant columns; one, or one per head");
  per_head("--logn-scale", a.logn_scale, "of the logn column; one, or one per head");
  command->add_option("--calibration-out", a.calibration_out, "file for what siattn run --calibration takes");
  command->add_option("--report", a.report.folder, "folder for report.html with pictures, report.json and report.txt");
  command->add_flag("--json", a.report.json, "machine-readable output");
  a.encoding.add_to(*command);
  command->callback([arguments] { run_gaussian(*arguments); });
}

}  // namespace siattn::tools
