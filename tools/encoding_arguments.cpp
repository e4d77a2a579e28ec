// SPDX-License-Identifier: Apache-2.0
#include "tools/encoding_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tools/command.hpp"

namespace siattn::tools {
namespace {

/// The encodings and which options each has.
struct Known {
  const char* name;
  std::vector<std::string> options;
};

const std::vector<Known>& known_encodings() {
  static const std::vector<Known> list{
      {"none", {}},
      {"rope", {"--rope-base", "--rope-layout"}},
      {"partial-rope", {"--rope-base", "--rope-layout", "--rotary-dim"}},
      {"p-rope", {"--rope-base", "--rope-layout", "--rope-fraction"}},
      {"half-truncated-rope", {"--rope-base", "--rope-layout"}},
      {"ntk", {"--rope-base", "--rope-layout", "--rope-factor"}},
      {"dynamic-ntk", {"--rope-base", "--rope-layout", "--rope-trained", "--rope-length"}},
      {"yarn", {"--rope-base", "--rope-layout", "--rope-factor", "--rope-trained"}}};
  return list;
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const Known& known : known_encodings()) result.emplace_back(known.name);
  return result;
}

}  // namespace

void EncodingArguments::add_to(CLI::App& command) {
  command.add_option("--encoding", name_, "rotate query and key first (files as the projections left them)")
      ->check(CLI::IsMember(names()))
      ->capture_default_str();
  command.add_option("--rope-base", base_, "base of the frequencies [10000; half-truncated-rope 1024]");
  command.add_option("--rope-layout", pair_layout_, "pairs (i, i + d/2) or (2i, 2i + 1)")
      ->check(CLI::IsMember({"half", "interleaved"}))
      ->capture_default_str();
  command.add_option("--rope-fraction", fraction_, "p-rope: share of the highest frequencies that is kept [0.5]");
  command.add_option("--rotary-dim", rotary_dim_, "partial-rope: so many dimensions turn");
  command.add_option("--rope-factor", factor_, "ntk, yarn: length wanted over length trained [1]");
  command.add_option("--rope-trained", trained_, "dynamic-ntk, yarn: length trained, in tokens [4096]");
  command.add_option("--rope-length", length_, "dynamic-ntk: length of the sequence, in tokens [number of keys]");
}

void EncodingArguments::refuse_strangers() const {
  const auto& list = known_encodings();
  const auto& known = *std::find_if(list.begin(), list.end(), [this](const Known& k) { return name_ == k.name; });
  const std::pair<const char*, bool> given[] = {
      {"--rope-base", base_.has_value()},         {"--rope-layout", pair_layout_ != "half"},
      {"--rope-fraction", fraction_.has_value()}, {"--rotary-dim", rotary_dim_.has_value()},
      {"--rope-factor", factor_.has_value()},     {"--rope-trained", trained_.has_value()},
      {"--rope-length", length_.has_value()}};
  for (const auto& [option, is_given] : given) {
    if (is_given && std::find(known.options.begin(), known.options.end(), option) == known.options.end()) {
      throw Failure(fmt::format("{} has no meaning with --encoding {}", option, name_));
    }
  }
  if (name_ == "partial-rope" && !rotary_dim_) throw Failure("--encoding partial-rope: --rotary-dim is required");
}

PositionEncoding EncodingArguments::encoding() const {
  const PairLayout layout = pair_layout_ == "half" ? PairLayout::half : PairLayout::interleaved;
  const double base = base_.value_or(10000);
  const double factor = factor_.value_or(1);
  if (name_ == "rope") return Rope{.base = base, .layout = layout};
  if (name_ == "partial-rope") return PartialRope{.rotary_dim = *rotary_dim_, .base = base, .layout = layout};
  if (name_ == "p-rope") return PRope{.p = fraction_.value_or(0.5), .base = base, .layout = layout};
  if (name_ == "half-truncated-rope")
    return HalfTruncatedRope{.effective_base = base_.value_or(1024), .layout = layout};
  if (name_ == "ntk") return NtkRope{.factor = factor, .base = base, .layout = layout};
  if (name_ == "dynamic-ntk") {
    return DynamicNtkRope{.train_length = trained_.value_or(4096), .length = *length_, .base = base, .layout = layout};
  }
  if (name_ == "yarn") {
    return Yarn{.factor = factor, .train_length = trained_.value_or(4096), .base = base, .layout = layout};
  }
  return NoEncoding{};
}

bool EncodingArguments::rotates() const {
  refuse_strangers();
  return name_ != "none";
}

void EncodingArguments::encode(io::Tensor& query, io::Tensor& key, io::Layout layout,
                               std::optional<std::int64_t> query_offset) const {
  const auto query_view = require(io::as_4d(query, layout));
  const auto key_view = require(io::as_4d(key, layout));
  const std::int64_t kv_len = key_view.shape[2];
  EncodingArguments complete = *this;
  if (!length_) complete.length_ = std::max<std::int64_t>(kv_len, 1);
  const PositionEncoding chosen = complete.encoding();
  require(apply(chosen, query_view, query_view, query_offset.value_or(kv_len - query_view.shape[2])));
  require(apply(chosen, key_view, key_view, 0));
}

}  // namespace siattn::tools
