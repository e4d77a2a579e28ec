// SPDX-License-Identifier: Apache-2.0
#include "cpu/backend.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "cpu/decode.hpp"
#include "cpu/isa.hpp"
#include "cpu/prefill.hpp"
#include "cpu/sequence.hpp"

namespace siattn::cpu {
namespace {

constexpr std::int64_t kMaxDim = 512;

#define SIATTN_CPU_ISA(...) +1
constexpr std::size_t kIsaCount =
#include "siattn_cpu_isas.inc"
    ;
#undef SIATTN_CPU_ISA

/// Rows past a sequence's query length: rows that see no key.
void write_unused_rows(const Run& run) noexcept {
  const AttentionShape& shape = run.problem.shape;
  const std::size_t bytes = static_cast<std::size_t>(shape.value_dim) * size_of(run.problem.dtype);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t h = 0; h < shape.query_heads; ++h) {
      for (std::int64_t i = sequence_bounds(run.problem, run.tensors, b).query_len; i < shape.query_len; ++i) {
        std::fill_n(row_address(run.tensors.out, b, h, i), bytes, std::byte{0});
        if (run.tensors.lse.data == nullptr) continue;
        *reinterpret_cast<float*>(row_address(run.tensors.lse, b, h, i)) = -HUGE_VALF;
      }
    }
  }
}

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const Isa& isa) noexcept : isa_(isa) {}

  std::string_view name() const noexcept override { return isa_.backend_name; }
  std::string_view family() const noexcept override { return "cpu"; }
  std::string_view description() const noexcept override { return "fused vector kernels, float32 inside"; }

  Status available() const override {
    const Result<std::string_view> cap = isa_cap_from_environment();
    return cap ? usable(isa_, detect_cpu(), *cap) : cap.status();
  }

  Status supports(const AttentionProblem& problem) const override {
    const std::string who = "backend " + std::string(isa_.backend_name);
    if (problem.dtype == DType::float64) {
      return Status::unsupported("dtype = f64: " + who + " computes in float32; use the backend reference");
    }
    const auto check = [&who](const char* what, std::int64_t dim) {
      return dim <= kMaxDim
                 ? Status{}
                 : Status::unsupported(std::string(what) + " = " + std::to_string(dim) + ": " + who + " takes up to " +
                                       std::to_string(kMaxDim) + "; use the backend reference");
    };
    const Status status = check("head_dim", problem.shape.head_dim);
    return status ? check("value_dim", problem.shape.value_dim) : status;
  }

  LogBase log_base() const noexcept override { return LogBase::two; }

  Numerics numerics(DType /*dtype*/) const noexcept override {
    // Everything is float32 between the conversions of inputs (exact) and of out (once); weights stay float32.
    // exp2 (kernels/exp2.hpp) goes to 0 through the subnormals, there only its absolute error is bounded, by 2^-149.
    return {.unit_roundoff = 0x1p-24,
            .score_unit_roundoff = 0x1p-24,
            .weight_roundoff = 0,
            .exp_relative_error = isa_.kernels->exp2_relative_error,
            .least_normal = 0x1p-126};
  }

  int default_threads() const noexcept override { return std::max(1, omp_get_max_threads()); }

  std::size_t workspace_bytes(const PreparedAttention& problem) const noexcept override {
    // Sequences that stream and sequences that do not come one after the other and share the memory.
    const std::int64_t bytes =
        std::max(prefill_workspace_bytes(*isa_.kernels, problem), decode_workspace_bytes(*isa_.kernels, problem));
    return static_cast<std::size_t>(bytes) + kAlignment - 1;
  }

  Status run(const PreparedAttention& problem, const AttentionTensors& tensors,
             std::span<std::byte> workspace) const noexcept override {
    void* start = workspace.data();
    std::size_t space = workspace.size();
    auto* const aligned = static_cast<std::byte*>(std::align(kAlignment, 0, start, space));
    const Run run{*isa_.kernels, problem, tensors, element_of(problem.dtype), aligned};
    bool some_stream = false;
    bool some_do_not = false;
    for (std::int64_t b = 0; b < problem.shape.batch; ++b) {
      (streams(problem, sequence_bounds(problem, tensors, b)) ? some_stream : some_do_not) = true;
    }
    write_unused_rows(run);
    if (some_stream) decode(run);
    if (some_do_not) prefill(run);
    return {};
  }

 private:
  static constexpr std::size_t kAlignment = 64;
  const Isa& isa_;
};

template <std::size_t... index>
std::span<const Backend* const> list_of(std::index_sequence<index...>) noexcept {
  static const std::array<CpuBackend, sizeof...(index)> list{CpuBackend(isas()[index])...};
  static const std::array<const Backend*, sizeof...(index)> pointers{&list[index]...};
  return pointers;
}

}  // namespace

std::span<const Backend* const> backends() noexcept { return list_of(std::make_index_sequence<kIsaCount>{}); }

}  // namespace siattn::cpu
