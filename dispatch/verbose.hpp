// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_DISPATCH_VERBOSE_HPP
#define SIATTN_DISPATCH_VERBOSE_HPP

#include <siattn/backend.hpp>

namespace siattn::dispatch {

/// SIATTN_VERBOSE: 1 asks for a line about each run, 0 or nothing for none; another value is an error.
Result<bool> verbose_from_environment();

/// One line on stderr, for example
///     siattn: f32, batch 1, heads 8/2, 512 queries, 4096 keys, dims 128/128, causal, scale-invariant, cpu-avx512,
///     2 threads, 5.113 ms
void print_run(const PreparedAttention& problem, const Backend& backend, double seconds) noexcept;

}  // namespace siattn::dispatch

#endif  // SIATTN_DISPATCH_VERBOSE_HPP
