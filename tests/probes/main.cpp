// SPDX-License-Identifier: Apache-2.0
// siattn_probes FATBIN...: runs every instruction probe on device 0 and compares with the emulator. Exit status: 0 all
// agree, 1 one does not, 2 no device.
#include <cstdio>
#include <fstream>
#include <iterator>

#include "tests/probes/run_probes.hpp"

namespace {

using namespace siattn;

int fail(const Status& status) {
  std::fprintf(stderr, "siattn_probes: %s\n", status.message().c_str());
  return 2;
}

std::vector<char> read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int argc, char** argv) {
  const Result<gpu::Driver>& driver = gpu::load_driver();
  if (!driver) return fail(driver.status());
  if (Status status = SIATTN_CUDA_CALL(*driver, init, 0); !status) return fail(status);
  std::vector<std::vector<char>> files;
  std::vector<gpu::Image> images;
  for (int k = 1; k < argc; ++k) files.push_back(read_file(argv[k]));
  for (const auto& file : files) images.push_back({"probes", reinterpret_cast<const std::byte*>(file.data())});
  const auto device = gpu::Device::open(*driver, 0, images);
  if (!device) return fail(device.status());
  const gpu::Current current(**device);
  int wrong = 0;
  int run = 0;
  for (const test::Probe& probe : test::kProbes) {
    if (probe.capability == 90 && (*device)->capability() != 90) continue;
    ++run;
    const test::Words in = test::probe_input(probe);
    test::Words emulated, computed;
    std::string difference = test::emulate(probe, in, emulated);
    if (difference.empty()) {
      const Status status = test::run_on_device(*device, probe, in, computed);
      difference = status ? test::compare(probe, emulated, computed) : status.message();
    }
    if (difference.empty()) continue;
    ++wrong;
    std::printf("%s: %s\n", probe.name, difference.c_str());
  }
  std::printf("%d of %d probes agree with the emulator\n", run - wrong, run);
  return wrong == 0 ? 0 : 1;
}
