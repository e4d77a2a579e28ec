// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_DISPATCH_ENVIRONMENT_HPP
#define SIATTN_DISPATCH_ENVIRONMENT_HPP

#include <string_view>

#include <siattn/status.hpp>

namespace siattn::dispatch {

inline constexpr int kMaxThreads = 1024;

/// The variable's value, empty when it is not set.
std::string_view environment(const char* variable) noexcept;

/// The number of threads to plan for: what was asked for (1 .. 1024), else SIATTN_NUM_THREADS, else 0 for "as many as
/// the backend would use". A number outside the range or a value that is no number is an error.
Result<int> threads_from(int asked);

}  // namespace siattn::dispatch

#endif  // SIATTN_DISPATCH_ENVIRONMENT_HPP
