// SPDX-License-Identifier: Apache-2.0
#include "tools/io/tensor.hpp"

#include <cstring>
#include <new>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "tools/io/guarded.hpp"
#include "tools/io/text.hpp"

namespace siattn::io {
namespace {

/// Calls `use` with a value of the type that `dtype` names.
template <class Use>
void with_type(DType dtype, Use&& use) {
  switch (dtype) {
    case DType::float32: return use(float{});
    case DType::float64: return use(double{});
    case DType::bfloat16: return use(bfloat16{});
    case DType::float16: return use(float16{});
    case DType::int8: return;  // no file is read as this
  }
}

double widen(float x) { return x; }
double widen(double x) { return x; }
double widen(bfloat16 x) { return to_float(x); }
double widen(float16 x) { return to_float(x); }

// Every type fits into a double, so a conversion from there rounds once.
void narrow(double x, float& y) { y = static_cast<float>(x); }
void narrow(double x, double& y) { y = x; }
void narrow(double x, bfloat16& y) { y = to_bfloat16(x); }
void narrow(double x, float16& y) { y = to_float16(x); }

template <class Void, class AnyTensor>
Result<BasicTensorView<Void>> view_4d(AnyTensor& tensor, Layout layout) {
  return guarded("tensor", [&]() -> Result<BasicTensorView<Void>> {
    const Shape& shape = tensor.shape();
    if (shape.size() < 2 || shape.size() > 4) {
      return Status::invalid(fmt::format(
          "shape {} has {} axes, expected 2 to 4: {}", shape_text(shape), shape.size(),
          layout == Layout::bhsd ? "[[batch,] heads,] len, dim" : "[[batch,] len, heads,] dim, or len, dim"));
    }
    Shape4 memory{1, 1, 1, 1};
    for (std::size_t i = 0; i < shape.size(); ++i) memory[4 - shape.size() + i] = shape[i];
    if (layout == Layout::bshd && shape.size() == 2) std::swap(memory[1], memory[2]);
    BasicTensorView<Void> view(tensor.data(), tensor.dtype(), memory);
    if (layout == Layout::bshd) {
      std::swap(view.shape[1], view.shape[2]);
      std::swap(view.strides[1], view.strides[2]);
    }
    return view;
  });
}

}  // namespace

Result<std::uint64_t> dense_bytes(std::span<const std::int64_t> shape, unsigned bits_per_element) {
  return guarded("tensor", [&]() -> Result<std::uint64_t> {
    // The product leaves out extents of 0: [0, 2^62, 2^62] holds nothing, but its strides would overflow.
    std::uint64_t product = bits_per_element;
    bool empty = false;
    bool overflow = false;
    for (const std::int64_t extent : shape) {
      if (extent < 0) {
        return Status::invalid(fmt::format("shape {}: extent {} is negative", shape_text(shape), extent));
      }
      empty = empty || extent == 0;
      if (extent != 0) {
        overflow = overflow || __builtin_mul_overflow(product, static_cast<std::uint64_t>(extent), &product);
      }
    }
    if (overflow) {
      return Status::invalid(fmt::format("shape {} at {} bits an element takes more than 2^64 bits, expected less",
                                         shape_text(shape), bits_per_element));
    }
    if (empty) return std::uint64_t{0};
    if (product % 8 != 0) {
      return Status::invalid(
          fmt::format("shape {} at {} bits an element does not fill whole bytes", shape_text(shape), bits_per_element));
    }
    return product / 8;
  });
}

void Tensor::Release::operator()(void* memory) const noexcept {
  ::operator delete (memory, std::align_val_t{alignment});
}

Result<Tensor> Tensor::uninitialised(DType dtype, Shape shape) {
  return guarded("tensor", [&]() -> Result<Tensor> {
    const Result<std::uint64_t> bytes = dense_bytes(shape, static_cast<unsigned>(8 * size_of(dtype)));
    if (!bytes) return bytes.status();
    Tensor tensor;
    tensor.data_.reset(::operator new (*bytes, std::align_val_t{alignment}, std::nothrow));
    if (tensor.data_ == nullptr) {
      return Status(StatusCode::out_of_memory,
                    fmt::format("no memory for {} bytes: {} of shape {}", *bytes, name_of(dtype), shape_text(shape)));
    }
    tensor.dtype_ = dtype;
    tensor.shape_ = std::move(shape);
    tensor.bytes_ = *bytes;
    return tensor;
  });
}

Result<Tensor> Tensor::zeros(DType dtype, Shape shape) {
  Result<Tensor> tensor = uninitialised(dtype, std::move(shape));
  if (tensor) std::memset(tensor->data(), 0, tensor->bytes());
  return tensor;
}

Result<TensorView> as_4d(const Tensor& tensor, Layout layout) { return view_4d<const void>(tensor, layout); }

Result<MutableTensorView> as_4d(Tensor& tensor, Layout layout) { return view_4d<void>(tensor, layout); }

Shape shape_from_4d(const Shape4& shape, Layout layout, std::size_t rank) {
  const auto [batch, heads, length, dim] = shape;
  if (batch == 1 && heads == 1 && rank <= 2) return {length, dim};
  Shape memory = layout == Layout::bhsd ? Shape{heads, length, dim} : Shape{length, heads, dim};
  if (batch != 1 || rank >= 4) memory.insert(memory.begin(), batch);
  return memory;
}

Result<Tensor> convert(const Tensor& tensor, DType dtype) {
  return guarded("tensor", [&]() -> Result<Tensor> {
    Result<Tensor> converted = Tensor::uninitialised(dtype, tensor.shape());
    if (!converted) return converted;
    if (dtype == tensor.dtype()) {
      if (tensor.bytes() != 0) std::memcpy(converted->data(), tensor.data(), tensor.bytes());
      return converted;
    }
    with_type(tensor.dtype(), [&]<class From>(From) {
      with_type(dtype, [&]<class To>(To) {
        const std::span<const From> source = tensor.values<From>();
        const std::span<To> target = converted->values<To>();
        for (std::size_t i = 0; i < source.size(); ++i) narrow(widen(source[i]), target[i]);
      });
    });
    return converted;
  });
}

}  // namespace siattn::io
