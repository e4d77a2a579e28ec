// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_CONFORM_HPP
#define SIATTN_VERIFY_CONFORM_HPP

#include <functional>
#include <string>
#include <vector>

#include "verify/cases.hpp"
#include "verify/compare.hpp"
#include "verify/report.hpp"

/// Does every backend compute the function of the reference? Each available backend, in each type that it supports,
/// over the designed cases, elementwise within the error bound.
namespace siattn::verify {

struct ConformOptions {
  bool quick = false;
  std::string backend = "all";  ///< a name, a family, or "all" that are available
  std::string dtype;            ///< "f32", ...; empty: every type
  std::string only;             ///< cases whose name starts with this; empty: every case
  bool fail_fast = false;       ///< end with the first case that fails
};

/// One backend and type on one case.
struct ConformRun {
  std::string backend;
  std::string dtype;
  std::string feature;
  std::string name;  ///< of the case
  Status status;     ///< of planning and running
  Comparison comparison;
  bool intact = true;     ///< nothing outside the outputs was written
  bool left_out = false;  ///< no address space for a far case: not run
  double seconds = 0;

  bool good() const noexcept { return status.ok() && comparison.good() && intact; }
};

struct ConformProgress {
  std::size_t done;
  std::size_t count;
  const ConformRun* run;
};

/// The backends that these options name. An unknown name, or one that is not available, is an error.
Result<std::vector<const Backend*>> backends_of(const ConformOptions& options);

/// Every run, in a fixed order.
std::vector<ConformRun> run_conformance(std::span<const Backend* const> backends, const ConformOptions& options,
                                        const std::function<void(const ConformProgress&)>& progress = {});

/// A matrix: a row for each backend and type, a column for each feature, in it the largest error / bound; below it the
/// worst case of each row, and each failure with the command that reproduces it.
std::string conform_text(const std::vector<ConformRun>& runs);

/// One check for each backend, type and feature, for json_report() and junit_report().
std::vector<CheckResult> conform_checks(const std::vector<ConformRun>& runs);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_CONFORM_HPP
