// SPDX-License-Identifier: Apache-2.0
// siattn decades: how much attention falls at each decade of distance, and with which entropy, for one or more
// transforms side by side.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "dispatch/validate.hpp"
#include "reference/equations.hpp"
#include "tools/command.hpp"
#include "tools/encoding_arguments.hpp"
#include "tools/io/load.hpp"
#include "tools/problem_arguments.hpp"
#include "verify/decades.hpp"

namespace siattn::tools {
namespace {

struct DecadesArguments {
  std::string query, key;
  std::int64_t last_queries = 0;
  bool calibrate = false;
  bool json = false;
  ProblemArguments problem;
  EncodingArguments encoding;
};

std::string range_text(std::int64_t first, std::int64_t last) {
  return last - first == 1 ? fmt::format("t = {}", first) : fmt::format("t = {} .. {}", first, last - 1);
}

/// One transform and where its attention falls.
struct Column {
  std::string name;
  AttentionOptions options;
  verify::DecadeTable table;
};

/// The tables of these columns, which differ in their transform only.
void fill(std::span<Column> columns, const verify::LogitRows& rows, const AttentionShape& shape,
          std::int64_t first_query) {
  std::vector<AttentionOptions> options;
  for (const Column& column : columns) options.push_back(column.options);
  const auto tables = verify::attention_by_decade(rows, shape, options, first_query);
  for (std::size_t k = 0; k < columns.size(); ++k) columns[k].table = tables[k];
}

/// Beside each scale-invariant column the same on logits that were standardised by their own mean and deviation.
void add_calibrated(std::vector<Column>& columns, const verify::LogitRows& rows, const AttentionShape& shape,
                    std::int64_t first_query) {
  for (std::size_t k = 0; k < columns.size(); ++k) {
    if (!std::holds_alternative<ScaleInvariant>(columns[k].options.transform)) continue;
    Column calibrated{columns[k].name + ", calibrated", columns[k].options, {}};
    Calibration& c = calibrated.options.calibration;
    c.mean.values.clear();
    c.standard_deviation.values.clear();
    for (const verify::BaseLogits& head : columns[k].table.base_logits) {
      c.mean.values.push_back(head.mean);
      c.standard_deviation.values.push_back(head.standard_deviation);
    }
    AttentionProblem problem;
    problem.shape = shape;
    problem.options = calibrated.options;
    require(dispatch::validate_problem(problem));
    fill({&calibrated, 1}, rows, shape, first_query);
    columns.insert(columns.begin() + static_cast<std::ptrdiff_t>(++k), std::move(calibrated));
  }
}

void print_text(const std::vector<Column>& columns) {
  const verify::DecadeTable& first = columns.front().table;
  const std::int64_t sinks = columns.front().options.n_sink;
  const auto row = [&](const std::string& label, auto cell) {
    fmt::print("{:<20}", label);
    for (const Column& column : columns) fmt::print("  {:>26}", cell(column.table));
    fmt::print("\n");
  };
  fmt::print("{:<20}", "");
  for (const Column& column : columns) fmt::print("  {:>26}", column.name);
  fmt::print("\n{:<20}", "distance in tokens");
  for (std::size_t k = 0; k < columns.size(); ++k) fmt::print("  {:>12}  {:>12}", "attention", "entropy");
  fmt::print("\n");
  for (std::size_t k = 0; k < first.decades.size(); ++k) {
    const verify::Decade& decade = first.decades[k];
    row(range_text(decade.first, decade.last), [k](const verify::DecadeTable& table) {
      return fmt::format("{:>10.2f} %  {:>7.2f} nats", 100 * table.decades[k].mass, table.decades[k].entropy);
    });
  }
  if (sinks > 0) {
    row(sinks == 1 ? "sink (key 0)" : fmt::format("sinks (keys 0 .. {})", sinks - 1),
        [](const verify::DecadeTable& table) { return fmt::format("{:>10.2f} %  {:>12}", 100 * table.sink_mass, ""); });
  }
  row("all",
      [](const verify::DecadeTable& table) { return fmt::format("{:>10.2f} %  {:>7.2f} nats", 100.0, table.entropy); });

  if (first.skipped > 0) {
    fmt::print("\n{} of {} rows left out: NaN or infinity among their logits\n", first.skipped,
               first.skipped + first.rows);
  }
  const auto& heads = first.base_logits;
  const auto [low_mean, high_mean] =
      std::minmax_element(heads.begin(), heads.end(), [](auto& a, auto& b) { return a.mean < b.mean; });
  const auto [low_sd, high_sd] = std::minmax_element(
      heads.begin(), heads.end(), [](auto& a, auto& b) { return a.standard_deviation < b.standard_deviation; });
  fmt::print(
      "\nbase logits by head{}: mean {:.2f} .. {:.2f}, standard deviation {:.2f} .. {:.2f} (Eq. 16 takes them as 0 and "
      "1)\n",
      sinks > 0 ? ", sinks left out" : "", low_mean->mean, high_mean->mean, low_sd->standard_deviation,
      high_sd->standard_deviation);
}

void print_json(const std::vector<Column>& columns) {
  auto document = nlohmann::ordered_json::array();
  for (const auto& [name, options, table] : columns) {
    auto decades = nlohmann::ordered_json::array();
    for (const verify::Decade& decade : table.decades) {
      decades.push_back(
          {{"first", decade.first}, {"last", decade.last - 1}, {"mass", decade.mass}, {"entropy", decade.entropy}});
    }
    auto heads = nlohmann::ordered_json::array();
    for (const verify::BaseLogits& head : table.base_logits) {
      heads.push_back({{"mean", head.mean}, {"standard_deviation", head.standard_deviation}});
    }
    document.push_back({{"transform", name},
                        {"rows", table.rows},
                        {"rows_left_out", table.skipped},
                        {"sink_mass", table.sink_mass},
                        {"entropy", table.entropy},
                        {"decades", decades},
                        {"base_logits", heads}});
  }
  fmt::print("{}\n", document.dump(2));
}

void run_decades(const DecadesArguments& arguments) {
  if (arguments.last_queries < 0)
    throw Failure(fmt::format("--last-queries = {}: expected at least 1", arguments.last_queries));
  const io::Layout layout = arguments.problem.layout();
  const auto& names = arguments.problem.transform_names();
  if (arguments.calibrate && std::find(names.begin(), names.end(), "scale-invariant") == names.end())
    throw Failure("--calibrate belongs to --transform scale-invariant: none is given");
  std::vector<Column> columns;
  for (const AttentionOptions& options : arguments.problem.options()) {
    columns.push_back({arguments.problem.transform_names()[columns.size()], options, {}});
  }
  // Everything here is computed in float64.
  io::Tensor query = require(io::convert(require(io::load(arguments.query)), DType::float64));
  io::Tensor key = require(io::convert(require(io::load(arguments.key)), DType::float64));
  AttentionTensors tensors;
  tensors.query = view_of(query, "--query", layout);
  tensors.key = view_of(key, "--key", layout);
  if (arguments.encoding.rotates()) {
    arguments.encoding.encode(query, key, layout, columns.front().options.query_offset);
  }
  tensors.value = tensors.key;  // nothing is asked about the values
  refuse_strangers(tensors.query, tensors.key);
  const std::int64_t query_len = tensors.query.shape[2];
  const std::int64_t wanted = arguments.last_queries > 0 ? arguments.last_queries : query_len;
  const std::int64_t first_query = std::max<std::int64_t>(query_len - wanted, 0);
  const AttentionProblem problem = problem_of(tensors, columns.front().options);
  for (const Column& column : columns) require(dispatch::validate_problem(problem_of(tensors, column.options)));
  const auto rows = verify::LogitRows::of_tensors(
      tensors.query, tensors.key,
      columns.front().options.softmax_scale.value_or(reference::default_softmax_scale<double>(problem.shape.head_dim)));
  fill(columns, rows, problem.shape, first_query);
  if (columns.front().table.rows == 0) throw Failure("no query sees a key: there is nothing to count");
  if (arguments.calibrate) add_calibrated(columns, rows, problem.shape, first_query);
  if (arguments.json) return print_json(columns);
  print_text(columns);
}

}  // namespace

void add_decades(CLI::App& app, int& /*exit_status*/) {
  auto* command =
      app.add_subcommand("decades", "How much attention falls at each decade of distance, with which entropy");
  const auto arguments = std::make_shared<DecadesArguments>();
  command->add_option("--query", arguments->query, "[batch, heads, len, dim], .npy or .safetensors:NAME")->required();
  command->add_option("--key", arguments->key, "as --query, with kv_heads dividing heads")->required();
  command->add_option("--last-queries", arguments->last_queries, "average over so many queries at the end [all]");
  arguments->problem.add_to(*command, true);
  command
      ->add_flag("--calibrate", arguments->calibrate,
                 "also scale-invariant on (S - mean) / sd, with the mean and sd of each head in these rows")
      ->excludes("--calibration")
      ->excludes("--calibration-sd");
  command->add_flag("--json", arguments->json, "machine-readable output");
  arguments->encoding.add_to(*command);
  command->callback([arguments] { run_decades(*arguments); });
}

}  // namespace siattn::tools
