// SPDX-License-Identifier: Apache-2.0
// Tensors that own their memory, their 4-D views, conversion between types, and the words of messages.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tools/io/guarded.hpp"
#include "tools/io/tensor.hpp"
#include "tools/io/text.hpp"

// A huge request is to fail under the address sanitizer as it does without.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace siattn::io {
namespace {

Tensor counting(DType dtype, Shape shape) {
  Tensor doubles = *Tensor::zeros(DType::float64, std::move(shape));
  double next = 0;
  for (double& x : doubles.values<double>()) x = next++;
  return *convert(doubles, dtype);
}

float at(const TensorView& view, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) {
  return static_cast<const float*>(view.data)[row_offset(view, b, h, i) + d];
}

TEST(IoTensor, ShapesOfAnyRank) {
  const Tensor scalar = *Tensor::zeros(DType::float32, {});
  EXPECT_EQ(scalar.count(), 1);
  EXPECT_EQ(scalar.bytes(), 4u);
  const Tensor empty = *Tensor::zeros(DType::bfloat16, {0, 4});
  EXPECT_EQ(empty.count(), 0);
  EXPECT_NE(empty.data(), nullptr) << "null means 'not wanted' to attention";
  const Tensor five = *Tensor::zeros(DType::float16, {1, 2, 3, 4, 5});
  EXPECT_EQ(five.count(), 120);
  EXPECT_EQ(five.bytes(), 240u);
  EXPECT_EQ(Tensor().count(), 0);
  EXPECT_EQ(Tensor().shape(), Shape{0});
}

TEST(IoTensor, MemoryIsAlignedAndZero) {
  for (std::int64_t n = 1; n < 40; ++n) {
    const Tensor tensor = *Tensor::zeros(DType::float64, {n});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0u);
    for (const double x : tensor.values<double>()) EXPECT_EQ(x, 0.0);
  }
}

TEST(IoTensor, BadShapesAreErrors) {
  const std::int64_t big = std::int64_t{1} << 32;
  EXPECT_EQ(Tensor::zeros(DType::float32, {-1, -4}).status().message(), "shape [-1, -4]: extent -1 is negative");
  for (const Shape& shape : {Shape{big, big}, {INT64_MAX}, {99999999999, 99999999999}, {0, big, big}, {big, 0, big}}) {
    const Result<Tensor> tensor = Tensor::zeros(DType::float32, shape);
    EXPECT_EQ(tensor.status().code(), StatusCode::invalid_argument) << shape_text(shape);
    EXPECT_NE(tensor.status().message().find(shape_text(shape)), std::string::npos) << tensor.status().message();
  }
}

TEST(IoTensor, NoMemoryIsAnError) {
  const Result<Tensor> tensor = Tensor::uninitialised(DType::float64, {std::int64_t{1} << 48});
  EXPECT_EQ(tensor.status().code(), StatusCode::out_of_memory);
  EXPECT_EQ(tensor.status().message(), "no memory for 2251799813685248 bytes: f64 of shape [281474976710656]");
}

TEST(IoTensor, ViewsOfBhsd) {
  const Tensor two = counting(DType::float32, {3, 2});
  EXPECT_EQ(as_4d(two, Layout::bhsd)->shape, (Shape4{1, 1, 3, 2}));
  EXPECT_EQ(at(*as_4d(two, Layout::bhsd), 0, 0, 2, 1), 5.0f);
  const Tensor three = counting(DType::float32, {4, 3, 2});
  EXPECT_EQ(as_4d(three, Layout::bhsd)->shape, (Shape4{1, 4, 3, 2}));
  EXPECT_EQ(at(*as_4d(three, Layout::bhsd), 0, 3, 1, 0), 20.0f);
  const Tensor four = counting(DType::float32, {5, 4, 3, 2});
  EXPECT_EQ(as_4d(four, Layout::bhsd)->shape, (Shape4{5, 4, 3, 2}));
  EXPECT_EQ(as_4d(four, Layout::bhsd)->strides, dense_strides({5, 4, 3, 2}));
}

