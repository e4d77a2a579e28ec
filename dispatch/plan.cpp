// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>

#include <siattn/attention.hpp>
#include <siattn/backend.hpp>

#include "dispatch/boundary.hpp"
#include "dispatch/environment.hpp"
#include "dispatch/message.hpp"
#include "dispatch/table_cache.hpp"
#include "dispatch/validate.hpp"
#include "dispatch/verbose.hpp"
#include "reference/equations.hpp"

namespace siattn {
namespace {

/// The problem with its defaults, all that tensors are judged by.
PreparedAttention described(const AttentionProblem& problem) {
  PreparedAttention prepared;
  prepared.shape = problem.shape;
  prepared.dtype = problem.dtype;
  prepared.kv_dtype = problem.kv_dtype.value_or(problem.dtype);
  prepared.options = problem.options;
  prepared.softmax_scale =
      problem.options.softmax_scale.value_or(reference::default_softmax_scale<double>(problem.shape.head_dim));
  prepared.options.softmax_scale = prepared.softmax_scale;
  return prepared;
}

Result<std::shared_ptr<const PreparedAttention>> prepare(const AttentionProblem& problem, const Backend& backend,
                                                         int threads, bool verbose, TableCache::Tables* cache) {
  auto prepared = std::make_shared<PreparedAttention>(described(problem));
  prepared->threads = threads > 0 ? threads : backend.default_threads();
  prepared->verbose = verbose;
  if (backend.uses_tables()) {
    auto tables = dispatch::shared_tables(cache, *prepared, backend.log_base());
    if (!tables) return tables.status();
    prepared->tables = *std::move(tables);
  }
  auto state = backend.prepare(*prepared);
  if (!state) return state.status();
  prepared->state = *std::move(state);
  return std::shared_ptr<const PreparedAttention>(std::move(prepared));
}

}  // namespace

Result<AttentionPlan> AttentionPlan::create(const AttentionProblem& problem, const ExecutionOptions& execution) {
  return dispatch::guarded<Result<AttentionPlan>>([&]() -> Result<AttentionPlan> {
    // What is wrong with the problem comes before what a backend says of it.
    if (Status status = dispatch::validate_problem(problem); !status) return status;
    const auto backend = choose_backend(execution.backend, problem);
    if (!backend) return backend.status();
    return create_on(**backend, problem, execution);
  });
}

Result<AttentionPlan> AttentionPlan::create_on(const Backend& backend, const AttentionProblem& problem,
                                               const ExecutionOptions& execution) {
  return dispatch::guarded<Result<AttentionPlan>>([&]() -> Result<AttentionPlan> {
    if (Status status = dispatch::validate_problem(problem); !status) return status;
    if (Status status = backend.available(); !status) return status;
    if (Status status = backend.supports(problem); !status) return status;
    const auto resolved_threads = dispatch::threads_from(execution.threads);
    if (!resolved_threads) return resolved_threads.status();
    const auto verbose = dispatch::verbose_from_environment();
    if (!verbose) return verbose.status();
    auto prepared = prepare(problem, backend, *resolved_threads, *verbose,
                            execution.table_cache ? execution.table_cache->tables() : nullptr);
    if (!prepared) return prepared.status();

    AttentionPlan plan;
    plan.backend_ = &backend;
    plan.prepared_ = *std::move(prepared);
    plan.workspace_bytes_ = backend.workspace_bytes(*plan.prepared_);
    return plan;
  });
}

Status AttentionPlan::run(const AttentionTensors& tensors, std::span<std::byte> workspace) const {
  return run_shares(tensors, workspace, nullptr);
}

Status AttentionPlan::run_slice(const AttentionTensors& tensors, std::span<std::byte> workspace, Slice slice) const {
  return run_shares(tensors, workspace, &slice);
}

Status AttentionPlan::run_shares(const AttentionTensors& tensors, std::span<std::byte> workspace,
                                 const Slice* slice) const {
  return dispatch::guarded<Status>([&]() -> Status {
    Status status = dispatch::validate_tensors(*prepared_, tensors);
    if (!status) return status;
    if (workspace.size() < workspace_bytes_) {
      return Status::invalid(
          dispatch::text("workspace has ", workspace.size(), " bytes: expected at least ", workspace_bytes_));
    }
    if (slice != nullptr && (slice->count < 1 || slice->count > prepared_->threads)) {
      return Status::invalid(
          dispatch::text("slice count = ", slice->count, ": expected 1 .. the plan's threads = ", prepared_->threads));
    }
    if (slice != nullptr && (slice->index < 0 || slice->index >= slice->count)) {
      return Status::invalid(dispatch::text("slice index = ", slice->index, ": expected 0 .. ", slice->count - 1));
    }
    AttentionTensors used = tensors;
    for (TensorView* input : {&used.query, &used.key, &used.value, &used.key_scale, &used.value_scale}) {
      dispatch::clear_unused_strides(*input);
    }
    for (MutableTensorView* output : {&used.out, &used.lse}) dispatch::clear_unused_strides(*output);
    const auto run = [&] {
      if (slice != nullptr) return backend_->run_slice(*prepared_, used, workspace, *slice);
      return dispatch::run_safe_after_fork([&] { return backend_->run(*prepared_, used, workspace); });
    };
    if (!prepared_->verbose) return run();
    const auto start = std::chrono::steady_clock::now();
    status = run();
    dispatch::print_run(*prepared_, *backend_,
                        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return status;
  });
}

AttentionProblem problem_of(const AttentionTensors& tensors, const AttentionOptions& options) {
  const Shape4& query = tensors.query.shape;
  const Shape4& key = tensors.key.shape;
  AttentionProblem problem;
  problem.shape = {query[0], query[1], key[1], query[2], key[2], query[3], tensors.value.shape[3]};
  const auto longest = [](const CumulativeLengths& cumulative) {
    std::int64_t most = 0;
    for (std::size_t b = 1; b < cumulative.size(); ++b) {
      std::int64_t length = 0;  // what overflows is refused when the plan runs
      if (!__builtin_sub_overflow(cumulative[b], cumulative[b - 1], &length)) most = std::max(most, length);
    }
    return most;
  };
  if (!tensors.cu_query.empty()) {
    problem.shape.batch = tensors.cu_query.sequences();
    problem.shape.query_len = longest(tensors.cu_query);
  }
  if (!tensors.cu_kv.empty()) problem.shape.kv_len = longest(tensors.cu_kv);
  if (!tensors.pages.empty()) {
    problem.shape.kv_len = 0;
    for (const std::int64_t length : tensors.kv_lengths) problem.shape.kv_len = std::max(problem.shape.kv_len, length);
  }
  problem.dtype = tensors.query.dtype;
  if (tensors.key.dtype == DType::int8) problem.kv_dtype = DType::int8;
  problem.options = options;
  return problem;
}

Status attention(const AttentionTensors& tensors, const AttentionOptions& options, const ExecutionOptions& execution) {
  return dispatch::guarded<Status>([&]() -> Status {
    const AttentionProblem problem = problem_of(tensors, options);
    if (Status status = dispatch::validate_problem(problem); !status) return status;
    // Before tables are built as long as lengths claim that no tensor bears out.
    if (Status status = dispatch::validate_tensors(described(problem), tensors); !status) return status;
    const auto plan = AttentionPlan::create(problem, execution);
    if (!plan) return plan.status();
    const auto workspace = std::make_unique_for_overwrite<std::byte[]>(plan->workspace_bytes());
    return plan->run(tensors, {workspace.get(), plan->workspace_bytes()});
  });
}

}  // namespace siattn
