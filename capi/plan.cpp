// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include <siattn/siattn.h>
#include <siattn/attention.hpp>
#include <siattn/backend.hpp>

#include "capi/describe.hpp"
#include "capi/guard.hpp"
#include "dispatch/message.hpp"

struct siattn_plan {
  siattn::AttentionPlan plan;
  std::string backend;
};

namespace {

using siattn::Slice;
using siattn::Status;
using siattn::capi::guarded;

Status run(const siattn_plan* plan, const siattn_tensors* tensors, void* workspace, size_t workspace_bytes,
           const Slice* slice) {
  if (plan == nullptr) return Status::invalid("plan is null");
  if (workspace == nullptr && workspace_bytes > 0) {
    return Status::invalid(siattn::dispatch::text("workspace is null: expected ", workspace_bytes, " bytes"));
  }
  const auto views = siattn::capi::tensors_of(tensors);
  if (!views) return views.status();
  const std::span bytes(static_cast<std::byte*>(workspace), workspace_bytes);
  return slice == nullptr ? plan->plan.run(*views, bytes) : plan->plan.run_slice(*views, bytes, *slice);
}

}  // namespace

siattn_status siattn_table_cache_create(siattn_table_cache** cache, siattn_message* message) {
  return guarded(message, [&]() -> Status {
    if (cache == nullptr) return Status::invalid("cache is null");
    *cache = nullptr;
    *cache = new siattn_table_cache;
    return {};
  });
}

void siattn_table_cache_destroy(siattn_table_cache* cache) { delete cache; }

siattn_status siattn_plan_create(const siattn_problem* problem, const siattn_execution* execution, siattn_plan** plan,
                                 siattn_message* message) {
  return guarded(message, [&]() -> Status {
    if (plan == nullptr) return Status::invalid("plan is null");
    *plan = nullptr;
    const auto described = siattn::capi::problem_of(problem);
    if (!described) return described.status();
    const auto options = siattn::capi::execution_of(execution);
    if (!options) return options.status();
    auto made = siattn::AttentionPlan::create(*described, *options);
    if (!made) return made.status();
    std::string backend(made->backend().name());
    *plan = new siattn_plan{*std::move(made), std::move(backend)};
    return {};
  });
}

void siattn_plan_destroy(siattn_plan* plan) { delete plan; }

const char* siattn_plan_backend(const siattn_plan* plan) { return plan == nullptr ? nullptr : plan->backend.c_str(); }

size_t siattn_plan_workspace_bytes(const siattn_plan* plan) {
  return plan == nullptr ? 0 : plan->plan.workspace_bytes();
}

siattn_status siattn_plan_run(const siattn_plan* plan, const siattn_tensors* tensors, void* workspace,
                              size_t workspace_bytes, siattn_message* message) {
  return guarded(message, [&] { return run(plan, tensors, workspace, workspace_bytes, nullptr); });
}

siattn_status siattn_plan_run_slice(const siattn_plan* plan, const siattn_tensors* tensors, void* workspace,
                                    size_t workspace_bytes, int32_t index, int32_t count, siattn_message* message) {
  const Slice slice{index, count};
  return guarded(message, [&] { return run(plan, tensors, workspace, workspace_bytes, &slice); });
}

siattn_status siattn_attention(const siattn_tensors* tensors, const siattn_problem* problem,
                               const siattn_execution* execution, siattn_message* message) {
  return guarded(message, [&]() -> Status {
    const auto views = siattn::capi::tensors_of(tensors);
    if (!views) return views.status();
    const auto options = siattn::capi::options_of(problem);
    if (!options) return options.status();
    const auto how = siattn::capi::execution_of(execution);
    if (!how) return how.status();
    return siattn::attention(*views, *options, *how);
  });
}
