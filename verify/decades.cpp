// SPDX-License-Identifier: Apache-2.0
#include "verify/decades.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/attention.hpp"
#include "verify/marginals.hpp"
#include "verify/parallel.hpp"

namespace siattn::verify {
namespace {

/// Decade 0 is t = 0, decade k is [10^(k-1), 10^k).
std::size_t decade_of(std::int64_t t) {
  std::size_t k = 0;
  for (; t > 0; t /= 10) ++k;
  return k;
}
constexpr std::size_t kDecades = 11;  // positions end at 2^31

/// Sum of the weights of a range and of w log w: H = log Z - N/Z, with the weights in the part of A~ of Eq. 4 and 7.
struct Range {
  double z = 0;
  double n = 0;

  /// w = exp(l)
  void add(double w, double l) {
    z += w;
    if (w > 0) n += w * l;
  }
  void add(const Range& other) {
    z += other.z;
    n += other.n;
  }
  double entropy() const { return z > 0 ? std::max(std::log(z) - n / z, 0.0) : 0; }
};

/// One table in the making: sums over rows in place of means.
class Tally {
 public:
  Tally() : decades_(kDecades) {
    for (Decade& decade : decades_) decade.first = std::numeric_limits<std::int64_t>::max();
  }

  void skip_row() { ++skipped_; }

  void add_row(std::span<const Range> ranges, const Range& sinks) {
    Range all = sinks;
    for (const Range& range : ranges) all.add(range);
    ++rows_;
    sink_mass_ += sinks.z / all.z;
    entropy_ += all.entropy();
    for (std::size_t k = 0; k < kDecades; ++k) {
      decades_[k].mass += ranges[k].z / all.z;
      decades_[k].entropy += ranges[k].z / all.z * ranges[k].entropy();
    }
  }

  /// A pair at this distance, which is in decade k.
  void count(std::size_t k, std::int64_t t) {
    Decade& decade = decades_[k];
    ++decade.pairs;
    decade.first = std::min(decade.first, t);
    decade.last = std::max(decade.last, t + 1);
  }

  void merge(const Tally& other) {
    rows_ += other.rows_;
    skipped_ += other.skipped_;
    sink_mass_ += other.sink_mass_;
    entropy_ += other.entropy_;
    for (std::size_t k = 0; k < kDecades; ++k) {
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

/// a and m of one head for every distance that occurs: the equations are not evaluated pair by pair.
struct HeadTable {
  reference::Transform<double> transform;
  std::int64_t least = 0;
  std::vector<double> scale, shift;

  HeadTable(const AttentionShape& shape, const AttentionOptions& options, std::int64_t h) : transform(options, shape) {
    const std::int64_t offset = options.query_offset.value_or(shape.kv_len - shape.query_len);
    const std::int64_t low = offset - (shape.kv_len - 1);  // signed distances of the pairs, low .. high
    const std::int64_t high = offset + shape.query_len - 1;
    least = low <= 0 && high >= 0 ? 0 : std::min(std::abs(low), std::abs(high));
    for (std::int64_t t = least; t <= std::max(std::abs(low), std::abs(high)); ++t) {
      scale.push_back(transform.scale(h, t));
      shift.push_back(transform.shift(h, t));
    }
  }
};

/// All the rows of one head under one set of options.
class HeadTally {
 public:
  HeadTally(const AttentionShape& shape, const AttentionOptions& options, std::int64_t h)
      : options_(options), h_(h), table_(shape, options, h), sequence_(sequence_of(shape, options)) {}

  void add_row(std::int64_t i, std::span<const double> scores, Moments* moments) {
    logits_.assign(scores.size(), 0);
    visible_.clear();
    for (std::size_t j = 0; j < scores.size(); ++j) {
      if (reference::visible(sequence_, options_, i, static_cast<std::int64_t>(j))) visible_.push_back(j);
    }
    if (visible_.empty()) return;
    const double factor = table_.transform.row_factor(h_, static_cast<std::int64_t>(visible_.size()));
    double max = -std::numeric_limits<double>::infinity();
    bool finite = true;
    for (const std::size_t j : visible_) {
      const auto k = static_cast<std::size_t>(distance(i, j) - table_.least);
      logits_[j] = is_sink(j) ? scores[j] : reference::logit(factor * table_.scale[k], scores[j], table_.shift[k]);
      finite = finite && !std::isnan(logits_[j]);
      max = std::max(max, logits_[j]);
    }
    if (!finite || !std::isfinite(max)) return tally.skip_row();
    add_weights(i, max);
    if (moments != nullptr) {
      counted_.clear();
      for (const std::size_t j : visible_) {
        if (!is_sink(j)) counted_.push_back(scores[j]);
      }
      moments->add(counted_);
    }
  }

  Tally tally;

 private:
  static reference::Sequence sequence_of(const AttentionShape& shape, const AttentionOptions& options) {
    return reference::sequence(shape, options, AttentionTensors{}, 0);
  }
  std::int64_t distance(std::int64_t i, std::size_t j) const {
    return std::abs(sequence_.query_offset + i - static_cast<std::int64_t>(j));
  }
  bool is_sink(std::size_t j) const { return static_cast<std::int64_t>(j) < options_.n_sink; }

  void add_weights(std::int64_t i, double max) {
    std::vector<Range> ranges(kDecades);
    Range sinks;
    for (const std::size_t j : visible_) {
      const double l = logits_[j] - max;
      const double w = std::exp(l);
      if (is_sink(j)) {
        sinks.add(w, l);
        continue;
      }
      const std::int64_t t = distance(i, j);
      const std::size_t k = decade_of(t);
      ranges[k].add(w, l);
      tally.count(k, t);
    }
    tally.add_row(ranges, sinks);
  }

  const AttentionOptions& options_;
  std::int64_t h_;
  HeadTable table_;
  reference::Sequence sequence_;
  std::vector<double> logits_, counted_;
  std::vector<std::size_t> visible_;
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
        for (std::size_t k = 0; k < each.size(); ++k) each[k].add_row(i, scores, &moments[k][h]);
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
