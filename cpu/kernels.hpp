// SPDX-License-Identifier: Apache-2.0
// What the loops (prefill.cpp, decode.cpp) ask of the vector kernels. kernels.cpp is compiled once for each instruction
// set and exports one table of this type; nothing else crosses between the two. Plain data only: this header is
// compiled with AVX-512 too, and an inline function compiled so could replace the whole program's copy of it.
#ifndef SIATTN_CPU_KERNELS_HPP
#define SIATTN_CPU_KERNELS_HPP

#include <cstdint>

namespace siattn::cpu {

/// Element types of tensors, as indices into the tables of kernels. Keys and values may be int8 as well.
enum Element : int { kFloat32, kBfloat16, kFloat16, kElements, kInt8 = kElements, kKvElements };

/// Rows of a tile, at most; whatever the instruction set, a multiple of its row block and of its lanes.
inline constexpr int kMaxTileRows = 96;
/// Keys of a chunk, at most, and the distance between the rows of its logits: rows of a block must not all fall into
/// the same few cache sets.
inline constexpr int kMaxChunk = 256;
inline constexpr int kLogitsStride = kMaxChunk + 16;
/// Rows of a problem small enough to be computed straight from K and V, unpacked.
inline constexpr int kMaxStreamRows = 8;

/// One query row before one chunk of keys, which are counted from the chunk's first. The row sees first <= j < last;
/// first = last = 0 if it sees none.
///
///     logit of key j, base two = (factor * scale[entry + j]) * <q, k_j> + shift[entry + j]
///
/// Vectors that hold a visible key may be loaded whole: the tables are padded at both ends.
struct Row {
  const float* scale;
  const float* shift;
  std::int64_t entry;
  float factor;
  std::int32_t first;
  std::int32_t last;
};

/// How many rows of K and V past a chunk a kernel may ask for before they are needed.
inline constexpr int kMaxAhead = 256;

/// The keys of a chunk in K or V, wherever they lie: key j, counted from the chunk's first, is at row[j]. Behind them
/// `ahead` addresses more: the stream kernels ask for row[j + ahead] when they read row[j].
struct KvRows {
  const void* const* row;
  const float* scale;  ///< of each key, for int8
  std::int32_t ahead;  ///< <= kMaxAhead
};

/// Rows of K or V that will be needed soon: a kernel asks for them, bit by bit, while it computes.
struct Ahead {
  const void* const* row;
  std::int32_t rows;
  std::int32_t row_bytes;
};

/// Some query rows before one chunk of keys. Logits become weights in place; (maximum, sum, out) is the attention
/// state of each row over the keys so far: out = sum of exp2(logit - maximum) v.
struct Tile {
  std::int64_t head_dim;
  std::int64_t value_dim;
  float sink_scale;
  std::int32_t sinks;  ///< the first `sinks` keys of the chunk: logit = sink_scale * <q, k>
  std::int32_t rows;   ///< <= kMaxTileRows
  std::int32_t first;  ///< the keys that any of the rows sees lie in first <= j < last
  std::int32_t last;
  bool has_factors;  ///< false: every factor is 1
  const Row* row;
  const float* query;  ///< packed by pack_query; for the stream kernels [rows][head_dim to whole vectors], 0 behind
  float* logits;       ///< [rows][logits_stride]
  std::int64_t logits_stride;  ///< kLogitsStride where the kernels form the products
  float* chunk_max;    ///< [kMaxTileRows][lanes]: scratch
  float* alpha;        ///< [kMaxTileRows]: exp2(old maximum - new maximum)
  float* maximum;      ///< [rows to whole vectors]
  float* sum;          ///< [rows][lanes], to be added up at the end
  float* out;          ///< [rows][out_stride]
  std::int64_t out_stride;
  Ahead next_key;
  Ahead next_value;
};

/// Attention state of some rows over a set of keys, laid out as in Tile.
struct State {
  float* maximum;
  float* sum;
  float* out;
  std::int64_t out_stride;
};

/// Strides are in elements, between rows; innermost strides are 1. Vectors of packed and scratch memory are aligned
/// to 64 bytes, tensors need not be aligned. An int8 element counts as its product with the row's scale, rounded.
struct Kernels {
  int lanes;                   ///< floats in a vector
  int block;                   ///< query rows that share a register tile; packed queries come in such blocks
  int panel;                   ///< keys in a packed panel of K, channels in one of V: two vectors
  int tile_rows;               ///< a good number of rows for a tile
  double exp2_relative_error;  ///< largest, over every float in [-126, 0]