TEST(IoTensor, ViewsOfBshdAgreeWithThePermutedTensor) {
  const Tensor four = counting(DType::float32, {5, 3, 4, 2});  // batch, len, heads, dim
  const TensorView view = *as_4d(four, Layout::bshd);
  EXPECT_EQ(view.shape, (Shape4{5, 4, 3, 2}));
  EXPECT_EQ(view.strides, (Shape4{24, 2, 8, 1}));
  for (std::int64_t b = 0; b < 5; ++b)
    for (std::int64_t h = 0; h < 4; ++h)
      for (std::int64_t i = 0; i < 3; ++i)
        for (std::int64_t d = 0; d < 2; ++d)
          EXPECT_EQ(at(view, b, h, i, d), static_cast<float>(((b * 3 + i) * 4 + h) * 2 + d));
  const Tensor three = counting(DType::float32, {3, 4, 2});  // len, heads, dim
  EXPECT_EQ(as_4d(three, Layout::bshd)->shape, (Shape4{1, 4, 3, 2}));
  EXPECT_EQ(at(*as_4d(three, Layout::bshd), 0, 3, 1, 0), 14.0f);
  const Tensor two = counting(DType::float32, {3, 2});  // len, dim
  EXPECT_EQ(as_4d(two, Layout::bshd)->shape, (Shape4{1, 1, 3, 2}));
  EXPECT_EQ(at(*as_4d(two, Layout::bshd), 0, 0, 2, 1), 5.0f);
}

TEST(IoTensor, MutableViewsWriteThrough) {
  Tensor tensor = *Tensor::zeros(DType::float32, {3, 4, 2});
  const Result<MutableTensorView> view = as_4d(tensor, Layout::bshd);
  ASSERT_TRUE(view.ok());
  static_cast<float*>(view->data)[row_offset(*view, 0, 3, 1) + 1] = 7.0f;
  EXPECT_EQ(tensor.values<float>()[15], 7.0f);
}

TEST(IoTensor, OtherRanksHaveNoView) {
  for (const Shape& shape : {Shape{}, {7}, {1, 1, 1, 1, 7}}) {
    const Tensor tensor = *Tensor::zeros(DType::float32, shape);
    const Status status = as_4d(tensor, Layout::bhsd).status();
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_EQ(status.message().find("shape " + shape_text(shape) + " has "), 0u) << status.message();
  }
}

TEST(IoTensor, ShapeFrom4dIsTheInverse) {
  for (const Layout layout : {Layout::bhsd, Layout::bshd}) {
    for (const Shape& shape : {Shape{3, 2}, {4, 3, 2}, {1, 3, 2}, {5, 4, 3, 2}, {1, 1, 3, 2}, {1, 4, 3, 2}}) {
      const Tensor tensor = *Tensor::zeros(DType::float32, shape);
      EXPECT_EQ(shape_from_4d(as_4d(tensor, layout)->shape, layout, shape.size()), shape);
    }
  }
  EXPECT_EQ(shape_from_4d({1, 4, 3, 2}, Layout::bshd, 2), (Shape{3, 4, 2})) << "four heads do not go away";
  EXPECT_EQ(shape_from_4d({5, 1, 3, 2}, Layout::bhsd, 2), (Shape{5, 1, 3, 2}));
}

