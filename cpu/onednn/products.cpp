// SPDX-License-Identifier: Apache-2.0
// oneDNN's matmul on blocks of one size: kTileRows queries before kMaxChunk keys. The size is part of the promise of the
// same bits: another one might be cut, and added up, in another way.
#include "cpu/onednn/products.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <exception>
#include <utility>

#include <oneapi/dnnl/dnnl.hpp>

#include "cpu/loops.hpp"

namespace siattn::cpu {
namespace {

constexpr std::int64_t kTileRows = 64;
constexpr std::int64_t kKeys = kMaxChunk;
constexpr std::int64_t kPanel = 32;  ///< keys or channels in a packed panel, both in the kernels and in the formats BA16a32*

using Format = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

/// Everything that a plan needs, made once: shared by all threads.
struct Multiplication {
  dnnl::memory::desc a, b, c, scratch;
  dnnl::matmul primitive;
  std::string implementation;

  /// c [rows, columns] = (c +) a [rows, inner] b [inner, columns]; b comes packed in panels of kPanel columns, as the
  /// kernels pack K and V.
  Multiplication(const dnnl::engine& engine, Type type, std::int64_t rows, std::int64_t columns, std::int64_t inner,
                 bool adds) {
    using Dims = dnnl::memory::dims;
    a = {Dims{rows, inner}, type, Dims{inner, 1}};
    b = {Dims{inner, columns}, type, type == Type::f32 ? Format::BA16a32b : Format::BA16a32b2a};
    c = {Dims{rows, columns}, Type::f32, Dims{columns, 1}};
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (adds) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), attributes, engine);
    implementation = description.impl_info_str();
    scratch = description.scratchpad_desc();
    primitive = dnnl::matmul(description);
  }
};

/// One multiplication with the memory of one thread.
class Call {
 public:
  Call(const dnnl::engine& engine, const Multiplication& m, void* a, void* b, void* c, void* scratch)
      : primitive_(m.primitive),
        a_(m.a, engine, a),
        b_(m.b, engine, b),
        c_(m.c, engine, c),
        scratch_(m.scratch, engine, scratch),
        arguments_{{{DNNL_ARG_SRC, a_.get()},
                    {DNNL_ARG_WEIGHTS, b_.get()},
                    {DNNL_ARG_DST, c_.get()},
                    {DNNL_ARG_SCRATCHPAD, scratch_.get()}}} {}

  /// The C function, since the C++ one copies its arguments into a map before the library does so again.
  bool run(const dnnl::stream& stream) noexcept {
    return dnnl_primitive_execute(primitive_.get(), stream.get(), static_cast<int>(arguments_.size()),
                                  arguments_.data()) == dnnl_success;
  }
  bool run(const dnnl::stream& stream, void* a, void* c) noexcept {
    return dnnl_memory_set_data_handle(a_.get(), a) == dnnl_success &&
           dnnl_memory_set_data_handle(c_.get(), c) == dnnl_success && run(stream);
  }

 private:
  const dnnl::matmul& primitive_;
  dnnl::memory a_, b_, c_, scratch_;
  std::array<dnnl_exec_arg_t, 4> arguments_;
};

/// What the shape says, and how its elements are stored.
struct Blocks {
  std::int64_t head_dim, value_dim;
  std::int64_t inner;     ///< head_dim to whole blocks of the packed format, 0 behind it
  std::int64_t channels;  ///< value_dim to whole panels
  DType dtype;

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(size_of(dtype)); }
  bool is_float32() const noexcept { return dtype == DType::float32; }
};

/// `count` rows of `bytes` bytes, each to the start of a row of `width` bytes; `row(j)` is the address of row j.
template <class Row>
void copy(std::int64_t count, Row row, std::int64_t bytes, std::int64_t width, std::byte* to) noexcept {
  for (std::int64_t j = 0; j < count; ++j) std::memcpy(to + j * width, row(j), static_cast<std::size_t>(bytes));
}

/// The memory of one thread.
struct Buffers {
  std::byte* query;      ///< [rows of the item][inner], 0 behind head_dim
  std::byte* key_row;    ///< [kKeys][inner], the same
  std::byte* weights;    ///< [kTileRows][kKeys]
  std::byte* key;        ///< packed
  std::byte* value;      ///< packed
  std::byte* value_row;  ///< [kKeys][value_dim], where something is not finite
  float* logits;         ///< [kTileRows][kKeys]
  std::byte* scratch;

