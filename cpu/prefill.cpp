// SPDX-License-Identifier: Apache-2.0
#include "cpu/prefill.hpp"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>

#include "cpu/sequence.hpp"

namespace siattn::cpu {
namespace {

/// How a problem is cut. An item is what one thread does at a time: `heads` query heads of a group times `queries`
/// queries before all their keys. Chunks of keys begin at multiples of `chunk`, whatever the item: all that the bits
/// of a row depend on. So the items may depend on the number of threads.
struct Cut {
  std::int64_t chunk = 0;
  std::int64_t heads = 0;
  std::int64_t queries = 0;
  std::int64_t head_blocks = 0;
  std::int64_t query_blocks = 0;
  std::int64_t items = 0;
  int threads = 1;  ///< no more than there are items
};

Cut cut(const Kernels& kernels, const PreparedAttention& problem) noexcept {
  const AttentionShape& shape = problem.shape;
  const std::int64_t group = shape.query_heads / shape.kv_heads;
  Cut c;
  // K and V of a chunk, packed, stay in the second-level cache: 256 KiB at 128 channels each.
  c.chunk = shape.head_dim + shape.value_dim > 512 ? kMaxChunk / 2 : kMaxChunk;
  // Queries and accumulators of an item pass by once a chunk: as many as 1 MiB holds, so that packing costs little,
  // and few enough that every thread gets some items.
  const std::int64_t tile = kernels.tile_rows;
  const std::int64_t fit =
      std::clamp<std::int64_t>((std::int64_t{1} << 18) / (shape.head_dim + shape.value_dim), tile, 1024);
  const std::int64_t all = shape.batch * shape.query_heads * shape.query_len;
  const std::int64_t fair = round_up(divide_up(all, std::int64_t{2} * problem.threads), tile);
  const std::int64_t rows = std::clamp(fair, tile, fit / tile * tile);
  c.heads = std::min(group, rows);
  c.queries = std::clamp<std::int64_t>(rows / c.heads, 1, std::max<std::int64_t>(shape.query_len, 1));
  if (c.queries > tile && c.queries < shape.query_len) c.queries = c.queries / tile * tile;
  c.head_blocks = divide_up(group, c.heads);
  c.query_blocks = divide_up(shape.query_len, c.queries);
  c.items = shape.batch * shape.kv_heads * c.head_blocks * c.query_blocks;
  c.threads = static_cast<int>(std::clamp<std::int64_t>(c.items, 1, problem.threads));
  return c;
}

/// The arrays of one thread; those from query to logits where the kernels form the products.
struct Slab {
  std::byte* products;
  QueryRow* query_row;
  Row* row;
  float* query;
  float* key;
  float* value;
  float* logits;
  float* chunk_max;
  float* alpha;
  float* maximum;
  float* sum;
  float* out;
  std::int64_t out_stride;
};

/// Rows of an item, to whole tiles.
std::int64_t item_rows(const Kernels& kernels, const Products* products, const Cut& c) noexcept {
  return round_up(c.heads * c.queries, products == nullptr ? kernels.tile_rows : products->tile_rows());
}

Slab slab(Layout& layout, const Kernels& kernels, const Products* products, const AttentionShape& shape,
          const Cut& c) noexcept {
  Slab s{};
  const std::int64_t rows = item_rows(kernels, products, c);
  s.out_stride = round_up(shape.value_dim, kernels.panel);
  s.query_row = layout.take<QueryRow>(rows);
  s.row = layout.take<Row>(kMaxTileRows);
  if (products != nullptr) {
    s.products = layout.take<std::byte>(products->bytes(rows));
  } else {
    s.query = layout.take<float>(rows * shape.head_dim);
    s.key = layout.take<float>(c.chunk * shape.head_dim);
    s.value = layout.take<float>(c.chunk * s.out_stride);
    s.logits = layout.take<float>(kMaxTileRows * kLogitsStride);
  }
  s.chunk_max = layout.take<float>(kMaxTileRows * kernels.lanes);
  s.alpha = layout.take<float>(kMaxTileRows);
  s.maximum = layout.take<float>(rows);
  s.sum = layout.take<float>(rows * kernels.lanes);
  s.out = layout.take<float>(rows * s.out_stride);
  return s;
}

struct Item {
  std::int64_t b;
  std::int64_t kv_head;
  std::int64_t head;  ///< first of `heads` query heads
  std::int64_t heads;
  std::int64_t query;  ///< first of `queries` queries
  std::int64_t queries;
};

/// Late queries, which see the most keys, come first, so that the threads end together. No queries: nothing to do.
Item item_at(const Run& run, const Cut& c, std::int64_t index) noexcept {
  const AttentionShape& shape = run.problem.shape;
  const std::int64_t group = shape.query_heads / shape.kv_heads;
  Item item{};
  const std::int64_t head_block = index % c.head_blocks;
  index /= c.head_blocks;
  item.kv_head = index % shape.kv_heads;
  index /= shape.kv_heads;
  item.b = index % shape.batch;
  index /= shape.batch;
  item.head = item.kv_head * group + head_block * c.heads;
  item.heads = std::min(c.heads, group - head_block * c.heads);
  item.query = (c.query_blocks - 1 - index) * c.queries;
  const SequenceBounds s = sequence_bounds(run.problem, run.tensors, item.b);
  item.queries = streams(run.problem, s) ? 0 : std::clamp<std::int64_t>(s.query_len - item.query, 0, c.queries);
  return item;
}

/// Hands over the queries and puts every row into the state that has seen no key. Rows are ordered by head, then query.
void begin(const Run& run, ThreadProducts* products, const Item& item, const SequenceBounds& s, const Slab& slab,
           std::int64_t rows) noexcept {
  for (std::int64_t h = 0; h < item.heads; ++h) {
    const std::int64_t at = h * item.queries;
    const TensorRows queries{row_address(run.tensors.query, item.b, item.head + h, item.query),
                             run.tensors.query.strides[2], item.queries};
    if (products != nullptr) {
      products->take_queries(queries, at);
    } else {
      run.kernels.pack_query[run.element](queries.at, queries.stride, queries.count, run.problem.shape.head_dim, at,
                                          slab.query);
    }
    for (std::int64_t i = 0; i < item.queries; ++i) {
      slab.query_row[at + i] = query_row(run.problem, s, item.head + h, item.query + i);
    }
  }
  std::fill_n(slab.maximum, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(slab.sum, rows * run.kernels.lanes, 0.0F);
  std::fill_n(slab.out, rows * slab.out_stride, 0.0F);
}

/// The share of tile `tile` of `tiles` in fetching `keys` rows of K or V from key `first` on.
Ahead ahead(const TensorView& x, const Item& item, std::int64_t first, std::int64_t keys, std::int64_t tile,
            std::int64_t tiles) noexcept {
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  const std::int64_t begin = keys * tile / tiles;
  return {reinterpret_cast<const char*>(row_address(x, item.b, item.kv_head, first + begin)), x.strides[2] * size,
          static_cast<std::int32_t>(keys * (tile + 1) / tiles - begin), static_cast<std::int32_t>(x.shape[3] * size)};
}

/// A tile before a chunk of `keys` keys, but for its rows.
Tile tile_of(const Run& run, const Slab& slab, std::int64_t chunk, std::int64_t keys) noexcept {
  Tile tile{};
  tile.head_dim = run.problem.shape.head_dim;
  tile.value_dim = run.problem.shape.value_dim;
  tile.sink_scale = run.problem.tables.sink_scale;
  tile.sinks = sinks_in_chunk(run.problem.options, chunk, keys);
  tile.has_factors = !run.problem.tables.row_factors.empty();
  tile.logits = slab.logits;
  tile.logits_stride = kLogitsStride;
  tile.chunk_max = slab.chunk_max;
  tile.alpha = slab.alpha;
  tile.out_stride = slab.out_stride;
  return tile;
}

/// Rows `r` .. `r + n` of the item. False: none of them sees any of the keys.
bool take_rows(Tile& tile, const Run& run, const Slab& slab, std::int64_t r, std::int64_t n, std::int64_t chunk,
               std::int64_t keys) noexcept {
  tile.maximum = slab.maximum + r;
  tile.sum = slab.sum + r * run.kernels.lanes;
  tile.out = slab.out + r * slab.out_stride;
  return set_rows(tile, slab.row, slab.query_row + r, static_cast<std::int32_t>(n), chunk, keys);
}

/// All rows of the item, tile by tile, before one packed chunk of keys; meanwhile the `next` keys after it come closer.
void tiles(const Run& run, const Item& item, const Slab& slab, std::int64_t chunk, std::int64_t keys,
           std::int64_t capacity, bool finite, std::int64_t next) noexcept {
  const std::int64_t rows = item.heads * item.queries;
  const std::int64_t count = divide_up(rows, run.kernels.tile_rows);
  const Kernels& kernels = run.kernels;
  Tile tile = tile_of(run, slab, chunk, keys);
  for (std::int64_t r = 0; r < rows; r += kernels.tile_rows) {
    const std::int64_t n = std::min<std::int64_t>(kernels.tile_rows, rows - r);
    if (!take_rows(tile, run, slab, r, n, chunk, keys)) continue;
    tile.next_key = ahead(run.tensors.key, item, chunk + keys, next, r / kernels.tile_rows, count);
    tile.next_value = ahead(run.tensors.value, item, chunk + keys, next, r / kernels.tile_rows, count);
    tile.query = slab.query + r * tile.head_dim;
    kernels.scores(tile, slab.key);
    kernels.softmax(tile);
    kernels.weigh(tile, slab.value, capacity, finite);
  }
}

/// The same with products by blocks. False: these reported an error.
bool block_tiles(const Run& run, ThreadProducts& products, const Item& item, const Slab& slab, std::int64_t chunk,
                 std::int64_t keys, std::int64_t next) noexcept {
  const std::int64_t rows = item.heads * item.queries;
  const std::int64_t step = run.products->tile_rows();
  const std::int64_t count = divide_up(rows, step);
  Tile tile = tile_of(run, slab, chunk, keys);
  for (std::int64_t r = 0; r < rows; r += step) {
    if (!take_rows(tile, run, slab, r, std::min(step, rows - r), chunk, keys)) continue;
    tile.next_key = ahead(run.tensors.key, item, chunk + keys, next, r / step, count);
    tile.next_value = ahead(run.tensors.value, item, chunk + keys, next, r / step, count);
    if (!products.attend(tile, r)) return false;
  }
  return true;
}

bool compute(const Run& run, ThreadProducts* products, const Cut& c, const Item& item, const Slab& slab) noexcept {
  const AttentionShape& shape = run.problem.shape;
  const SequenceBounds s = sequence_bounds(run.problem, run.tensors, item.b);
  begin(run, products, item, s, slab, item_rows(run.kernels, run.products, c));
  const std::int64_t first = visible_keys(run.problem.options, s, item.query).first;
  const std::int64_t last = visible_keys(run.problem.options, s, item.query + item.queries - 1).last;
  const std::int64_t rows = item.heads * item.queries;
  for (std::int64_t chunk = first / c.chunk * c.chunk; chunk < last; chunk += c.chunk) {
    const std::int64_t keys = std::min(c.chunk, last - chunk);
    const std::int64_t next = std::min(c.chunk, last - chunk - keys);
    const auto in_chunk = [&](const TensorView& x) {
      return TensorRows{row_address(x, item.b, item.kv_head, chunk), x.strides[2], keys};
    };
    const TensorRows key = in_chunk(run.tensors.key);
    const TensorRows value = in_chunk(run.tensors.value);
    if (products != nullptr) {
      products->take_chunk(key, value);
      if (!block_tiles(run, *products, item, slab, chunk, keys, next)) return false;
      continue;
    }
    run.kernels.pack_key[run.element](key.at, key.stride, keys, shape.head_dim, slab.key);
    const bool finite =
        run.kernels.pack_value[run.element](value.at, value.stride, keys, shape.value_dim, c.chunk, slab.value);
    tiles(run, item, slab, chunk, keys, c.chunk, finite, next);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    write_row(run, item.b, item.head + r / item.queries, item.query + r % item.queries, slab.maximum[r],
              slab.sum + r * run.kernels.lanes, slab.out + r * slab.out_stride);
  }
  return true;
}

}  // namespace

std::int64_t prefill_workspace_bytes(const Kernels& kernels, const Products* products,
                                     const PreparedAttention& problem) noexcept {
  const Cut c = cut(kernels, problem);
  Layout layout;
  slab(layout, kernels, products, problem.shape, c);
  return layout.bytes() * c.threads;
}

bool prefill(const Run& run) noexcept {
  const Cut c = cut(run.kernels, run.problem);
  Layout one;
  slab(one, run.kernels, run.products, run.problem.shape, c);
  const std::int64_t bytes = one.bytes();
  std::atomic<bool> good = true;
#pragma omp parallel num_threads(c.threads)
  {
    Layout layout(run.workspace + omp_get_thread_num() * bytes);
    const Slab mine = slab(layout, run.kernels, run.products, run.problem.shape, c);
    std::unique_ptr<ThreadProducts> products;
    if (run.products != nullptr) {
      products = run.products->in_this_thread(mine.products, item_rows(run.kernels, run.products, c));
      if (products == nullptr) good = false;
    }
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t index = 0; index < c.items; ++index) {
      const Item item = item_at(run, c, index);
      if (item.queries > 0 && good && !compute(run, products.get(), c, item, mine)) good = false;
    }
  }
  return good;
}

}  // namespace siattn::cpu
