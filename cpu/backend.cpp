// SPDX-License-Identifier: Apache-2.0
#include "cpu/backend.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "cpu/isa.hpp"
#include "cpu/run.hpp"

namespace siattn::cpu {
namespace {

#define SIATTN_CPU_ISA(...) +1
constexpr std::size_t kIsaCount =
#include "siattn_cpu_isas.inc"
    ;
#undef SIATTN_CPU_ISA

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const Isa& isa) noexcept : isa_(isa) {}

  std::string_view name() const noexcept override { return isa_.backend_name; }
  std::string_view family() const noexcept override { return "cpu"; }
  std::string_view description() const noexcept override { return "fused vector kernels, float32 inside"; }

  Status available() const override {
    const Result<std::string_view> cap = isa_cap_from_environment();
    return cap ? usable(isa_, this_cpu(), *cap) : cap.status();
  }

  Status supports(const AttentionProblem& problem) const override {
    return supported_by_kernels("backend " + std::string(isa_.backend_name), problem);
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
    return workspace_bytes_on(*isa_.kernels, nullptr, problem);
  }

  Status run(const PreparedAttention& problem, const AttentionTensors& tensors,
             std::span<std::byte> workspace) const noexcept override {
    run_on(*isa_.kernels, nullptr, problem, tensors, workspace);
    return {};
  }

  Status run_slice(const PreparedAttention& problem, const AttentionTensors& tensors, std::span<std::byte> workspace,
                   Slice slice) const noexcept override {
    run_on(*isa_.kernels, nullptr, problem, tensors, workspace, &slice);
    return {};
  }

 private:
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
