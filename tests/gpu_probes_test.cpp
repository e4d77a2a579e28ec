// SPDX-License-Identifier: Apache-2.0
// The instruction probes run on the emulator under every schedule, and a word that differs is seen. What they show of a
// device, tools/device_check.sh finds out there.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/probes/run_probes.hpp"

namespace siattn::test {
namespace {

TEST(GpuProbes, RunOnTheEmulatorAndWriteTheSameEachTime) {
  for (const Probe& probe : kProbes) {
    const Words in = probe_input(probe);
    Words out, again;
    ASSERT_EQ(emulate(probe, in, out), "") << probe.name;
    ASSERT_EQ(emulate(probe, in, again), "") << probe.name;
    EXPECT_EQ(out, again) << probe.name;
    EXPECT_EQ(compare(probe, out, again), "") << probe.name;
    const auto written = out.size() - static_cast<std::size_t>(std::ranges::count(out, kUnwritten));
    EXPECT_GE(written, static_cast<std::size_t>(kProbeThreads)) << probe.name;
    // Inputs are such that outputs are numbers where they are compared as numbers.
    if (probe.agreement == ProbeAgreement::exact) continue;
    for (std::size_t i = 0; i < written; ++i) ASSERT_TRUE(std::isfinite(std::bit_cast<float>(out[i]))) << probe.name;
  }
}

/// Two lanes' results exchanged, or one word that is off by more than it may be.
TEST(GpuProbes, DifferencesAreSeen) {
  for (const Probe& probe : kProbes) {
    const Words in = probe_input(probe);
    Words out;
    ASSERT_EQ(emulate(probe, in, out), "");
    Words off = out;
    off[3] = std::bit_cast<std::uint32_t>(std::bit_cast<float>(off[3]) * 1.001F + 0.001F);
    EXPECT_NE(compare(probe, out, off), "") << probe.name;
    Words missing = out;
    missing[5] = kUnwritten;
    EXPECT_NE(compare(probe, out, missing), "") << probe.name;
  }
}

}  // namespace
}  // namespace siattn::test
