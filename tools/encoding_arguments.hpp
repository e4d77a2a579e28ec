// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_TOOLS_ENCODING_ARGUMENTS_HPP
#define SIATTN_TOOLS_ENCODING_ARGUMENTS_HPP

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include <siattn/position_encoding.hpp>

#include "tools/io/tensor.hpp"

namespace siattn::tools {

/// The options that say how query and key are rotated before attention. For files that hold them as the projections
/// left them; the default leaves them alone.
class EncodingArguments {
 public:
  void add_to(CLI::App& command);

  /// Whether there is anything to do. Fails where an option is given that the encoding does not have.
  bool rotates() const;

  /// Rotates query (from position query_offset on; absent: kv_len - query_len) and key (from 0 on) in place.
  void encode(io::Tensor& query, io::Tensor& key, io::Layout layout, std::optional<std::int64_t> query_offset) const;

 private:
  PositionEncoding encoding() const;
  void refuse_strangers() const;

  std::string name_ = "none";
  std::string pair_layout_ = "half";
  std::optional<double> base_, fraction_, factor_;
  std::optional<std::int64_t> rotary_dim_, trained_, length_;
};

}  // namespace siattn::tools

#endif  // SIATTN_TOOLS_ENCODING_ARGUMENTS_HPP
