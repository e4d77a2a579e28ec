// SPDX-License-Identifier: Apache-2.0
// What all kernels share: sequences and rows of tensors in device memory, the affine map of a logit, the end of a row.
#ifndef SIATTN_GPU_KERNELS_ROWS_HPP
#define SIATTN_GPU_KERNELS_ROWS_HPP

#include "gpu/kernels/shapes.hpp"
#include "gpu/params.hpp"
#include "gpu/ptx.hpp"

namespace siattn::gpu {

inline constexpr std::uint32_t kMinusInfinityBits = 0xFF800000U;
inline constexpr float kLn2 = 0.693147180559945309F;

SIATTN_DEVICE float minus_infinity() { return float_of_bits(kMinusInfinityBits); }
SIATTN_DEVICE bool finite(float x) { return (bits_of(x) & 0x7F800000U) != 0x7F800000U; }

SIATTN_DEVICE Sequence load_sequence(const Forward& f, std::int64_t b) {
  const Sequence* const at = f.sequences + b;
  Sequence s;
  s.query = load_global(&at->query);
  s.key = load_global(&at->key);
  s.value = load_global(&at->value);
  s.out = load_global(&at->out);
  s.lse = load_global(&at->lse);
  s.pages = load_global(&at->pages);
  s.query_offset = load_global(&at->query_offset);
  s.query_len = load_global(&at->query_len);
  s.query_rows = load_global(&at->query_rows);
  s.kv_len = load_global(&at->kv_len);
  return s;
}

// ---- elements ----

/// Type of the elements as they lie in memory.
template <class T>
struct Storage {
  using type = std::uint16_t;
};
template <>
struct Storage<float> {
  using type = float;
};
template <class T>
using Stored = typename Storage<T>::type;

template <class T>
SIATTN_DEVICE float load_element(const void* data, std::int64_t at) {
  const Stored<T> x = load_global(static_cast<const Stored<T>*>(data) + at);
  if constexpr (sizeof(T) == 4) {
    return x;
  } else {
    return unpack<T>(x).x;
  }
}
template <class T>
SIATTN_DEVICE void store_element(void* data, std::int64_t at, float x) {
  Stored<T>* const to = static_cast<Stored<T>*>(data) + at;
  if constexpr (sizeof(T) == 4) {
    store_global(to, x);
  } else {
    store_global(to, static_cast<std::uint16_t>(pack<T>(x, 0.0F)));
  }
}

// ---- rows of queries, keys and values ----

/// The offset of row j of K or V of a sequence whose row 0 of this head is at `base` and whose pages are listed from
/// `pages` on.
SIATTN_DEVICE std::int64_t kv_row(const Forward& f, const Rows& x, std::int64_t pages, std::int64_t base, int j) {
  if (f.pages == nullptr) return base + j * x.row_stride;
  const std::int64_t page = load_global(f.pages + pages + (j >> f.page_shift));
  return base + page * x.page_stride + (j & ((1 << f.page_shift) - 1)) * x.row_stride;
}

/// A query row before all keys of its sequence.
struct QueryRow {
  KeyRange keys;
  std::int64_t entry;  ///< of key 0, in Forward::tables
  float factor;
};

SIATTN_DEVICE std::int64_t entry_of_key_0(const Forward& f, const Sequence& s, int head, std::int64_t i) {
  return (f.tables_per_head ? head * f.entries : 0) + f.t_max - (s.query_offset + i);
}

SIATTN_DEVICE float row_factor(const Forward& f, int head, const KeyRange& keys) {
  if (f.row_factors == nullptr) return 1.0F;
  return load_global(f.row_factors + (f.row_factors_per_head ? head * f.row_factor_count : 0) +
                     (keys.last - keys.first));
}

SIATTN_DEVICE QueryRow query_row(const Forward& f, const Sequence& s, int head, std::int64_t i) {
  QueryRow row;
  row.keys = visible_keys(f.causal, f.window, s, i);
  row.entry = entry_of_key_0(f, s, head, i);
  row.factor = row_factor(f, head, row.keys);
  return row;
}

/// L of key j, base two; -infinity if the row does not see it, whatever the product was.
SIATTN_DEVICE float logit(const Forward& f, const KeyRange& keys, float factor, int j, Entry entry, float product) {
  if (j < keys.first || j >= keys.last) return minus_infinity();
  if (j < f.sinks) return f.sink_scale * product;
  return fused_multiply_add(factor * entry.scale, product, entry.shift);
}

// ---- the end of a row ----

/// The weight's exponent is taken from here: a row that has seen no key has a maximum of -infinity.
SIATTN_DEVICE float reference_of(float maximum) { return maximum == minus_infinity() ? 0.0F : maximum; }

/// A sum of 0: the row sees no key, or none above -infinity.
SIATTN_DEVICE float divided(float out, float sum) { return sum == 0.0F ? 0.0F : out / sum; }

/// Natural logarithm of sum exp2(L), `maximum` in base two.
SIATTN_DEVICE void store_lse(const Forward& f, const Sequence& s, int head, std::int64_t i, float maximum, float sum) {
  if (f.lse.data == nullptr) return;
  const float lse = sum == 0.0F ? minus_infinity() : fused_multiply_add(maximum, kLn2, log_of(sum));
  store_element<float>(f.lse.data, s.lse + head * f.lse.head_stride + i * f.lse.row_stride, lse);
}

SIATTN_DEVICE std::int64_t out_row(const Forward& f, const Sequence& s, int head, std::int64_t i) {
  return s.out + head * f.out.head_stride + i * f.out.row_stride;
}

/// Where the attention state of this row over this split goes.
SIATTN_DEVICE std::int64_t state_slot(const Forward& f, std::int64_t b, int head, int i, int split) {
  return ((b * f.query_heads + head) * f.state_rows + i) * f.max_splits + split;
}

// ---- blocks of packed rows, for decode and plain ----

/// What a block of these kernels does: rows first_row .. first_row + kPackedRows of (sequence, kv head), of which there
/// are `rows`, ordered by head, then query; before the keys begin <= j < end of a split.
struct PackedItem {
  Sequence s;
  std::int64_t b;
  int kv_head;
  int group;
  int first_row;
  int rows;
  int split;
  int splits;
  int begin;
  int end;

