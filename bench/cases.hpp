// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_BENCH_CASES_HPP
#define SIATTN_BENCH_CASES_HPP

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure.hpp"
#include "bench/workload.hpp"

/// The benchmark that people run: some shapes of prefill and decode, each against the machine's ceiling, against the
/// same kernel without the transform, against a full matrix of scores, and against one thread.
namespace siattn::bench {

struct CaseOptions {
  std::string backend;  ///< a name or a family; empty: the best available
  std::string phase;    ///< "prefill" or "decode"; empty: both
  std::string dtype;    ///< "f32", "bf16", "f16"; empty: all three
  std::optional<AttentionShape> shape;  ///< this one in place of the listed ones
  std::string only;     ///< cases whose name begins with this; empty: all
  int threads = 0;      ///< 0: as many as a plan would use
  int rounds = 9;
  std::function<void(const std::string& name)> progress;
};

struct CaseResult {
  std::string name;  ///< "prefill/f32/512x4096/heads-8-8/dim-128"
  std::string backend;
  int threads = 1;
  Timings timings;              ///< work: FLOPs on visible pairs when prefilling, bytes of K and V when decoding
  bool by_bytes = false;        ///< what timings.work counts
  std::string ceiling;          ///< what the machine can do at most, in words
  double ceiling_rate = 0;      ///< 0: not known
  double share = 0;             ///< of the ceiling, by rounds
  double against_none = 0;      ///< rate over that of the same problem with NoTransform
  double against_full = 0;      ///< rate over that of two oneDNN products with all scores in between; 0: not measured
  double against_one = 0;       ///< rate over that of one thread; 0: this is one thread
  double error_over_bound = 0;  ///< of the rows that were compared with the reference before the timing
};

/// Every case that these options name. Each is compared with the reference first: a wrong result is an error.
Result<std::vector<CaseResult>> run_cases(const CaseOptions& options);

/// A table for a terminal.
std::string cases_text(const std::vector<CaseResult>& results);

/// The format that Google Benchmark writes, which its tools read: one entry for each case and round.
std::string cases_json(const std::vector<CaseResult>& results);

}  // namespace siattn::bench

#endif  // SIATTN_BENCH_CASES_HPP
