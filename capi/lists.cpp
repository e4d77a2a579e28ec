// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include <siattn/siattn.h>
#include <siattn/backend.hpp>
#include <siattn/logit_transform.hpp>
#include <siattn/version.hpp>

#include "capi/guard.hpp"
#include "dispatch/message.hpp"

using siattn::Status;
using siattn::capi::guarded;

namespace {

bool is_backend(int32_t index) { return index >= 0 && index < siattn_backend_count(); }

/// Backends name themselves by views, which need not end with a zero.
const std::vector<std::string>& backend_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const siattn::Backend* backend : siattn::backends()) list.emplace_back(backend->name());
    return list;
  }();
  return names;
}

}  // namespace

const char* siattn_version(void) { return siattn::version(); }

const char* siattn_status_name(siattn_status status) {
  switch (status) {
    case SIATTN_OK: return "ok";
    case SIATTN_INVALID_ARGUMENT: return "invalid argument";
    case SIATTN_UNSUPPORTED: return "unsupported";
    case SIATTN_UNAVAILABLE: return "unavailable";
    case SIATTN_OUT_OF_MEMORY: return "out of memory";
    case SIATTN_INTERNAL: return "internal error";
    default: return "unknown status";
  }
}

int32_t siattn_backend_count(void) { return static_cast<int32_t>(siattn::backends().size()); }

const char* siattn_backend_name(int32_t index) {
  const char* name = nullptr;
  guarded(nullptr, [&]() -> Status {
    if (is_backend(index)) name = backend_names()[static_cast<std::size_t>(index)].c_str();
    return {};
  });
  return name;
}

siattn_status siattn_backend_available(int32_t index, siattn_message* message) {
  return guarded(message, [&]() -> Status {
    if (is_backend(index)) return siattn::backends()[static_cast<std::size_t>(index)]->available();
    return Status::invalid(siattn::dispatch::text("index = ", index, ": expected 0 .. ", siattn_backend_count() - 1));
  });
}

siattn_status siattn_alibi_slopes(int32_t heads, double* slopes, siattn_message* message) {
  return guarded(message, [&]() -> Status {
    if (heads < 1) return Status::invalid(siattn::dispatch::text("heads = ", heads, ": expected at least 1"));
    if (slopes == nullptr) return Status::invalid("slopes is null");
    const std::vector<double> list = siattn::alibi_slopes(heads);
    std::copy(list.begin(), list.end(), slopes);
    return {};
  });
}
