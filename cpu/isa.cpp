// SPDX-License-Identifier: Apache-2.0
#include "cpu/isa.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>

// The generated list has one line SIATTN_CPU_ISA(name, requirement ...) for each instruction set, best first.
#define SIATTN_CPU_ISA(name, ...) extern "C" const siattn::cpu::Kernels siattn_cpu_kernels_##name;
#include "siattn_cpu_isas.inc"
#undef SIATTN_CPU_ISA

namespace siattn::cpu {
namespace {

#define SIATTN_CPU_ISA(name, ...) constexpr Requirement requirements_##name[] = {__VA_ARGS__};
#define SIATTN_REQUIRES(feature) \
  { #feature, &CpuFeatures::feature }
#include "siattn_cpu_isas.inc"
#undef SIATTN_REQUIRES
#undef SIATTN_CPU_ISA

#define SIATTN_CPU_ISA(name, ...) Isa{#name, "cpu-" #name, &siattn_cpu_kernels_##name, requirements_##name},
constexpr Isa all_isas[] = {
#include "siattn_cpu_isas.inc"
};
#undef SIATTN_CPU_ISA

/// The place of this name in the list, best first; the size of the list if it is not there.
std::size_t rank(std::string_view name) {
  const auto list = isas();
  return static_cast<std::size_t>(std::ranges::find(list, name, &Isa::name) - list.begin());
}

}  // namespace

std::span<const Isa> isas() noexcept { return all_isas; }

Status usable(const Isa& isa, const CpuFeatures& features, std::string_view cap) {
  for (const Requirement& requirement : isa.requirements) {
    if (!(features.*requirement.feature)) {
      const bool os = requirement.name.substr(0, 3) == "os_";
      return Status::unavailable(
          std::string(isa.name) +
          (os ? " needs an operating system that saves its registers (" : " needs a processor with ") +
          std::string(requirement.name) + (os ? ")" : ""));
    }
  }
  if (!cap.empty() && rank(isa.name) < rank(cap)) {
    return Status::unavailable(std::string(kMaxIsaVariable) + " = '" + std::string(cap) + "' leaves out " +
                               std::string(isa.name));
  }
  return {};
}

const Isa* best_isa(std::span<const Isa> list, const CpuFeatures& features, std::string_view cap) {
  const auto found = std::ranges::find_if(list, [&](const Isa& isa) { return usable(isa, features, cap).ok(); });
  return found == list.end() ? nullptr : &*found;
}

Result<std::string_view> isa_cap_from_environment() {
  const char* const value = std::getenv(kMaxIsaVariable);
  if (value == nullptr || *value == '\0') return std::string_view{};
  const auto list = isas();
  if (rank(value) < list.size()) return std::string_view{value};
  std::string known;
  for (auto isa = list.rbegin(); isa != list.rend(); ++isa) {
    known += (known.empty() ? "" : ", ") + std::string(isa->name);
  }
  return Status::invalid(std::string(kMaxIsaVariable) + " = '" + value + "': expected one of " + known);
}

}  // namespace siattn::cpu
