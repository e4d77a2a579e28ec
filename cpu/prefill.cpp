// SPDX-License-Identifier: Apache-2.0
#include "cpu/prefill.hpp"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>

#include "cpu/chunk.hpp"
#include "cpu/sequence.hpp"

namespace siattn::cpu {
namespace {

/// How a problem is cut. An item is what one thread does at a time: `heads` query heads of a group times `queries`
/// queries before all their keys. Chunks of keys begin at multiples of `chunk`, whatever the item: all that the bits
/// of a row depend on. So the items may depend on the number of threads.
struct Cut {
  std::int64_t sequences = 0;
  std::int64_t chunk = 0;
  std::int64_t heads = 0;
  std::int64_t queries = 0;
  std::int64_t head_blocks = 0;
  std::int64_t query_blocks = 0;
  std::int64_t items = 0;
  int threads = 1;  ///< no more than there are items
};

/// The sequences that do not stream: how many queries they have, together and each at most. A plan counts with the
/// most that its problem allows, a run with what it brings.
struct Queries {
  std::int64_t sequences = 0;
  std::int64_t all = 0;
  std::int64_t longest = 0;
};

Queries most_queries(const AttentionShape& shape) noexcept {
  return {shape.batch, shape.batch * shape.query_len, shape.query_len};
}

Queries queries_of(const PreparedAttention& problem, const AttentionTensors& tensors) noexcept {
  Queries queries{sequences(problem, tensors), 0, 0};
  for (std::int64_t b = 0; b < queries.sequences; ++b) {
    const SequenceBounds s = sequence_bounds(problem, tensors, b);
    if (streams(problem, s)) continue;
    queries.all += s.query_len;
    queries.longest = std::max(queries.longest, s.query_len);
  }
  return queries;
}

Cut cut(const Kernels& kernels, const PreparedAttention& problem, const Queries& queries) noexcept {
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
  const std::int64_t all = shape.query_heads * queries.all;
  const std::int64_t fair = round_up(divide_up(all, std::int64_t{2} * problem.threads), tile);
  const std::int64_t rows = std::clamp(fair, tile, fit / tile * tile);
  c.heads = std::min(group, rows);
  c.queries = std::clamp<std::int64_t>(rows / c.heads, 1, std::max<std::int64_t>(queries.longest, 1));
  if (c.queries > tile && c.queries < queries.longest) c.queries = c.queries / tile * tile;
  c.sequences = queries.sequences;
  c.head_blocks = divide_up(group, c.heads);
  c.query_blocks = divide_up(queries.longest, c.queries);
  c.items = c.sequences * shape.kv_heads * c.head_blocks * c.query_blocks;
  c.threads = static_cast<int>(std::clamp<std::int64_t>(c.items, 1, problem.threads));
  return c;
}

/// For a run, in the memory of the plan: fewer queries may ask for blocks that round to more rows than the plan's.
Cut cut_of(const Run& run) noexcept {
  const Cut most = cut(run.kernels, run.problem, most_queries(run.problem.shape));
  const Queries queries = queries_of(run.problem, run.tensors);
  Cut c = cut(run.kernels, run.problem, queries);
  c.queries = std::clamp<std::int64_t>(most.heads * most.queries / c.heads, 1, c.queries);
  c.query_blocks = divide_up(queries.longest, c.queries);
  c.items = c.sequences * run.problem.shape.kv_heads * c.head_blocks * c.query_blocks;
  c.threads = std::min(c.threads, most.threads);
  return c;
}

/// The arrays of one thread; those from query to logits where the kernels form the products.
struct Slab {
  std::byte* products;
  Chunk keys;
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
  s.keys = Chunk::take(layout);
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
  item.b = index % c.sequences;
  index /= c.sequences;
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
    const TensorRows queries{row_address(run.tensors, run.tensors.query, item.b, item.head + h, item.query),
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

/// The share of tile `tile` of `tiles` in fetching the rows of K or V that lie ahead of a chunk of `keys`.
Ahead ahead(const TensorView& x, const KvRows& rows, std::int64_t keys, std::int64_t tile, std::int64_t tiles) noexcept {
  const std::int64_t begin = rows.ahead * tile / tiles;
  return {rows.row + keys + begin, static_cast<std::int32_t>(rows.ahead * (tile + 1) / tiles - begin),
          static_cast<std::int32_t>(x.shape[3] * static_cast<std::int64_t>(size_of(x.dtype)))};
}

/// A tile before a chunk of `keys` keys, but for its rows.
Tile tile_of(const Run& run, const Slab& slab, std::int64_t chunk, std::int64_t keys) noexcept {
  Tile tile{};
  tile.head_dim = run.problem.shape.head_dim;
  tile.value_dim = run.problem.shape.value_dim;
  tile.sink_scale = run.problem.tables->sink_scale;
  tile.sinks = sinks_in_chunk(run.problem.options, chunk, keys);
  tile.has_factors = !run.problem.tables->row_factors.empty();
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

/// All rows of the item, tile by tile, before one packed chunk of keys; meanwhile those ahead of it come closer.
void tiles(const Run& run, const Item& item, const Slab& slab, std::int64_t chunk, std::int64_t keys,
           std::int64_t capacity, bool finite) noexcept {
  const std::int64_t rows = item.heads * item.queries;
  const std::int64_t count = divide_up(rows, run.kernels.tile_rows);
  const Kernels& kernels = run.kernels;
  Tile tile = tile_of(run, slab, chunk, keys);
  for (std::int64_t r = 0; r < rows; r += kernels.tile_rows) {
    const std::int64_t n = std::min<std::int64_t>(kernels.tile_rows, rows - r);
    if (!take_rows(tile, run, slab, r, n, chunk, keys)) continue;
    tile.next_key = ahead(run.tensors.key, slab.keys.key(), keys, r / kernels.tile_rows, count);
    tile.next_value = ahead(run.tensors.value, slab.keys.value(), keys, r / kernels.tile_rows, count);
    tile.query = slab.query + r * tile.head_dim;
    kernels.scores(tile, slab.key);
    kernels.softmax(tile);
    kernels.weigh(tile, slab.value, capacity, finite);
  }
}

/// The same with products by blocks. False: these reported an error.
bool block_tiles(const Run& run, ThreadProducts& products, const Item& item, const Slab& slab, std::int64_t chunk,
                 std::int64_t keys) noexcept {
  const std::int64_t rows = item.heads * item.queries;
  const std::int64_t step = run.products->tile_rows();
  const std::int64_t count = divide_up(rows, step);
  Tile tile = tile_of(run, slab, chunk, keys);
  for (std::int64_t r = 0; r < rows; r += step) {
    if (!take_rows(tile, run, slab, r, std::min(step, rows - r), chunk, keys)) continue;
    tile.next_key = ahead(run.tensors.key, slab.keys.key(), keys, r / step, count);
    tile.next_value = ahead(run.tensors.value, slab.keys.value(), keys, r / step, count);
    if (!products.attend(tile, r)) return false;
  }
  return true;
}

bool compute(const Run& run, ThreadProducts* products, const Cut& c, const Item& item, Slab& slab) noexcept {
  const AttentionShape& shape = run.problem.shape;
  const SequenceBounds s = sequence_bounds(run.problem, run.tensors, item.b);
  begin(run, products, item, s, slab, item_rows(run.kernels, run.products, c));
  const std::int64_t first = visible_keys(run.problem.options, s, item.query).first;
  const std::int64_t last = visible_keys(run.problem.options, s, item.query + item.queries - 1).last;
  const std::int64_t rows = item.heads * item.queries;
  for (std::int64_t chunk = first / c.chunk * c.chunk; chunk < last; chunk += c.chunk) {
    const std::int64_t keys = std::min(c.chunk, last - chunk);
    const std::int64_t next = std::min(c.chunk, last - chunk - keys);
    slab.keys.find(run, {item.b, item.kv_head, chunk, s.kv_len}, keys, next);
    const KvRows key = slab.keys.key();
    const KvRows value = slab.keys.value();
    if (products != nullptr) {
      products->take_chunk(key, value, keys);
      if (!block_tiles(run, *products, item, slab, chunk, keys)) return false;
      continue;
    }
    run.kernels.pack_key[run.kv_element](key, keys, shape.head_dim, slab.key);
    const bool finite = run.kernels.pack_value[run.kv_element](value, keys, shape.value_dim, c.chunk, slab.value);
    tiles(run, item, slab, chunk, keys, c.chunk, finite);
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
  const Cut c = cut(kernels, problem, most_queries(problem.shape));
  Layout layout;
  slab(layout, kernels, products, problem.shape, c);
  return layout.bytes() * c.threads;
}

std::int64_t prefill_slice_bytes(const Kernels& kernels, const Products* products,
                                 const PreparedAttention& problem) noexcept {
  Layout layout;
  slab(layout, kernels, products, problem.shape, cut(kernels, problem, most_queries(problem.shape)));
  return layout.bytes();
}

int prefill_slices(const Kernels& kernels, const PreparedAttention& problem) noexcept {
  return cut(kernels, problem, most_queries(problem.shape)).threads;
}

bool prefill(const Run& run) noexcept {
  const Cut c = cut_of(run);
  Layout one;
  slab(one, run.kernels, run.products, run.problem.shape, c);
  const std::int64_t bytes = one.bytes();
  std::atomic<bool> good = true;
  // What one thread does; `each_item` calls its argument with the items that are this thread's.
  const auto work = [&](int thread, auto each_item) {
    Layout layout(run.workspace + thread * bytes);
    Slab mine = slab(layout, run.kernels, run.products, run.problem.shape, c);
    std::unique_ptr<ThreadProducts> products;
    if (run.products != nullptr) {
      products = run.products->in_this_thread(mine.products, item_rows(run.kernels, run.products, c));
      if (products == nullptr) good = false;
    }
    each_item([&](std::int64_t index) {
      const Item item = item_at(run, c, index);
      if (item.queries > 0 && good && !compute(run, products.get(), c, item, mine)) good = false;
    });
  };
  if (run.slice != nullptr) {
    const int count = std::min(run.slice->count, c.threads);
    if (run.slice->index >= count) return true;
    // A region of one thread, since products change its OpenMP settings.
#pragma omp parallel num_threads(1)
    work(0, [&](auto compute_item) {
      for (std::int64_t index = run.slice->index; index < c.items; index += count) compute_item(index);
    });
    return good;
  }
#pragma omp parallel num_threads(c.threads)
  work(omp_get_thread_num(), [&](auto compute_item) {
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t index = 0; index < c.items; ++index) compute_item(index);
  });
  return good;
}

}  // namespace siattn::cpu
