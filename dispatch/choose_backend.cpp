// SPDX-License-Identifier: Apache-2.0
#include <siattn/backend.hpp>

#include "dispatch/backends.hpp"
#include "dispatch/environment.hpp"
#include "dispatch/message.hpp"

namespace siattn {
namespace {

Status usable(const Backend& backend, const AttentionProblem& problem) {
  Status status = backend.available();
  return status ? backend.supports(problem) : status;
}

std::string known_names() {
  std::string names;
  std::string_view family;
  for (const Backend* backend : backends()) {
    if (backend->family() != family && backend->family() != backend->name())
      names += std::string(backend->family()) + ", ";
    family = backend->family();
    names += std::string(backend->name()) + ", ";
  }
  return names.substr(0, names.size() - 2);
}

}  // namespace

std::span<const Backend* const> backends() noexcept {
  static const std::vector<const Backend*> list = dispatch::all_backends();
  return list;
}

Result<const Backend*> choose_backend(std::string_view name, const AttentionProblem& problem) {
  std::string_view wanted = name;
  std::string_view source = "backend";
  if (wanted.empty()) {
    wanted = dispatch::environment("SIATTN_BACKEND");
    source = "SIATTN_BACKEND";
  }
  bool known = wanted.empty();
  std::string refusals;
  StatusCode code = StatusCode::unavailable;
  for (const Backend* backend : backends()) {
    if (!wanted.empty() && wanted != backend->name() && wanted != backend->family()) continue;
    known = true;
    // Before anything is asked of it that costs time, such as starting a driver: one further down is faster.
    if (wanted.empty() && !backend->wins(problem)) continue;
    const Status status = usable(*backend, problem);
    if (status) return backend;
    code = status.code();
    // A bad environment variable is the caller's error: going on to the next backend would hide it.
    if (code == StatusCode::invalid_argument) return status;
    refusals += dispatch::text(refusals.empty() ? "" : "; ", backend->name(), ": ", status.message());
  }
  if (!known) {
    return Status::invalid(dispatch::text(source, " = '", wanted, "': expected one of ", known_names()));
  }
  return Status(code, dispatch::text("no backend can run this: ", refusals));
}

}  // namespace siattn
