// SPDX-License-Identifier: Apache-2.0
// Infini-attention (Munkhdalai, Faruqui, Gopal 2024), a baseline of the paper's Table 3: not an affine map of logits but
// another mechanism, so it is here as plain loops only and no backend computes it.
#ifndef SIATTN_REFERENCE_INFINI_ATTENTION_HPP
#define SIATTN_REFERENCE_INFINI_ATTENTION_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace siattn::reference {

/// The shape of one head and what it learns.
template <class Real>
struct InfiniAttention {
  std::int64_t head_dim;   ///< of query and key, >= 1
  std::int64_t value_dim;  ///< >= 1
  std::int64_t segment;    ///< tokens between two updates of the memory, >= 1; the last segment may be shorter
  Real gate;               ///< g: the memory's share of the output is sigmoid(g)
  Real softmax_scale;      ///< of the local attention; 1/sqrt(head_dim) as published
};

/// f = ELU + 1, elementwise: x + 1 above 0, exp(x) else. Positive.
template <class Real>
Real memory_feature(const Real& x) {
  using std::exp;
  return x > 0 ? Real(x + 1) : Real(exp(x));
}

/// sigmoid(g) = 1 / (1 + exp(-g)).
template <class Real>
Real sigmoid(const Real& g) {
  using std::exp;
  return 1 / (1 + exp(-g));
}

/// M = sum f(k)^T v [head_dim, value_dim] and z = sum f(k) [head_dim] over the keys of all segments that are complete.
template <class Real>
struct InfiniMemory {
  std::vector<Real> matrix;
  std::vector<Real> norm;
};

/// A_mem = f(q) M / (f(q) z) of one query, added to out [value_dim] times `share`. An empty memory gives 0.
template <class Real>
void read_memory(const InfiniMemory<Real>& memory, std::span<const Real> query, const Real& share, std::span<Real> out) {
  Real norm(0);
  for (std::size_t d = 0; d < query.size(); ++d) norm += memory_feature(query[d]) * memory.norm[d];
  if (norm == 0) return;
  for (std::size_t c = 0; c < out.size(); ++c) {
    Real sum(0);
    for (std::size_t d = 0; d < query.size(); ++d) {
      sum += memory_feature(query[d]) * memory.matrix[d * out.size() + c];
    }
    out[c] += share * sum / norm;
  }
}

/// Softmax attention of one query over the keys [n, head_dim] and values [n, value_dim] of its segment up to itself,
/// added to out [value_dim] times `share`. n >= 1.
template <class Real>
void attend_locally(const InfiniAttention<Real>& a, std::span<const Real> query, std::span<const Real> keys,
                    std::span<const Real> values, const Real& share, std::span<Real> out) {
  using std::exp;
  const std::size_t dim = query.size();
  std::vector<Real> logits(keys.size() / dim, Real(0));
  for (std::size_t j = 0; j < logits.size(); ++j) {
    for (std::size_t d = 0; d < dim; ++d) logits[j] += a.softmax_scale * query[d] * keys[j * dim + d];
  }
  const Real max = *std::max_element(logits.begin(), logits.end());
  Real z(0);
  for (Real& l : logits) z += l = exp(l - max);
  for (std::size_t j = 0; j < logits.size(); ++j) {
    for (std::size_t c = 0; c < out.size(); ++c) out[c] += share * logits[j] / z * values[j * out.size() + c];
  }
}

/// One head over n tokens: query and key [n, head_dim], value [n, value_dim], all rows contiguous. Returns
/// out [n, value_dim]:
///     out = sigmoid(g) A_mem + (1 - sigmoid(g)) A_local,
/// A_local causal within the segment, A_mem from the memory of the segments before; after each segment M += f(K)^T V and
/// z += sum f(K).
template <class Real>
std::vector<Real> infini_attention(const InfiniAttention<Real>& a, std::span<const Real> query,
                                   std::span<const Real> key, std::span<const Real> value) {
  const auto dim = static_cast<std::size_t>(a.head_dim);
  const auto width = static_cast<std::size_t>(a.value_dim);
  const auto segment = static_cast<std::size_t>(a.segment);
  const std::size_t n = query.size() / dim;
  const Real share = sigmoid(a.gate);
  InfiniMemory<Real> memory{std::vector<Real>(dim * width, Real(0)), std::vector<Real>(dim, Real(0))};
  std::vector<Real> out(n * width, Real(0));
  for (std::size_t begin = 0; begin < n; begin += segment) {
    const std::size_t end = std::min(begin + segment, n);
    for (std::size_t i = begin; i < end; ++i) {
      const std::span<const Real> q = query.subspan(i * dim, dim);
      const std::span<Real> row = std::span(out).subspan(i * width, width);
      const std::size_t seen = i + 1 - begin;
      read_memory(memory, q, share, row);
      attend_locally(a, q, key.subspan(begin * dim, seen * dim), value.subspan(begin * width, seen * width),
                     Real(1 - share), row);
    }
    for (std::size_t j = begin; j < end; ++j) {
      for (std::size_t d = 0; d < dim; ++d) {
        const Real feature = memory_feature(key[j * dim + d]);
        memory.norm[d] += feature;
        for (std::size_t c = 0; c < width; ++c) memory.matrix[d * width + c] += feature * value[j * width + c];
      }
    }
  }
  return out;
}

}  // namespace siattn::reference

#endif  // SIATTN_REFERENCE_INFINI_ATTENTION_HPP
