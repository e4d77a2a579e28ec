// SPDX-License-Identifier: Apache-2.0
// What is demanded of a server's part: decoding over pages and ragged batches, appending, planning.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include <siattn/kv_cache.hpp>

#include "bench/suite_rows.hpp"
#include "verify/random.hpp"

namespace siattn::bench {
namespace {

constexpr std::int64_t kDim = 128;
constexpr std::int64_t kHeads = 8;

AttentionProblem decode(std::int64_t sequences, std::int64_t kv_len, DType dtype, std::int64_t query_heads = kHeads,
                        std::int64_t kv_heads = kHeads) {
  AttentionProblem problem = prefill(dtype, kDim, 1, kv_len, query_heads, kv_heads);
  problem.shape.batch = sequences;
  return problem;
}

/// Decoding over pages in random order, against the same keys one behind the other; both in huge pages of memory, as a
/// server keeps its cache, since in small ones what a page costs is the walk through the tables of virtual memory.
void add_pages(Suite& suite, const std::string& backend) {
  struct Type {
    const char* name;
    DType dtype;
    std::optional<DType> kv_dtype;
    std::int64_t kv_len;  ///< half a gigabyte in all
  };
  for (const Type& type : {Type{"f32", DType::float32, {}, 8192},
                           {"f16", DType::float16, {}, 16384},
                           {"bf16", DType::bfloat16, {}, 16384},
                           {"i8 under f32", DType::float32, DType::int8, 32768}}) {
    for (const std::int64_t page_size : {16, 64}) {
      WorkloadSpec plain{type.name, decode(8, type.kv_len, type.dtype), backend, 1};
      plain.problem.kv_dtype = type.kv_dtype;
      plain.huge_pages = true;
      WorkloadSpec paged = plain;
      paged.page_size = page_size;
      suite.times_by_bytes(fmt::format("pages of {} against none, {}", page_size, type.name), paged, plain, 0.95, 0.99);
    }
  }
  for (const bool huge : {true, false}) {
    for (const std::int64_t group : {1, 4}) {
      if (huge && group == 1) continue;  // above
      WorkloadSpec plain{"f32", decode(8, 8192, DType::float32, group * kHeads), backend, 1};
      plain.huge_pages = huge;
      WorkloadSpec paged = plain;
      paged.page_size = 16;
      suite.times_by_bytes(fmt::format("pages of 16 against none, f32{}{}", group > 1 ? ", 4 heads on one" : "",
                                       huge ? "" : ", in 4 KiB of memory"),
                           paged, plain, 0.95, 0.99);
    }
  }
}

/// 64 sequences of 16 to 4096 keys, each length as likely as its half, in no order; heads enough for three quarters of a
/// gigabyte, which no cache holds.
void add_ragged(Suite& suite, const std::string& backend) {
  for (const int threads : {1, 2}) {
    for (const DType dtype : {DType::float32, DType::float16}) {
      for (const std::int64_t page_size : {0, 16}) {
        const std::int64_t heads = dtype == DType::float32 ? 16 : 32;
        WorkloadSpec spec{"ragged", decode(64, 4096, dtype, heads, heads), backend, threads};
        const verify::Random random(1, 1);
        for (std::uint64_t b = 0; b < 64; ++b) {
          spec.kv_lengths.push_back(std::lround(16 * std::exp2(8 * random.uniform(b))));
        }
        spec.kv_lengths[17] = 4096;
        spec.kv_lengths[40] = 16;
        spec.page_size = page_size;
        suite.share_of_read(fmt::format("64 sequences of 16 .. 4096 keys, {}{}, {} thread{}", name_of(dtype),
                                        page_size > 0 ? ", pages of 16" : "", threads, threads > 1 ? "s" : ""),
                            spec, 0.88, 0.95);
      }
    }
  }
}

/// A cache in pages of 16 with 2000 tokens of each sequence, and new tokens for all of them.
class Appending {
 public:
  Appending(DType from, DType to, std::int64_t sequences, std::int64_t new_tokens)
      : lengths_(static_cast<std::size_t>(sequences), 2000) {
    constexpr std::int64_t kPage = 16;
    const std::int64_t a_sequence = (2000 + new_tokens + kPage - 1) / kPage;
    pages_.resize(static_cast<std::size_t>(sequences * a_sequence));
    std::iota(pages_.begin(), pages_.end(), 0);
    std::shuffle(pages_.begin(), pages_.end(), std::mt19937(1));
    const Shape4 cache{sequences * a_sequence, kHeads, kPage, kDim};
    const Shape4 tokens{sequences, kHeads, new_tokens, kDim};
    memory_.reserve(8);
    const auto memory = [this](const Shape4& shape, DType dtype) {
      const auto bytes = static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]) * size_of(dtype);
      return MutableTensorView(memory_.emplace_back(bytes, std::byte{0x3C}).data(), dtype, shape);
    };
    cache_.key = memory(cache, to);
    cache_.value = memory(cache, to);
    if (to == DType::int8) {
      cache_.key_scale = memory({cache[0], cache[1], cache[2], 1}, DType::float32);
      cache_.value_scale = memory({cache[0], cache[1], cache[2], 1}, DType::float32);
    }
    cache_.pages = {pages_.data(), a_sequence, kPage};
    tokens_.key = memory(tokens, from);
    tokens_.value = memory(tokens, from);
    copies_.key = memory(cache, from);
    copies_.value = memory(cache, from);
    copies_.pages = cache_.pages;
  }

