// SPDX-License-Identifier: Apache-2.0
#include "dispatch/environment.hpp"

#include <charconv>
#include <cstdlib>

#include "dispatch/message.hpp"

namespace siattn::dispatch {

std::string_view environment(const char* variable) noexcept {
  const char* value = std::getenv(variable);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

Result<int> threads_from(int asked) {
  if (asked < 0 || asked > kMaxThreads) {
    return Status::invalid(text("threads = ", asked, ": expected 1 .. ", kMaxThreads, ", or 0 for the default"));
  }
  if (asked > 0) return asked;
  const std::string_view value = environment("SIATTN_NUM_THREADS");
  if (value.empty()) return 0;
  int threads = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), threads);
  if (error != std::errc{} || end != value.data() + value.size() || threads < 1 || threads > kMaxThreads) {
    return Status::invalid(text("SIATTN_NUM_THREADS = '", value, "': expected a number 1 .. ", kMaxThreads));
  }
  return threads;
}

}  // namespace siattn::dispatch
