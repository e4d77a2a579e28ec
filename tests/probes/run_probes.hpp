// SPDX-License-Identifier: Apache-2.0
// Runs instruction probes on the emulator and on a device, and compares the words that they write.
#ifndef SIATTN_TESTS_PROBES_RUN_PROBES_HPP
#define SIATTN_TESTS_PROBES_RUN_PROBES_HPP

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/emulator/emulator.hpp"
#include "tests/probes/probes.hpp"

namespace siattn::test {

using Words = std::vector<std::uint32_t>;
/// What an output holds that no thread has written.
inline constexpr std::uint32_t kUnwritten = 0xdeadbeef;

/// The same for every run.
inline Words probe_input(const Probe& probe) {
  std::mt19937 random(20250517);
  Words words(kProbeWords);
  for (std::uint32_t& word : words) {
    const auto bits = static_cast<std::uint32_t>(random());
    switch (probe.input) {
      case ProbeInput::any_bits: word = bits; break;
      // Either sign, sizes from 1/4 up to below 4: sums neither overflow nor vanish.
      case ProbeInput::halves_bf16: word = (bits & 0x80ff80ffU) | 0x3f003f00U; break;
      case ProbeInput::halves_f16: word = (bits & 0x8bff8bffU) | 0x34003400U; break;
      case ProbeInput::floats: word = std::bit_cast<std::uint32_t>(static_cast<float>(bits) * 0x1p-30F); break;
    }
  }
  return words;
}

/// The tensor of ProbeParams::map: 128 rows of 64 elements, of which a box has 64.
inline constexpr std::uint64_t kProbeSizes[4] = {64, 128, 1, 1};
inline constexpr std::uint64_t kProbeStrides[3] = {128, 128 * 128, 128 * 128};
inline constexpr std::uint32_t kProbeBox[4] = {64, 64, 1, 1};

/// Empty, or what the emulator reports.
inline std::string emulate(const Probe& probe, const Words& in, Words& out) {
  namespace emulator = gpu::emulator;
  out.assign(kProbeWords, kUnwritten);
  const emulator::Buffer input(in.data(), in.size() * 4, false);
  const emulator::Buffer output(out);
  ProbeParams params;
  params.in = in.data();
  params.out = out.data();
  std::string error = emulator::encode_tensor_map(params.map, in.data(), kProbeSizes, kProbeStrides, kProbeBox);
  if (!error.empty()) return error;
  emulator::Launch launch;
  launch.kernel = emulator::find_kernel(probe.name);
  if (launch.kernel == nullptr) return "no such kernel";
  launch.threads = kProbeThreads;
  launch.shared_bytes = kProbeShared;
  launch.params = &params;
  return emulator::launch(launch);
}

/// The context has to be current.
inline Status run_on_device(const std::shared_ptr<const gpu::Device>& device, const Probe& probe, const Words& in,
                            Words& out) {
  const gpu::Driver& driver = device->driver();
  out.assign(kProbeWords, kUnwritten);
  const auto input = gpu::DeviceMemory::create(device, in.size() * 4, in.data());
  if (!input) return input.status();
  const auto output = gpu::DeviceMemory::create(device, out.size() * 4, out.data());
  if (!output) return output.status();
  ProbeParams params;
  params.in = reinterpret_cast<const std::uint32_t*>(input->pointer());
  params.out = reinterpret_cast<std::uint32_t*>(output->pointer());
  Status status;
  if (device->capability() >= 90) {
    constexpr std::uint32_t kSteps[4] = {1, 1, 1, 1};
    status = SIATTN_CUDA_CALL(driver, tensor_map_encode, &params.map, gpu::kCuTensorFloat16, 4,
                              reinterpret_cast<void*>(input->pointer()), kProbeSizes, kProbeStrides, kProbeBox, kSteps,
                              gpu::kCuTensorInterleaveNone, gpu::kCuTensorSwizzle128, gpu::kCuTensorPromotion256,
                              gpu::kCuTensorFillZeros);
    if (!status) return status;
  }
  const auto kernel = device->kernel(probe.name, kProbeShared);
  if (!kernel) return kernel.status();
  void* arguments[] = {&params};
  status = SIATTN_CUDA_CALL(driver, launch, *kernel, 1, 1, 1, kProbeThreads, 1, 1, kProbeShared, nullptr, arguments,
                            nullptr);
  if (status) {
    status = SIATTN_CUDA_CALL(driver, copy_to_host, out.data(), output->pointer(), out.size() * 4, nullptr);
  }
  return status ? SIATTN_CUDA_CALL(driver, synchronize, nullptr) : status;
}

inline bool agree(ProbeAgreement agreement, std::uint32_t emulated, std::uint32_t device) {
  if (emulated == device) return true;
  if (agreement == ProbeAgreement::exact || emulated == kUnwritten || device == kUnwritten) return false;
  const double a = std::bit_cast<float>(emulated);
  const double b = std::bit_cast<float>(device);
  if (!std::isfinite(a) || !std::isfinite(b)) return false;
  switch (agreement) {
    case ProbeAgreement::sums: return std::fabs(a - b) <= 0x1p-18 * 64;
    // Where the exact result lies below the least normal number either may have flushed it.
    case ProbeAgreement::exp2: return std::fabs(a - b) <= 0x1p-21 * std::fabs(a) + 0x1p-126;
    default: return std::fabs(a - b) <= 0x1p-21 * std::max(std::fabs(a), 1.0);
  }
}

/// Empty, or the first word in which they differ too much.
inline std::string compare(const Probe& probe, const Words& emulated, const Words& device) {
  std::size_t wrong = 0;
  std::size_t first = 0;
  for (std::size_t i = emulated.size(); i-- > 0;) {
    if (agree(probe.agreement, emulated[i], device[i])) continue;
    ++wrong;
    first = i;
  }
  if (wrong == 0) return {};
  return fmt::format("{} words differ, first word {}: the device has {:08x} ({}), the emulator {:08x} ({})", wrong, first,
                     device[first], std::bit_cast<float>(device[first]), emulated[first],
                     std::bit_cast<float>(emulated[first]));
}

}  // namespace siattn::test

#endif  // SIATTN_TESTS_PROBES_RUN_PROBES_HPP
