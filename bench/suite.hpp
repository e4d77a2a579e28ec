// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_BENCH_SUITE_HPP
#define SIATTN_BENCH_SUITE_HPP

#include <functional>
#include <string>
#include <vector>

#include <siattn/status.hpp>

namespace siattn::bench {

/// What a row of the acceptance suite is measured in.
enum class Unit { share, times, gigabytes_per_second, mebibytes, microseconds };

/// One demand on the speed of the CPU backends: a ratio of two rates taken in turn, or a plain figure.
struct SuiteRow {
  std::string name;
  Unit unit = Unit::share;
  double reached = 0;
  double spread = 0;  ///< half the distance between the quartiles over the median
  double accept = 0;
  double aim = 0;
  bool at_most = false;  ///< the smaller the better
  std::string note;      ///< the two rates, or why the row was left out
  bool skipped = false;

  bool met() const noexcept { return skipped || (at_most ? reached <= accept : reached >= accept); }
};

struct SuiteOptions {
  int rounds = 9;
  std::string only;  ///< rows whose name begins with this; empty: all
  std::function<void(const std::string& name)> progress;
};

/// Every row. Each workload is compared with the reference before it is timed: a wrong result is an error.
Result<std::vector<SuiteRow>> run_accept_suite(const SuiteOptions& options);
/// The same for what a server does: paged caches, ragged batches, appending, planning.
Result<std::vector<SuiteRow>> run_serving_suite(const SuiteOptions& options);

/// "84.1 %", "1.32 x", "13.2 GB/s", "2.1 MiB".
std::string figure_text(Unit unit, double figure);

/// A table for a terminal: row, reached, accept, aim, whether it is met.
std::string suite_text(const std::vector<SuiteRow>& rows);
/// The same as JSON: {"rows": [{the fields of SuiteRow, and "verdict"}]}.
std::string suite_json(const std::vector<SuiteRow>& rows);

}  // namespace siattn::bench

#endif  // SIATTN_BENCH_SUITE_HPP
