// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_TOOLS_PROBLEM_ARGUMENTS_HPP
#define SIATTN_TOOLS_PROBLEM_ARGUMENTS_HPP

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include <siattn/attention.hpp>

#include "tools/io/tensor.hpp"

namespace siattn::tools {

/// The options that say what attention is computed; the same for every subcommand.
class ProblemArguments {
 public:
  /// `several`: --transform may be given more than once.
  void add_to(CLI::App& command, bool several = false);

  /// One per --transform. Fails where an option is given that the transform does not have.
  std::vector<AttentionOptions> options() const;
  const std::vector<std::string>& transform_names() const { return transforms_; }
  io::Layout layout() const { return layout_ == "bshd" ? io::Layout::bshd : io::Layout::bhsd; }

 private:
  LogitTransform transform(const std::string& name) const;

  std::vector<std::string> transforms_{"scale-invariant"};
  std::vector<double> tau_, logn_scale_;
  std::optional<double> alpha_, beta_, train_length_, softmax_scale_;
  std::optional<std::int64_t> window_, query_offset_;
  std::int64_t sinks_ = 0;
  std::string calibration_, calibration_sd_;
  std::string mask_ = "causal";
  std::string layout_ = "bhsd";
};

/// Fails where queries and keys differ in batch or head_dim.
void refuse_strangers(const TensorView& query, const TensorView& key);

/// The tensor as [batch, heads, len, dim]; the failure names the option.
TensorView view_of(const io::Tensor& tensor, const char* option, io::Layout layout);

/// "f32" and so on; checked by the command line.
DType dtype_from(const std::string& name);

}  // namespace siattn::tools

#endif  // SIATTN_TOOLS_PROBLEM_ARGUMENTS_HPP
