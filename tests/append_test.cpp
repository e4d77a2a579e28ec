// SPDX-License-Identifier: Apache-2.0
// include/siattn/kv_cache.hpp, sentence by sentence.
#include <sys/mman.h>

#include <cmath>
#include <limits>

#include <siattn/kv_cache.hpp>

#include "tests/support.hpp"
#include "verify/random.hpp"

namespace siattn::test {
namespace {

using verify::GuardedTensor;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// A cache with its memory, NaN (or -1) where nothing has been written.
struct Cache {
  GuardedTensor key, value, key_scale, value_scale;
  std::vector<std::int32_t> pages;
  std::int64_t stride = 0, page_size = 0;

  Cache(DType dtype, std::int64_t outer, std::int64_t heads, std::int64_t slots, std::int64_t head_dim,
        std::int64_t value_dim, const Placement& placement = {})
      : key(dtype, {outer, heads, slots, head_dim}, placement), value(dtype, {outer, heads, slots, value_dim}, placement) {
    if (dtype != DType::int8) return;
    key_scale = GuardedTensor(DType::float32, {outer, heads, slots, 1}, placement);
    value_scale = GuardedTensor(DType::float32, {outer, heads, slots, 1}, placement);
  }

  KvCacheView view() {
    KvCacheView v{key.view(), value.view(), key_scale.view(), value_scale.view()};
    if (page_size > 0) v.pages = {pages.data(), stride, page_size};
    return v;
  }
  bool intact() const { return key.intact() && value.intact() && key_scale.intact() && value_scale.intact(); }
};

/// New tokens, standard normal by (sequence, head, position).
struct Tokens {
  GuardedTensor key, value;
  std::vector<std::int64_t> cu;

  Tokens(DType dtype, std::int64_t heads, std::int64_t head_dim, std::int64_t value_dim,
         const std::vector<std::int64_t>& lengths, const std::vector<std::int64_t>& counts,
         const Placement& placement = {}) {
    cu = {0};
    for (const std::int64_t n : counts) cu.push_back(cu.back() + n);
    key = GuardedTensor(dtype, {1, heads, cu.back(), head_dim}, placement);
    value = GuardedTensor(dtype, {1, heads, cu.back(), value_dim}, placement);
    for (std::size_t b = 0; b < counts.size(); ++b) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t i = 0; i < counts[b]; ++i) {
          for (std::int64_t d = 0; d < head_dim; ++d)
            key.set(0, h, cu[b] + i, d, number(1, static_cast<std::int64_t>(b), h, lengths[b] + i, d));
          for (std::int64_t d = 0; d < value_dim; ++d)
            value.set(0, h, cu[b] + i, d, number(2, static_cast<std::int64_t>(b), h, lengths[b] + i, d));
        }
      }
    }
  }

  static double number(std::uint32_t stream, std::int64_t b, std::int64_t h, std::int64_t position, std::int64_t d) {
    return verify::Random(1, stream).gaussian(static_cast<std::uint64_t>(((b * 8 + h) * 4096 + position) * 64 + d));
  }

  KvTokens view() { return {key.view(), value.view(), cu}; }
};

double rounded(DType dtype, double x) {
  switch (dtype) {
    case DType::bfloat16: return to_float(to_bfloat16(x));
    case DType::float16: return to_float(to_float16(x));
    default: return static_cast<float>(x);
  }
}

constexpr DType kFloats[] = {DType::float32, DType::bfloat16, DType::float16};

