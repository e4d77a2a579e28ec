// SPDX-License-Identifier: Apache-2.0
#include "verify/decades.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dispatch/logit_row.hpp"
#include "verify/marginals.hpp"
#include "verify/parallel.hpp"

namespace siattn::verify {
namespace {

/// One table in the making: sums over rows in place of means.
class Tally {
 public:
  Tally() : decades_(kDistanceDecades) {
    for (Decade& decade : decades_) decade.first = std::numeric_limits<std::int64_t>::max();
  }

  void skip_row() { ++skipped_; }

  /// `counted` are the keys that the query at this position sees, without the sinks.
  void add_row(const RowSummary& row, std::int64_t position, dispatch::KeyRange counted) {
    ++rows_;
    sink_mass_ += row.sink_mass;
    entropy_ += row.entropy;
    for (std::size_t k = 0; k < kDistanceDecades; ++k) {
      decades_[k].mass += row.decades[k].mass;
      decades_[k].entropy += row.decades[k].mass * row.decades[k].entropy;
      decades_[k].pairs += row.decades[k].keys;
    }
    dispatch::for_each_decade(position, counted, [&](std::size_t k, dispatch::KeyRange part) {
      const auto [near, far] = std::minmax({std::abs(position - part.first), std::abs(position - (part.last - 1))});
      decades_[k].first = std::min(decades_[k].first, near);
      decades_[k].last = std::max(decades_[k].last, far + 1);
    });
  }

  void merge(const Tally& other) {
    rows_ += other.rows_;
    skipped_ += other.skipped_;
    sink_mass_ += other.sink_mass_;
    entropy_ += other.entropy_;
    for (std::size_t k = 0; k < kDistanceDecades; ++k) {
      decades_[k].mass += other.decades_[k].mass;
      decades_[k].entropy += other.decades_[k].entropy;
      decades_[k].pairs += other.decades_[k].pairs;
      decades_[k].first = std::min(decades_[k].first, other.decades_[k].first);
      decades_[k].last = std::max(decades_[k].last, other.decades_[k].last);
    }
  }

  DecadeTable finish() const {
    DecadeTable table;
    table.rows = rows_;
    table.skipped = skipped_;
    const auto rows = static_cast<double>(std::max<std::int64_t>(rows_, 1));
    table.sink_mass = sink_mass_ / rows;
    table.entropy = entropy_ / rows;
    for (Decade decade : decades_) {
      if (decade.pairs == 0) continue;
      if (decade.mass > 0) decade.entropy /= decade.mass;
      decade.mass /= rows;
      table.decades.push_back(decade);
    }
    return table;
  }

 private:
  std::vector<Decade> decades_;
  double sink_mass_ = 0, entropy_ = 0;
  std::int64_t rows_ = 0, skipped_ = 0;
};

/// All the rows of one head under one set of options.
class HeadTally {
 public:
  HeadTally(const AttentionShape& shape, const AttentionOptions& options, std::int64_t h)
      : options_(options),
        h_(h),
        row_(options, shape),
        sequence_{shape.query_len, shape.kv_len, options.query_offset.value_or(shape.kv_len - shape.query_len)} {}

  void add_row(std::int64_t i, std::span<const double> scores, Moments& moments) {
    const dispatch::KeyRange keys = dispatch::visible_keys(sequence_, options_, i);
    if (keys.size() == 0) return;
    const std::int64_t position = sequence_.query_offset + i;
    const auto seen = scores.subspan(static_cast<std::size_t>(keys.first), static_cast<std::size_t>(keys.size()));
    logits_.assign(seen.begin(), seen.end());
    row_.transform(h_, position, keys, logits_);
    const RowSummary summary = dispatch::summarize(position, keys, options_.n_sink, logits_);
    if (!std::isfinite(summary.lse)) return tally.skip_row();
    const dispatch::KeyRange counted{std::max(keys.first, options_.n_sink), keys.last};
    tally.add_row(summary, position, counted);
    if (counted.size() > 0) moments.add(seen.last(static_cast<std::size_t>(counted.size())));
  }

  Tally tally;

 private:
  const AttentionOptions& options_;
  std::int64_t h_;
  dispatch::LogitRow row_;
  SequenceBounds sequence_;
  std::vector<double> logits_;
};

}  // namespace

std::vector<DecadeTable> attention_by_decade(const LogitRows& rows, const AttentionShape& shape,
                                             std::span<const AttentionOptions> options, std::int64_t first_query) {
  const auto heads = static_cast<std::size_t>(shape.query_heads);
  std::vector<std::vector<Tally>> tallies(options.size(), std::vector<Tally>(heads));
  std::vector<std::vector<Moments>> moments(options.size(), std::vector<Moments>(heads));
  for_each_index(heads, [&](std::size_t h) {
    const auto head = static_cast<std::int64_t>(h);
    std::vector<HeadTally> each;
    for (const AttentionOptions& o : options) each.emplace_back(shape, o, head);
    std::vector<double> scores(static_cast<std::size_t>(shape.kv_len));
    for (std::int64_t b = 0; b < shape.batch; ++b) {
      for (std::int64_t i = first_query; i < shape.query_len; ++i) {
        rows.read(b, head, i, scores);
        for (std::size_t k = 0; k < each.size(); ++k) each[k].add_row(i, scores, moments[k][h]);
      }
    }
    for (std::size_t k = 0; k < each.size(); ++k) tallies[k][h] = each[k].tally;
  });
  std::vector<DecadeTable> tables;
  for (std::size_t k = 0; k < options.size(); ++k) {
    Tally all;
    for (const Tally& tally : tallies[k]) all.merge(tally);
    tables.push_back(all.finish());
    for (const Moments& m : moments[k])
      tables.back().base_logits.push_back({m.mean(), m.count() > 1 ? m.standard_deviation() : 0});
  }
  return tables;
}

}  // namespace siattn::verify
