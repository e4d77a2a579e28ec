// SPDX-License-Identifier: Apache-2.0
// Every wrong argument is named with its value, nothing is written, and lack of memory is a Status.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include <siattn/position_encoding.hpp>

namespace {

/// Allocations until one fails; negative: none does.
thread_local long allocations_left = -1;

void* allocate(std::size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace siattn {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

void expect_invalid(const Status& status, const std::string& part) {
  EXPECT_EQ(status.code(), StatusCode::invalid_argument) << part;
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message() << "\nlacks: " << part;
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
}

TEST(PositionEncodingErrors, ParametersAreNamed) {
  struct Case {
    PositionEncoding encoding;
    std::int64_t head_dim;
    std::string part;
  };
  const auto layout = static_cast<PairLayout>(7);
  const std::vector<Case> cases = {
      {NoEncoding{}, 0, "head_dim = 0"},
      {NoEncoding{}, 16385, "head_dim = 16385"},
      {Rope{}, 7, "head_dim = 7"},
      {Rope{}, -2, "head_dim = -2"},
      {Rope{}, 0, "head_dim = 0"},
      {Rope{0}, 8, "base = 0"},
      {Rope{-10000}, 8, "base = -10000"},
      {Rope{0.5}, 8, "base = 0.5"},
      {Rope{nan}, 8, "base = nan"},
      {Rope{inf}, 8, "base = inf"},
      {Rope{10000, layout}, 8, "layout = 7"},
      {PartialRope{10}, 8, "rotary_dim = 10"},
      {PartialRope{3}, 8, "rotary_dim = 3"},
      {PartialRope{-2}, 8, "rotary_dim = -2"},
      {PartialRope{4, nan}, 8, "base = nan"},
      {PartialRope{4}, 0, "head_dim = 0"},
      {PRope{1.25}, 8, "p = 1.25"},
      {PRope{-0.5}, 8, "p = -0.5"},
      {PRope{nan}, 8, "p = nan"},
      {PRope{0.5, 0}, 8, "base = 0"},
      {PRope{0.5}, 9, "head_dim = 9"},
      {HalfTruncatedRope{}, 6, "head_dim = 6"},
      {HalfTruncatedRope{}, 0, "head_dim = 0"},
      {HalfTruncatedRope{nan}, 8, "effective_base = nan"},
      {NtkRope{2}, 2, "head_dim = 2"},
      {NtkRope{2}, 5, "head_dim = 5"},
      {NtkRope{0.5}, 8, "factor = 0.5"},
      {NtkRope{nan}, 8, "factor = nan"},
      {NtkRope{2, 0}, 8, "base = 0"},
      {DynamicNtkRope{0, 10}, 8, "train_length = 0"},
      {DynamicNtkRope{10, 0}, 8, "length = 0"},
      {DynamicNtkRope{10, 2147483648}, 8, "length = 2147483648"},
      {DynamicNtkRope{}, 2, "head_dim = 2"},
      {Yarn{0.5}, 8, "factor = 0.5"},
      {Yarn{nan}, 8, "factor = nan"},
      {Yarn{4}, 7, "head_dim = 7"},
      {Yarn{4, 0}, 8, "train_length = 0"},
      {Yarn{.factor = 4, .base = 1}, 8, "base = 1"},
      {Yarn{.factor = 4, .base = nan}, 8, "base = nan"},
      {Yarn{.factor = 4, .beta_slow = 0}, 8, "beta_slow = 0"},
      {Yarn{.factor = 4, .beta_slow = nan}, 8, "beta_slow = nan"},
      {Yarn{.factor = 4, .beta_fast = 1}, 8, "beta_fast = 1"},
      {Yarn{.factor = 4, .beta_fast = inf}, 8, "beta_fast = inf"},
      {Yarn{.factor = 4, .beta_fast = nan}, 8, "beta_fast = nan"},
      {Yarn{.factor = 4, .magnitude = 0}, 8, "magnitude = 0"},
      {Yarn{.factor = 4, .magnitude = nan}, 8, "magnitude = nan"},
  };
  for (const Case& c : cases) {
    const auto result = pair_frequencies(c.encoding, c.head_dim);
    ASSERT_FALSE(result.ok()) << c.part;
    expect_invalid(result.status(), c.part);
    if (c.head_dim < 1) continue;
    // apply says the same, and writes nothing
    const Shape4 shape{1, 1, 1, c.head_dim};
    const std::vector<float> x(static_cast<std::size_t>(c.head_dim), 1.0F);
    std::vector<float> out(x.size(), 77.0F);
    expect_invalid(apply(c.encoding, TensorView(x.data(), shape), MutableTensorView(out.data(), shape), 3), c.part);
    EXPECT_EQ(out, std::vector<float>(x.size(), 77.0F));
  }
}

class Views : public ::testing::Test {
 protected:
  static constexpr Shape4 shape{1, 2, 3, 8};
  std::vector<float> x = std::vector<float>(96, 1.0F);
  std::vector<float> y = std::vector<float>(96, 77.0F);
  TensorView in{x.data(), DType::float32, shape};
  MutableTensorView out{y.data(), DType::float32, shape};

  void expect(const std::string& part, std::int64_t first_position = 5) {
    const auto before_x = x;
    const auto before_y = y;
    expect_invalid(apply(Rope{}, in, out, first_position), part);
    EXPECT_EQ(x, before_x) << part;
    EXPECT_EQ(y, before_y) << part;
  }
};

TEST_F(Views, TypesAndShapes) {
  out.dtype = DType::bfloat16;
  expect("out has type bf16: expected that of in, f32");
  out.dtype = static_cast<DType>(9);
  expect("out.dtype = 9");
  in.dtype = static_cast<DType>(9);
  expect("in.dtype = 9");
  in.dtype = out.dtype = DType::float32;
  out.shape = {1, 2, 3, 6};
  expect("out has shape [1, 2, 3, 6]: expected that of in, [1, 2, 3, 8]");
  in.shape = out.shape = {1, -2, 3, 8};
  expect("in has shape [1, -2, 3, 8]");
  in.shape = out.shape = {1, 2, 2147483648, 8};
  expect("in has shape [1, 2, 2147483648, 8]");
}

TEST_F(Views, Memory) {
  in.data = nullptr;
  expect("in is null");
  in.data = x.data();
  out.data = nullptr;
  expect("out is null");
  out.data = reinterpret_cast<char*>(y.data()) + 1;
  expect("out lies at");
  out.data = y.data();
  in.strides[3] = 2;
  expect("in has innermost stride 2");
  in.strides[3] = 1;
  in.strides[2] = std::numeric_limits<std::int64_t>::max() / 2;
  expect("in has shape [1, 2, 3, 8] and strides");
  in.strides[2] = std::numeric_limits<std::int64_t>::min();
  expect("outside the address space");
  in.strides[2] = 8;
  out.strides[1] = 0;
  expect("must not share an address");
  out.strides[1] = 24;
  out.strides[2] = 7;
  expect("must not share an address");
}

TEST_F(Views, Overlap) {
  out.data = x.data() + 8;  // one row on
  expect("overlaps in");
  out.data = x.data() + 47;  // by one element
  expect("overlaps in");
  out.data = x.data();
  out.strides = {48, 8, 16, 1};  // the same memory, transposed
  expect("overlaps in");
  out.data = x.data() + 48;  // right behind: no overlap
  out.strides = dense_strides(shape);
  EXPECT_TRUE(apply(Rope{}, in, out, 5).ok());
  // Strides of axes of length 1 tell no views apart.
  std::vector<float> z(24, 1.0F);
  const Shape4 single{1, 1, 3, 8};
  EXPECT_TRUE(apply(Rope{}, TensorView(z.data(), DType::float32, single, {5, 6, 8, 1}),
                    MutableTensorView(z.data(), DType::float32, single, {7, 0, 8, 1}), 5)
                  .ok());
  // In place on a broadcast view would turn a row more than once.
  expect_invalid(apply(Rope{}, TensorView(z.data(), DType::float32, {1, 2, 3, 8}, {0, 0, 8, 1}),
                       MutableTensorView(z.data(), DType::float32, {1, 2, 3, 8}, {0, 0, 8, 1}), 5),
                 "must not share an address");
}

TEST_F(Views, Positions) {
  expect("first_position = 2147483646: with len = 3 expected -2147483647 .. 2147483645", 2147483646);
  expect("first_position = -2147483648", -2147483648);
  expect("first_position = 9223372036854775807", std::numeric_limits<std::int64_t>::max());
  expect("first_position = -9223372036854775808", std::numeric_limits<std::int64_t>::min());
  EXPECT_TRUE(apply(Rope{}, in, out, 2147483645).ok());
  EXPECT_TRUE(apply(Rope{}, in, out, -2147483647).ok());

  const auto with = [&](const std::vector<std::int64_t>& positions) { return apply(Rope{}, in, out, positions); };
  y.assign(y.size(), 77.0F);
  expect_invalid(with({1, 2}), "positions has 2 values: expected len = 3");
  expect_invalid(with({}), "positions has 0 values");
  expect_invalid(with({1, 2, 2147483648}), "positions[2] = 2147483648");
  expect_invalid(with({1, std::numeric_limits<std::int64_t>::min(), 2}), "positions[1] = -9223372036854775808");
  EXPECT_EQ(y, std::vector<float>(y.size(), 77.0F));
  EXPECT_TRUE(with({2147483647, -2147483647, 0}).ok());
}

TEST_F(Views, LackOfMemoryIsAStatus) {
  bool done = false;
  long failures = 0;
  for (long n = 0; !done; ++n) {
    ASSERT_LT(n, 1000);
    y.assign(y.size(), 77.0F);
    allocations_left = n;
    const Status status = apply(Yarn{4}, in, out, 5);
    allocations_left = -1;
    done = status.ok();
    if (done) break;
    ++failures;
    EXPECT_EQ(status.code(), StatusCode::out_of_memory);
    EXPECT_EQ(status.message(), "out of memory");
    EXPECT_EQ(y, std::vector<float>(y.size(), 77.0F));
  }
  EXPECT_GE(failures, 3);

  allocations_left = 0;
  const auto frequencies = pair_frequencies(Rope{}, 128);
  const auto invalid = pair_frequencies(Rope{-1}, 128);  // the message needs memory
  allocations_left = -1;
  EXPECT_EQ(frequencies.status().code(), StatusCode::out_of_memory);
  EXPECT_EQ(invalid.status().code(), StatusCode::out_of_memory);
}

}  // namespace
}  // namespace siattn
