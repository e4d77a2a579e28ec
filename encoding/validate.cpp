// SPDX-License-Identifier: Apache-2.0
#include "encoding/validate.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "encoding/message.hpp"

namespace siattn::encoding {
namespace {

constexpr std::int64_t kLargestPosition = std::numeric_limits<std::int32_t>::max();

/// Addresses that a tensor touches: first byte to one past the last.
struct Extent {
  std::uintptr_t first = 0;
  std::uintptr_t last = 0;
};

bool is_empty(const Shape4& shape) {
  return std::any_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent == 0; });
}

/// Absent where they do not fit the address space. Not for empty tensors.
std::optional<Extent> extent_of(const TensorView& x) {
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  std::int64_t low = 0;
  std::int64_t high = 0;
  bool overflow = false;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    std::int64_t reach = 0;
    overflow |= __builtin_mul_overflow(x.shape[axis] - 1, x.strides[axis], &reach);
    std::int64_t& end = reach < 0 ? low : high;
    overflow |= __builtin_add_overflow(end, reach, &end);
  }
  overflow |= __builtin_add_overflow(high, std::int64_t{1}, &high);
  overflow |= __builtin_mul_overflow(low, size, &low);
  overflow |= __builtin_mul_overflow(high, size, &high);
  if (overflow) return std::nullopt;
  const auto base = reinterpret_cast<std::uintptr_t>(x.data);
  const auto below = std::uintptr_t{0} - static_cast<std::uintptr_t>(low);  // -low, the least int64 included
  const auto above = static_cast<std::uintptr_t>(high);
  if (base < below || above > std::numeric_limits<std::uintptr_t>::max() - base) return std::nullopt;
  return Extent{base - below, base + above};
}

/// Whether two elements share an address. Never misses one; sees one too many only with strides that interleave axes.
bool overlaps_itself(const TensorView& x) {
  struct Axis {
    std::uint64_t stride;  // absolute
    std::uint64_t steps;
  };
  std::array<Axis, 4> axes;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    const auto stride = static_cast<std::uint64_t>(x.strides[axis]);
    axes[axis] = {x.strides[axis] < 0 ? 0 - stride : stride, static_cast<std::uint64_t>(x.shape[axis] - 1)};
  }
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
  std::uint64_t inner = 0;  // from the first to the last element of the axes so far; fits, as the extent does
  for (const Axis& axis : axes) {
    if (axis.steps == 0) continue;
    if (axis.stride <= inner) return true;  // each axis has to step over all that lies within
    inner += axis.steps * axis.stride;
  }
  return false;
}

Status validate_view(const char* name, const TensorView& x) {
  if (size_of(x.dtype) == 0 || x.dtype == DType::int8) {
    return invalid(name, ".dtype = ", static_cast<int>(x.dtype), ": expected f32, bf16, f16 or f64");
  }
  for (const std::int64_t extent : x.shape) {
    if (extent < 0 || extent > kLargestPosition) {
      return invalid(name, " has shape ", text_of(x.shape), ": expected extents of 0 .. ", kLargestPosition);
    }
  }
  if (is_empty(x.shape)) return {};
  if (x.data == nullptr) return invalid(name, " is null: expected ", text_of(x.shape), " elements");
  if (x.shape[3] > 1 && x.strides[3] != 1) {
    return invalid(name, " has innermost stride ", x.strides[3], ": expected 1");
  }
  if (reinterpret_cast<std::uintptr_t>(x.data) % size_of(x.dtype) != 0) {
    return invalid(name, " lies at ", x.data, ": expected a multiple of ", size_of(x.dtype));
  }
  if (!extent_of(x)) {
    return invalid(name, " has shape ", text_of(x.shape), " and strides ", text_of(x.strides),
                   ": they reach outside the address space");
  }
  return {};
}

}  // namespace

bool same_view(const TensorView& in, const TensorView& out) noexcept {
  if (in.data != out.data || in.dtype != out.dtype || in.shape != out.shape) return false;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (in.shape[axis] > 1 && in.strides[axis] != out.strides[axis]) return false;
  }
  return true;
}

Status validate_views(const TensorView& in, const TensorView& out) {
  if (Status status = validate_view("in", in); !status) return status;
  if (out.dtype != in.dtype && size_of(out.dtype) != 0) {
    return invalid("out has type ", name_of(out.dtype), ": expected that of in, ", name_of(in.dtype));
  }
  if (out.shape != in.shape)
    return invalid("out has shape ", text_of(out.shape), ": expected that of in, ", text_of(in.shape));
  if (Status status = validate_view("out", out); !status) return status;
  if (is_empty(out.shape)) return {};
  if (overlaps_itself(out)) {
    return invalid("out has shape ", text_of(out.shape), " and strides ", text_of(out.strides),
                   ": elements of an output must not share an address");
  }
  if (same_view(in, out)) return {};
  const Extent a = *extent_of(in);
  const Extent b = *extent_of(out);
  if (a.first < b.last && b.first < a.last) {
    return invalid("out at ", out.data, " overlaps in at ", in.data,
                   ": expected memory of its own, or the same view for a result in place");
  }
  return {};
}

Status validate_positions(std::int64_t first_position, std::int64_t len) {
  const std::int64_t last_first = kLargestPosition - std::max<std::int64_t>(len - 1, 0);
  if (first_position >= -kLargestPosition && first_position <= last_first) return {};
  return invalid("first_position = ", first_position, ": with len = ", len, " expected ", -kLargestPosition, " .. ",
                 last_first);
}

Status validate_positions(std::span<const std::int64_t> positions, std::int64_t batch, std::int64_t len) {
  const auto count = static_cast<std::int64_t>(positions.size());
  if (count != len && count != batch * len) {
    return invalid("positions has ", count, " values: expected len = ", len, ", or batch * len = ", batch * len);
  }
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] < -kLargestPosition || positions[i] > kLargestPosition) {
      return invalid("positions[", i, "] = ", positions[i], ": expected ", -kLargestPosition, " .. ", kLargestPosition);
    }
  }
  return {};
}

}  // namespace siattn::encoding
