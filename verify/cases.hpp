// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_CASES_HPP
#define SIATTN_VERIFY_CASES_HPP

#include <functional>
#include <string>
#include <vector>

#include "verify/problem_data.hpp"

namespace siattn::verify {

/// One attention problem with its data, for any backend and type.
///
/// Random Gaussian data of ordinary length misses whole classes of mistakes (a dropped oldest key carries next to no
/// weight; a maximum that starts at 0 never shows), so the designed set has directed probes beside it: see cases.cpp.
/// How to add one: a line in the function of its feature there.
struct Case {
  std::string feature;  ///< what it is about: "sizes", "gqa", "probes", ...
  std::string name;     ///< unique: "sizes/causal-33"
  AttentionProblem problem;
  Placement placement;
  bool far = false;  ///< rows lie so far apart that offsets exceed 32 bits, see far_tensors.hpp
  int threads = 0;   ///< 0: as many as the backend would take
  Batching batching;
  std::vector<std::int64_t> query_lengths, kv_lengths;
  std::function<void(ProblemData&)> fill;  ///< empty: Gaussian, with a seed from the name
};

/// The designed set, in a fixed order. `quick`: a part of it that takes seconds.
std::vector<Case> conformance_cases(bool quick);

/// The case's tensors in this type, filled, with outputs cleared to NaN.
ProblemData data_of(const Case& test_case, DType dtype);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_CASES_HPP
