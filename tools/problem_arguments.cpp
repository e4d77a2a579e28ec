// SPDX-License-Identifier: Apache-2.0
#include "tools/problem_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/calibration.hpp"
#include "tools/command.hpp"

namespace siattn::tools {
namespace {

const std::vector<std::string> kTransforms{"scale-invariant", "none", "logn", "ssmax", "infoscale", "alibi"};

bool is_logn(const std::string& name) { return name == "logn" || name == "ssmax"; }

}  // namespace

void ProblemArguments::add_to(CLI::App& command, bool several) {
  auto* transform =
      command
          .add_option("--transform", transforms_,
                      "map of the logits: scale-invariant (Eq. 16), none, logn (= ssmax), infoscale, alibi")
          ->check(CLI::IsMember(kTransforms))
          ->capture_default_str();
  if (!several) transform->expected(1);
  const auto per_head = [&command](const char* name, std::vector<double>& values, const char* text) {
    command.add_option(name, values, text)->delimiter(',')->allow_extra_args(false);
  };
  per_head("--tau", tau_,
           "scale-invariant: length in tokens that counts as local; one, or one per head (T1,T2,...) [10]");
  command.add_option("--alpha", alpha_, "scale-invariant: E[exp L_t] = alpha / (t/tau + 1) [e^(1/2)]");
  command.add_option("--beta", beta_, "scale-invariant: E[L_t exp L_t] = beta / (t/tau + 1) [e^(1/2)]");
  per_head("--logn-scale", logn_scale_, "logn: s in L = s log(n) S; one, or one per head [0.4]");
  command.add_option("--train-length", train_length_, "infoscale: length that the model was trained at [4096]");
  auto* calibration = command.add_option("--calibration", calibration_,
                                         "file of siattn gaussian: (S - mean) / sd of each head before the transform");
  command.add_option("--calibration-sd", calibration_sd_, "the same file, its standard deviations only: S / sd")
      ->excludes(calibration);
  command.add_option("--sinks", sinks_, "so many keys from position 0 on are left untransformed")
      ->capture_default_str();
  command.add_option("--mask", mask_, "causal: no key after the query; bidirectional: all, by |distance|")
      ->check(CLI::IsMember({"causal", "bidirectional"}))
      ->capture_default_str();
  command.add_option("--window", window_, "only keys at a distance below this");
  command.add_option("--query-offset", query_offset_, "position of the first query [kv_len - query_len]");
  command.add_option("--softmax-scale", softmax_scale_, "factor of <q, k> [1 / sqrt(head_dim)]");
  command.add_option("--layout", layout_, "axes of the files: batch, heads, sequence, dim, or sequence before heads")
      ->check(CLI::IsMember({"bhsd", "bshd"}))
      ->capture_default_str();
}

LogitTransform ProblemArguments::transform(const std::string& name) const {
  if (name == "scale-invariant") {
    ScaleInvariant t;
    if (!tau_.empty()) t.tau = tau_;
    if (alpha_) t.alpha = *alpha_;
    if (beta_) t.beta = *beta_;
    return t;
  }
  if (is_logn(name)) return logn_scale_.empty() ? LogN{} : LogN{logn_scale_};
  if (name == "infoscale") return train_length_ ? InfoScale{*train_length_} : InfoScale{};
  if (name == "alibi") return Alibi{};
  return NoTransform{};
}

std::vector<AttentionOptions> ProblemArguments::options() const {
  const auto asked_for = [this](auto predicate) {
    return std::any_of(transforms_.begin(), transforms_.end(), predicate);
  };
  const bool scale_invariant = asked_for([](const std::string& name) { return name == "scale-invariant"; });
  const std::string given = fmt::format("{}", fmt::join(transforms_, ", "));
  if (!logn_scale_.empty() && !asked_for(is_logn)) {
    throw Failure(scale_invariant
                      ? "--logn-scale with --transform scale-invariant: both set a length temperature; choose one"
                      : "--logn-scale belongs to --transform logn: got --transform " + given);
  }
  if (!scale_invariant && (!tau_.empty() || alpha_ || beta_)) {
    throw Failure(fmt::format("--{} belongs to --transform scale-invariant: got --transform {}",
                              !tau_.empty() ? "tau" : (alpha_ ? "alpha" : "beta"), given));
  }
  if (train_length_ && !asked_for([](const std::string& name) { return name == "infoscale"; })) {
    throw Failure("--train-length belongs to --transform infoscale: got --transform " + given);
  }

  AttentionOptions common;
  if (!calibration_.empty()) common.calibration = load_calibration("--calibration", calibration_);
  if (!calibration_sd_.empty()) {
    common.calibration = load_calibration("--calibration-sd", calibration_sd_);
    common.calibration.mean = 0.0;
  }
  common.mask = mask_ == "causal" ? Mask::causal : Mask::bidirectional;
  common.window = window_;
  common.query_offset = query_offset_;
  common.softmax_scale = softmax_scale_;
  common.n_sink = sinks_;
  std::vector<AttentionOptions> result;
  for (const std::string& name : transforms_) {
    result.push_back(common);
    result.back().transform = transform(name);
  }
  return result;
}

void refuse_strangers(const TensorView& query, const TensorView& key) {
  if (query.shape[0] == key.shape[0] && query.shape[3] == key.shape[3]) return;
  throw Failure(fmt::format("--query and --key differ in batch ({}, {}) or head_dim ({}, {})", query.shape[0],
                            key.shape[0], query.shape[3], key.shape[3]));
}

TensorView view_of(const io::Tensor& tensor, const char* option, io::Layout layout) {
  const auto view = io::as_4d(tensor, layout);
  if (!view) throw Failure(fmt::format("{}: {}", option, view.status().message()));
  return *view;
}

DType dtype_from(const std::string& name) {
  for (const DType dtype : {DType::bfloat16, DType::float16, DType::float64}) {
    if (name == name_of(dtype)) return dtype;
  }
  return DType::float32;
}

}  // namespace siattn::tools
