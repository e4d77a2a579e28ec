// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_ENCODING_VALIDATE_HPP
#define SIATTN_ENCODING_VALIDATE_HPP

#include <cstdint>
#include <span>

#include <siattn/status.hpp>
#include <siattn/tensor_view.hpp>

namespace siattn::encoding {

/// Whether in and out are one view: the same elements at the same addresses.
bool same_view(const TensorView& in, const TensorView& out) noexcept;

/// Shapes, types, strides and alignment agree, and out overlaps neither itself nor in, unless they are one view. The
/// checks of tensors for attention are the same but for that exception.
Status validate_views(const TensorView& in, const TensorView& out);

/// Positions first_position .. first_position + len - 1.
Status validate_positions(std::int64_t first_position, std::int64_t len);

/// len or batch * len positions.
Status validate_positions(std::span<const std::int64_t> positions, std::int64_t batch, std::int64_t len);

}  // namespace siattn::encoding

#endif  // SIATTN_ENCODING_VALIDATE_HPP
