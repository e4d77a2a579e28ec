// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_DECADES_HPP
#define SIATTN_VERIFY_DECADES_HPP

#include <vector>

#include <siattn/attention.hpp>

namespace siattn::verify {

/// The distances first <= t < last and how much attention falls there.
struct Decade {
  std::int64_t first = 0;
  std::int64_t last = 0;
  double mass = 0;     ///< mean over rows of the sum of weights in the range, 0 .. 1
  double entropy = 0;  ///< mean over rows, weighted by mass, of the entropy *within* the range (Eq. 6), nats
};

/// Base logits (scores, before the transform) of one head, sinks left out. The theory takes them as standard normal.
struct BaseLogits {
  double mean = 0;
  double standard_deviation = 0;
};

struct DecadeTable {
  std::vector<Decade> decades;          ///< t = 0, [1, 10), [10, 100), ...
  double sink_mass = 0;                 ///< of the first n_sink keys, which belong to no decade
  double entropy = 0;                   ///< mean over rows of the entropy of all the weights, nats
  std::vector<BaseLogits> base_logits;  ///< by head
  std::int64_t skipped = 0;             ///< rows left out, since NaN or infinity is among their logits
  std::int64_t rows = 0;                ///< query rows averaged over: those that see a key
};

/// Where the attention of queries first_query .. query_len - 1 of every head falls, in double. `tensors` needs query and
/// key only; the problem must be a valid one.
DecadeTable attention_by_decade(const AttentionProblem& problem, const AttentionTensors& tensors,
                                std::int64_t first_query);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_DECADES_HPP
