// SPDX-License-Identifier: Apache-2.0
#include "cpu/decode.hpp"

#include <omp.h>

#include <algorithm>
#include <limits>

#include "cpu/chunk.hpp"
#include "cpu/sequence.hpp"

namespace siattn::cpu {
namespace {

/// Keys whose logits exist at a time.
constexpr std::int64_t kChunk = kMaxChunk;
/// Keys of a split. Its attention state starts empty and is merged with those before it, in order: so the bits depend
/// on where splits begin, which is at multiples of this, and not on who computes them.
constexpr std::int64_t kSplit = 1024;
/// States that wait to be merged, for each thread.
constexpr std::int64_t kSlotsPerThread = 16;

/// Splits are numbered by (sequence, kv head, split) and computed in waves of `slots`.
struct Cut {
  std::int64_t sequences = 0;
  std::int64_t rows = 0;    ///< of an item, at most
  std::int64_t splits = 0;  ///< of an item
  std::int64_t items = 0;
  std::int64_t slots = 0;
  int threads = 1;  ///< no more than there are splits
};

/// For so many sequences, the longest of which has so many keys.
Cut cut(const PreparedAttention& problem, std::int64_t sequences, std::int64_t longest) noexcept {
  const AttentionShape& shape = problem.shape;
  const std::int64_t group = shape.query_heads / shape.kv_heads;
  Cut c;
  c.sequences = sequences;
  c.rows = std::min<std::int64_t>(group * shape.query_len, kMaxStreamRows);
  c.splits = std::max<std::int64_t>(divide_up(longest, kSplit), 1);
  c.items = sequences * shape.kv_heads;
  c.threads = static_cast<int>(std::clamp<std::int64_t>(c.items * c.splits, 1, problem.threads));
  c.slots = kSlotsPerThread * c.threads;
  return c;
}

Cut most(const PreparedAttention& problem) noexcept { return cut(problem, problem.shape.batch, problem.shape.kv_len); }

/// What a run brings: fewer splits than the plan has memory for, or as many.
Cut cut_of(const Run& run) noexcept {
  const std::int64_t count = sequences(run.problem, run.tensors);
  std::int64_t longest = 0;
  for (std::int64_t b = 0; b < count; ++b) {
    const SequenceBounds s = sequence_bounds(run.problem, run.tensors, b);
    if (streams(run.problem, s)) longest = std::max(longest, s.kv_len);
  }
  return cut(run.problem, count, longest);
}

/// The arrays of one thread.
struct Scratch {
  Chunk keys;
  QueryRow* query_row;
  Row* row;
  float* query;
  float* logits;
  float* chunk_max;
  float* alpha;
};

Scratch scratch(Layout& layout, const Kernels& kernels, const PreparedAttention& problem, const Cut& c) noexcept {
  const std::int64_t padded = round_up(c.rows, kernels.lanes);
  return {Chunk::take(layout),
          layout.take<QueryRow>(c.rows),
          layout.take<Row>(c.rows),
          layout.take<float>(c.rows * round_up(problem.shape.head_dim, kernels.lanes)),
          layout.take<float>(c.rows * kLogitsStride),
          layout.take<float>(padded * kernels.lanes),
          layout.take<float>(padded)};
}

State state(Layout& layout, const Kernels& kernels, const PreparedAttention& problem, const Cut& c) noexcept {
  const std::int64_t stride = round_up(problem.shape.value_dim, kernels.lanes);
  return {layout.take<float>(round_up(c.rows, kernels.lanes)), layout.take<float>(c.rows * kernels.lanes),
          layout.take<float>(c.rows * stride), stride};
}

/// Everything in the workspace: first the slots, then two states for an item that goes on in the next wave, then each
/// thread's scratch.
class Memory {
 public:
  Memory(std::byte* base, const Kernels& kernels, const PreparedAttention& problem, const Cut& c) noexcept
      : base_(base), kernels_(kernels), problem_(problem), cut_(c) {
    Layout one_state;
    cpu::state(one_state, kernels, problem, c);
    state_bytes_ = one_state.bytes();
    Layout one_scratch;
    cpu::scratch(one_scratch, kernels, problem, c);
    scratch_bytes_ = one_scratch.bytes();
  }

  std::int64_t bytes() const noexcept { return (cut_.slots + 2) * state_bytes_ + cut_.threads * scratch_bytes_; }
  State slot(std::int64_t i) const noexcept {
    Layout layout(base_ + i * state_bytes_);
    return cpu::state(layout, kernels_, problem_, cut_);
  }
  State carry(std::int64_t i) const noexcept { return slot(cut_.slots + i); }
  Scratch scratch(std::int64_t thread) const noexcept {
    Layout layout(base_ + (cut_.slots + 2) * state_bytes_ + thread * scratch_bytes_);
    return cpu::scratch(layout, kernels_, problem_, cut_);
  }

