// SPDX-License-Identifier: Apache-2.0
#include "bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace siattn::bench {
namespace {

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

double seconds_of(const Subject& subject, std::int64_t calls) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < calls; ++i) subject.run();
  if (subject.finish) subject.finish();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / static_cast<double>(calls);
}

}  // namespace

double Timings::median_seconds() const { return quantile(seconds, 0.5); }

double Timings::spread() const { return (quantile(seconds, 0.75) - quantile(seconds, 0.25)) / 2 / median_seconds(); }

std::vector<Timings> measure(const std::vector<Subject>& subjects, int rounds, double least_seconds) {
  std::vector<Timings> timings(subjects.size());
  std::vector<std::int64_t> calls(subjects.size());
  for (std::size_t k = 0; k < subjects.size(); ++k) {
    timings[k].work = subjects[k].work;
    seconds_of(subjects[k], 1);  // pages, tables, threads
    const double once = seconds_of(subjects[k], 1);
    calls[k] = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(least_seconds / once)), 1, 1000000);
  }
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t k = 0; k < subjects.size(); ++k) {
      timings[k].seconds.push_back(seconds_of(subjects[k], calls[k]));
    }
  }
  return timings;
}

double ratio_of_rates(const Timings& a, const Timings& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(a.seconds.size(), b.seconds.size()); ++i) {
    ratios.push_back(a.work / a.seconds[i] / (b.work / b.seconds[i]));
  }
  return quantile(ratios, 0.5);
}

}  // namespace siattn::bench
