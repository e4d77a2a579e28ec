// SPDX-License-Identifier: Apache-2.0
// The verification library, installed: a stranger's program holds a backend to the reference.
#include <cstdio>

#include <siattn/backend.hpp>

#include "verify/conform.hpp"

int main() {
  siattn::verify::ConformOptions options;
  options.backend = "cpu";
  options.dtype = "f32";
  options.only = "sinks/";
  const auto backends = siattn::verify::backends_of(options);
  if (!backends.ok()) return std::fprintf(stderr, "%s\n", backends.status().message().c_str()), 1;
  const auto runs = siattn::verify::run_conformance(*backends, options);
  bool good = !runs.empty();
  for (const auto& run : runs) good = good && run.good();
  std::printf("%zu runs %s\n", runs.size(), good ? "good" : "bad");
  return good ? 0 : 1;
}
