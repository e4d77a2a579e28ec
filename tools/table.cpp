// SPDX-License-Identifier: Apache-2.0
// siattn table: a_t and m_t of Eq. 16 for t = 0 .. N - 1.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>

#include "dispatch/validate.hpp"
#include "reference/transform.hpp"
#include "tools/command.hpp"
#include "tools/io/save.hpp"
#include "tools/problem_arguments.hpp"

namespace siattn::tools {
namespace {

constexpr std::int64_t kMostDistances = std::int64_t{1} << 31;

struct TableArguments {
  ScaleInvariant transform;
  double tau = 10;
  std::int64_t length = 0;
  std::string out;
  std::string dtype = "f64";
};

template <class T>
void fill(io::Tensor& table, const reference::Transform<double>& transform, std::int64_t length) {
  const std::span<T> values = table.values<T>();
  for (std::int64_t t = 0; t < length; ++t) {
    values[static_cast<std::size_t>(t)] = static_cast<T>(transform.scale(0, t));
    values[static_cast<std::size_t>(length + t)] = static_cast<T>(transform.shift(0, t));
  }
}

void run_table(const TableArguments& arguments) {
  ScaleInvariant transform = arguments.transform;
  transform.tau = arguments.tau;
  AttentionProblem problem;
  problem.shape = {1, 1, 1, 1, 1, 1, 1};
  problem.options.transform = transform;
  if (arguments.length < 1 || arguments.length > kMostDistances) {
    throw Failure(fmt::format("--length = {}: expected 1 .. {}", arguments.length, kMostDistances));
  }
  require(dispatch::validate_problem(problem));

  auto table = require(io::Tensor::zeros(dtype_from(arguments.dtype), {2, arguments.length}));
  const reference::Transform<double> equations(problem.options, problem.shape);
  if (table.dtype() == DType::float32) {
    fill<float>(table, equations, arguments.length);
  } else {
    fill<double>(table, equations, arguments.length);
  }
  require(io::save(arguments.out, table));
}

}  // namespace

void add_table(CLI::App& app, int& /*exit_status*/) {
  auto* command = app.add_subcommand("table", "Write a_t and m_t of Eq. 16, t = 0 .. N - 1, as rows of a [2, N] array");
  const auto arguments = std::make_shared<TableArguments>();
  command->add_option("--tau", arguments->tau, "length in tokens that counts as local")->capture_default_str();
  command->add_option("--alpha", arguments->transform.alpha, "E[exp L_t] = alpha / (t/tau + 1) [e^(1/2)]");
  command->add_option("--beta", arguments->transform.beta, "E[L_t exp L_t] = beta / (t/tau + 1) [e^(1/2)]");
  command->add_option("--length", arguments->length, "N, number of distances")->required();
  command->add_option("--out", arguments->out, "file, .npy or .safetensors:NAME")->required();
  command->add_option("--dtype", arguments->dtype, "f32 or f64, rounded once")
      ->check(CLI::IsMember({"f32", "f64"}))
      ->capture_default_str();
  command->callback([arguments] { run_table(*arguments); });
}

}  // namespace siattn::tools
