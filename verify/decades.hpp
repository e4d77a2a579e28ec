// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_DECADES_HPP
#define SIATTN_VERIFY_DECADES_HPP

#include <span>
#include <vector>

#include <siattn/attention.hpp>

#include "verify/logit_rows.hpp"

namespace siattn::verify {

/// The distances first <= t < last and how much attention falls there.
struct Decade {
  std::int64_t first = 0;
  std::int64_t last = 0;
  double mass = 0;         ///< mean over rows of the sum of weights in the range, 0 .. 1
  double entropy = 0;      ///< mean over rows, weighted by mass, of the entropy *within* the range (Eq. 6), nats
  std::int64_t pairs = 0;  ///< of query and key that lie there, sinks and rows left out not counted
};

/// Base logits (scores, before the transform) of one head, sinks left out. The theory takes them as standard normal.
struct BaseLogits {
  double mean = 0;
  double standard_deviation = 0;
};

struct DecadeTable {
  std::vector<Decade> decades;  ///< t = 0, [1, 10), [10, 100), ..., cut to the distances that occur; none is empty
  double sink_mass = 0;         ///< of the first n_sink keys, which belong to no decade
  double entropy = 0;           ///< mean over rows of the entropy of all the weights, nats
  std::vector<BaseLogits> base_logits;  ///< by head
  std::int64_t skipped = 0;             ///< rows left out, since NaN or infinity is among their logits
  std::int64_t rows = 0;                ///< query rows averaged over: those that see a key
};

/// Where the attention of queries first_query .. query_len - 1 of every head falls, in double: a table for each of
/// these options, which are valid for a problem of this shape (value_dim does not count). The tables do not depend on
/// the number of threads.
std::vector<DecadeTable> attention_by_decade(const LogitRows& rows, const AttentionShape& shape,
                                             std::span<const AttentionOptions> options, std::int64_t first_query);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_DECADES_HPP
