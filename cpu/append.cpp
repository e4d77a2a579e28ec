// SPDX-License-Identifier: Apache-2.0
#include "cpu/append.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "cpu/isa.hpp"
#include "cpu/loops.hpp"

namespace siattn::cpu {
namespace {

constexpr std::int64_t kPiece = 512;  ///< elements that are float32 at a time

/// Conversions give the same bits whatever the instruction set, so the cap of the environment is not asked here.
const Kernels& kernels() noexcept {
  static const Kernels& best = *best_isa(isas(), this_cpu(), {})->kernels;
  return best;
}

void convert_row(const CacheRows& rows, const std::byte* from, std::byte* to) noexcept {
  const auto from_size = static_cast<std::int64_t>(size_of(rows.from_type));
  const auto to_size = static_cast<std::int64_t>(size_of(rows.to_type));
  alignas(64) float wide[kPiece];
  for (std::int64_t d = 0; d < rows.dim; d += kPiece) {
    const std::int64_t n = std::min(kPiece, rows.dim - d);
    kernels().widen[element_of(rows.from_type)](from + d * from_size, wide, n);
    kernels().narrow[element_of(rows.to_type)](wide, to + d * to_size, n);
  }
}

/// In two passes over the row: its largest element, then the integers.
float quantise_row(const CacheRows& rows, const std::byte* from, std::byte* to) noexcept {
  const auto scale_of = [](float largest) { return largest < 0x1p-100F ? 0.0F : largest / 127.0F; };  // NaN stays NaN
  if (rows.from_type == DType::float32) {
    const auto* const row = reinterpret_cast<const float*>(from);
    const float scale = scale_of(kernels().largest(row, rows.dim, 0));
    kernels().quantise(row, scale, reinterpret_cast<std::int8_t*>(to), rows.dim);
    return scale;
  }
  const auto size = static_cast<std::int64_t>(size_of(rows.from_type));
  alignas(64) float wide[kPiece];
  float largest = 0;
  const auto piece = [&](std::int64_t d) {
    const std::int64_t n = std::min(kPiece, rows.dim - d);
    kernels().widen[element_of(rows.from_type)](from + d * size, wide, n);
    return n;
  };
  std::int64_t n = 0;
  for (std::int64_t d = 0; d < rows.dim; d += kPiece) {
    n = piece(d);
    largest = kernels().largest(wide, n, largest);
    if (std::isnan(largest)) break;  // so is the row, whatever else it holds
  }
  const float scale = scale_of(largest);
  for (std::int64_t d = 0; d < rows.dim; d += kPiece) {
    if (rows.dim > kPiece) n = piece(d);
    kernels().quantise(wide, scale, reinterpret_cast<std::int8_t*>(to) + d, n);
  }
  return scale;
}

}  // namespace

void write_rows(const CacheRows& rows) noexcept {
  const auto* from = static_cast<const std::byte*>(rows.from);
  auto* to = static_cast<std::byte*>(rows.to);
  const std::int64_t from_step = rows.from_stride * static_cast<std::int64_t>(size_of(rows.from_type));
  const std::int64_t to_step = rows.to_stride * static_cast<std::int64_t>(size_of(rows.to_type));
  if (rows.from_type == rows.to_type) {
    const std::int64_t bytes = rows.dim * static_cast<std::int64_t>(size_of(rows.to_type));
    if (from_step == bytes && to_step == bytes) {
      std::memcpy(to, from, static_cast<std::size_t>(rows.count * bytes));
      return;
    }
    for (std::int64_t i = 0; i < rows.count; ++i) {
      std::memcpy(to + i * to_step, from + i * from_step, static_cast<std::size_t>(bytes));
    }
    return;
  }
  for (std::int64_t i = 0; i < rows.count; ++i) {
    if (rows.to_type == DType::int8) {
      rows.scale[i * rows.scale_stride] = quantise_row(rows, from + i * from_step, to + i * to_step);
    } else {
      convert_row(rows, from + i * from_step, to + i * to_step);
    }
  }
}

}  // namespace siattn::cpu