 private:
  std::byte* base_;
  const Kernels& kernels_;
  const PreparedAttention& problem_;
  const Cut& cut_;
  std::int64_t state_bytes_ = 0;
  std::int64_t scratch_bytes_ = 0;
};

/// One (sequence, kv head); rows are ordered by head, then query. No rows: nothing to do.
struct Item {
  std::int64_t b;
  std::int64_t kv_head;
  std::int64_t group;
  SequenceBounds bounds;
  std::int32_t rows;
  std::int64_t splits;  ///< that hold keys, at least one: the states of others would be empty

  std::int64_t head(std::int64_t r) const noexcept { return kv_head * group + r / bounds.query_len; }
  std::int64_t query(std::int64_t r) const noexcept { return r % bounds.query_len; }
};

Item item_at(const Run& run, std::int64_t index) noexcept {
  const AttentionShape& shape = run.problem.shape;
  Item item{};
  item.b = index / shape.kv_heads;
  item.kv_head = index % shape.kv_heads;
  item.group = shape.query_heads / shape.kv_heads;
  item.bounds = sequence_bounds(run.problem, run.tensors, item.b);
  item.rows = streams(run.problem, item.bounds) ? static_cast<std::int32_t>(item.group * item.bounds.query_len) : 0;
  item.splits = std::max<std::int64_t>(divide_up(item.bounds.kv_len, kSplit), 1);
  return item;
}

void clear(const State& state, const Kernels& kernels, std::int64_t rows) noexcept {
  std::fill_n(state.maximum, round_up(rows, kernels.lanes), -std::numeric_limits<float>::infinity());
  std::fill_n(state.sum, rows * kernels.lanes, 0.0F);
  std::fill_n(state.out, rows * state.out_stride, 0.0F);
}

/// The attention state of an item over the keys of one split; `next` will be read after them.
void compute(const Run& run, const Item& item, std::int64_t split, const Keys& next, const State& state,
             Scratch& mine) noexcept {
  const Kernels& kernels = run.kernels;
  const AttentionShape& shape = run.problem.shape;
  clear(state, kernels, item.rows);
  const std::int64_t width = round_up(shape.head_dim, kernels.lanes);
  std::int64_t first = item.bounds.kv_len;
  std::int64_t last = 0;
  for (std::int64_t r = 0; r < item.rows; ++r) {
    mine.query_row[r] = query_row(run.problem, item.bounds, item.head(r), item.query(r));
    first = std::min(first, mine.query_row[r].keys.first);
    last = std::max(last, mine.query_row[r].keys.last);
    kernels.widen[run.element](row_address(run.tensors, run.tensors.query, item.b, item.head(r), item.query(r)),
                               mine.query + r * width, shape.head_dim);
    std::fill(mine.query + r * width + shape.head_dim, mine.query + (r + 1) * width, 0.0F);
  }
  Tile tile{};
  tile.head_dim = shape.head_dim;
  tile.value_dim = shape.value_dim;
  tile.sink_scale = run.problem.tables->sink_scale;
  tile.has_factors = !run.problem.tables->row_factors.empty();
  tile.query = mine.query;
  tile.logits = mine.logits;
  tile.logits_stride = kLogitsStride;
  tile.chunk_max = mine.chunk_max;
  tile.alpha = mine.alpha;
  tile.maximum = state.maximum;
  tile.sum = state.sum;
  tile.out = state.out;
  tile.out_stride = state.out_stride;
  const std::int64_t begin = std::max(split * kSplit, first / kChunk * kChunk);
  const std::int64_t end = std::min((split + 1) * kSplit, last);
  for (std::int64_t chunk = begin; chunk < end; chunk += kChunk) {
    const std::int64_t keys = std::min(kChunk, end - chunk);
    if (!set_rows(tile, mine.row, mine.query_row, item.rows, chunk, keys)) continue;
    tile.sinks = sinks_in_chunk(run.problem.options, chunk, keys);
    mine.keys.find(run, {item.b, item.kv_head, chunk, item.bounds.kv_len}, keys, next);
    kernels.stream_scores[run.kv_element](tile, mine.keys.key());
    kernels.softmax(tile);
    kernels.stream_weigh[run.kv_element](tile, mine.keys.value());
  }
}

/// The splits begin <= u < end and the state that came over from the wave before, of which at most one item is part.
struct Wave {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t carry;  ///< which of the two states holds an item begun earlier