  SIATTN_DEVICE bool valid(int r) const { return first_row + r < rows; }
  SIATTN_DEVICE int head(int r) const { return kv_head * group + (first_row + r) / s.query_len; }
  SIATTN_DEVICE int query(int r) const { return (first_row + r) % s.query_len; }
};

/// False: nothing to do.
SIATTN_DEVICE bool packed_item(const Forward& f, PackedItem& item) {
  std::int64_t index = block_x();
  item.split = static_cast<int>(index % f.max_splits);
  index /= f.max_splits;
  item.first_row = static_cast<int>(index % f.row_blocks) * kPackedRows;
  index /= f.row_blocks;
  item.kv_head = static_cast<int>(index % f.kv_heads);
  item.b = index / f.kv_heads;
  item.group = f.query_heads / f.kv_heads;
  item.s = load_sequence(f, item.b);
  item.rows = item.group * item.s.query_len;
  const Splits splits = splits_of(f.causal, f.window, item.s, item.group);
  item.splits = splits.count;
  if (item.first_row >= item.rows || item.split >= splits.count) return false;
  // The rows' first and last queries; rows of several heads are taken for all queries.
  const int last_row = smaller(item.first_row + kPackedRows, item.rows) - 1;
  const bool one_head = item.first_row / item.s.query_len == last_row / item.s.query_len;
  const int first = one_head ? item.first_row % item.s.query_len : 0;
  const int last = one_head ? last_row % item.s.query_len : item.s.query_len - 1;
  const std::int64_t begin = visible_keys(f.causal, f.window, item.s, first).first / kKeyAlignment * kKeyAlignment;
  const std::int64_t end = visible_keys(f.causal, f.window, item.s, last).last;
  item.begin = static_cast<int>(larger(begin, splits.begin + item.split * splits.size));
  item.end = static_cast<int>(smaller(end, splits.begin + (item.split + 1) * splits.size));
  return true;
}

/// Where row r of the block goes: to out and lse, or to the states of splits.
struct PackedRow {
  const Forward& f;
  const PackedItem& item;
  int head;
  int query;
  std::int64_t at;  ///< its element 0 in out, its slot among the states

  SIATTN_DEVICE PackedRow(const Forward& forward, const PackedItem& it, int r)
      : f(forward), item(it), head(it.head(r)), query(it.query(r)) {
    at = item.splits == 1 ? out_row(f, item.s, head, query) : state_slot(f, item.b, head, query, item.split);
  }
  /// By one lane.
  SIATTN_DEVICE void store_end(float maximum, float sum) const {
    if (item.splits == 1) {
      store_lse(f, item.s, head, query, maximum, sum);
    } else {
      store_global(f.state_max + at, maximum);
      store_global(f.state_sum + at, sum);
    }
  }
  template <class T>
  SIATTN_DEVICE void store(int channel, float out, float sum) const {
    if (item.splits == 1) {
      store_element<T>(f.out.data, at + channel, divided(out, sum));
    } else {
      store_global(f.state_out + at * f.value_dim + channel, out);
    }
  }
};

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_KERNELS_ROWS_HPP
