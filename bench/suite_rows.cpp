// SPDX-License-Identifier: Apache-2.0
#include "bench/suite_rows.hpp"

#include <fmt/format.h>

namespace siattn::bench {
namespace {

constexpr double kLeastSeconds = 0.03;

}  // namespace

AttentionProblem prefill(DType dtype, std::int64_t head_dim, std::int64_t query_len, std::int64_t kv_len,
                         std::int64_t query_heads, std::int64_t kv_heads) {
  return {{1, query_heads, kv_heads, query_len, kv_len, head_dim, head_dim}, dtype, {}};
}

std::string best_cpu_backend() {
  for (const Backend* backend : backends()) {
    if (fma_peak(backend->name()) != nullptr && backend->available()) return std::string(backend->name());
  }
  return {};
}

bool Suite::wants(const std::string& name) const {
  const bool wanted = status.ok() && name.starts_with(options_.only);
  if (wanted && options_.progress) options_.progress(name);
  return wanted;
}

void Suite::share_of_peak(const std::string& name, const WorkloadSpec& spec, const Peak* peak, double accept,
                          double aim) {
  if (!wants(name)) return;
  if (peak == nullptr) return skip(name, accept, aim, "this processor has no such unit");
  const auto workload = make(spec);
  if (!workload) return;
  constexpr int kCalls = 40;
  const auto timings =
      measure({{"peak", kCalls * spec.threads * peak->flops_per_call, [&] { run_peak(*peak, kCalls, spec.threads); }},
               subject(*workload, workload->flops())},
              options_.rounds, kLeastSeconds);
  rows.push_back({name, Unit::share, ratio_of_rates(timings[1], timings[0]), timings[1].spread(), accept, aim, false,
                  fmt::format("{:.0f} of {:.0f} GFLOP/s", timings[1].rate() / 1e9, timings[0].rate() / 1e9), false});
}

void Suite::times(const std::string& name, const WorkloadSpec& spec, const WorkloadSpec& base, double accept,
                  double aim) {
  if (!wants(name)) return;
  const auto a = make(spec);
  const auto b = a ? make(base) : nullptr;
  if (!b) return;
  const auto timings = measure({subject(*a, a->flops()), subject(*b, b->flops())}, options_.rounds, kLeastSeconds);
  rows.push_back({name, Unit::times, ratio_of_rates(timings[0], timings[1]), timings[0].spread(), accept, aim, false,
                  fmt::format("{:.1f} against {:.1f} GFLOP/s", timings[0].rate() / 1e9, timings[1].rate() / 1e9),
                  false});
}

void Suite::times_by_bytes(const std::string& name, const WorkloadSpec& spec, const WorkloadSpec& base, double accept,
                           double aim) {
  if (!wants(name)) return;
  const auto a = make(spec);
  const auto b = a ? make(base) : nullptr;
  if (!b) return;
  const auto timings =
      measure({subject(*a, a->key_value_bytes()), subject(*b, b->key_value_bytes())}, options_.rounds, kLeastSeconds);
  rows.push_back({name, Unit::times, ratio_of_rates(timings[0], timings[1]), timings[0].spread(), accept, aim, false,
                  fmt::format("{:.1f} against {:.1f} GB/s", timings[0].rate() / 1e9, timings[1].rate() / 1e9), false});
}

void Suite::share_of_read(const std::string& name, const WorkloadSpec& spec, double accept, double aim) {
  if (!wants(name)) return;
  const auto timings = beside_plain_reads(spec);
  if (timings.empty()) return;
  rows.push_back({name, Unit::share, ratio_of_rates(timings[1], timings[0]), timings[1].spread(), accept, aim, false,
                  fmt::format("{:.1f} of {:.1f} GB/s", timings[1].rate() / 1e9, timings[0].rate() / 1e9), false});
}

void Suite::read_rate(const std::string& name, const WorkloadSpec& spec, double accept, double aim) {
  if (!wants(name)) return;
  const auto timings = beside_plain_reads(spec);
  if (timings.empty()) return;
  rows.push_back({name, Unit::gigabytes_per_second, timings[1].rate() / 1e9, timings[1].spread(), accept, aim, false,
                  fmt::format("plain reads {:.1f} GB/s", timings[0].rate() / 1e9), false});
}

void Suite::workspace(const std::string& name, const WorkloadSpec& spec, double accept, double aim) {
  if (!wants(name)) return;
  const auto plan = AttentionPlan::create(spec.problem, {spec.backend, spec.threads});
  if (!plan) {
    status = plan.status();
    return;
  }
  const double bytes = static_cast<double>(plan->workspace_bytes()) / spec.threads;
  rows.push_back({name, Unit::mebibytes, bytes / 0x1p20, 0, accept, aim, true, "of workspace, for each thread", false});
}

void Suite::time_against(const std::string& name, const std::function<void()>& call, const std::function<void()>& base,
                         double accept, double aim) {
  const auto timings = measure({{"call", 1, call}, {"base", 1, base}}, options_.rounds, kLeastSeconds);
  rows.push_back({name, Unit::times, ratio_of_rates(timings[1], timings[0]), timings[0].spread(), accept, aim, true,
                  fmt::format("{:.1f} against {:.1f} us", 1e6 * timings[0].median_seconds(),
                              1e6 * timings[1].median_seconds()),
                  false});
}

void Suite::microseconds(const std::string& name, const std::function<void()>& call, double accept, double aim) {
  const auto timings = measure({{"call", 1, call}}, options_.rounds, kLeastSeconds);
  rows.push_back({name, Unit::microseconds, 1e6 * timings[0].median_seconds(), timings[0].spread(), accept, aim, true,
                  "a call", false});
}

void Suite::skip(const std::string& name, double accept, double aim, const std::string& why) {
  rows.push_back({name, Unit::share, 0, 0, accept, aim, false, why, true});
}

Subject Suite::subject(const Workload& workload, double work) {
  return {workload.spec().name, work, [&workload] { static_cast<void>(workload.run()); }};
}

std::vector<Timings> Suite::beside_plain_reads(const WorkloadSpec& spec) {
  const auto workload = make(spec);
  if (!workload) return {};
  double sink = 0;
  return measure(
      {{"read", workload->key_value_bytes(), [&] { read_all(workload->key_value(), spec.threads, &sink); }},
       subject(*workload, workload->key_value_bytes())},
      options_.rounds, kLeastSeconds);
}

std::unique_ptr<Workload> Suite::make(const WorkloadSpec& spec) {
  auto workload = Workload::create(spec);
  if (!workload) {
    status = workload.status();
    return nullptr;
  }
  const auto comparison = (*workload)->validate();
  if (!comparison) {
    status = comparison.status();
  } else if (!comparison->good()) {
    status = Status(StatusCode::internal, fmt::format("{} {}: {}", spec.backend, spec.name, comparison->first_failure));
  }
  return status ? *std::move(workload) : nullptr;
}

}  // namespace siattn::bench
