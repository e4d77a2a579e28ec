// SPDX-License-Identifier: Apache-2.0
// What `siattn gaussian` found, written down.
#ifndef SIATTN_TOOLS_GAUSSIAN_REPORT_HPP
#define SIATTN_TOOLS_GAUSSIAN_REPORT_HPP

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "verify/decades.hpp"
#include "verify/gaussian.hpp"

namespace siattn::tools {

/// Where the attention of these logits falls under one transform.
struct TransformTable {
  std::string name;
  verify::DecadeTable table;
};

struct GaussianFindings {
  std::string source;  ///< the command's inputs, in words
  std::int64_t query_len = 0, kv_len = 0, n_sink = 0;
  verify::GaussianReport logits;
  std::vector<TransformTable> transforms;
};

/// For a terminal, at most 118 columns wide.
std::string gaussian_text(const GaussianFindings& findings);

/// Every number, those of the QQ plots too.
nlohmann::ordered_json gaussian_json(const GaussianFindings& findings);

/// One page without scripts or downloads: tables, QQ plots, moments by distance, decades.
std::string gaussian_html(const GaussianFindings& findings);

}  // namespace siattn::tools

#endif  // SIATTN_TOOLS_GAUSSIAN_REPORT_HPP