TEST(IoTensor, ConversionRoundsOnce) {
  Tensor doubles = *Tensor::zeros(DType::float64, {4});
  doubles.values<double>()[0] = 1.0 + 0x1p-11 + 0x1p-40;  // by way of float it would become the tie and go to 1
  doubles.values<double>()[1] = 65520.0;
  doubles.values<double>()[2] = std::numeric_limits<double>::quiet_NaN();
  doubles.values<double>()[3] = -1e300;
  const Tensor halves = *convert(doubles, DType::float16);
  EXPECT_EQ(halves.values<float16>()[0].bits, 0x3C01);
  EXPECT_EQ(halves.values<float16>()[1].bits, 0x7C00);
  EXPECT_TRUE(std::isnan(to_float(halves.values<float16>()[2])));
  const Tensor floats = *convert(doubles, DType::float32);
  EXPECT_EQ(floats.values<float>()[0], 1.0f + 0x1p-11f);
  EXPECT_TRUE(std::isnan(floats.values<float>()[2]));
  EXPECT_EQ(floats.values<float>()[3], -std::numeric_limits<float>::infinity());
}

TEST(IoTensor, WideningAndBackKeepsEveryPattern) {
  for (const DType narrow : {DType::float16, DType::bfloat16}) {
    Tensor all = *Tensor::zeros(narrow, {1 << 16});
    auto* bits = static_cast<std::uint16_t*>(all.data());
    for (std::uint32_t i = 0; i < 1 << 16; ++i) bits[i] = static_cast<std::uint16_t>(i);
    const std::uint16_t infinity = narrow == DType::float16 ? 0x7C00 : 0x7F80;
    for (const DType wide : {DType::float32, DType::float64}) {
      const Tensor back = *convert(*convert(all, wide), narrow);
      const auto* result = static_cast<const std::uint16_t*>(back.data());
      for (std::uint32_t i = 0; i < 1 << 16; ++i) {
        if ((i & 0x7FFF) > infinity) {
          ASSERT_GT(result[i] & 0x7FFF, infinity);
        } else {
          ASSERT_EQ(result[i], i);
        }
      }
    }
  }
}

TEST(IoTensor, ConversionToTheSameTypeCopiesTheBits) {
  Tensor floats = *Tensor::zeros(DType::float32, {2});
  floats.values<float>()[0] = std::bit_cast<float>(0x7F800001u);  // a signalling NaN
  const Tensor copy = *convert(floats, DType::float32);
  EXPECT_EQ(static_cast<const std::uint32_t*>(copy.data())[0], 0x7F800001u);
  EXPECT_EQ(convert(Tensor(), DType::float32)->count(), 0);
  EXPECT_EQ(convert(Tensor(), DType::float16)->shape(), Shape{0});
}

TEST(IoText, PrintableIsOneLineOfUtf8) {
  EXPECT_EQ(printable("a\nb\t\x7f"), "a\\x0ab\\x09\\x7f");
  EXPECT_EQ(printable("\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82"), "\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b") << "a control character of two bytes";
  EXPECT_EQ(printable(std::string(1000, 'a')), std::string(100, 'a') + "...");
  for (const std::string bad :
       {"\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "\xc3", "\x80"}) {
    EXPECT_FALSE(is_utf8(bad));
    EXPECT_EQ(printable(bad)[0], '\\');
  }
}

TEST(IoText, PrintableOfAnyBytes) {
  EXPECT_TRUE(rc::check("printable text is UTF-8 without control characters", [](const std::string& bytes) {
    const std::string shown = printable(bytes);
    RC_ASSERT(is_utf8(shown));
    for (const char c : shown) RC_ASSERT(static_cast<unsigned char>(c) >= 0x20);
  }));
}

TEST(IoGuarded, ExceptionsBecomeValues) {
  const auto thrown = [](auto exception) { return guarded("f", [&]() -> Status { throw exception; }); };
  EXPECT_EQ(thrown(std::bad_alloc()).code(), StatusCode::out_of_memory);
  EXPECT_EQ(thrown(std::length_error("x")).message(), "f: out of memory");
  EXPECT_EQ(thrown(std::runtime_error("broken")).code(), StatusCode::internal);
  EXPECT_EQ(thrown(std::runtime_error("broken")).message(), "f: broken");
  EXPECT_FALSE(thrown(3).ok());
}

}  // namespace
}  // namespace siattn::io
