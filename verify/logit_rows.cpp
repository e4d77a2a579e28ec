// SPDX-License-Identifier: Apache-2.0
#include "verify/logit_rows.hpp"

#include <algorithm>

#include "reference/attention.hpp"

namespace siattn::verify {

LogitRows LogitRows::of_tensors(const TensorView& query, const TensorView& key, double softmax_scale) {
  LogitRows rows;
  rows.rows_ = query;
  rows.kv_heads_ = key.shape[1];
  rows.kv_len_ = key.shape[2];
  rows.softmax_scale_ = softmax_scale;
  const std::int64_t head_dim = key.shape[3];
  rows.keys_.resize(static_cast<std::size_t>(key.shape[0] * key.shape[1] * key.shape[2] * head_dim));
  auto at = rows.keys_.begin();
  for (std::int64_t b = 0; b < key.shape[0]; ++b) {
    for (std::int64_t g = 0; g < key.shape[1]; ++g) {
      for (std::int64_t d = 0; d < head_dim; ++d) {
        for (std::int64_t j = 0; j < key.shape[2]; ++j) *at++ = reference::element<double>(key, b, g, j, d);
      }
    }
  }
  return rows;
}

LogitRows LogitRows::of_logits(const TensorView& logits) {
  LogitRows rows;
  rows.rows_ = logits;
  rows.kv_len_ = logits.shape[3];
  return rows;
}

void LogitRows::read(std::int64_t b, std::int64_t h, std::int64_t i, std::span<double> row) const {
  if (kv_heads_ == 0) {
    for (std::size_t j = 0; j < row.size(); ++j)
      row[j] = reference::element<double>(rows_, b, h, i, static_cast<std::int64_t>(j));
    return;
  }
  const std::int64_t g = h / (heads() / kv_heads_);
  const std::int64_t head_dim = rows_.shape[3];
  const double* keys = keys_.data() + (b * kv_heads_ + g) * head_dim * kv_len_;
  std::fill(row.begin(), row.end(), 0.0);
  for (std::int64_t d = 0; d < head_dim; ++d, keys += kv_len_) {
    const double q = reference::element<double>(rows_, b, h, i, d);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] += q * keys[j];
  }
  for (double& s : row) s *= softmax_scale_;
}

}  // namespace siattn::verify