  // Element-wise, any n.
  void (*widen[kElements])(const void* from, float* to, std::int64_t n);   ///< exact
  void (*narrow[kElements])(const float* from, void* to, std::int64_t n);  ///< to nearest even, NaN stays NaN
  void (*exp2)(const float* from, float* to, std::int64_t n);              ///< for arguments <= 0, see exp2.hpp

  /// max(so_far, |from[i]|), NaN if any is NaN or infinite; the integers nearest to from / scale, 0 if scale is 0 or NaN.
  float (*largest)(const float* from, std::int64_t n, float so_far);
  void (*quantise)(const float* from, float scale, std::int8_t* to, std::int64_t n);

  /// Rows `at` .. `at + rows` of a packed query: [block of rows][head_dim][row in the block].
  void (*pack_query[kElements])(const void* query, std::int64_t stride, std::int64_t rows, std::int64_t head_dim,
                                std::int64_t at, float* packed);
  /// [panel of keys][head_dim][key in the panel], 0 past the last key.
  void (*pack_key[kKvElements])(const KvRows& key, std::int64_t keys, std::int64_t head_dim, float* packed);
  /// [panel of channels][capacity keys][channel in the panel], 0 past the last channel. True: all are finite.
  bool (*pack_value[kKvElements])(const KvRows& value, std::int64_t keys, std::int64_t value_dim, std::int64_t capacity,
                                  float* packed);

  // The three steps for a tile. First: logits and their maximum, from Q K^T.
  void (*scores)(const Tile& tile, const float* packed_key);
  void (*stream_scores[kKvElements])(const Tile& tile, const KvRows& key);
  // Second: weights, their sum, the new maximum and alpha.
  void (*softmax)(const Tile& tile);
  // Third: out = alpha out + P V.
  void (*weigh)(const Tile& tile, const float* packed_value, std::int64_t capacity, bool finite);
  void (*stream_weigh[kKvElements])(const Tile& tile, const KvRows& value);

  // For products formed elsewhere (products.hpp), in place of scores and weigh.
  /// `logits` holds <q, k> of the rows with all keys of the chunk; they become logits, with their maximum.
  void (*transform)(const Tile& tile);
  /// softmax with the weights in a matrix [rows][keys] of this element type, 0 where a row does not see a key; and
  /// out = alpha out. The weights are rounded to nearest, ties up.
  void (*spread[kElements])(const Tile& tile, void* weights, std::int64_t keys);
  /// Are all elements of these rows finite?
  bool (*bfloat16_finite)(const KvRows& from, std::int64_t rows, std::int64_t n);
  /// Rows 2 j and 2 j + 1 of 16-bit elements side by side: [panel of channels][capacity / 2][channel in the panel][2],
  /// 0 past the last row and channel, up to the capacity.
  void (*pack_value_pairs)(const KvRows& value, std::int64_t keys, std::int64_t value_dim, std::int64_t capacity,
                           void* packed);

  /// into = the attention state over the keys of both.
  void (*merge)(const State& into, const State& from, std::int64_t rows);
  /// Writes out / sum, or 0 where the sum is 0, of one row, and returns the sum.
  float (*finish[kElements])(const float* sum, const float* out, std::int64_t value_dim, void* to);
};

}  // namespace siattn::cpu

#endif  // SIATTN_CPU_KERNELS_HPP