  Buffers(Layout& layout, const Blocks& blocks, std::int64_t rows, std::size_t scratch_bytes) noexcept {
    const std::int64_t size = blocks.size();
    query = layout.take<std::byte>(rows * blocks.inner * size);
    key_row = layout.take<std::byte>(kKeys * blocks.inner * size);
    weights = layout.take<std::byte>(kTileRows * kKeys * size);
    key = layout.take<std::byte>(kKeys * blocks.inner * size);
    value = layout.take<std::byte>(kKeys * blocks.channels * size);
    value_row = layout.take<std::byte>(kKeys * blocks.value_dim * size);
    logits = layout.take<float>(kTileRows * kKeys);
    scratch = layout.take<std::byte>(static_cast<std::int64_t>(scratch_bytes));
  }
};

/// What a plan keeps.
struct Plan {
  const Kernels& kernels;
  Blocks blocks;
  dnnl::engine engine;
  Multiplication scores, weigh;

  std::size_t scratch_bytes() const noexcept { return std::max(scores.scratch.get_size(), weigh.scratch.get_size()); }
};

class OneDnnThread final : public ThreadProducts {
 public:
  OneDnnThread(const Plan& plan, const Buffers& buffers)
      : kernels_(plan.kernels),
        blocks_(plan.blocks),
        buffers_(buffers),
        stream_(plan.engine),
        scores_(plan.engine, plan.scores, buffers.query, buffers.key, buffers.logits, buffers.scratch),
        weigh_(plan.engine, plan.weigh, buffers.weights, buffers.value, buffers.logits, buffers.scratch) {
    std::fill(buffers.query, buffers.key, std::byte{0});
    for (std::int64_t j = 0; j < kKeys; ++j) {
      key_row_[j] = buffers.key_row + j * blocks_.inner * blocks_.size();
      value_row_[j] = buffers.value_row + j * blocks_.value_dim * blocks_.size();
    }
  }

  void take_queries(const TensorRows& rows, std::int64_t at) noexcept override {
    const auto* const first = static_cast<const std::byte*>(rows.at);
    copy(
        rows.count, [&](std::int64_t j) { return first + j * rows.stride * blocks_.size(); },
        blocks_.head_dim * blocks_.size(), blocks_.inner * blocks_.size(), row_of_query(at));
  }

  void take_chunk(const KvRows& key, const KvRows& value, std::int64_t keys) noexcept override {
    // Pairs of 16-bit channels move as one float would.
    const std::int64_t inner = blocks_.inner * blocks_.size() / 4;
    copy(
        keys, [&key](std::int64_t j) { return key.row[j]; }, blocks_.head_dim * blocks_.size(),
        blocks_.inner * blocks_.size(), buffers_.key_row);
    kernels_.pack_key[kFloat32]({key_row_.data(), nullptr, 0}, keys, inner, reinterpret_cast<float*>(buffers_.key));
    value_ = value;
    finite_ = pack_value(value, keys);
    if (finite_) return;
    copy(
        keys, [&value](std::int64_t j) { return value.row[j]; }, blocks_.value_dim * blocks_.size(),
        blocks_.value_dim * blocks_.size(), buffers_.value_row);
    for (std::int64_t i = 0; i < keys * blocks_.value_dim; ++i) {
      std::byte* const at = buffers_.value_row + i * blocks_.size();
      if (!std::isfinite(element(at))) std::memset(at, 0, static_cast<std::size_t>(blocks_.size()));
    }
    pack_value({value_row_.data(), nullptr, 0}, keys);
  }

  bool attend(Tile& tile, std::int64_t row) noexcept override {
    tile.logits = buffers_.logits;
    tile.logits_stride = kKeys;
    if (!scores_.run(stream_, row_of_query(row), buffers_.logits)) return false;
    kernels_.transform(tile);
    kernels_.spread[blocks_.is_float32() ? kFloat32 : kBfloat16](tile, buffers_.weights, kKeys);
    if (!weigh_.run(stream_, buffers_.weights, tile.out)) return false;
    if (!finite_) add_not_finite(tile);
    return true;
  }

 private:
  float element(const void* at) const noexcept {
    float x = 0;
    kernels_.widen[blocks_.is_float32() ? kFloat32 : kBfloat16](at, &x, 1);
    return x;
  }

