// SPDX-License-Identifier: Apache-2.0
// siattn decades: how much attention falls at each decade of distance, and with which entropy, for one or more
// transforms side by side.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "dispatch/validate.hpp"
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
  bool json = false;
  ProblemArguments problem;
  EncodingArguments encoding;
};

std::string range_text(std::int64_t first, std::int64_t last) {
  return last - first == 1 ? fmt::format("t = {}", first) : fmt::format("t = {} .. {}", first, last - 1);
}

void print_text(const std::vector<std::string>& names, const std::vector<verify::DecadeTable>& tables,
                std::int64_t sinks) {
  const auto row = [&](const std::string& label, auto cell) {
    fmt::print("{:<20}", label);
    for (const auto& table : tables) fmt::print("  {:>26}", cell(table));
    fmt::print("\n");
  };
  fmt::print("{:<20}", "");
  for (const std::string& name : names) fmt::print("  {:>26}", name);
  fmt::print("\n{:<20}", "distance in tokens");
  for (std::size_t k = 0; k < names.size(); ++k) fmt::print("  {:>12}  {:>12}", "attention", "entropy");
  fmt::print("\n");
  for (std::size_t k = 0; k < tables.front().decades.size(); ++k) {
    const verify::Decade& decade = tables.front().decades[k];
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

  if (tables.front().skipped > 0) {
    fmt::print("\n{} of {} rows left out: NaN or infinity among their logits\n", tables.front().skipped,
               tables.front().skipped + tables.front().rows);
  }
  const auto& heads = tables.front().base_logits;
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

void print_json(const std::vector<std::string>& names, const std::vector<verify::DecadeTable>& tables) {
  auto document = nlohmann::ordered_json::array();
  for (std::size_t k = 0; k < tables.size(); ++k) {
    auto decades = nlohmann::ordered_json::array();
    for (const verify::Decade& decade : tables[k].decades) {
      decades.push_back(
          {{"first", decade.first}, {"last", decade.last - 1}, {"mass", decade.mass}, {"entropy", decade.entropy}});
    }
    auto heads = nlohmann::ordered_json::array();
    for (const verify::BaseLogits& head : tables[k].base_logits) {
      heads.push_back({{"mean", head.mean}, {"standard_deviation", head.standard_deviation}});
    }
    document.push_back({{"transform", names[k]},
                        {"rows", tables[k].rows},
                        {"rows_left_out", tables[k].skipped},
                        {"sink_mass", tables[k].sink_mass},
                        {"entropy", tables[k].entropy},
                        {"decades", decades},
                        {"base_logits", heads}});
  }
  fmt::print("{}\n", document.dump(2));
}

void run_decades(const DecadesArguments& arguments) {
  if (arguments.last_queries < 0)
    throw Failure(fmt::format("--last-queries = {}: expected at least 1", arguments.last_queries));
  const io::Layout layout = arguments.problem.layout();
  const std::vector<AttentionOptions> options_by_transform = arguments.problem.options();
  // Everything here is computed in float64.
  io::Tensor query = require(io::convert(require(io::load(arguments.query)), DType::float64));
  io::Tensor key = require(io::convert(require(io::load(arguments.key)), DType::float64));
  AttentionTensors tensors;
  tensors.query = view_of(query, "--query", layout);
  tensors.key = view_of(key, "--key", layout);
  if (arguments.encoding.rotates()) {
    arguments.encoding.encode(query, key, layout, options_by_transform.front().query_offset);
  }
  tensors.value = tensors.key;  // nothing is asked about the values
  if (tensors.query.shape[0] != tensors.key.shape[0] || tensors.query.shape[3] != tensors.key.shape[3]) {
    throw Failure(fmt::format("--query and --key differ in batch ({}, {}) or head_dim ({}, {})", tensors.query.shape[0],
                              tensors.key.shape[0], tensors.query.shape[3], tensors.key.shape[3]));
  }
  const std::int64_t query_len = tensors.query.shape[2];
  const std::int64_t wanted = arguments.last_queries > 0 ? arguments.last_queries : query_len;
  std::vector<verify::DecadeTable> tables;
  for (const AttentionOptions& options : options_by_transform) {
    const AttentionProblem problem = problem_of(tensors, options);
    require(dispatch::validate_problem(problem));
    tables.push_back(verify::attention_by_decade(problem, tensors, std::max<std::int64_t>(query_len - wanted, 0)));
    if (tables.back().rows == 0) throw Failure("no query sees a key: there is nothing to count");
  }
  const auto& names = arguments.problem.transform_names();
  if (arguments.json) return print_json(names, tables);
  print_text(names, tables, options_by_transform.front().n_sink);
}

}  // namespace

void add_decades(CLI::App& app, int& /*exit_status*/) {
  auto* command =
      app.add_subcommand("decades", "How much attention falls at each decade of distance, with which entropy");
  const auto arguments = std::make_shared<DecadesArguments>();
  command->add_option("--query", arguments->query, "[batch, heads, len, dim], .npy or .safetensors:NAME")->required();
  command->add_option("--key", arguments->key, "as --query, with kv_heads dividing heads")->required();
  command->add_option("--last-queries", arguments->last_queries, "average over so many queries at the end [all]");
  command->add_flag("--json", arguments->json, "machine-readable output");
  arguments->problem.add_to(*command, true);
  arguments->encoding.add_to(*command);
  command->callback([arguments] { run_decades(*arguments); });
}

}  // namespace siattn::tools
