// SPDX-License-Identifier: Apache-2.0
// Which instruction set is chosen, on machines that are described, not met.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "cpu/backend.hpp"
#include "cpu/isa.hpp"

namespace siattn::cpu {
namespace {

std::string chosen(const CpuFeatures& features, std::string_view cap = {}) {
  const Isa* isa = best_isa(isas(), features, cap);
  return isa == nullptr ? "none" : std::string(isa->name);
}

const Isa& isa_named(std::string_view name) {
  for (const Isa& isa : isas()) {
    if (isa.name == name) return isa;
  }
  ADD_FAILURE() << "no instruction set " << name;
  return isas().front();
}

/// The variable for the length of a test.
class MaxIsa {
 public:
  explicit MaxIsa(const char* value) {
    if (const char* old = std::getenv(kMaxIsaVariable)) before_ = old;
    setenv(kMaxIsaVariable, value, 1);
  }
  ~MaxIsa() { before_.empty() ? unsetenv(kMaxIsaVariable) : setenv(kMaxIsaVariable, before_.c_str(), 1); }
  MaxIsa(const MaxIsa&) = delete;
  MaxIsa& operator=(const MaxIsa&) = delete;

 private:
  std::string before_;
};

#if defined(__x86_64__)

CpuFeatures avx512_machine() {
  CpuFeatures f;
  f.sse2 = f.avx2 = f.fma = f.f16c = f.os_ymm = true;
  f.avx512f = f.avx512bw = f.avx512dq = f.avx512vl = f.os_zmm = true;
  return f;
}

TEST(CpuFeatures, TheBestIsChosen) { EXPECT_EQ(chosen(avx512_machine()), "avx512"); }

TEST(CpuFeatures, EveryRequirementCounts) {
  for (const Isa& isa : isas()) {
    for (const Requirement& requirement : isa.requirements) {
      CpuFeatures f = avx512_machine();
      ASSERT_TRUE(f.*requirement.feature) << requirement.name;
      f.*requirement.feature = false;
      const Status status = usable(isa, f, {});
      EXPECT_EQ(status.code(), StatusCode::unavailable) << isa.name << " without " << requirement.name;
      EXPECT_NE(status.message().find(requirement.name), std::string::npos) << status.message();
    }
  }
}

TEST(CpuFeatures, AnOperatingSystemThatSavesNoZmmGetsAvx2) {
  CpuFeatures f = avx512_machine();
  f.os_zmm = false;
  EXPECT_EQ(chosen(f), "avx2");
  f.os_ymm = false;
  EXPECT_EQ(chosen(f), "sse2");
}

TEST(CpuFeatures, AvxWithoutAvx2GetsSse2) {
  CpuFeatures f;
  f.sse2 = f.os_ymm = f.f16c = true;
  EXPECT_EQ(chosen(f), "sse2");
  f.avx2 = true;  // and yet no fma
  EXPECT_EQ(chosen(f), "sse2");
}

TEST(CpuFeatures, FoundationAloneIsNotEnoughForAvx512) {
  CpuFeatures f = avx512_machine();
  f.avx512bw = f.avx512dq = f.avx512vl = false;
  EXPECT_EQ(chosen(f), "avx2");
}

TEST(CpuFeatures, NothingFitsAMachineWithoutAnything) { EXPECT_EQ(chosen(CpuFeatures{}), "none"); }

TEST(CpuFeatures, TheCapLimits) {
  EXPECT_EQ(chosen(avx512_machine(), "avx512"), "avx512");
  EXPECT_EQ(chosen(avx512_machine(), "avx2"), "avx2");
  EXPECT_EQ(chosen(avx512_machine(), "sse2"), "sse2");
  CpuFeatures f = avx512_machine();
  f.avx2 = false;
  EXPECT_EQ(chosen(f, "avx2"), "sse2") << "a cap is no promise";
}

TEST(CpuFeatures, TheVariableTakesEffectAtEachCall) {
  ASSERT_TRUE(usable(isa_named("sse2"), detect_cpu(), {}));
  const MaxIsa cap("sse2");
  for (const Backend* backend : backends()) {
    EXPECT_EQ(backend->available().ok(), backend->name() == "cpu-sse2") << backend->name();
  }
  if (usable(isa_named("avx2"), detect_cpu(), {})) {
    const MaxIsa higher("avx2");
    EXPECT_TRUE(backends()[1]->available()) << backends()[1]->available().message();
    const Status capped = backends()[0]->available();
    EXPECT_EQ(capped.code(), StatusCode::unavailable);
  }
}

TEST(CpuFeatures, ThisMachineSavesWhatItUses) {
  const CpuFeatures f = detect_cpu();
  EXPECT_TRUE(f.sse2);
  if (f.os_zmm) {
    EXPECT_TRUE(f.os_ymm);
  }
  // The compiler's runtime looks at the saved state too, so a feature that it reports is one that may be used.
  if (f.avx2) {
    EXPECT_TRUE(f.os_ymm);
  }
  if (f.avx512f) {
    EXPECT_TRUE(f.os_zmm);
  }
}

#endif

TEST(CpuFeatures, AnUnknownCapIsAnErrorOfTheCaller) {
  for (const char* value : {"avx3", "AVX2", "sse2 ", "none"}) {
    const MaxIsa cap(value);
    for (const Backend* backend : backends()) {
      const Status status = backend->available();
      EXPECT_EQ(status.code(), StatusCode::invalid_argument);
      EXPECT_NE(status.message().find(kMaxIsaVariable), std::string::npos) << status.message();
      EXPECT_NE(status.message().find(std::string(" = '").append(value).append("'")), std::string::npos)
          << status.message();
      for (const Isa& isa : isas()) EXPECT_NE(status.message().find(isa.name), std::string::npos) << status.message();
    }
  }
}

TEST(CpuFeatures, AnEmptyCapIsNone) {
  const MaxIsa cap("");
  const auto value = isa_cap_from_environment();
  ASSERT_TRUE(value);
  EXPECT_TRUE(value->empty());
}

TEST(CpuFeatures, BackendsAreNamedAfterTheirInstructionSet) {
  ASSERT_EQ(backends().size(), isas().size());
  for (std::size_t i = 0; i < isas().size(); ++i) {
    EXPECT_EQ(backends()[i]->name(), "cpu-" + std::string(isas()[i].name));
    EXPECT_EQ(backends()[i]->family(), "cpu");
  }
}

}  // namespace
}  // namespace siattn::cpu
