// SPDX-License-Identifier: Apache-2.0
#include "verify/far_tensors.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace siattn::verify {
namespace {

/// Elements between rows: 2^31 are passed within the first 200 of them, and by the first half of few: so that a block
/// of rows that begins late begins beyond.
std::int64_t far_stride(std::int64_t rows) {
  return (std::int64_t{1} << 31) / std::clamp<std::int64_t>(rows < 100 ? (rows - 1) / 2 : rows - 1, 1, 200) + 64;
}

void copy_rows(const TensorView& from, const MutableTensorView& to) {
  const auto size = static_cast<std::int64_t>(size_of(from.dtype));
  for (std::int64_t b = 0; b < from.shape[0]; ++b) {
    for (std::int64_t h = 0; h < from.shape[1]; ++h) {
      for (std::int64_t i = 0; i < from.shape[2]; ++i) {
        std::memcpy(static_cast<std::byte*>(to.data) + row_offset(to, b, h, i) * size,
                    static_cast<const std::byte*>(from.data) + row_offset(from, b, h, i) * size,
                    static_cast<std::size_t>(from.shape[3] * size));
      }
    }
  }
}

}  // namespace

template <class View>
void FarTensors::spread(View& view) {
  const Shape4& shape = view.shape;
  const std::int64_t stride = far_stride(shape[2]);
  view.strides = {shape[1] * shape[2] * stride, shape[2] * stride, stride, 1};
  const std::int64_t last_row =
      (shape[0] - 1) * view.strides[0] + (shape[1] - 1) * view.strides[1] + (shape[2] - 1) * view.strides[2];
  const std::size_t used = static_cast<std::size_t>(last_row + shape[3]) * size_of(view.dtype);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t readable = (used + page - 1) / page * page;
  void* const at =
      ::mmap(nullptr, readable + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    mapped_ = false;
    return;
  }
  mappings_.push_back({at, readable + page});
  auto* const end = static_cast<std::byte*>(at) + readable;
  ::madvise(at, readable, MADV_NOHUGEPAGE);  // a small page for each row, not a huge one
  if (::mprotect(end, page, PROT_NONE) != 0) mapped_ = false;
  view.data = end - used;
}

FarTensors::FarTensors(const AttentionTensors& near) : near_(near), far_(near) {
  spread(far_.query);
  spread(far_.key);
  spread(far_.value);
  spread(far_.out);
  spread(far_.lse);
  if (!mapped_) return;
  const auto writable = [](const TensorView& x) {
    return MutableTensorView{const_cast<void*>(x.data), x.dtype, x.shape, x.strides};
  };
  copy_rows(near.query, writable(far_.query));
  copy_rows(near.key, writable(far_.key));
  copy_rows(near.value, writable(far_.value));
}

FarTensors::~FarTensors() {
  for (const Mapping& mapping : mappings_) ::munmap(mapping.at, mapping.bytes);
}

void FarTensors::copy_outputs() {
  if (!mapped_) return;
  copy_rows(far_.out, near_.out);
  copy_rows(far_.lse, near_.lse);
}

}  // namespace siattn::verify
