// SPDX-License-Identifier: Apache-2.0
// Tiles of 16-bit rows in shared memory and products of them on tensor cores, for prefill and decode.
//
// Names used throughout: g = lane / 4 and c = 2 (lane % 4). Of a 16 x 8 accumulator a lane holds (g, c), (g, c + 1),
// (g + 8, c), (g + 8, c + 1); a `block` is eight keys or eight channels, one 16-byte chunk of a row.
#ifndef SIATTN_GPU_KERNELS_TILES_HPP
#define SIATTN_GPU_KERNELS_TILES_HPP

#include "gpu/kernels/rows.hpp"

namespace siattn::gpu {

/// Where chunk `chunk` of row `row` of a tile of kWidth channels lies: permuted within the row, so that the eight rows
/// that ldmatrix reads at a time lie in different banks.
template <int kWidth>
SIATTN_DEVICE SharedAddress chunk_at(SharedAddress tile, int row, int chunk) {
  const int permuted = kWidth == 96 ? chunk ^ ((row >> 1) & 3) : chunk ^ (row & 7);
  return tile + static_cast<SharedAddress>(row * (2 * kWidth) + 16 * permuted);
}

/// Begins to copy chunk `chunk` of one row: channels beyond `dim`, and all of a row that is not `valid`, become 0.
/// Rows that are not whole vectors are copied at once, element by element.
SIATTN_DEVICE void copy_chunk(SharedAddress to, const Rows& x, std::int64_t row, int chunk, int dim, bool valid) {
  const auto* const data = static_cast<const std::uint16_t*>(x.data);
  const int elements = valid ? smaller(larger(dim - 8 * chunk, 0), 8) : 0;
  if (x.aligned) {
    cp_async<16>(to, elements == 0 ? data : data + row + 8 * chunk, 2 * elements);
    return;
  }
  std::uint32_t words[4] = {};
  SIATTN_UNROLL
  for (int e = 0; e < 8; ++e) {
    if (e < elements)
      words[e / 2] |= static_cast<std::uint32_t>(load_global(data + row + 8 * chunk + e)) << (16 * (e % 2));
  }
  store_shared(to, Uint4{words[0], words[1], words[2], words[3]});
}

/// Rows that kThreads threads copy at a time, a power of two: where kWidth / 8 does not divide them some threads rest.
template <int kWidth, int kThreads>
SIATTN_DEVICE constexpr int rows_at_once() {
  int rows = 1;
  while (2 * rows * (kWidth / 8) <= kThreads) rows *= 2;
  return rows;
}

/// Begins to copy keys first .. first + kRows of K or V, those from `end` on as 0, by kThreads threads.
template <int kWidth, int kRows, int kThreads>
SIATTN_DEVICE void copy_keys(SharedAddress tile, const Forward& f, const Rows& x, std::int64_t pages, std::int64_t base,
                             int dim, int first, int end, int thread) {
  constexpr int kChunks = kWidth / 8;
  constexpr int kAtOnce = rows_at_once<kWidth, kThreads>();
  static_assert(kRows % kAtOnce == 0);
  const int chunk = thread % kChunks;
  int row = thread / kChunks;
  if (row >= kAtOnce) return;
  std::int64_t at = base + (first + row) * x.row_stride;
  SIATTN_UNROLL
  for (int n = 0; n < kRows / kAtOnce; ++n, row += kAtOnce, at += kAtOnce * x.row_stride) {
    const bool valid = first + row < end;
    const std::int64_t from = valid && f.pages != nullptr ? kv_row(f, x, pages, base, first + row) : at;
    copy_chunk(chunk_at<kWidth>(tile, row, chunk), x, from, chunk, dim, valid);
  }
}

/// products += Q K^T: queries first_row .. first_row + 16 kTiles of a tile before kBlocks blocks of keys.
template <class T, int kWidth, int kTiles, int kBlocks>
SIATTN_DEVICE void scores(float (&products)[kTiles][kBlocks][4], SharedAddress query_tile, int first_row,
                          SharedAddress key_tile) {
  const int lane = lane_index();
  SIATTN_UNROLL
  for (int k = 0; k < kWidth / 16; ++k) {
    std::uint32_t a[kTiles][4];
    SIATTN_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      ldmatrix_x4(a[tile], chunk_at<kWidth>(query_tile, first_row + 16 * tile + lane % 16, 2 * k + lane / 16));
    }
    SIATTN_UNROLL
    for (int block = 0; block < kBlocks; block += 2) {
      std::uint32_t b[4];  // keys of the two blocks: channels 0-7 and 8-15 of the first, then of the second
      ldmatrix_x4(b, chunk_at<kWidth>(key_tile, 8 * block + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
      SIATTN_UNROLL
      for (int tile = 0; tile < kTiles; ++tile) {
        mma_m16n8k16<T>(products[tile][block], a[tile], b[0], b[1]);
        mma_m16n8k16<T>(products[tile][block + 1], a[tile], b[2], b[3]);
      }
    }
  }
}

/// One step of online softmax for the rows g and g + 8. Logits become weights; `sum` is this lane's part of the rows'
/// sums. `alpha` is what the state so far has to be multiplied with.
template <int kBlocks>
SIATTN_DEVICE void softmax(float (&logits)[kBlocks][4], float (&maximum)[2], float (&sum)[2], float (&alpha)[2]) {
  SIATTN_UNROLL
  for (int half = 0; half < 2; ++half) {
    float highest = maximum[half];
    SIATTN_UNROLL
    for (int block = 0; block < kBlocks; ++block) {
      highest = max_of(highest, max_of(logits[block][2 * half], logits[block][2 * half + 1]));
    }
    highest = max_of(highest, shuffle_xor(highest, 1));
    highest = max_of(highest, shuffle_xor(highest, 2));
    const float reference = reference_of(highest);
    alpha[half] = exp2_approx(maximum[half] - reference);
    maximum[half] = highest;
    float added = 0.0F;
    SIATTN_UNROLL
    for (int block = 0; block < kBlocks; ++block) {
      SIATTN_UNROLL
      for (int e = 2 * half; e < 2 * half + 2; ++e) {
        logits[block][e] = exp2_approx(logits[block][e] - reference);
        added += logits[block][e];
      }
    }
    sum[half] = fused_multiply_add(sum[half], alpha[half], added);
  }
}

/// out = alpha out.
template <int kBlocks>
SIATTN_DEVICE void rescale(float (&out)[kBlocks][4], const float (&alpha)[2]) {
  SIATTN_UNROLL
  for (int block = 0; block < kBlocks; ++block) {
    SIATTN_UNROLL
    for (int e = 0; e < 4; ++e) out[block][e] *= alpha[e / 2];
  }
}

/// The exponent's bits, all of which are set in what is not finite.
template <class T>
inline constexpr std::uint32_t kExponentBits = 0x7F80U;
template <>
inline constexpr std::uint32_t kExponentBits<float16> = 0x7C00U;

/// Of two 16-bit numbers those that are not finite become 0.
template <class T>
SIATTN_DEVICE std::uint32_t only_finite(std::uint32_t both) {
  constexpr std::uint32_t exponent = kExponentBits<T>;
  const std::uint32_t low = (both & exponent) == exponent ? 0U : both & 0xFFFFU;
  const std::uint32_t high = (both & (exponent << 16)) == exponent << 16 ? 0U : both & 0xFFFF0000U;
  return low | high;
}

/// out += P V: weights of kKeyBlocks blocks of keys times a tile of values. `careful`: values that are not finite count
/// as 0, and the result says whether this lane met any.
template <class T, int kWidth, int kTiles, int kKeyBlocks>
SIATTN_DEVICE bool weigh(float (&out)[kTiles][kWidth / 8][4], const float (&weights)[kTiles][kKeyBlocks][4],
                         SharedAddress value_tile, bool careful) {
  const int lane = lane_index();
  bool bad = false;
  SIATTN_UNROLL
  for (int k = 0; k < kKeyBlocks / 2; ++k) {
    std::uint32_t a[kTiles][4];
    SIATTN_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      SIATTN_UNROLL
      for (int n = 0; n < 4; ++n) {
        const float(&block)[4] = weights[tile][2 * k + n / 2];
        a[tile][n] = pack<T>(block[n % 2 * 2], block[n % 2 * 2 + 1]);
      }
    }
    SIATTN_UNROLL
    for (int block = 0; block < kWidth / 8; block += 2) {
      std::uint32_t b[4];  // channels of the first block: keys 0-7 and 8-15; then of the second
      ldmatrix_x4_trans(b, chunk_at<kWidth>(value_tile, 16 * k + lane % 16, block + lane / 16));
      if (careful) {
        SIATTN_UNROLL
        for (int n = 0; n < 4; ++n) {
          const std::uint32_t good = only_finite<T>(b[n]);
          bad = bad || good != b[n];
          b[n] = good;
        }
      }
      SIATTN_UNROLL
      for (int tile = 0; tile < kTiles; ++tile) {
        mma_m16n8k16<T>(out[tile][block], a[tile], b[0], b[1]);
        mma_m16n8k16<T>(out[tile][block + 1], a[tile], b[2], b[3]);
      }
    }
  }
  return bad;
}

/// Adds the values that weigh() left out, to the rows that see their key: whatever the weight, the result is that value,
/// or NaN. `row[0]`, `row[1]`: what the rows g and g + 8 see; `first_key`: of the tile of kKeys keys.
template <class T, int kWidth, int kKeys>
SIATTN_DEVICE void add_not_finite(float (&out)[kWidth / 8][4], const KeyRange (&rows)[2], SharedAddress value_tile,
                                  int first_key) {
  const int quarter = lane_index() % 4;
  SIATTN_NO_UNROLL
  for (int j = 0; j < kKeys; ++j) {
    const int key = first_key + j;
    const bool sees[2] = {key >= rows[0].first && key < rows[0].last, key >= rows[1].first && key < rows[1].last};
    SIATTN_UNROLL
    for (int block = 0; block < kWidth / 8; ++block) {
      const auto word = load_shared<std::uint32_t>(chunk_at<kWidth>(value_tile, j, block) + 4 * quarter);
      const Float2 value = unpack<T>(word);
      SIATTN_UNROLL
      for (int e = 0; e < 4; ++e) {
        const float v = e % 2 == 0 ? value.x : value.y;
        if (sees[e / 2] && !finite(v)) out[block][e] += v;
      }
    }
  }
}

template <int kBlocks>
SIATTN_DEVICE bool all_finite(const float (&out)[kBlocks][4]) {
  bool good = true;
  SIATTN_UNROLL
  for (int block = 0; block < kBlocks; ++block) {
    SIATTN_UNROLL
    for (int e = 0; e < 4; ++e) good = good && finite(out[block][e]);
  }
  return good;
}

/// The sum of a row over the four lanes that share it.
SIATTN_DEVICE float over_lanes(float sum) {
  sum += shuffle_xor(sum, 1);
  return sum + shuffle_xor(sum, 2);
}

/// Writes this lane's channels of row g + 8 half, divided by the row's sum.
template <class T, int kBlocks>
SIATTN_DEVICE void store_pairs(const Forward& f, std::int64_t row, const float (&out)[kBlocks][4], int half,
                               float sum) {
  const int column = 2 * (lane_index() % 4);
  SIATTN_UNROLL
  for (int block = 0; block < kBlocks; ++block) {
    const int channel = 8 * block + column;
    const float x = divided(out[block][2 * half], sum);
    const float y = divided(out[block][2 * half + 1], sum);
    if (f.out.aligned) {
      auto* const to = reinterpret_cast<std::uint32_t*>(static_cast<std::uint16_t*>(f.out.data) + row + channel);
      if (channel < f.value_dim) store_global(to, pack<T>(x, y));
    } else {
      if (channel < f.value_dim) store_element<T>(f.out.data, row + channel, x);
      if (channel + 1 < f.value_dim) store_element<T>(f.out.data, row + channel + 1, y);
    }
  }
}

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_KERNELS_TILES_HPP
