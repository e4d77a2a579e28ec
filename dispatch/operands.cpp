// SPDX-License-Identifier: Apache-2.0
#include "dispatch/operands.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

#include "dispatch/message.hpp"

namespace siattn::dispatch {
namespace {

bool overlap(const Extent& a, const Extent& b) {
  return a.first != a.last && b.first != b.last && a.first < b.last && b.first < a.last;
}

bool is_empty(const Shape4& shape) { return shape[0] == 0 || shape[1] == 0 || shape[2] == 0 || shape[3] == 0; }

/// Fills in the extent, or says that it does not fit the address space.
Status find_extent(Operand& operand) {
  const TensorView& x = operand.view;
  if (is_empty(x.shape)) return {};
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  std::int64_t low = 0;
  std::int64_t high = 0;
  bool overflow = false;
  for (int axis = 0; axis < 4; ++axis) {
    std::int64_t reach = 0;
    overflow |= __builtin_mul_overflow(x.shape[axis] - 1, x.strides[axis], &reach);
    overflow |= __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high);
  }
  overflow |= __builtin_add_overflow(high, std::int64_t{1}, &high);
  overflow |= __builtin_mul_overflow(low, size, &low) || __builtin_mul_overflow(high, size, &high);
  const auto base = reinterpret_cast<std::uintptr_t>(x.data);
  if (!overflow) {
    overflow |= base < std::uintptr_t{0} - static_cast<std::uintptr_t>(low);  // -low, the least int64 included
    overflow |= static_cast<std::uintptr_t>(high) > std::numeric_limits<std::uintptr_t>::max() - base;
  }
  if (overflow) {
    return Status::invalid(text(operand.name, " has shape ", text_of(x.shape), " and strides ", text_of(x.strides),
                                ": they reach outside the address space"));
  }
  operand.extent = {base + static_cast<std::uintptr_t>(low), base + static_cast<std::uintptr_t>(high)};
  return {};
}

/// Two different elements of an output never share an address. Sufficient, and necessary for all but contrived
/// strides: sorted by stride, each axis steps over all that lies within.
bool overlaps_itself(const TensorView& x) {
  std::array<int, 4> axes{0, 1, 2, 3};
  // The stride of an axis of extent 1 is never used, whatever it holds.
  const auto stride = [&x](int axis) {
    return x.shape[axis] == 1 ? std::uint64_t{0} : static_cast<std::uint64_t>(std::abs(x.strides[axis]));
  };
  std::sort(axes.begin(), axes.end(), [&](int a, int b) { return stride(a) < stride(b); });
  // Distance between the first and the last element of the axes so far: below 2^64, as find_extent() has seen.
  std::uint64_t inner = 0;
  for (const int axis : axes) {
    if (x.shape[axis] == 1) continue;
    if (stride(axis) <= inner) return true;
    inner += static_cast<std::uint64_t>(x.shape[axis] - 1) * stride(axis);
  }
  return false;
}

Status validate_operand(Operand& operand) {
  const DType dtype = operand.dtype;
  const Shape4& shape = operand.shape;
  const TensorView& x = operand.view;
  if (x.shape != shape) {
    return Status::invalid(text(operand.name, " has shape ", text_of(x.shape), ": expected ", text_of(shape)));
  }
  if (x.dtype != dtype) {
    return Status::invalid(text(operand.name, " has type ", name_of(x.dtype), ": expected ", name_of(dtype)));
  }
  if (is_empty(shape)) return {};
  if (x.data == nullptr) return Status::invalid(text(operand.name, " is null: expected ", text_of(shape), " elements"));
  if (shape[3] > 1 && x.strides[3] != 1) {
    return Status::invalid(text(operand.name, " has innermost stride ", x.strides[3], ": expected 1"));
  }
  if (reinterpret_cast<std::uintptr_t>(x.data) % size_of(dtype) != 0) {
    return Status::invalid(text(operand.name, " lies at ", x.data, ": expected a multiple of ", size_of(dtype)));
  }
  if (Status status = find_extent(operand); !status) return status;
  if (operand.written && overlaps_itself(x)) {
    return Status::invalid(text(operand.name, " has shape ", text_of(shape), " and strides ", text_of(x.strides),
                                ": elements of an output must not share an address"));
  }
  return {};
}

}  // namespace

Status validate_operands(std::span<Operand> operands) {
  for (Operand& operand : operands) {
    if (Status status = operand.present ? validate_operand(operand) : Status{}; !status) return status;
  }
  for (const Operand& output : operands) {
    if (!output.written) continue;
    for (const Operand& other : operands) {
      if (&other == &output) break;  // those before it
      if (!overlap(output.extent, other.extent)) continue;
      return Status::invalid(text(output.name, " at ", output.view.data, " overlaps ", other.name, " at ",
                                  other.view.data, ": an output needs memory of its own"));
    }
  }
  return {};
}

}  // namespace siattn::dispatch