/// Every type into every type, contiguous and paged, dense and with gaps, heads inside or not.
TEST(Append, TokensComeToTheirPlacesRoundedOnce) {
  const std::vector<std::int64_t> lengths{0, 5, 3, 17};
  const std::vector<std::int64_t> counts{9, 1, 0, 20};
  for (const DType from : kFloats) {
    for (const DType to : kFloats) {
      for (const std::int64_t page_size : {0, 1, 4, 16}) {
        for (const Placement& placement : {Placement{}, Placement{.heads_inside = true}, Placement{false, 3, 1}}) {
          Tokens tokens(from, 2, 19, 7, lengths, counts, placement);
          Cache cache(to, page_size > 0 ? 165 : 4, 2, page_size > 0 ? page_size : 40, 19, 7, placement);
          cache.page_size = page_size;
          cache.stride = page_size > 0 ? 40 / page_size + 1 : 0;
          for (std::int64_t k = 0; k < 4 * cache.stride; ++k) cache.pages.push_back(static_cast<std::int32_t>(k * 7 % 165));
          const Status status = append(cache.view(), tokens.view(), lengths);
          ASSERT_TRUE(status.ok()) << status.message();
          ASSERT_TRUE(cache.intact());
          for (std::int64_t b = 0; b < 4; ++b) {
            for (std::int64_t j = 0; j < 40; ++j) {
              const auto at = static_cast<std::size_t>(b);
              const bool is_new = j >= lengths[at] && j < lengths[at] + counts[at];
              const std::int64_t outer =
                  page_size > 0 ? cache.pages[static_cast<std::size_t>(b * cache.stride + j / page_size)] : b;
              const std::int64_t slot = page_size > 0 ? j % page_size : j;
              for (std::int64_t h = 0; h < 2; ++h) {
                for (std::int64_t d = 0; d < 19; ++d) {
                  const double x = cache.key.get(outer, h, slot, d);
                  const double wanted = rounded(to, rounded(from, Tokens::number(1, b, h, j, d)));
                  ASSERT_TRUE(is_new ? x == wanted : std::isnan(x)) << b << ' ' << j << ": " << x;
                }
                for (std::int64_t d = 0; d < 7; ++d) {
                  const double x = cache.value.get(outer, h, slot, d);
                  const double wanted = rounded(to, rounded(from, Tokens::number(2, b, h, j, d)));
                  ASSERT_TRUE(is_new ? x == wanted : std::isnan(x)) << b << ' ' << j << ": " << x;
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST(Append, WithoutCumulativeLengthsEachSequenceGetsAsMany) {
  Tokens tokens(DType::float32, 2, 8, 8, {0, 0}, {6, 0});
  Cache cache(DType::float32, 3, 2, 10, 8, 8);
  GuardedTensor key(DType::float32, {3, 2, 2, 8}, {}), value(DType::float32, {3, 2, 2, 8}, {});
  for (std::int64_t b = 0; b < 3; ++b) {
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t i = 0; i < 2; ++i) {
        for (std::int64_t d = 0; d < 8; ++d) key.set(b, h, i, d, 1), value.set(b, h, i, d, 2);
      }
    }
  }
  const std::vector<std::int64_t> lengths{0, 8, 3};
  const Status status = append(cache.view(), {key.view(), value.view()}, lengths);
  ASSERT_TRUE(status.ok()) << status.message();
  for (std::int64_t b = 0; b < 3; ++b) {
    for (std::int64_t j = 0; j < 10; ++j) {
      const bool is_new = j >= lengths[static_cast<std::size_t>(b)] && j < lengths[static_cast<std::size_t>(b)] + 2;
      EXPECT_EQ(cache.key.get(b, 1, j, 7) == 1, is_new);
      EXPECT_EQ(cache.value.get(b, 1, j, 7) == 2, is_new);
    }
  }
}

/// One row of `dim` numbers through an int8 cache.
struct Quantised {
  double scale;
  std::vector<int> integers;
};
Quantised quantise(const std::vector<double>& row) {
  const auto dim = static_cast<std::int64_t>(row.size());
  GuardedTensor key(DType::float32, {1, 1, 1, dim}, {}), value(DType::float32, {1, 1, 1, dim}, {});
  for (std::int64_t d = 0; d < dim; ++d) {
    key.set(0, 0, 0, d, row[static_cast<std::size_t>(d)]);
    value.set(0, 0, 0, d, row[static_cast<std::size_t>(d)]);
  }
  Cache cache(DType::int8, 1, 1, 2, dim, dim);
  const std::vector<std::int64_t> lengths{1};
  const Status status = append(cache.view(), {key.view(), value.view()}, lengths);
  EXPECT_TRUE(status.ok()) << status.message();
  Quantised result{cache.key_scale.get(0, 0, 1, 0), {}};
  for (std::int64_t d = 0; d < dim; ++d) result.integers.push_back(static_cast<int>(cache.key.get(0, 0, 1, d)));
  EXPECT_TRUE(cache.intact());
  EXPECT_TRUE(std::isnan(cache.key_scale.get(0, 0, 0, 0)));
  EXPECT_EQ(cache.value.get(0, 0, 1, dim - 1), cache.key.get(0, 0, 1, dim - 1));
  return result;
}

TEST(Append, Int8RowsAreMultiplesOfTheirScale) {
  for (const std::size_t dim : {1, 3, 16, 17, 64, 129, 512, 513, 1300}) {
    for (const double size : {1.0, 1e-20, 3e37, 0.37}) {
      std::vector<double> row(dim);
      double largest = 0;
      for (std::size_t d = 0; d < dim; ++d) {
        row[d] = static_cast<float>(size * verify::Random(dim, 1).gaussian(d));
        if (std::abs(row[d]) > 3e38) row[d] = 3e38;
        row[d] = static_cast<float>(row[d]);
        largest = std::max(largest, std::abs(row[d]));
      }
      const Quantised q = quantise(row);
      EXPECT_EQ(q.scale, static_cast<float>(largest) / 127.0F);
      int most = 0;
      for (std::size_t d = 0; d < dim; ++d) {
        ASSERT_LE(std::abs(q.integers[d]), 127);
        ASSERT_LE(std::abs(q.scale * q.integers[d] - row[d]), q.scale * (0.5 + 1e-5)) << dim << ' ' << size << ' ' << d;
        most = std::max(most, std::abs(q.integers[d]));
      }
      EXPECT_EQ(most, 127);
    }
  }
}

TEST(Append, Int8RowsWithoutAScale) {
  for (const double nothing : {0.0, -0.0, 1e-40, 0x1p-101}) {
    const Quantised q = quantise({nothing, -nothing, nothing});
    EXPECT_EQ(q.scale, 0);
    EXPECT_EQ(q.integers, (std::vector<int>{0, 0, 0}));
  }
  EXPECT_GT(quantise({0x1p-100, 0}).scale, 0);
  for (const double bad : {kNaN, HUGE_VAL, -HUGE_VAL}) {
    for (const std::size_t dim : {3, 40}) {
      for (std::size_t at = 0; at < dim; at += dim / 3) {
        std::vector<double> row(dim, 1.0);
        row[at] = bad;
        EXPECT_TRUE(std::isnan(quantise(row).scale)) << bad << ' ' << at;
      }
    }
  }
}

/// Also where conversion takes the row in pieces, of which only the first holds it.
TEST(Append, Int8RowsOfOtherTypesKeepNaN) {
  for (const double bad : {kNaN, HUGE_VAL}) {
    for (const std::int64_t at : {0, 3, 511, 512, 599}) {
      Cache cache(DType::int8, 1, 1, 1, 600, 600);
      GuardedTensor key(DType::bfloat16, {1, 1, 1, 600}, {}), value(DType::float16, {1, 1, 1, 600}, {});
      for (std::int64_t d = 0; d < 600; ++d) {
        key.set(0, 0, 0, d, d == at ? bad : 1);
        value.set(0, 0, 0, d, d == at ? bad : 1);
      }
      const std::vector<std::int64_t> none{0};
      ASSERT_TRUE(append(cache.view(), {key.view(), value.view()}, none).ok());
      EXPECT_TRUE(std::isnan(cache.key_scale.get(0, 0, 0, 0))) << bad << ' ' << at;
      EXPECT_TRUE(std::isnan(cache.value_scale.get(0, 0, 0, 0))) << bad << ' ' << at;
    }
  }
}

/// Strides of an axis of extent 1 are used by nobody; tokens behind the last sequence are not rotated.
TEST(Append, WhatIsNotUsedMayBeAnything) {
  Cache cache(DType::float32, 1, 2, 4, 8, 6);
  Tokens tokens(DType::float32, 2, 8, 6, {1}, {1});
  KvTokens given = tokens.view();
  for (TensorView* x : {&given.key, &given.value}) {
    x->strides[0] = std::numeric_limits<std::int64_t>::min();
    x->strides[2] = std::numeric_limits<std::int64_t>::max();
  }
  const std::vector<std::int64_t> one{1};
  Status status = append(cache.view(), given, one);
  EXPECT_TRUE(status.ok()) << status.message();
  given = tokens.view();
  given.key.shape[2] = given.value.shape[2] = std::int64_t{1} << 48;  // all the same row
  given.key.strides = {0, given.key.strides[1], 0, 1};
  given.value.strides = {0, given.value.strides[1], 0, 1};
  status = append(cache.view(), given, one, Rope{});
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(cache.intact());
}

/// Token by token, in pieces, all at once; contiguous or in pages; keys rotated on the way in: the same bits.
TEST(Append, AStreamOfTokensIsAPrefill) {
  constexpr std::int64_t n = 70, dim = 16;
  const Rope rope{.base = 100};
  for (const Backend* backend : backends()) {
    if (!backend->available()) continue;
    for (const DType dtype : kFloats) {
      AttentionProblem problem{{1, 4, 2, n, n, dim, dim}, dtype, {}};
      if (!backend->supports(problem)) continue;
      ProblemData data(problem);
      data.fill_gaussian(3);
      GuardedTensor rotated(dtype, {1, 2, n, dim}, {});
      ASSERT_TRUE(apply(rope, data.key.view(), rotated.view(), 0).ok());
      GuardedTensor plain = data.key;
      data.key = rotated;
      ASSERT_TRUE(run(*backend, data));

      for (const std::int64_t page_size : {0, 16}) {
        Cache cache(dtype, page_size > 0 ? 8 : 1, 2, page_size > 0 ? page_size : 80, dim, dim);
        cache.page_size = page_size;
        cache.stride = 5;
        cache.pages = {6, 1, 7, 0, 3};
        std::int64_t at = 0;
        for (const std::int64_t piece : {3, 1, 1, 40, 17, 1, 7}) {
          const std::vector<std::int64_t> lengths{at};
          const Status status = append(cache.view(), {part(TensorView(plain.view()), 2, at, at + piece),
                                                      part(TensorView(data.value.view()), 2, at, at + piece)},
                                       lengths, rope);
          ASSERT_TRUE(status.ok()) << status.message();
          at += piece;
          const std::vector<std::int64_t> now{at};
          GuardedTensor out(dtype, {1, 4, piece, dim}, {}), lse(DType::float32, {1, 4, piece, 1}, {});
          AttentionTensors tensors;
          tensors.query = part(TensorView(data.query.view()), 2, at - piece, at);
          tensors.out = out.view();
          tensors.lse = lse.view();
          read_from(cache.view(), now, tensors);
          const Status attended = attention(tensors, {}, {std::string(backend->name()), 2});
          ASSERT_TRUE(attended.ok()) << attended.message();
          const verify::RowBound bound = bound_of(*backend, data, 0, 0, at - 1);
          for (std::int64_t h = 0; h < 4; ++h) {
            for (std::int64_t i = 0; i < piece; ++i) {
              for (std::int64_t d = 0; d < dim; ++d) {
                ASSERT_NEAR(out.get(0, h, i, d), data.out.get(0, h, at - piece + i, d),
                            4 * bound.out[static_cast<std::size_t>(d)].total() + 0.05 * (dtype != DType::float32))
                    << backend->name();
              }
            }
          }
        }
        EXPECT_EQ(at, n);
        // The keys themselves, to the bit.
        for (std::int64_t j = 0; j < n; ++j) {
          const std::int64_t outer = page_size > 0 ? cache.pages[static_cast<std::size_t>(j / page_size)] : 0;
          for (std::int64_t d = 0; d < dim; ++d) {
            ASSERT_EQ(cache.key.get(outer, 1, page_size > 0 ? j % page_size : j, d), rotated.get(0, 1, j, d));
          }
        }
      }
    }
  }
}

/// Everything wrong is found before anything is written, and named with sequence and index.
TEST(Append, Errors) {
  struct Call {
    Cache cache{DType::float32, 8, 2, 4, 8, 6};
    Tokens tokens{DType::float32, 2, 8, 6, {3, 10}, {2, 5}};
    std::vector<std::int64_t> lengths{3, 10};
    KvCacheView view;
    KvTokens given;
  };
  const auto expect_error = [&](const std::function<void(Call&)>& change, std::initializer_list<const char*> parts) {
    Call call;
    call.cache.page_size = 4;
    call.cache.stride = 4;
    call.cache.pages = {0, 1, -5, 99, 3, 4, 5, 6};
    call.view = call.cache.view();
    call.given = call.tokens.view();
    change(call);
    const Status status = append(call.view, call.given, call.lengths);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << *parts.begin();
    EXPECT_TRUE(says(status.message(), parts)) << status.message();
    for (const GuardedTensor* tensor : {&call.cache.key, &call.cache.value}) {
      for (const std::byte x : tensor->bits()) ASSERT_EQ(x, std::byte{0xFF}) << "written";
    }
  };
  {
    Call call;
    call.cache.page_size = 4;
    call.cache.stride = 4;
    call.cache.pages = {0, 1, -5, 99, 3, 4, 5, 6};
    const Status status = append(call.cache.view(), call.tokens.view(), call.lengths);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  expect_error([](Call& c) { c.cache.pages[1] = 8; }, {"page 1 of sequence 0 is 8", "0 .. 7"});
  expect_error([](Call& c) { c.cache.pages[6] = -1; }, {"page 2 of sequence 1 is -1"});
  expect_error([](Call& c) { c.cache.pages[6] = 1; }, {"page 2 of sequence 1 is 1", "in use"});
  expect_error([](Call& c) { c.cache.pages[7] = 6, c.cache.pages[6] = 0; }, {"page 2 of sequence 1 is 0", "in use"});
  expect_error([](Call& c) { c.cache.pages[4] = 1; }, {"page 0 of sequence 1 is 1", "in use"});
  expect_error([](Call& c) { c.lengths[0] = 15; }, {"lengths[0] = 15", "2 new tokens", "sequence 0", "16"});
  expect_error([](Call& c) { c.lengths[1] = -1; }, {"lengths[1] = -1"});
  expect_error([](Call& c) { c.tokens.cu = {0, 5, 4}; c.given = c.tokens.view(); }, {"cu_tokens[2] = 4", "sequence 1"});
  expect_error([](Call& c) { c.tokens.cu = {1, 2, 7}; c.given = c.tokens.view(); }, {"cu_tokens[0] = 1"});
  expect_error([](Call& c) { c.tokens.cu = {0, 2, 8}; c.given = c.tokens.view(); }, {"cu_tokens[2] = 8", "7 tokens"});
  expect_error([](Call& c) { c.tokens.cu = {0, 2}; c.given = c.tokens.view(); }, {"cu_tokens has 1 sequences", "2"});
  expect_error([](Call& c) { c.view.pages.page_size = 3; }, {"page_size = 3", "power of two"});
  expect_error([](Call& c) { c.view.pages.page_size = 8; }, {"cache key has shape [8, 2, 4, 8]", "[8, 2, 8, 8]"});
  expect_error([](Call& c) { c.view.pages.stride = -1; }, {"stride = -1"});
  expect_error([](Call& c) { c.view.key.data = nullptr; }, {"cache key is null"});
  expect_error([](Call& c) { c.view.key.strides[2] = 4; }, {"cache key", "share an address"});
  expect_error([](Call& c) { c.view.key.dtype = DType::float64; }, {"cache key has type f64"});
  expect_error([](Call& c) { c.view.value.dtype = DType::float16; }, {"cache value has type f16", "f32"});
  expect_error([](Call& c) { c.given.key.dtype = DType::int8; }, {"key has type i8"});
  expect_error([](Call& c) { c.given.value.shape[3] = 5; }, {"value has shape [1, 2, 7, 5]"});
  expect_error([](Call& c) { c.given.key.data = c.view.key.data; }, {"cache key", "overlaps key"});
  expect_error([](Call& c) { c.view.value = c.view.key, c.view.value.shape[3] = 6; }, {"cache value", "overlaps cache key"});
  expect_error([](Call& c) { c.view.key.shape[3] = c.given.key.shape[3] = -8; }, {"head_dim", "= -8"});
  expect_error([](Call& c) { c.view.value.shape[3] = c.given.value.shape[3] = 0; }, {"value_dim", "= 0"});
  expect_error([](Call& c) {
    for (Shape4* shape : {&c.view.key.shape, &c.view.value.shape, &c.given.key.shape, &c.given.value.shape}) {
      (*shape)[1] = -2;
    }
  }, {"kv_heads", "= -2"});
  expect_error([](Call& c) { c.view.pages.pages = nullptr; }, {"page 0 of sequence 0 is missing"});
  expect_error([](Call& c) {
    c.view.pages.pages = nullptr;
    c.tokens.cu = {0, 0, 0};
    c.given = c.tokens.view();
  }, {"pages is null", "sequence 0 has 3 keys"});
  // Strides whose sum leaves 64 bits, though each end of the tensor is an address.
  expect_error([](Call& c) {
    c.view.pages = {};
    c.view.key = MutableTensorView(reinterpret_cast<std::int8_t*>(std::uintptr_t{1} << 46), {2, 2, 16, 8});
    c.view.key.strides = {std::numeric_limits<std::int64_t>::max() - 400, -(std::int64_t{1} << 40), 8, 1};
    c.view.value.dtype = DType::int8;
  }, {"cache value has shape"});
  expect_error([](Call& c) { c.view.key.dtype = c.view.value.dtype = DType::int8; }, {"cache key_scale has shape [0, 0, 0, 0]"});
}

/// Page numbers beyond 65536 and offsets beyond 2^32 bytes, in address space that is never touched but where it counts.
TEST(Append, LargeCachesHave64BitOffsets) {
  constexpr std::int64_t kPages = 140000, kPageSize = 16, kDim = 32, kHeads = 2;
  const Shape4 shape{kPages, kHeads, kPageSize, kDim};
  const Shape4 strides{32768, kPageSize * kDim, kDim, 1};
  const std::size_t bytes = std::size_t{2} * kPages * static_cast<std::size_t>(strides[0]) * sizeof(float);
  ASSERT_GT(bytes / 2, std::size_t{1} << 33);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no address space";
  auto* const key = static_cast<float*>(memory);
  KvCacheView cache{MutableTensorView(key, DType::float32, shape, strides),
                    MutableTensorView(key + bytes / 8, DType::float32, shape, strides)};
  const std::vector<std::int32_t> pages{139999, 2, 70001};
  cache.pages = {pages.data(), 3, kPageSize};

  AttentionProblem problem{{1, 2, kHeads, 1, 45, kDim, kDim}, DType::float32, {}};
  ProblemData data(problem);
  data.fill_gaussian(1);
  const std::vector<std::int64_t> none{0}, all{45};
  const Status status = append(cache, {data.key.view(), data.value.view()}, none);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(key[139999 * strides[0] + strides[1] + 3 * kDim + 5], data.key.get(0, 1, 3, 5));
  for (const Backend* backend : backends()) {
    if (!backend->available() || backend->family() == "cuda") continue;
    ASSERT_TRUE(run(*backend, data));
    const Bits dense = bits_of(data);
    data.clear_outputs();
    AttentionTensors tensors = data.tensors();
    read_from(cache, all, tensors);
    ASSERT_TRUE(attention(tensors, {}, {std::string(backend->name()), 1}).ok());
    EXPECT_EQ(bits_of(data), dense) << backend->name();
  }
  ::munmap(memory, bytes);
}

}  // namespace
}  // namespace siattn::test
