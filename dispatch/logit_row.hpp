// SPDX-License-Identifier: Apache-2.0
// One row of logits in double, and how its weights are spread over distance: what introspect() and `siattn decades`
// share.
#ifndef SIATTN_DISPATCH_LOGIT_ROW_HPP
#define SIATTN_DISPATCH_LOGIT_ROW_HPP

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <siattn/backend.hpp>
#include <siattn/introspection.hpp>

#include "reference/transform.hpp"

namespace siattn::dispatch {

/// Keys first <= j < last.
struct KeyRange {
  std::int64_t first = 0;
  std::int64_t last = 0;

  std::int64_t size() const noexcept { return std::max<std::int64_t>(last - first, 0); }
};

/// The keys that query i of a sequence sees; every mask leaves an interval.
KeyRange visible_keys(const SequenceBounds& sequence, const AttentionOptions& options, std::int64_t i) noexcept;

/// Calls visit(decade, keys) for each decade of distance of the query at `position` that has some of these keys: once
/// for the keys at and before it, once for those behind it.
template <class Visit>
void for_each_decade(std::int64_t position, KeyRange keys, const Visit& visit) {
  std::int64_t low = 0;  // distances low <= t < high
  std::int64_t high = 1;
  for (std::size_t k = 0; k < kDistanceDecades; ++k) {
    const KeyRange before{std::max(keys.first, position - high + 1), std::min(keys.last, position - low + 1)};
    const KeyRange behind{std::max(keys.first, position + low), std::min(keys.last, position + high)};
    if (before.size() > 0) visit(k, before);
    if (k > 0 && behind.size() > 0) visit(k, behind);
    low = high;
    high *= 10;
  }
}

/// From scores to logits: a and m from their equations, kept from row to row for the distances that occurred.
class LogitRow {
 public:
  LogitRow(const AttentionOptions& options, const AttentionShape& shape);

  /// values[j - keys.first] = S_j becomes L_j, for the query of head h at `position`, which sees these keys.
  void transform(std::int64_t h, std::int64_t position, KeyRange keys, std::span<double> values);

 private:
  void cover(std::int64_t h, std::int64_t least, std::int64_t greatest);

  reference::Transform<double> transform_;
  reference::Dependence depends_;
  std::int64_t n_sink_;
  std::int64_t head_ = 0;
  std::int64_t least_ = 0;  ///< distance of the first entry
  std::vector<double> scales_, shifts_;
};

/// values[j - keys.first] = L_j becomes the weight of key j.
RowSummary summarize(std::int64_t position, KeyRange keys, std::int64_t n_sink, std::span<double> values);

}  // namespace siattn::dispatch

#endif  // SIATTN_DISPATCH_LOGIT_ROW_HPP
