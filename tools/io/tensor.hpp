// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_TOOLS_IO_TENSOR_HPP
#define SIATTN_TOOLS_IO_TENSOR_HPP

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <siattn/status.hpp>
#include <siattn/tensor_view.hpp>

namespace siattn::io {

/// Extents, outermost first, each >= 0. No extents: a scalar.
using Shape = std::vector<std::int64_t>;

/// Bytes, below 2^61, of a dense tensor whose elements take `bits_per_element` >= 1 bits. An error where an extent is
/// negative, where the extents other than 0 make 2^64 bits or more (so that strides never overflow either), or where
/// the elements do not fill whole bytes.
Result<std::uint64_t> dense_bytes(std::span<const std::int64_t> shape, unsigned bits_per_element);

/// A tensor that owns its memory: dense, row-major, 64-byte aligned, any rank.
class Tensor {
 public:
  static constexpr std::size_t alignment = 64;

  /// float32, shape [0].
  Tensor() = default;

  /// Errors as dense_bytes; out_of_memory.
  static Result<Tensor> zeros(DType dtype, Shape shape);
  static Result<Tensor> uninitialised(DType dtype, Shape shape);

  DType dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return shape_; }
  std::size_t rank() const noexcept { return shape_.size(); }
  std::int64_t count() const noexcept { return static_cast<std::int64_t>(bytes_ / size_of(dtype_)); }
  std::size_t bytes() const noexcept { return bytes_; }

  /// Not null, even if empty, but for the default-made tensor.
  void* data() noexcept { return data_.get(); }
  const void* data() const noexcept { return data_.get(); }

  /// The elements in order. T must be the type that dtype() names.
  template <class T>
  std::span<T> values() noexcept {
    assert(dtype_of<T>::value == dtype_);
    return {static_cast<T*>(data()), static_cast<std::size_t>(count())};
  }
  template <class T>
  std::span<const T> values() const noexcept {
    assert(dtype_of<T>::value == dtype_);
    return {static_cast<const T*>(data()), static_cast<std::size_t>(count())};
  }

 private:
  struct Release {
    void operator()(void* memory) const noexcept;
  };

  std::unique_ptr<void, Release> data_;
  DType dtype_ = DType::float32;
  Shape shape_{0};
  std::size_t bytes_ = 0;
};

/// The order of the axes in memory: [batch, heads, len, dim] or [batch, len, heads, dim].
enum class Layout : std::uint8_t { bhsd, bshd };

/// The tensor as [batch, heads, len, dim]. Rank 4: as it is. Rank 3: a batch of one, [heads, len, dim] (bshd: [len,
/// heads, dim]). Rank 2: one head of that, [len, dim] in either layout. Another rank is an error that names the shape.
/// The view lives no longer than the tensor.
Result<TensorView> as_4d(const Tensor& tensor, Layout layout);
Result<MutableTensorView> as_4d(Tensor& tensor, Layout layout);
Result<TensorView> as_4d(const Tensor&& tensor, Layout layout) = delete;

/// The inverse, for outputs: the shape in memory of what as_4d views as `shape`, with `rank` axes (2 .. 4) if those
/// left out are 1, else with as few more as it takes.
Shape shape_from_4d(const Shape4& shape, Layout layout, std::size_t rank);

/// The same values in another type: exact when it is wider, else rounded once, to nearest, ties to even. A NaN stays
/// one; overflow gives infinity. The same type: a copy of the bits.
Result<Tensor> convert(const Tensor& tensor, DType dtype);

}  // namespace siattn::io

#endif  // SIATTN_TOOLS_IO_TENSOR_HPP