  Status append() const { return siattn::append(cache_, tokens_, lengths_); }
  /// The new tokens as they are to the same places of a cache of their type: a memcpy for each page and head.
  void copy() const {
    constexpr std::int64_t kFirst = 2000, kPage = 16;
    const std::int64_t size = kDim * static_cast<std::int64_t>(size_of(tokens_.key.dtype));
    for (const auto& [from, to] : {std::pair{tokens_.key, copies_.key}, {tokens_.value, copies_.value}}) {
      for (std::int64_t b = 0; b < from.shape[0]; ++b) {
        for (std::int64_t i = 0; i < from.shape[2]; i += kPage) {
          const std::int64_t page = cache_.pages.pages[b * cache_.pages.stride + (kFirst + i) / kPage];
          const std::int64_t n = std::min(kPage, from.shape[2] - i);
          for (std::int64_t h = 0; h < kHeads; ++h) {
            std::memcpy(static_cast<std::byte*>(to.data) + (page * kHeads + h) * kPage * size,
                        static_cast<const std::byte*>(from.data) + ((b * kHeads + h) * from.shape[2] + i) * size,
                        static_cast<std::size_t>(n * size));
          }
        }
      }
    }
  }

 private:
  std::vector<std::int64_t> lengths_;
  std::vector<std::int32_t> pages_;
  std::vector<std::vector<std::byte>> memory_;
  KvCacheView cache_;
  KvCacheView copies_;
  KvTokens tokens_;
};

void add_appending(Suite& suite) {
  struct Row {
    const char* name;
    DType from, to;
  };
  for (const Row& row : {Row{"f32", DType::float32, DType::float32},
                         {"bf16", DType::bfloat16, DType::bfloat16},
                         {"f32 to bf16", DType::float32, DType::bfloat16},
                         {"f32 to f16", DType::float32, DType::float16},
                         {"f32 to i8", DType::float32, DType::int8}}) {
    for (const auto& [sequences, tokens] : {std::pair<std::int64_t, std::int64_t>{64, 1}, {8, 512}}) {
      const std::string name =
          fmt::format("append {} token{} to {}, {}, against memcpy of them", tokens, tokens > 1 ? "s" : "", sequences, row.name);
      if (!suite.wants(name)) continue;
      Appending appending(row.from, row.to, sequences, tokens);
      suite.status = appending.append();
      if (!suite.status) return;
      suite.time_against(
          name, [&] { static_cast<void>(appending.append()); }, [&] { appending.copy(); }, 1.5, 1.1);
    }
  }
}

void add_planning(Suite& suite) {
  struct Row {
    const char* name;
    AttentionProblem problem;
  };
  for (const Row& row : {Row{"plan a decode step of 64", decode(64, 4096, DType::float32)},
                         {"plan a prompt of 512, f32", prefill(DType::float32, kDim, 512, 4096)},
                         {"plan a prompt of 512, bf16", prefill(DType::bfloat16, kDim, 512, 4096)}}) {
    if (!suite.wants(row.name)) continue;
    const ExecutionOptions execution{{}, 1, TableCache{}};
    suite.status = AttentionPlan::create(row.problem, execution).status();
    if (!suite.status) return;
    suite.microseconds(
        row.name, [&] { static_cast<void>(AttentionPlan::create(row.problem, execution)); }, 50, 10);
  }
}

}  // namespace

Result<std::vector<SuiteRow>> run_serving_suite(const SuiteOptions& options) {
  const std::string backend = best_cpu_backend();
  if (backend.empty()) return Status::unavailable("no CPU backend with a known peak runs here");
  Suite suite(options);
  add_pages(suite, backend);
  add_ragged(suite, backend);
  add_appending(suite);
  add_planning(suite);
  if (!suite.status) return suite.status;
  if (suite.rows.empty()) return Status::invalid(fmt::format("--case {}: no such row", options.only));
  return std::move(suite.rows);
}

}  // namespace siattn::bench
