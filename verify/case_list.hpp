// SPDX-License-Identifier: Apache-2.0
// How the files of designed cases write them down.
#ifndef SIATTN_VERIFY_CASE_LIST_HPP
#define SIATTN_VERIFY_CASE_LIST_HPP

#include <string>
#include <utility>
#include <vector>

#include "verify/cases.hpp"

namespace siattn::verify {

using Index = std::int64_t;

inline AttentionShape shape_of(Index query_len, Index kv_len, Index head_dim, Index query_heads = 1, Index kv_heads = 1) {
  return {1, query_heads, kv_heads, query_len, kv_len, head_dim, head_dim};
}

/// Collects the cases of one feature.
class Cases {
 public:
  Cases(std::string feature, bool quick) : feature_(std::move(feature)), quick_(quick) {}

  bool quick() const { return quick_; }

  Case& add(const std::string& name, const AttentionShape& shape, const AttentionOptions& options = {}) {
    Case test_case;
    test_case.feature = feature_;
    test_case.name = feature_ + "/" + name;
    test_case.problem.shape = shape;
    test_case.problem.options = options;
    list.push_back(std::move(test_case));
    return list.back();
  }

  std::vector<Case> list;

 private:
  std::string feature_;
  bool quick_;
};

// batch_cases.cpp: one function for each feature, as in cases.cpp.
void add_ragged(Cases& cases);
void add_paged(Cases& cases);
void add_int8(Cases& cases);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_CASE_LIST_HPP
