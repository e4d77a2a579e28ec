// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_INTROSPECTION_HPP
#define SIATTN_INTROSPECTION_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <siattn/attention.hpp>
#include <siattn/export.h>

/// What a fused kernel never shows: the logits and weights of chosen query rows, and where their attention falls by
/// distance. Fused attention holds no weights at any time, so these are computed anew from query and key, for the rows
/// that are asked for and for no others: O(kv_len head_dim) time and O(kv_len) memory a row and thread, whatever the
/// number of queries. Every mask, transform, calibration, type, ragged and paged cache that attention() takes, in host memory.
///
/// All of it is in double, from the equations and not from a backend's tables, so one answer serves all backends: their
/// lse and out agree with it within the bound of verify/bounds.hpp.
namespace siattn SIATTN_EXPORT {

/// One query of one head.
struct QueryIndex {
  std::int64_t sequence = 0;  ///< of the batch
  std::int64_t head = 0;      ///< query head
  std::int64_t query = 0;     ///< counted within its sequence; past its query_lengths entry it sees no key
};

/// Decade 0 is the distance t = 0, decade k the distances 10^(k-1) <= t < 10^k; positions leave no greater ones.
inline constexpr std::size_t kDistanceDecades = 11;

/// The visible keys of one row whose distance lies in one decade, both directions together, sinks left out.
struct DecadeShare {
  std::int64_t keys = 0;
  double mass = 0;     ///< sum of their weights, 0 .. 1
  double entropy = 0;  ///< of their weights once these are made to sum to 1 (Eq. 6), nats, however small the mass
};

/// How the attention of one row is spread. All numbers but `keys` are NaN where NaN, or a logit of +infinity, is among
/// what the row sees; a row that sees no key, or none whose logit is above -infinity, has 0 and lse = -infinity.
struct RowSummary {
  std::int64_t keys = 0;  ///< visible ones, sinks included
  double max_logit = 0;   ///< natural log, as lse; -infinity for a row that sees no key
  double lse = 0;         ///< log sum_j exp(L_j)
  double entropy = 0;     ///< of all the weights, nats
  double sink_mass = 0;   ///< of the first n_sink keys, which belong to no decade
  std::array<DecadeShare, kDistanceDecades> decades{};
};

/// What is wanted; at least one of the three. Row r of each belongs to rows[r].
struct IntrospectionOutputs {
  std::span<RowSummary> summaries = {};  ///< Empty: not wanted.

  /// [1, 1, rows, width], float32 or float64, width at least the keys of each sequence that a row names; data ==
  /// nullptr: not wanted. Element j belongs to key j of the row's sequence. A key that the row does not see, or that is
  /// not there, has logit -infinity and weight 0; a NaN that the row sees makes all weights NaN that it does not mask.
  MutableTensorView logits = {};   ///< L_j, natural log
  MutableTensorView weights = {};  ///< exp(L_j - lse)
};

/// Fills in the outputs for these rows, in any order and with repetitions. Of the tensors, query and key are read (with
/// lengths, cumulative lengths, pages, offsets and key_scale), value, out and lse are not looked at. The same bits for
/// any number of threads (0: as many as OpenMP would use) and any other rows.
///
/// Errors: what attention() says of a problem, of query and of key; a row that there is not; an output of another shape
/// or type, or that overlaps another tensor; nothing has been written then. out_of_memory.
Status introspect(const AttentionTensors& tensors, const AttentionOptions& options, std::span<const QueryIndex> rows,
                  const IntrospectionOutputs& outputs, int threads = 0) noexcept;

}  // namespace siattn

#endif  // SIATTN_INTROSPECTION_HPP
