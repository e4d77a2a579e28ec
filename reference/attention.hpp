// SPDX-License-Identifier: Apache-2.0
// Attention as the contract of include/siattn/attention.hpp states it, in plain loops at any precision: the oracle that
// every backend is checked against. It shares no code with the kernels; masks are asked pair by pair, the transform is
// evaluated from its equations, nothing is tiled.
#ifndef SIATTN_REFERENCE_ATTENTION_HPP
#define SIATTN_REFERENCE_ATTENTION_HPP

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include <siattn/attention.hpp>

#include "reference/transform.hpp"

namespace siattn::reference {

/// One element, exact in any Real of at least 53 bits.
template <class Real>
Real element(const TensorView& x, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) {
  const auto* at = static_cast<const std::byte*>(x.data) +
                   (row_offset(x, b, h, i) + d) * static_cast<std::int64_t>(size_of(x.dtype));
  const auto load = [at](auto value) {
    std::memcpy(&value, at, sizeof(value));
    return value;
  };
  switch (x.dtype) {
    case DType::float32: return Real(load(float{}));
    case DType::float64: return Real(load(double{}));
    case DType::bfloat16: return Real(to_float(load(bfloat16{})));
    case DType::float16: return Real(to_float(load(float16{})));
    case DType::int8: return Real(static_cast<int>(load(std::int8_t{})));
  }
  return Real(0);
}

/// How many sequences there are.
inline std::int64_t sequences(const AttentionShape& shape, const AttentionTensors& tensors) {
  return tensors.cu_query.empty() ? shape.batch : tensors.cu_query.sequences();
}

/// Element (b, h, i, d) of query, out or lse: in a ragged batch, of token cu_query[b] + i.
template <class Real>
Real query_element(const AttentionTensors& tensors, const TensorView& x, std::int64_t b, std::int64_t h, std::int64_t i,
                   std::int64_t d) {
  if (tensors.cu_query.empty()) return element<Real>(x, b, h, i, d);
  return element<Real>(x, 0, h, tensors.cu_query[static_cast<std::size_t>(b)] + i, d);
}

/// Element (b, h, j, d) of key or value: of token cu_kv[b] + j, or of the page and slot that hold key j; times its scale,
/// where there is one.
template <class Real>
Real kv_element(const AttentionTensors& tensors, const TensorView& x, const TensorView& scale, std::int64_t b,
                std::int64_t h, std::int64_t j, std::int64_t d) {
  std::int64_t outer = b;
  std::int64_t row = j;
  if (!tensors.pages.empty()) {
    outer = tensors.pages.pages[b * tensors.pages.stride + j / tensors.pages.page_size];
    row = j % tensors.pages.page_size;
  } else if (!tensors.cu_kv.empty()) {
    outer = 0;
    row = tensors.cu_kv[static_cast<std::size_t>(b)] + j;
  }
  const Real stored = element<Real>(x, outer, h, row, d);
  return x.dtype == DType::int8 ? stored * element<Real>(scale, outer, h, row, 0) : stored;
}

template <class Real>
Real key_element(const AttentionTensors& tensors, std::int64_t b, std::int64_t h, std::int64_t j, std::int64_t d) {
  return kv_element<Real>(tensors, tensors.key, tensors.key_scale, b, h, j, d);
}
template <class Real>
Real value_element(const AttentionTensors& tensors, std::int64_t b, std::int64_t h, std::int64_t j, std::int64_t d) {
  return kv_element<Real>(tensors, tensors.value, tensors.value_scale, b, h, j, d);
}

/// Where the queries and keys of one sequence end and where its queries stand.
struct Sequence {
  std::int64_t query_len;
  std::int64_t kv_len;
  std::int64_t query_offset;
};

inline Sequence sequence(const AttentionShape& shape, const AttentionOptions& options, const AttentionTensors& tensors,
                         std::int64_t b) {
  const auto at = static_cast<std::size_t>(b);
  Sequence s{shape.query_len, shape.kv_len, 0};
  if (!tensors.query_lengths.empty()) s.query_len = tensors.query_lengths[at];
  if (!tensors.kv_lengths.empty()) s.kv_len = tensors.kv_lengths[at];
  if (!tensors.cu_query.empty()) s.query_len = tensors.cu_query[at + 1] - tensors.cu_query[at];
  if (!tensors.cu_kv.empty()) s.kv_len = tensors.cu_kv[at + 1] - tensors.cu_kv[at];
  s.query_offset = options.query_offset ? *options.query_offset : s.kv_len - s.query_len;
  if (!tensors.query_offsets.empty()) s.query_offset = tensors.query_offsets[at];
  return s;
}

/// Does query i see key j?
inline bool visible(const Sequence& s, const AttentionOptions& options, std::int64_t i, std::int64_t j) {
  if (i >= s.query_len || j >= s.kv_len) return false;
  const std::int64_t t = s.query_offset + i - j;
  if (options.mask == Mask::causal && t < 0) return false;
  const std::int64_t distance = t < 0 ? -t : t;
  return !options.window || distance < *options.window;
}

/// Everything about one query row. Spans have kv_len entries (out: value_dim) and are indexed by key; entries of keys
/// that the query does not see are left alone in scores, -infinity in logits and 0 in weights.
template <class Real>
struct Row {
  std::span<Real> scores;   ///< S_j, Eq. 1
  std::span<Real> logits;   ///< L_j, Eq. 14
  std::span<Real> weights;  ///< A_j, Eq. 3
  std::span<Real> out;
  std::int64_t n_visible = 0;
  Real max = -std::numeric_limits<Real>::infinity();  ///< of the logits
  Real lse = -std::numeric_limits<Real>::infinity();  ///< log Z, Eq. 4, natural
};

/// Scores and logits of the keys that query i of head h sees, and the largest logit (NaN if any is NaN).
template <class Real>
void row_logits(const AttentionShape& shape, const AttentionOptions& options, const Transform<Real>& transform,
                const AttentionTensors& tensors, std::int64_t b, std::int64_t h, std::int64_t i, Row<Real>& row) {
  using std::isnan;
  const Sequence s = sequence(shape, options, tensors, b);
  const std::int64_t g = h / (shape.query_heads / shape.kv_heads);
  const Real softmax_scale =
      options.softmax_scale ? Real(*options.softmax_scale) : default_softmax_scale<Real>(shape.head_dim);

  row.n_visible = 0;
  for (std::int64_t j = 0; j < shape.kv_len; ++j) row.n_visible += visible(s, options, i, j) ? 1 : 0;
  const Real row_factor = transform.row_factor(h, row.n_visible);

  row.max = -std::numeric_limits<Real>::infinity();
  for (std::int64_t j = 0; j < shape.kv_len; ++j) {
    row.logits[j] = -std::numeric_limits<Real>::infinity();
    if (!visible(s, options, i, j)) continue;
    Real dot(0);
    for (std::int64_t d = 0; d < shape.head_dim; ++d) {
      dot += query_element<Real>(tensors, tensors.query, b, h, i, d) * key_element<Real>(tensors, b, g, j, d);
    }
    row.scores[j] = softmax_scale * dot;
    const std::int64_t t = std::abs(s.query_offset + i - j);
    row.logits[j] = j < options.n_sink
                        ? row.scores[j]
                        : logit<Real>(row_factor * transform.scale(h, t), row.scores[j], transform.shift(h, t));
    // A NaN, once taken, stays: no later comparison with it is true.
    if (isnan(row.logits[j]) || row.logits[j] > row.max) row.max = row.logits[j];
  }
}

/// The whole row. A row that sees no key, or none whose weight is above zero, has out = 0 and lse = -infinity.
template <class Real>
void attention_row(const AttentionShape& shape, const AttentionOptions& options, const Transform<Real>& transform,
                   const AttentionTensors& tensors, std::int64_t b, std::int64_t h, std::int64_t i, Row<Real>& row) {
  using std::exp, std::isnan, std::log;
  const Real minus_infinity = -std::numeric_limits<Real>::infinity();
  const Sequence s = sequence(shape, options, tensors, b);
  const std::int64_t g = h / (shape.query_heads / shape.kv_heads);
  row_logits(shape, options, transform, tensors, b, h, i, row);

  for (Real& x : row.out) x = Real(0);
  for (Real& x : row.weights) x = Real(0);
  row.lse = minus_infinity;
  if (row.max == minus_infinity) return;
  Real z(0);
  for (std::int64_t j = 0; j < shape.kv_len; ++j) {
    if (!visible(s, options, i, j)) continue;
    row.weights[j] = exp(row.logits[j] - row.max);
    z += row.weights[j];
  }
  row.lse = row.max + log(z);
  for (std::int64_t j = 0; j < shape.kv_len; ++j) {
    if (!visible(s, options, i, j)) continue;
    row.weights[j] /= z;
    for (std::int64_t c = 0; c < shape.value_dim; ++c) {
      row.out[c] += row.weights[j] * value_element<Real>(tensors, b, g, j, c);
    }
  }
}

}  // namespace siattn::reference

#endif  // SIATTN_REFERENCE_ATTENTION_HPP
