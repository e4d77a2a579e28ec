// SPDX-License-Identifier: Apache-2.0
// The alarm: error / bound of every backend, type and feature against the figures on record. A result may lie within
// the bound and yet be ten times worse than it was.
//
// The record, data/conform_figures.json, is of the full suite on x86-64 (which has all the quick cases). It is written by
//
//     siattn conform --backend all --json | tests/data/record_figures.py > tests/data/conform_figures.json
#ifndef SIATTN_TESTS_CONFORM_FIGURES_HPP
#define SIATTN_TESTS_CONFORM_FIGURES_HPP

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support.hpp"
#include "verify/conform.hpp"

namespace siattn::test {

/// "cpu-avx2/bf16/sizes" -> largest error / bound
using Figures = std::map<std::string, double>;

inline Figures recorded_figures() {
  std::ifstream file(SIATTN_SOURCE_DIR "/tests/data/conform_figures.json");
  return nlohmann::json::parse(file).get<Figures>();
}

/// A line for each figure that is more than four times the one on record, or has none beside it.
inline std::vector<std::string> risen_figures(const Figures& figures, const Figures& record) {
  std::vector<std::string> risen;
  for (const auto& [id, figure] : figures) {
    const auto recorded = record.find(id);
    if (recorded == record.end()) {
      risen.push_back(fmt::format("{}: {:.4f}, and none on record", id, figure));
    } else if (!(figure <= 4 * recorded->second)) {
      risen.push_back(fmt::format("{}: {:.4f}, on record {:.4f}", id, figure, recorded->second));
    }
  }
  return risen;
}

/// Backends that have no figure on record at all (of another architecture, or new) are left out, and named.
inline void expect_figures_near_record(bool quick) {
  const Figures record = recorded_figures();
  std::vector<const Backend*> measured;
  for (const Backend* backend : backends()) {
    const auto first = record.lower_bound(std::string(backend->name()) + "/");
    const bool on_record = first != record.end() && first->first.starts_with(std::string(backend->name()) + "/");
    if (!backend->available()) continue;
    if (on_record) {
      measured.push_back(backend);
    } else {
      fmt::print("{}: no figures on record\n", backend->name());
    }
  }
  if (measured.empty()) GTEST_SKIP() << "no figures on record for any backend that is available";
  verify::ConformOptions options;
  options.quick = quick;
  Figures figures;
  for (const auto& check : verify::conform_checks(verify::run_conformance(measured, options))) {
    figures[check.id] = check.figure;
  }
  for (const std::string& line : risen_figures(figures, record)) ADD_FAILURE() << line;
}

}  // namespace siattn::test

#endif  // SIATTN_TESTS_CONFORM_FIGURES_HPP
