// SPDX-License-Identifier: Apache-2.0
#include <siattn/introspection.hpp>

#include <algorithm>
#include <vector>

#include <siattn/siattn.h>

#include "capi/describe.hpp"
#include "capi/guard.hpp"
#include "dispatch/message.hpp"

namespace siattn::capi {
namespace {

static_assert(SIATTN_DISTANCE_DECADES == kDistanceDecades);

siattn_row_summary summary_of(const RowSummary& row) {
  siattn_row_summary summary{row.keys, row.max_logit, row.lse, row.entropy, row.sink_mass, {}};
  std::transform(row.decades.begin(), row.decades.end(), summary.decades, [](const DecadeShare& share) {
    return siattn_decade_share{share.keys, share.mass, share.entropy};
  });
  return summary;
}

Status introspect(const siattn_tensors* tensors, const siattn_problem* problem,
                  const siattn_introspection* introspection, int threads) {
  const auto views = tensors_of(tensors);
  if (!views) return views.status();
  const auto options = options_of(problem);
  if (!options) return options.status();
  siattn_introspection wanted{};
  Status status =
      copy_descriptor("introspection", introspection, SIATTN_SIZE_UP_TO(siattn_introspection, weights), wanted);
  if (!status) return status;
  constexpr std::int64_t most = std::int64_t{1} << 48;  // more would fill any address space
  if (wanted.row_count < 0 || wanted.row_count > most || (wanted.row_count > 0 && wanted.rows == nullptr)) {
    return Status::invalid(dispatch::text("rows is ", wanted.rows == nullptr ? "null" : "given", " and row_count = ",
                                          wanted.row_count, ": expected rows and how many there are"));
  }
  const auto logits = view_of("logits", wanted.logits);
  if (!logits) return logits.status();
  const auto weights = view_of("weights", wanted.weights);
  if (!weights) return weights.status();

  std::vector<QueryIndex> rows(static_cast<std::size_t>(wanted.row_count));
  std::transform(wanted.rows, wanted.rows + wanted.row_count, rows.begin(), [](const siattn_query_index& row) {
    return QueryIndex{row.sequence, row.head, row.query};
  });
  std::vector<RowSummary> summaries(wanted.summaries == nullptr ? 0 : rows.size());
  status = siattn::introspect(*views, *options, rows, {summaries, *logits, *weights}, threads);
  if (status) std::transform(summaries.begin(), summaries.end(), wanted.summaries, summary_of);
  return status;
}

}  // namespace
}  // namespace siattn::capi

siattn_status siattn_introspect(const siattn_tensors* tensors, const siattn_problem* problem,
                                const siattn_introspection* introspection, int32_t threads, siattn_message* message) {
  return siattn::capi::guarded(message,
                               [&] { return siattn::capi::introspect(tensors, problem, introspection, threads); });
}
