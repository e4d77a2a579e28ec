// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_LOGIT_ROWS_HPP
#define SIATTN_VERIFY_LOGIT_ROWS_HPP

#include <cstdint>
#include <span>
#include <vector>

#include <siattn/attention.hpp>

namespace siattn::verify {

/// The base logits S of Eq. 1, one query row at a time and in double: the whole [query_len, kv_len] matrix never
/// exists. May be read from several threads at once. What the views point to has to outlive it.
class LogitRows {
 public:
  /// S = softmax_scale <q, k>, summed in the order of the dimensions as the reference does. query [batch, heads,
  /// query_len, head_dim], key [batch, kv_heads, kv_len, head_dim], kv_heads dividing heads; any type, innermost stride
  /// 1. Keeps a copy of the keys.
  static LogitRows of_tensors(const TensorView& query, const TensorView& key, double softmax_scale);

  /// S as it stands: logits [batch, heads, query_len, kv_len], any type.
  static LogitRows of_logits(const TensorView& logits);

  std::int64_t batch() const { return rows_.shape[0]; }
  std::int64_t heads() const { return rows_.shape[1]; }
  std::int64_t query_len() const { return rows_.shape[2]; }
  std::int64_t kv_len() const { return kv_len_; }

  /// S of query (b, h, i) with keys 0 .. row.size() - 1.
  void read(std::int64_t b, std::int64_t h, std::int64_t i, std::span<double> row) const;

 private:
  TensorView rows_;  ///< queries, or logits
  std::vector<double> keys_ =
      {};                      ///< [batch][kv_heads][head_dim][kv_len]: neighbours in memory are neighbours in a row
  std::int64_t kv_heads_ = 0;  ///< 0: rows_ are the logits
  std::int64_t kv_len_ = 0;
  double softmax_scale_ = 1;
};

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_LOGIT_ROWS_HPP
