// SPDX-License-Identifier: Apache-2.0
// How the rows of a suite are measured.
#ifndef SIATTN_BENCH_SUITE_ROWS_HPP
#define SIATTN_BENCH_SUITE_ROWS_HPP

#include <memory>
#include <string>
#include <vector>

#include "bench/ceilings.hpp"
#include "bench/measure.hpp"
#include "bench/suite.hpp"
#include "bench/workload.hpp"

namespace siattn::bench {

/// One sequence.
AttentionProblem prefill(DType dtype, std::int64_t head_dim, std::int64_t query_len, std::int64_t kv_len,
                         std::int64_t query_heads = 8, std::int64_t kv_heads = 8);

/// The backend with the widest vectors that runs here; empty: none with a known peak.
std::string best_cpu_backend();

/// Measures rows one after the other; after the first error nothing more.
class Suite {
 public:
  explicit Suite(const SuiteOptions& options) : options_(options) {}

  std::vector<SuiteRow> rows;
  Status status;

  /// Says that this row comes next; false: it is not asked for, or there was an error.
  bool wants(const std::string& name) const;

  /// Share of a peak that a workload reaches.
  void share_of_peak(const std::string& name, const WorkloadSpec& spec, const Peak* peak, double accept, double aim);
  /// Rate of `spec` over that of `base`, both in FLOPs on visible pairs.
  void times(const std::string& name, const WorkloadSpec& spec, const WorkloadSpec& base, double accept, double aim);
  /// The same in bytes of K and V.
  void times_by_bytes(const std::string& name, const WorkloadSpec& spec, const WorkloadSpec& base, double accept,
                      double aim);
  /// Share of the rate at which the same memory can be read.
  void share_of_read(const std::string& name, const WorkloadSpec& spec, double accept, double aim);
  /// Bytes of K and V a second.
  void read_rate(const std::string& name, const WorkloadSpec& spec, double accept, double aim);
  void workspace(const std::string& name, const WorkloadSpec& spec, double accept, double aim);
  /// Time of one call over that of another.
  void time_against(const std::string& name, const std::function<void()>& call, const std::function<void()>& base,
                    double accept, double aim);
  /// Microseconds of one call.
  void microseconds(const std::string& name, const std::function<void()>& call, double accept, double aim);
  void skip(const std::string& name, double accept, double aim, const std::string& why);

 private:
  static Subject subject(const Workload& workload, double work);
  /// Timings of plain reads of K and V, and of the workload, both in bytes of these; empty after an error.
  std::vector<Timings> beside_plain_reads(const WorkloadSpec& spec);
  /// The workload, checked; nullptr after an error.
  std::unique_ptr<Workload> make(const WorkloadSpec& spec);

  const SuiteOptions& options_;
};

}  // namespace siattn::bench

#endif  // SIATTN_BENCH_SUITE_ROWS_HPP
