// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_TENSOR_VIEW_HPP
#define SIATTN_TENSOR_VIEW_HPP

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include <siattn/float16.hpp>

namespace siattn {

/// Element types. float64 is computed by the reference backend only; int8 is for keys and values of a cache, each row
/// with a scale beside it.
enum class DType : std::uint8_t { float32, bfloat16, float16, float64, int8 };

constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::float32: return 4;
    case DType::float64: return 8;
    case DType::bfloat16:
    case DType::float16: return 2;
    case DType::int8: return 1;
  }
  return 0;
}

/// "f32", "bf16", "f16", "f64", "i8", as the command line spells them.
constexpr std::string_view name_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::float32: return "f32";
    case DType::float64: return "f64";
    case DType::bfloat16: return "bf16";
    case DType::float16: return "f16";
    case DType::int8: return "i8";
  }
  return "?";
}

template <class T>
struct dtype_of;
template <>
struct dtype_of<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct dtype_of<double> {
  static constexpr DType value = DType::float64;
};
template <>
struct dtype_of<bfloat16> {
  static constexpr DType value = DType::bfloat16;
};
template <>
struct dtype_of<float16> {
  static constexpr DType value = DType::float16;
};
template <>
struct dtype_of<std::int8_t> {
  static constexpr DType value = DType::int8;
};

/// Four extents, outermost first: [batch, heads, len, dim] unless said otherwise.
using Shape4 = std::array<std::int64_t, 4>;

/// Strides, in elements, of a dense row-major tensor of this shape.
constexpr Shape4 dense_strides(const Shape4& shape) noexcept {
  return {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
}

/// A tensor that somebody else owns: element (b, h, i, d) lies at data + (b, h, i, d) . strides, in elements. The
/// strides are free (so [batch, len, heads, dim] memory works by permuting them; zero broadcasts an input), but for
/// the innermost one, which is 1. Any alignment of the element type will do.
template <class Void>
struct BasicTensorView {
  Void* data = nullptr;
  DType dtype = DType::float32;
  Shape4 shape{};
  Shape4 strides{};

  BasicTensorView() = default;
  BasicTensorView(Void* data_, DType dtype_, const Shape4& shape_, const Shape4& strides_)
      : data(data_), dtype(dtype_), shape(shape_), strides(strides_) {}
  BasicTensorView(Void* data_, DType dtype_, const Shape4& shape_)
      : BasicTensorView(data_, dtype_, shape_, dense_strides(shape_)) {}

  /// A dense tensor of the pointer's type.
  template <class T>
  BasicTensorView(T* data_, const Shape4& shape_)
      : BasicTensorView(data_, dtype_of<std::remove_cv_t<T>>::value, shape_) {}

  /// A mutable view serves where a read-only one is asked for.
  operator BasicTensorView<const void>() const { return {data, dtype, shape, strides}; }  // NOLINT
};

using TensorView = BasicTensorView<const void>;
using MutableTensorView = BasicTensorView<void>;

/// The offset, in elements, of (b, h, i, 0).
template <class Void>
constexpr std::int64_t row_offset(const BasicTensorView<Void>& x, std::int64_t b, std::int64_t h, std::int64_t i) {
  return b * x.strides[0] + h * x.strides[1] + i * x.strides[2];
}

/// Cumulative lengths: n + 1 numbers c_0 = 0 <= c_1 <= .. <= c_n for n sequences that lie behind each other, the b-th as
/// rows c_b .. c_(b+1). int32 or int64, in host memory that somebody else owns. Default: none.
class CumulativeLengths {
 public:
  CumulativeLengths() = default;
  /// From a span, vector or array of std::int32_t or std::int64_t.
  template <std::convertible_to<std::span<const std::int32_t>> Range>
  CumulativeLengths(const Range& range) : wide_(false) {  // NOLINT: meant to convert
    take(std::span<const std::int32_t>(range));
  }
  template <std::convertible_to<std::span<const std::int64_t>> Range>
  CumulativeLengths(const Range& range) : wide_(true) {  // NOLINT: meant to convert
    take(std::span<const std::int64_t>(range));
  }

  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }
  std::int64_t operator[](std::size_t i) const noexcept {
    return wide_ ? static_cast<const std::int64_t*>(data_)[i] : static_cast<const std::int32_t*>(data_)[i];
  }
  /// Number of sequences.
  std::int64_t sequences() const noexcept { return static_cast<std::int64_t>(size_) - 1; }

 private:
  template <class T>
  void take(std::span<const T> values) {
    data_ = values.data();
    size_ = values.size();
  }

  const void* data_ = nullptr;
  std::size_t size_ = 0;
  bool wide_ = false;
};

/// Which pages of a cache hold the keys of each sequence: key j of sequence b lies in slot j % page_size of page
/// pages[b * stride + j / page_size]. Entries past a sequence's last key are not looked at; several sequences may name
/// the same page. In host memory that somebody else owns. Default: no pages.
struct PageTable {
  const std::int32_t* pages = nullptr;
  std::int64_t stride = 0;     ///< entries from one sequence to the next, and how many a sequence may have
  std::int64_t page_size = 0;  ///< slots of a page, a power of two

  bool empty() const noexcept { return pages == nullptr && stride == 0 && page_size == 0; }
};

}  // namespace siattn

#endif  // SIATTN_TENSOR_VIEW_HPP
