// SPDX-License-Identifier: Apache-2.0
#include "bench/cases.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include <siattn/version.hpp>

#include "bench/ceilings.hpp"
#include "bench/full_matrix.hpp"
#include "cpu/kernels.hpp"

namespace siattn::bench {
namespace {

constexpr double kLeastSeconds = 0.03;
constexpr DType kTypes[] = {DType::float32, DType::bfloat16, DType::float16};

struct Shape {
  const char* phase;
  AttentionShape shape;
};

/// Few queries a kv head: what bounds them is reading K and V.
Shape phase_of(const AttentionShape& shape) {
  return {shape.query_heads / shape.kv_heads * shape.query_len <= cpu::kMaxStreamRows ? "decode" : "prefill", shape};
}

/// Half a gigabyte of K and V in float32 when decoding: more than caches hold.
constexpr Shape kShapes[] = {{"prefill", {1, 8, 8, 512, 4096, 128, 128}},  {"prefill", {1, 8, 8, 512, 4096, 64, 64}},
                             {"prefill", {1, 8, 8, 4096, 4096, 128, 128}}, {"prefill", {1, 32, 8, 512, 4096, 128, 128}},
                             {"prefill", {1, 8, 8, 512, 16384, 128, 128}}, {"decode", {1, 8, 8, 1, 65536, 128, 128}},
                             {"decode", {1, 32, 8, 1, 65536, 128, 128}},   {"decode", {16, 32, 8, 1, 4096, 128, 128}},
                             {"decode", {1, 32, 8, 4, 16384, 128, 128}}};

std::string name_of(const Shape& shape, DType dtype) {
  const AttentionShape& s = shape.shape;
  return fmt::format("{}/{}/batch-{}/heads-{}-{}/{}x{}/dim-{}", shape.phase, siattn::name_of(dtype), s.batch,
                     s.query_heads, s.kv_heads, s.query_len, s.kv_len, s.head_dim);
}

/// A workload whose result was within the bound.
Result<std::unique_ptr<Workload>> checked(const WorkloadSpec& spec, double* error_over_bound) {
  auto workload = Workload::create(spec);
  if (!workload) return workload.status();
  const auto comparison = (*workload)->validate();
  if (!comparison) return comparison.status();
  if (!comparison->good()) {
    return Status(StatusCode::internal, fmt::format("{} {}: {}", spec.backend, spec.name, comparison->first_failure));
  }
  *error_over_bound = std::max(*error_over_bound, comparison->worst_ratio);
  return workload;
}

Result<CaseResult> run_case(const Shape& shape, DType dtype, const CaseOptions& options) {
  CaseResult result;
  result.name = name_of(shape, dtype);
  WorkloadSpec spec{result.name, {shape.shape, dtype, {}}, options.backend, options.threads};
  auto workload = checked(spec, &result.error_over_bound);
  if (!workload) return workload.status();
  result.backend = (*workload)->backend().name();
  result.threads = (*workload)->threads();
  result.by_bytes = std::string_view(shape.phase) == "decode";
  const double work = result.by_bytes ? (*workload)->key_value_bytes() : (*workload)->flops();

  WorkloadSpec none_spec = spec;
  none_spec.problem.options.transform.emplace<NoTransform>();
  auto none = checked(none_spec, &result.error_over_bound);
  if (!none) return none.status();
  std::unique_ptr<Workload> one;
  if (result.threads > 1) {
    WorkloadSpec one_spec = spec;
    one_spec.threads = 1;
    auto made = checked(one_spec, &result.error_over_bound);
    if (!made) return made.status();
    one = *std::move(made);
  }

  std::unique_ptr<Workload> full;
  if (!result.by_bytes && !(*workload)->on_device() && full_matrix_backend() != nullptr && full_matrix_backend()->supports(spec.problem)) {
    WorkloadSpec full_spec = spec;
    full_spec.on = full_matrix_backend();
    full_spec.threads = result.threads;
    double other_error = 0;
    auto made = checked(full_spec, &other_error);
    if (!made) return made.status();
    full = *std::move(made);
  }

  const auto subject = [work](const Workload& w) {
    return Subject{w.spec().name, work, [&w] { static_cast<void>(w.run()); }, [&w] { static_cast<void>(w.finish()); }};
  };
  std::vector<Subject> subjects{subject(**workload), subject(**none)};
  if (one) subjects.push_back(subject(*one));
  const std::size_t full_at = subjects.size();
  if (full) subjects.push_back(subject(*full));
  double sink = 0;
  const Peak* const peak = result.backend == "onednn" ? onednn_peak(dtype) : fma_peak(result.backend);
  constexpr int kCalls = 40;
  const Workload& w = **workload;
  if (w.on_device()) {
    if (result.by_bytes) {
      result.ceiling = "a copy on the device";
      subjects.push_back({"copy", work, [&w] { static_cast<void>(w.copy_on_device()); },
                          [&w] { static_cast<void>(w.finish()); }});
    }
  } else if (result.by_bytes) {
    result.ceiling = "plain reads";
    subjects.push_back({"read", work, [&] { read_all((*workload)->key_value(), result.threads, &sink); }});
  } else if (peak != nullptr) {
    result.ceiling = peak->unit;
    subjects.push_back(
        {"peak", kCalls * result.threads * peak->flops_per_call, [&] { run_peak(*peak, kCalls, result.threads); }});
  }
  const auto timings = measure(subjects, options.rounds, kLeastSeconds);
  result.timings = timings[0];
  result.against_none = ratio_of_rates(timings[0], timings[1]);
  if (one) result.against_one = ratio_of_rates(timings[0], timings[2]);
  if (full) result.against_full = ratio_of_rates(timings[0], timings[full_at]);
  if (!result.ceiling.empty()) {
    result.ceiling_rate = timings.back().rate();
    result.share = ratio_of_rates(timings[0], timings.back());
  }
  return result;
}

}  // namespace

Result<std::vector<CaseResult>> run_cases(const CaseOptions& options) {
  std::vector<CaseResult> results;
  std::vector<Shape> shapes(std::begin(kShapes), std::end(kShapes));
  if (options.shape) shapes = {phase_of(*options.shape)};
  for (const Shape& shape : shapes) {
    if (!options.phase.empty() && options.phase != shape.phase) continue;
    for (const DType dtype : kTypes) {
      if (!options.dtype.empty() && options.dtype != siattn::name_of(dtype)) continue;
      const std::string name = name_of(shape, dtype);
      if (!name.starts_with(options.only)) continue;
      if (options.progress) options.progress(name);
      auto result = run_case(shape, dtype, options);
      if (!result) return result.status();
      results.push_back(*std::move(result));
    }
  }
  if (results.empty()) return Status::invalid(fmt::format("--case {}: no such case", options.only));
  return results;
}

std::string cases_text(const std::vector<CaseResult>& results) {
  std::string text = fmt::format("{:<48} {:>10} {:>7} {:>15} {:>8} {:>7} {:>7} {:>8} {:>6}  {}\n", "", "median", "spread",
                                 "rate", "ceiling", "none", "full", "1 thread", "bound", "backend");
  for (const CaseResult& r : results) {
    text += fmt::format("{:<48} {:>7.3f} ms {:>6.1f}% {:>8.1f} {} {:>8} {:>6.3f}x {:>7} {:>8} {:>6.3f}  {}\n", r.name,
                        1e3 * r.timings.median_seconds(), 100 * r.timings.spread(), r.timings.rate() / 1e9,
                        r.by_bytes ? "GB/s  " : "GFLOP/s",
                        r.ceiling_rate > 0 ? fmt::format("{:.1f}%", 100 * r.share) : "-", r.against_none,
                        r.against_full > 0 ? fmt::format("{:.2f}x", r.against_full) : "-",
                        r.against_one > 0 ? fmt::format("{:.2f}x", r.against_one) : "-", r.error_over_bound, r.backend);
  }
  text += fmt::format("\n{} threads; ceilings beside the first case that has them:\n", results.front().threads);
  std::vector<std::string> told;
  for (const CaseResult& r : results) {
    if (r.ceiling_rate <= 0 || std::find(told.begin(), told.end(), r.ceiling) != told.end()) continue;
    told.push_back(r.ceiling);
    text += fmt::format("  {}: {:.1f} {}\n", r.ceiling, r.ceiling_rate / 1e9, r.by_bytes ? "GB/s" : "GFLOP/s");
  }
  text +=
      "GFLOP/s: 2 for each channel of both products, on visible pairs; GB/s: of K and V, read once\n"
      "spread: half the distance between the quartiles, over the median; none, full, 1 thread: rate over that of the same\n"
      "problem without transform, by two oneDNN products with all scores in between, by 1 thread; bound: largest error / bound of the rows that were compared with the reference\n";
  return text;
}

std::string cases_json(const std::vector<CaseResult>& results) {
  nlohmann::ordered_json document;
  document["context"] = {{"date", fmt::format("{:%FT%TZ}", fmt::gmtime(std::chrono::system_clock::now()))},
                         {"executable", "siattn"},
                         {"num_cpus", ::sysconf(_SC_NPROCESSORS_ONLN)},
                         {"library_version", version()},
                         {"library_build_type", "release"}};
  auto& list = document["benchmarks"] = nlohmann::ordered_json::array();
  for (const CaseResult& r : results) {
    for (std::size_t i = 0; i < r.timings.seconds.size(); ++i) {
      const double nanoseconds = 1e9 * r.timings.seconds[i];
      list.push_back({{"name", r.name},
                      {"run_name", r.name},
                      {"run_type", "iteration"},
                      {"repetitions", r.timings.seconds.size()},
                      {"repetition_index", i},
                      {"threads", r.threads},
                      {"iterations", 1},
                      {"real_time", nanoseconds},
                      {"cpu_time", nanoseconds * r.threads},
                      {"time_unit", "ns"},
                      {r.by_bytes ? "bytes_per_second" : "flops_per_second", r.timings.work / r.timings.seconds[i]},
                      {"share_of_ceiling", r.share},
                      {"against_none", r.against_none},
                      {"against_full_matrix", r.against_full},
                      {"against_one_thread", r.against_one},
                      {"error_over_bound", r.error_over_bound},
                      {"backend", r.backend}});
    }
  }
  return document.dump(2) + "\n";
}

}  // namespace siattn::bench
