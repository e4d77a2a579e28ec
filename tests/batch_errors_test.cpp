// SPDX-License-Identifier: Apache-2.0
// The contract, "Errors are values", for ragged batches, pages and scales: the message names the sequence and the index.
#include <limits>

#include "tests/support.hpp"

namespace siattn::test {
namespace {

class BatchErrors : public ::testing::Test {
 protected:
  using Change = std::function<void(AttentionTensors&)>;

  std::vector<std::int64_t> cu_query{0, 2, 2, 5};
  std::vector<std::int32_t> cu_kv{0, 4, 5, 9};
  std::vector<std::int64_t> kv_lengths{4, 1, 6};
  std::vector<std::int64_t> query_offsets{2, 0, 3};
  std::vector<std::int32_t> pages{0, 3, 1, -7, 2, 4};

  void expect_invalid(bool paged, const Change& change, std::initializer_list<const char*> parts) {
    for (const Backend* backend : backends()) {
      if (!backend->available()) continue;
      AttentionProblem problem{{3, 4, 2, 3, 6, 8, 6}, DType::float32, {}};
      if (!backend->supports(problem)) continue;
      const verify::Batching batching{.ragged_queries = true, .ragged_keys = !paged, .page_size = paged ? 4 : 0};
      ProblemData data(problem, {}, batching, {2, 0, 3}, paged ? kv_lengths : std::vector<std::int64_t>{4, 1, 4});
      data.fill_gaussian(1);
      data.clear_outputs();
      const Bits before = bits_of(data);
      AttentionTensors tensors = data.tensors();
      tensors.cu_query = cu_query;
      if (!paged) tensors.cu_kv = cu_kv;
      if (paged) tensors.pages = {pages.data(), 2, 4};
      change(tensors);
      const Status status = run(*backend, problem, tensors);
      EXPECT_EQ(status.code(), StatusCode::invalid_argument) << *parts.begin();
      EXPECT_TRUE(says(status.message(), parts)) << status.message();
      EXPECT_EQ(bits_of(data), before);
    }
  }
};

TEST_F(BatchErrors, CumulativeLengths) {
  cu_query = {1, 2, 2, 5};
  expect_invalid(false, [](auto&) {}, {"cu_query[0] = 1", "0"});
  cu_query = {0, 2, 1, 5};
  expect_invalid(false, [](auto&) {}, {"cu_query[2] = 1", "sequence 1", "2"});
  cu_query = {0, 0, 0, 4};
  expect_invalid(false, [](auto&) {}, {"cu_query[3] = 4", "sequence 2", "4 rows", "3 at most"});
  cu_query = {0, 2, 4, 6};
  expect_invalid(false, [](auto&) {}, {"cu_query[3] = 6", "sequence 2", "5 rows"});
  cu_query = {0, 1, 2, 3, 4};
  expect_invalid(false, [](auto&) {}, {"cu_query has 4 sequences", "3 at most"});
  cu_query = {0, 2, 2, 5};
  cu_kv = {0, 4, 3, 9};
  expect_invalid(false, [](auto&) {}, {"cu_kv[2] = 3", "sequence 1"});
  cu_kv = {0, 4, 9};
  expect_invalid(false, [](auto&) {}, {"cu_kv has 2 sequences", "3"});
  cu_kv = {0, 4, 5, std::numeric_limits<std::int32_t>::max()};
  expect_invalid(false, [](auto&) {}, {"cu_kv[3] = 2147483647", "sequence 2"});
  cu_kv = {-1, 4, 5, 9};
  expect_invalid(false, [](auto&) {}, {"cu_kv[0] = -1"});
}

TEST_F(BatchErrors, OneWayToSayALength) {
  const std::vector<std::int64_t> lengths{2, 0, 3};
  expect_invalid(false, [&](auto& t) { t.query_lengths = lengths; }, {"query_lengths and cu_query"});
  expect_invalid(false, [&](auto& t) { t.kv_lengths = lengths; }, {"cu_kv and kv_lengths"});
  expect_invalid(true, [&](auto& t) { t.cu_kv = cu_kv; }, {"cu_kv and pages"});
}

TEST_F(BatchErrors, Pages) {
  pages[0] = 99;
  expect_invalid(true, [](auto&) {}, {"page 0 of sequence 0 is 99"});
  pages[0] = 0;
  pages[5] = -1;
  expect_invalid(true, [](auto&) {}, {"page 1 of sequence 2 is -1"});
  pages[5] = 4;
  expect_invalid(true, [](auto& t) { t.pages.stride = 1; }, {"kv_lengths[2] = 6", "1 pages of 4"});
  expect_invalid(true, [](auto& t) { t.pages.stride = -1; }, {"stride = -1"});
  expect_invalid(true, [](auto& t) { t.pages.pages = nullptr; }, {"pages is null", "sequence 0"});
  expect_invalid(true, [](auto& t) { t.pages.page_size = 0; }, {"page_size = 0", "power of two"});
  expect_invalid(true, [](auto& t) { t.pages.page_size = 6; }, {"page_size = 6", "power of two"});
  expect_invalid(true, [](auto& t) { t.pages.page_size = 8; }, {"key has shape", "8, 8]"});
  expect_invalid(true, [](auto& t) { t.kv_lengths = {}; }, {"kv_lengths has 0 values", "3 sequences"});
  expect_invalid(true, [](auto& t) { t.value.shape[0] -= 1; }, {"value has shape"});
  kv_lengths[2] = 7;
  expect_invalid(true, [this](auto& t) { t.kv_lengths = kv_lengths; }, {"kv_lengths[2] = 7", "0 .. 6"});
}

TEST_F(BatchErrors, QueryOffsets) {
  expect_invalid(false, [this](auto& t) { t.query_offsets = std::span(query_offsets).first(2); },
                 {"query_offsets has 2 values", "3 sequences"});
  query_offsets[2] = 4;
  expect_invalid(false, [this](auto& t) { t.query_offsets = query_offsets; },
                 {"query_offsets[2] = 4", "sequence 2", "1 .. 6", "0 .. 5"});
  query_offsets[2] = std::numeric_limits<std::int64_t>::max();
  expect_invalid(false, [this](auto& t) { t.query_offsets = query_offsets; }, {"query_offsets[2] = 9223372036854775807"});
  query_offsets[2] = std::numeric_limits<std::int64_t>::min();
  expect_invalid(false, [this](auto& t) { t.query_offsets = query_offsets; }, {"query_offsets[2] = -9223372036854775808"});
}

/// Lengths that no tensor bears out are named before tables of that length are built, which here cannot be.
TEST_F(BatchErrors, LengthsComeBeforeTables) {
  AttentionProblem problem{{1, 2, 2, 1, 6, 8, 6}, DType::float32, {}};
  problem.options.transform = Alibi{2e37};  // float32 ends between t = 11 and 12
  ProblemData data(problem);
  data.fill_gaussian(1);
  ASSERT_TRUE(attention(data.tensors(), problem.options, {"cpu", 1}).ok());
  AttentionTensors tensors = data.tensors();
  const std::vector<std::int64_t> keys{0, 100};
  tensors.cu_kv = keys;
  const Status status = attention(tensors, problem.options, {"cpu", 1});
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_TRUE(says(status.message(), {"cu_kv[1] = 100", "6 rows"})) << status.message();
}

TEST_F(BatchErrors, Scales) {
  float scales[64] = {};
  expect_invalid(true, [&](auto& t) { t.key_scale = {scales, Shape4{6, 2, 4, 1}}; }, {"key_scale is given", "f32"});
  AttentionProblem problem{{1, 2, 2, 1, 6, 8, 6}, DType::float32, {}, DType::int8};
  ProblemData data(problem);
  data.fill_gaussian(1);
  const auto refused = [&](const std::function<void(AttentionTensors&)>& change, std::initializer_list<const char*> parts) {
    AttentionTensors tensors = data.tensors();
    change(tensors);
    const Status status = attention(tensors);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_TRUE(says(status.message(), parts)) << status.message();
  };
  refused([](auto& t) { t.key_scale.data = nullptr; }, {"key_scale is null"});
  refused([](auto& t) { t.value_scale.shape[2] = 5; }, {"value_scale has shape [1, 2, 5, 1]", "[1, 2, 6, 1]"});
  refused([](auto& t) { t.value_scale.dtype = DType::float16; }, {"value_scale has type f16", "f32"});
  refused([](auto& t) { t.value.dtype = DType::float32; }, {"value has type f32", "i8"});
  refused([](auto& t) { t.query.dtype = DType::int8; }, {"dtype = 4"});
  AttentionProblem mixed = problem;
  mixed.kv_dtype = DType::bfloat16;
  EXPECT_TRUE(says(AttentionPlan::create(mixed).status().message(), {"kv_dtype = bf16", "f32", "i8"}));
}

}  // namespace
}  // namespace siattn::test