  std::int64_t first_item(const Cut& c) const noexcept { return begin / c.splits; }
  std::int64_t last_item(const Cut& c) const noexcept { return (end - 1) / c.splits; }
};

void write_rows(const Run& run, const Item& item, const State& total) noexcept {
  for (std::int64_t r = 0; r < item.rows; ++r) {
    write_row(run, item.b, item.head(r), item.query(r), total.maximum[r], total.sum + r * run.kernels.lanes,
              total.out + r * total.out_stride);
  }
}

/// Merges an item's states of this wave, in order; writes its rows if these were the last.
void merge(const Run& run, const Cut& c, const Memory& memory, const Wave& wave, std::int64_t index) noexcept {
  const Item item = item_at(run, index);
  if (item.rows == 0) return;
  std::int64_t unit = std::max(index * c.splits, wave.begin);
  const std::int64_t end = std::min((index + 1) * c.splits, wave.end);
  const std::int64_t used = std::min(end, index * c.splits + item.splits);
  const bool goes_on = unit > index * c.splits;
  const State total = goes_on ? memory.carry(wave.carry) : memory.slot(unit++ - wave.begin);
  for (; unit < used; ++unit) run.kernels.merge(total, memory.slot(unit - wave.begin), item.rows);
  if (end == (index + 1) * c.splits) {
    write_rows(run, item, total);
  } else if (!goes_on) {
    const State carry = memory.carry(1 - wave.carry);
    clear(carry, run.kernels, item.rows);
    run.kernels.merge(carry, total, item.rows);  // exact: the weight of an empty state is 0, that of the other 1
  }
}

/// Where a thread will probably go on, the others being as fast: none behind the last unit.
Keys keys_of_unit(const Run& run, const Cut& c, std::int64_t unit) noexcept {
  if (unit >= c.items * c.splits) return {0, 0, 0, 0};
  const Item item = item_at(run, unit / c.splits);
  return {item.b, item.kv_head, unit % c.splits * kSplit, item.rows > 0 ? item.bounds.kv_len : 0};
}

/// All splits of an item, one after the other.
void compute_whole(const Run& run, const Item& item, const State& total, const State& next, Scratch& mine) noexcept {
  const Keys none{item.b, item.kv_head, 0, 0};
  compute(run, item, 0, none, total, mine);
  for (std::int64_t split = 1; split < item.splits; ++split) {
    compute(run, item, split, none, next, mine);
    run.kernels.merge(total, next, item.rows);
  }
  write_rows(run, item, total);
}

/// What a slice works with: two states and one scratch.
Cut cut_for_slice(Cut c) noexcept {
  c.slots = 2;
  c.threads = 1;
  return c;
}

/// The items of one slice: those whose middle, counted in keys over all items, falls into it.
void decode_slice(const Run& run, const Cut& c) noexcept {
  const int count = std::min(run.slice->count, c.threads);
  const int mine = run.slice->index;
  if (mine >= count) return;
  const Cut own = cut_for_slice(c);
  const Memory memory(run.workspace, run.kernels, run.problem, own);
  Scratch scratch = memory.scratch(0);
  const auto keys = [&](std::int64_t index) {
    const Item item = item_at(run, index);
    return item.rows > 0 ? item.bounds.kv_len + 1 : 0;
  };
  std::int64_t all = 0;
  for (std::int64_t index = 0; index < c.items; ++index) all += keys(index);
  std::int64_t before = 0;
  for (std::int64_t index = 0; index < c.items; ++index) {
    const std::int64_t here = keys(index);
    const double middle = static_cast<double>(before) + 0.5 * static_cast<double>(here);
    before += here;
    if (here == 0 || static_cast<int>(middle * count / static_cast<double>(all)) != mine) continue;
    compute_whole(run, item_at(run, index), memory.slot(0), memory.slot(1), scratch);
  }
}

}  // namespace

std::int64_t decode_workspace_bytes(const Kernels& kernels, const PreparedAttention& problem) noexcept {
  const Cut c = most(problem);
  return Memory(nullptr, kernels, problem, c).bytes();
}

std::int64_t decode_slice_bytes(const Kernels& kernels, const PreparedAttention& problem) noexcept {
  const Cut c = cut_for_slice(most(problem));
  return Memory(nullptr, kernels, problem, c).bytes();
}

int decode_slices(const PreparedAttention& problem) noexcept { return most(problem).threads; }

void decode(const Run& run) noexcept {
  const Cut c = cut_of(run);
  if (run.slice != nullptr) return decode_slice(run, c);
  const Memory memory(run.workspace, run.kernels, run.problem, c);
  const std::int64_t units = c.items * c.splits;
#pragma omp parallel num_threads(c.threads)
  {
    Scratch mine = memory.scratch(omp_get_thread_num());
    Wave wave{0, 0, 0};
    for (; wave.begin < units; wave.begin = wave.end) {
      wave.end = std::min(wave.begin + c.slots, units);
#pragma omp for schedule(dynamic, 1)
      for (std::int64_t unit = wave.begin; unit < wave.end; ++unit) {
        const Item item = item_at(run, unit / c.splits);
        const std::int64_t split = unit % c.splits;
        if (item.rows == 0 || split >= item.splits) continue;
        compute(run, item, split, keys_of_unit(run, c, unit + c.threads), memory.slot(unit - wave.begin), mine);
      }
#pragma omp for schedule(static)
      for (std::int64_t index = wave.first_item(c); index <= wave.last_item(c); ++index) {
        merge(run, c, memory, wave, index);
      }
      // Every thread follows where the unfinished item went: to the other state if it began in this wave.
      if (wave.last_item(c) * c.splits >= wave.begin) wave.carry = 1 - wave.carry;
    }
  }
}

}  // namespace siattn::cpu
