// SPDX-License-Identifier: Apache-2.0
// Another way to form the two products of a prefill than the register tiles of kernels.cpp: by whole blocks, as matrix
// units want them. Masks, transform and softmax stay with the kernels.
#ifndef SIATTN_CPU_PRODUCTS_HPP
#define SIATTN_CPU_PRODUCTS_HPP

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cpu/kernels.hpp"

namespace siattn::cpu {

/// Rows of Q as they lie in a tensor.
struct TensorRows {
  const void* at;
  std::int64_t stride;  ///< elements
  std::int64_t count;
};

/// The products of one thread. Blocks have the same size whatever the problem's lengths, and what a row does not see has
/// no effect on it: its bits do not depend on the rows and keys beside it.
class ThreadProducts {
 public:
  virtual ~ThreadProducts() = default;

  /// Takes over queries as rows `at` .. `at + rows.count` of the item.
  virtual void take_queries(const TensorRows& rows, std::int64_t at) noexcept = 0;

  /// Takes over a chunk of `keys` keys and values; what the arguments name stays where it is until the next one.
  virtual void take_chunk(const KvRows& key, const KvRows& value, std::int64_t keys) noexcept = 0;

  /// The three steps for rows `row` .. `row + tile.rows` of the item: what scores, softmax and weigh do. False: the
  /// library that forms the products reports an error.
  virtual bool attend(Tile& tile, std::int64_t row) noexcept = 0;
};

class Products {
 public:
  virtual ~Products() = default;

  /// Rows that pass by at a time: <= kMaxTileRows.
  virtual std::int64_t tile_rows() const noexcept = 0;
  /// Memory of one thread for items of so many rows, aligned to 64 bytes.
  virtual std::int64_t bytes(std::int64_t rows) const noexcept = 0;
  /// Called inside the thread that will use it; nullptr when there is no memory. May allocate.
  virtual std::unique_ptr<ThreadProducts> in_this_thread(std::byte* memory, std::int64_t rows) const noexcept = 0;
};

}  // namespace siattn::cpu

#endif  // SIATTN_CPU_PRODUCTS_HPP
