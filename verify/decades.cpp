// SPDX-License-Identifier: Apache-2.0
#include "verify/decades.hpp"

#include <algorithm>
#include <cmath>

#include "reference/attention.hpp"

namespace siattn::verify {
namespace {

/// Decade 0 is t = 0, decade k is [10^(k-1), 10^k).
std::size_t decade_of(std::int64_t t) {
  std::size_t k = 0;
  for (; t > 0; t /= 10) ++k;
  return k;
}

std::vector<Decade> decades_up_to(std::int64_t t_max) {
  std::vector<Decade> decades{{0, 1}};
  for (std::int64_t first = 1; first <= t_max; first *= 10) decades.push_back({first, std::min(first * 10, t_max + 1)});
  return decades;
}

/// Sum of the weights of a range and of w log w: H = log Z - N/Z, with the weights in the part of A~ of Eq. 4 and 7.
struct Range {
  double z = 0;
  double n = 0;

  void add(double w) {
    z += w;
    if (w > 0) n += w * std::log(w);
  }
  double entropy() const { return z > 0 ? std::max(std::log(z) - n / z, 0.0) : 0; }
};

/// Mean and variance in one pass (Welford).
struct Moments {
  double n = 0;
  double mean = 0;
  double squares = 0;

  void add(double x) {
    n += 1;
    const double before = x - mean;
    mean += before / n;
    squares += before * (x - mean);
  }
};

class Tally {
 public:
  Tally(const AttentionProblem& problem, const AttentionTensors& tensors, DecadeTable& table)
      : problem_(problem),
        tensors_(tensors),
        table_(table),
        transform_(problem.options, problem.shape),
        scores_(problem.shape.kv_len),
        logits_(problem.shape.kv_len),
        moments_(problem.shape.query_heads) {}

  void add_row(std::int64_t b, std::int64_t h, std::int64_t i) {
    reference::Row<double> row{scores_, logits_, {}, {}};
    reference::row_logits(problem_.shape, problem_.options, transform_, tensors_, b, h, i, row);
    if (row.n_visible == 0) return;
    if (!std::isfinite(row.max)) {
      ++table_.skipped;
      return;
    }
    const reference::Sequence s = reference::sequence(problem_.shape, problem_.options, tensors_, b);
    std::vector<Range> ranges(table_.decades.size());
    Range all;
    double sink = 0;
    for (std::int64_t j = 0; j < problem_.shape.kv_len; ++j) {
      if (!reference::visible(s, problem_.options, i, j)) continue;
      const double w = std::exp(logits_[static_cast<std::size_t>(j)] - row.max);
      all.add(w);
      if (j < problem_.options.n_sink) {
        sink += w;
      } else {
        ranges[decade_of(std::abs(s.query_offset + i - j))].add(w);
        moments_[static_cast<std::size_t>(h)].add(scores_[static_cast<std::size_t>(j)]);
      }
    }
    ++table_.rows;
    table_.sink_mass += sink / all.z;
    table_.entropy += all.entropy();
    for (std::size_t k = 0; k < ranges.size(); ++k) {
      table_.decades[k].mass += ranges[k].z / all.z;
      table_.decades[k].entropy += ranges[k].z / all.z * ranges[k].entropy();
    }
  }

  void finish() {
    for (const Moments& m : moments_)
      table_.base_logits.push_back({m.mean, std::sqrt(m.squares / std::max(m.n - 1, 1.0))});
    const double rows = static_cast<double>(std::max<std::int64_t>(table_.rows, 1));
    for (Decade& decade : table_.decades) {
      if (decade.mass > 0) decade.entropy /= decade.mass;
      decade.mass /= rows;
    }
    table_.sink_mass /= rows;
    table_.entropy /= rows;
  }

 private:
  const AttentionProblem& problem_;
  const AttentionTensors& tensors_;
  DecadeTable& table_;
  reference::Transform<double> transform_;
  std::vector<double> scores_, logits_;
  std::vector<Moments> moments_;
};

}  // namespace

DecadeTable attention_by_decade(const AttentionProblem& problem, const AttentionTensors& tensors,
                                std::int64_t first_query) {
  const AttentionShape& shape = problem.shape;
  const std::int64_t offset = problem.options.query_offset.value_or(shape.kv_len - shape.query_len);
  const std::int64_t t_max =
      std::max({std::abs(offset + shape.query_len - 1), std::abs(offset - (shape.kv_len - 1)), std::int64_t{1}});
  DecadeTable table;
  table.decades = decades_up_to(t_max);
  Tally tally(problem, tensors, table);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t h = 0; h < shape.query_heads; ++h) {
      for (std::int64_t i = first_query; i < shape.query_len; ++i) tally.add_row(b, h, i);
    }
  }
  tally.finish();
  return table;
}

}  // namespace siattn::verify