  /// False: something is not finite.
  bool pack_value(const KvRows& value, std::int64_t keys) noexcept {
    if (!blocks_.is_float32()) {
      kernels_.pack_value_pairs(value, keys, blocks_.value_dim, kKeys, buffers_.value);
      return kernels_.bfloat16_finite(value, keys, blocks_.value_dim);
    }
    // Past the last key weights are 0, and values must be finite.
    if (keys < kKeys) std::memset(buffers_.value, 0, static_cast<std::size_t>(kKeys * blocks_.channels * 4));
    return kernels_.pack_value[kFloat32](value, keys, blocks_.value_dim, kKeys,
                                         reinterpret_cast<float*>(buffers_.value));
  }

  /// In a product by blocks an infinite value would reach rows that do not see its key, as 0 times infinity. So it is 0
  /// there, and added here for the rows that see it.
  void add_not_finite(const Tile& tile) noexcept {
    for (std::int64_t j = tile.first; j < tile.last; ++j) {
      const auto* const values = static_cast<const std::byte*>(value_.row[j]);
      for (std::int64_t c = 0; c < blocks_.value_dim; ++c) {
        const float v = element(values + c * blocks_.size());
        if (std::isfinite(v)) continue;
        for (int r = 0; r < tile.rows; ++r) {
          if (j < tile.row[r].first || j >= tile.row[r].last) continue;
          tile.out[r * tile.out_stride + c] += v * element(buffers_.weights + (r * kKeys + j) * blocks_.size());
        }
      }
    }
  }

  std::byte* row_of_query(std::int64_t row) const noexcept {
    return buffers_.query + row * blocks_.inner * blocks_.size();
  }

  const Kernels& kernels_;
  const Blocks blocks_;
  const Buffers buffers_;
  dnnl::stream stream_;
  Call scores_, weigh_;
  std::array<const void*, kKeys> key_row_{};    ///< rows of buffers_.key_row
  std::array<const void*, kKeys> value_row_{};  ///< rows of buffers_.value_row
  KvRows value_{};
  bool finite_ = true;
};

class OneDnnProducts final : public Products {
 public:
  explicit OneDnnProducts(Plan plan) : plan_(std::move(plan)) {}

  std::int64_t tile_rows() const noexcept override { return kTileRows; }

  std::int64_t bytes(std::int64_t rows) const noexcept override {
    Layout layout;
    Buffers(layout, plan_.blocks, rows, plan_.scratch_bytes());
    return layout.bytes();
  }

  std::unique_ptr<ThreadProducts> in_this_thread(std::byte* memory, std::int64_t rows) const noexcept override {
    // oneDNN would open a parallel region of its own where ours has one thread. The setting ends with our region.
    omp_set_num_threads(1);
    try {
      Layout layout(memory);
      return std::make_unique<OneDnnThread>(plan_, Buffers(layout, plan_.blocks, rows, plan_.scratch_bytes()));
    } catch (...) {
      return nullptr;
    }
  }

 private:
  const Plan plan_;
};

}  // namespace

Numerics onednn_numerics(const Kernels& kernels, DType dtype) noexcept {
  const bool narrow = dtype == DType::bfloat16;
  return {.unit_roundoff = 0x1p-24,
          .score_unit_roundoff = 0x1p-24,
          .weight_roundoff = narrow ? 0x1p-8 : 0,
          .exp_relative_error = kernels.exp2_relative_error,
          .least_normal = 0x1p-126,
          .underflow = narrow ? 0x1p-126 : 0,
          .flushes_operands = narrow};
}

std::shared_ptr<const Products> onednn_products(const Kernels& kernels, DType dtype, std::int64_t head_dim,
                                                std::int64_t value_dim, std::string* implementation) {
  const Blocks blocks{head_dim, value_dim, round_up(head_dim, 32), round_up(value_dim, kPanel), dtype};
  const Type type = dtype == DType::float32 ? Type::f32 : Type::bf16;
  std::shared_ptr<const Products> products;
  std::exception_ptr error;
  // A primitive is cut for the number of threads that OpenMP would use where it is made.
#pragma omp parallel num_threads(1)
  {
    omp_set_num_threads(1);
    try {
      const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
      Plan plan{kernels, blocks, engine, Multiplication(engine, type, kTileRows, kKeys, blocks.inner, false),
                Multiplication(engine, type, kTileRows, blocks.channels, kKeys, true)};
      if (implementation != nullptr) *implementation = plan.scores.implementation;
      const auto by_blocks = [](const Multiplication& m) { return m.implementation.starts_with("brg"); };
      if (by_blocks(plan.scores) && by_blocks(plan.weigh)) {
        products = std::make_shared<OneDnnProducts>(std::move(plan));
      }
    } catch (const dnnl::error&) {
      // No such multiplication on this machine.
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
  return products;
}

}  // namespace siattn::cpu
