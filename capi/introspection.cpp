// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <siattn/siattn.h>
#include <siattn/introspection.hpp>

#include "capi/describe.hpp"
#include "capi/guard.hpp"
#include "dispatch/message.hpp"

namespace {

using siattn::Status;
using siattn::dispatch::text;

static_assert(SIATTN_DISTANCE_DECADES == siattn::kDistanceDecades);

siattn_row_summary summary_of(const siattn::RowSummary& row) {
  siattn_row_summary summary{row.keys, row.max_logit, row.lse, row.entropy, row.sink_mass, {}};
  std::transform(row.decades.begin(), row.decades.end(), summary.decades, [](const siattn::DecadeShare& share) {
    return siattn_decade_share{share.keys, share.mass, share.entropy};
  });
  return summary;
}

Status introspect(const siattn_tensors* tensors, const siattn_problem* problem, const siattn_query_index* rows,
                  int64_t count, const siattn_introspection* outputs, int32_t threads) {
  const auto views = siattn::capi::tensors_of(tensors);
  if (!views) return views.status();
  const auto options = siattn::capi::options_of(problem);
  if (!options) return options.status();
  if (count < 0) return Status::invalid(text("count = ", count, ": expected 0 or more"));
  if (rows == nullptr && count > 0) return Status::invalid(text("rows is null: expected ", count, " of them"));
  siattn_introspection wanted{};
  const Status copied =
      siattn::capi::copy_descriptor("introspection", outputs, SIATTN_SIZE_UP_TO(siattn_introspection, weights), wanted);
  if (!copied) return copied;
  const auto logits = siattn::capi::view_of("logits", wanted.logits);
  if (!logits) return logits.status();
  const auto weights = siattn::capi::view_of("weights", wanted.weights);
  if (!weights) return weights.status();

  std::vector<siattn::QueryIndex> indices;
  for (int64_t r = 0; r < count; ++r) indices.push_back({rows[r].sequence, rows[r].head, rows[r].query});
  std::vector<siattn::RowSummary> summaries(wanted.summaries != nullptr ? indices.size() : 0);
  const Status status = siattn::introspect(*views, *options, indices, {summaries, *logits, *weights}, threads);
  if (status) std::transform(summaries.begin(), summaries.end(), wanted.summaries, summary_of);
  return status;
}

}  // namespace

siattn_status siattn_introspect(const siattn_tensors* tensors, const siattn_problem* problem,
                                const siattn_query_index* rows, int64_t count, const siattn_introspection* outputs,
                                int32_t threads, siattn_message* message) {
  return siattn::capi::guarded(message, [&] { return introspect(tensors, problem, rows, count, outputs, threads); });
}
