// SPDX-License-Identifier: Apache-2.0
// One tensor that a call is given, and what is expected of it.
#ifndef SIATTN_DISPATCH_OPERANDS_HPP
#define SIATTN_DISPATCH_OPERANDS_HPP

#include <cstdint>
#include <span>

#include <siattn/status.hpp>
#include <siattn/tensor_view.hpp>

namespace siattn::dispatch {

/// Addresses that a tensor touches: first byte to one past the last; first == last when it touches none.
struct Extent {
  std::uintptr_t first = 0;
  std::uintptr_t last = 0;
};

struct Operand {
  const char* name;
  TensorView view;
  bool written;
  DType dtype;  ///< expected, as is the shape
  Shape4 shape;
  bool present = true;
  Extent extent = {};
};

/// Shape, type, strides and alignment of those that are present, and that no output overlaps one before it or itself.
/// Fills in the extents. Allocates nothing when all is well.
Status validate_operands(std::span<Operand> operands);

}  // namespace siattn::dispatch

#endif  // SIATTN_DISPATCH_OPERANDS_HPP
