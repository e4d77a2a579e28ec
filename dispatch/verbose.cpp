// SPDX-License-Identifier: Apache-2.0
#include "dispatch/verbose.hpp"

#include <cinttypes>
#include <cstdio>

#include "dispatch/environment.hpp"
#include "dispatch/message.hpp"

namespace siattn::dispatch {
namespace {

/// In the order of the variant.
constexpr const char* kTransformNames[] = {"none", "scale-invariant", "logn", "infoscale", "alibi"};
static_assert(std::size(kTransformNames) == std::variant_size_v<LogitTransform>);

}  // namespace

Result<bool> verbose_from_environment() {
  const std::string_view value = environment("SIATTN_VERBOSE");
  if (value == "1") return true;
  if (value.empty() || value == "0") return false;
  return Status::invalid(text("SIATTN_VERBOSE = '", value, "': expected 0 or 1"));
}

void print_run(const PreparedAttention& problem, const Backend& backend, double seconds) noexcept {
  const AttentionShape& s = problem.shape;
  const std::string_view type = name_of(problem.dtype);
  const std::string_view name = backend.name();
  char window[32] = "";
  if (problem.options.window) std::snprintf(window, sizeof window, ", window %" PRId64, *problem.options.window);
  std::fprintf(stderr,
               "siattn: %.*s, batch %" PRId64 ", heads %" PRId64 "/%" PRId64 ", %" PRId64 " queries, %" PRId64
               " keys, dims %" PRId64 "/%" PRId64 ", %s%s, %s, %.*s, %d threads, %.3f ms\n",
               static_cast<int>(type.size()), type.data(), s.batch, s.query_heads, s.kv_heads, s.query_len, s.kv_len,
               s.head_dim, s.value_dim, problem.options.mask == Mask::causal ? "causal" : "bidirectional", window,
               kTransformNames[problem.options.transform.index()], static_cast<int>(name.size()), name.data(),
               problem.threads, 1e3 * seconds);
}

}  // namespace siattn::dispatch
