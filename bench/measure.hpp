// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_BENCH_MEASURE_HPP
#define SIATTN_BENCH_MEASURE_HPP

#include <functional>
#include <string>
#include <vector>

namespace siattn::bench {

/// Something to time.
struct Subject {
  std::string name;
  double work;                ///< FLOPs or bytes of one call
  std::function<void()> run;  ///< one call
  std::function<void()> finish = {};  ///< waits for the work of calls that return before it is done; empty: none do
};

/// The calls of one subject: one figure a round.
struct Timings {
  std::vector<double> seconds;  ///< of one call
  double work = 0;

  double median_seconds() const;
  double rate() const { return work / median_seconds(); }
  /// Half the distance between the quartiles over the median.
  double spread() const;
};

/// Runs the subjects in turn, A B C A B C ..., each for at least `least_seconds` a round, after one round that does not
/// count: so that what the machine does in the meantime meets all of them.
std::vector<Timings> measure(const std::vector<Subject>& subjects, int rounds, double least_seconds);

/// The rate of `a` over that of `b`, round by round; the median of these.
double ratio_of_rates(const Timings& a, const Timings& b);

}  // namespace siattn::bench

#endif  // SIATTN_BENCH_MEASURE_HPP
