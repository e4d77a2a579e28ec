// SPDX-License-Identifier: Apache-2.0
#include "bench/suite.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/full_matrix.hpp"
#include "bench/suite_rows.hpp"

namespace siattn::bench {
namespace {

/// One query in each head, before K and V of `bytes` in all.
AttentionProblem decode(DType dtype, std::int64_t bytes, std::int64_t query_heads, std::int64_t kv_heads) {
  constexpr std::int64_t kDim = 128;
  const std::int64_t kv_len = bytes / (2 * kv_heads * kDim * static_cast<std::int64_t>(size_of(dtype)));
  return prefill(dtype, kDim, 1, kv_len, query_heads, kv_heads);
}

const char* unit_name(Unit unit) {
  switch (unit) {
    case Unit::share: return "share";
    case Unit::times: return "times";
    case Unit::gigabytes_per_second: return "GB/s";
    case Unit::mebibytes: return "MiB";
    case Unit::microseconds: return "us";
  }
  return "";
}

const char* verdict_of(const SuiteRow& row) {
  if (row.skipped) return "skipped";
  if (!row.met()) return "MISSED";
  return (row.at_most ? row.reached <= row.aim : row.reached >= row.aim) ? "aim" : "accept";
}

bool available(std::string_view name) {
  for (const Backend* backend : backends()) {
    if (backend->name() == name) return backend->available().ok();
  }
  return false;
}

struct PrefillShape {
  const char* name;
  std::int64_t query_len;
};
constexpr PrefillShape kShapes[] = {{"512 at the end of 4096", 512}, {"causal 4096", 4096}};

void add_prefill(Suite& suite, const std::string& backend) {
  const auto rows = [&](const std::string& on, const std::string& title, DType dtype, const Peak* peak,
                        const double(&accept)[2], const double(&aim)[2]) {
    for (const int wide : {1, 0}) {
      const std::int64_t dim = wide ? 128 : 64;
      for (const PrefillShape& shape : kShapes) {
        const std::string name = fmt::format("prefill {} D {}, {}", title, dim, shape.name);
        suite.share_of_peak(name, {name, prefill(dtype, dim, shape.query_len, 4096), on, 1}, peak,
                            accept[1 - wide], aim[1 - wide]);
      }
    }
  };
  rows(backend, "f32", DType::float32, fma_peak(backend), {0.84, 0.79}, {0.91, 0.88});
  rows(backend, "bf16", DType::bfloat16, bf16_dot_peak(), {0.78, 0.70}, {0.87, 0.81});
  if (available("cpu-avx2")) {
    rows("cpu-avx2", "avx2 f32", DType::float32, fma_peak("cpu-avx2"), {0.88, 0.84}, {0.94, 0.91});
  }
  rows(backend, "f16", DType::float16, fma_peak(backend), {0.80, 0.75}, {0.88, 0.84});
}

void add_prefill_ratios(Suite& suite, const std::string& backend) {
  const WorkloadSpec plain{"plain", prefill(DType::float32, 128, 512, 4096), backend, 1};
  WorkloadSpec none = plain;
  none.problem.options.transform.emplace<NoTransform>();
  suite.times("transform against none, f32 D 128", plain, none, 1 / 1.025, 1 / 1.01);
  const auto variant = [&](const char* name, auto change) {
    WorkloadSpec spec = plain;
    spec.name = name;
    change(spec);
    suite.times(fmt::format("{}, against plain", name), spec, plain, 0.93, 0.98);
  };
  variant("9 heads on 3", [](WorkloadSpec& s) { s.problem.shape.query_heads = 9, s.problem.shape.kv_heads = 3; });
  variant("window 1024", [](WorkloadSpec& s) { s.problem.options.window = 1024; });
  variant("4093 keys", [](WorkloadSpec& s) { s.problem.shape.kv_len = 4093; });
  variant("sequence before heads", [](WorkloadSpec& s) { s.heads_inside = true; });
}

/// Against two oneDNN products with all scores in between; and oneDNN's blocks where they are chosen.
void add_onednn(Suite& suite, const std::string& backend) {
  const std::string full = "f32 D 128, against oneDNN full matrix";
  const WorkloadSpec fused{full, prefill(DType::float32, 128, 512, 4096), backend, 1};
  WorkloadSpec matrix = fused;
  matrix.on = full_matrix_backend();
  if (matrix.on != nullptr) {
    suite.times(full, fused, matrix, 1.2, 1.35);
  } else if (suite.wants(full)) {
    suite.skip(full, 1.2, 1.35, "a build without oneDNN");
  }
  for (const std::int64_t queries : {32, 512}) {
    const std::string name = fmt::format("bf16 D 128, {} queries, onednn against {}", queries, backend);
    const WorkloadSpec vectors{name, prefill(DType::bfloat16, 128, queries, 4096), backend, 1};
    WorkloadSpec blocks = vectors;
    blocks.backend = "onednn";
    const double least = queries < 512 ? 1.0 : 2.0;
    if (const auto chosen = choose_backend("", blocks.problem); chosen && (*chosen)->name() == blocks.backend) {
      suite.times(name, blocks, vectors, least, 2 * least);
    } else if (suite.wants(name)) {
      suite.skip(name, least, 2 * least, "the backend onednn is not chosen here");
    }
  }
}

void add_decode(Suite& suite, const std::string& backend) {
  constexpr std::int64_t kBeyondCaches = std::int64_t{1} << 30;
  const std::int64_t l3 = std::max<std::int64_t>(::sysconf(_SC_LEVEL3_CACHE_SIZE), std::int64_t{1} << 23);
  const std::int64_t in_l3 = std::min<std::int64_t>(l3 / 2, std::int64_t{1} << 26);
  struct Type {
    DType dtype;
    double grouped_accept, grouped_aim;
  };
  for (const Type& type :
       {Type{DType::float32, 0.85, 0.95}, {DType::float16, 0.78, 0.90}, {DType::bfloat16, 0.85, 0.95}}) {
    const std::string name(name_of(type.dtype));
    const auto spec = [&](std::int64_t bytes, std::int64_t heads) {
      return WorkloadSpec{name, decode(type.dtype, bytes, heads, 8), backend, 1};
    };
    suite.share_of_read("decode from memory, " + name, spec(kBeyondCaches, 8), 0.90, 0.97);
    suite.share_of_read("decode from memory, 4 heads on one, " + name, spec(kBeyondCaches, 32), type.grouped_accept,
                        type.grouped_aim);
    suite.read_rate("decode from L3, " + name, spec(in_l3, 8), 55, 62);
    suite.read_rate("decode from L3, 4 heads on one, " + name, spec(in_l3, 32), 28, 38);
  }
}

void add_threads(Suite& suite, const std::string& backend) {
  const auto row = [&](const char* name, AttentionProblem problem, double accept, double aim) {
    const WorkloadSpec one{name, problem, backend, 1};
    WorkloadSpec two = one;
    two.threads = 2;
    const std::string title = fmt::format("2 threads against 1, {}", name);
    if (::sysconf(_SC_NPROCESSORS_ONLN) < 2) {
      if (suite.wants(title)) suite.skip(title, accept, aim, "one processor");
    } else {
      suite.times(title, two, one, accept, aim);
    }
  };
  row("8 heads", prefill(DType::float32, 128, 512, 4096), 1.9, 1.97);
  row("1 head, prefill", prefill(DType::float32, 128, 2048, 4096, 1, 1), 1.8, 1.93);
  row("1 head, decode", prefill(DType::float32, 128, 1, 1 << 20, 1, 1), 1.8, 1.93);
}

void add_memory(Suite& suite, const std::string& backend) {
  for (const std::int64_t n : {std::int64_t{4096}, std::int64_t{131072}}) {
    const WorkloadSpec spec{"memory", prefill(DType::float32, 128, n, n), backend, 2};
    suite.workspace(fmt::format("workspace a thread, causal {}", n), spec, 8, 2);
  }
  suite.workspace("workspace a thread, decode 1 of 1048576",
                  {"memory", prefill(DType::float32, 128, 1, 1 << 20, 32, 8), backend, 2}, 8, 2);
}

}  // namespace

Result<std::vector<SuiteRow>> run_accept_suite(const SuiteOptions& options) {
  const std::string backend = best_cpu_backend();
  if (backend.empty()) return Status::unavailable("no CPU backend with a known peak runs here");
  Suite suite(options);
  add_prefill(suite, backend);
  add_prefill_ratios(suite, backend);
  add_onednn(suite, backend);
  add_decode(suite, backend);
  add_threads(suite, backend);
  add_memory(suite, backend);
  if (!suite.status) return suite.status;
  if (suite.rows.empty()) return Status::invalid(fmt::format("--case {}: no such row", options.only));
  return std::move(suite.rows);
}

std::string figure_text(Unit unit, double figure) {
  switch (unit) {
    case Unit::share: return fmt::format("{:.1f} %", 100 * figure);
    case Unit::times: return fmt::format("{:.3f} x", figure);
    case Unit::gigabytes_per_second: return fmt::format("{:.1f} GB/s", figure);
    case Unit::mebibytes: return fmt::format("{:.2f} MiB", figure);
    case Unit::microseconds: return fmt::format("{:.2f} us", figure);
  }
  return {};
}

std::string suite_text(const std::vector<SuiteRow>& rows) {
  std::string text =
      fmt::format("{:<44} {:>10} {:>7} {:>10} {:>10}  {}\n", "", "reached", "spread", "accept", "aim", "");
  for (const SuiteRow& row : rows) {
    text += fmt::format("{:<44} {:>10} {:>6.1f}% {:>10} {:>10}  {:<7} {}\n", row.name,
                        row.skipped ? "-" : figure_text(row.unit, row.reached), 100 * row.spread,
                        figure_text(row.unit, row.accept), figure_text(row.unit, row.aim), verdict_of(row), row.note);
  }
  const auto skipped = std::count_if(rows.begin(), rows.end(), [](const SuiteRow& row) { return row.skipped; });
  const auto missed = std::count_if(rows.begin(), rows.end(), [](const SuiteRow& row) { return !row.met(); });
  const auto tried = static_cast<std::ptrdiff_t>(rows.size()) - skipped;
  text += fmt::format("\n{} of {} rows reach accept", tried - missed, tried);
  text += skipped > 0 ? fmt::format(", {} skipped\n", skipped) : "\n";
  return text;
}

std::string suite_json(const std::vector<SuiteRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const SuiteRow& row : rows) {
    list.push_back({{"name", row.name},
                    {"unit", unit_name(row.unit)},
                    {"reached", row.reached},
                    {"spread", row.spread},
                    {"accept", row.accept},
                    {"aim", row.aim},
                    {"smaller_is_better", row.at_most},
                    {"verdict", verdict_of(row)},
                    {"note", row.note}});
  }
  return nlohmann::ordered_json{{"rows", list}}.dump(2) + "\n";
}

}  // namespace siattn::bench
