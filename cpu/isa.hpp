// SPDX-License-Identifier: Apache-2.0
// The instruction sets that the kernels were compiled for, and which of them may be used. Choosing is a pure function
// of a CpuFeatures value and a cap; only isa_cap_from_environment() looks at the world.
#ifndef SIATTN_CPU_ISA_HPP
#define SIATTN_CPU_ISA_HPP

#include <cstddef>
#include <span>
#include <string_view>

#include <siattn/status.hpp>

#include "cpu/cpu_features.hpp"
#include "cpu/kernels.hpp"

namespace siattn::cpu {

inline constexpr const char* kMaxIsaVariable = "SIATTN_MAX_CPU_ISA";

struct Requirement {
  std::string_view name;
  bool CpuFeatures::*feature;
};

/// One compilation of kernels.cpp. The list is cpu/CMakeLists.txt.
struct Isa {
  std::string_view name;          ///< "avx2"
  std::string_view backend_name;  ///< "cpu-avx2"
  const Kernels* kernels;
  std::span<const Requirement> requirements;
};

/// Best first.
std::span<const Isa> isas() noexcept;

/// Good, or why this instruction set is not to be used on such a machine: what the processor or the operating system
/// lacks, or that the cap (a name in the list; empty: none) lies below it.
Status usable(const Isa& isa, const CpuFeatures& features, std::string_view cap);

/// The first of the list that may be used, nullptr if none may.
const Isa* best_isa(std::span<const Isa> list, const CpuFeatures& features, std::string_view cap);

/// The value of SIATTN_MAX_CPU_ISA as it is now, empty when not set. A name that is not in the list is an error.
Result<std::string_view> isa_cap_from_environment();

}  // namespace siattn::cpu

#endif  // SIATTN_CPU_ISA_HPP
