// SPDX-License-Identifier: Apache-2.0
// prefill_sm90: what a block does, and where things are in its shared memory.
#ifndef SIATTN_GPU_KERNELS_PLACES_SM90_HPP
#define SIATTN_GPU_KERNELS_PLACES_SM90_HPP

#include "gpu/kernels/prefill.hpp"
#include "gpu/ptx_sm90.hpp"

namespace siattn::gpu {

/// What a block does: queries of one head before the keys begin <= j < end, all that any of them sees; begin is a multiple
/// of kKeys.
struct ItemSm90 {
  Sequence s;
  std::int64_t b;
  int head;
  int kv_head;
  int first_query;
  int begin;
  int end;
};

/// False: nothing to do.
template <class Shape>
SIATTN_DEVICE bool item_sm90(const Forward& f, ItemSm90& item) {
  PrefillItem base;
  if (!prefill_item<Shape::kQueries>(f, base)) return false;
  item.s = load_sequence(f, base.b);
  item.b = base.b;
  item.head = base.head;
  item.kv_head = base.kv_head;
  item.first_query = base.first_query;
  item.begin = visible_keys(f.causal, f.window, item.s, base.first_query).first / Shape::kKeys * Shape::kKeys;
  item.end = visible_keys(f.causal, f.window, item.s, base.last_query).last;
  return true;
}

/// Where things are in shared memory. Tiles are halves of 64 channels, one behind the other, rows of 128 bytes.
template <int kWidth>
struct PlacesSm90 {
  using Shape = PrefillSm90Shape<kWidth>;
  static constexpr int kBarrierBytes = 8;

  SharedAddress base = shared_memory();

  SIATTN_DEVICE SharedAddress full_query() const { return base; }
  SIATTN_DEVICE SharedAddress full_k(int stage) const { return base + kBarrierBytes * (1 + stage); }
  SIATTN_DEVICE SharedAddress full_v(int stage) const { return full_k(Shape::kStages + stage); }
  SIATTN_DEVICE SharedAddress empty_k(int stage) const { return full_k(2 * Shape::kStages + stage); }
  SIATTN_DEVICE SharedAddress empty_v(int stage) const { return full_k(3 * Shape::kStages + stage); }
  SIATTN_DEVICE SharedAddress queries() const { return base + 1024; }
  SIATTN_DEVICE SharedAddress keys(int stage) const {
    return queries() + 2 * kWidth * Shape::kQueries + stage * Shape::kTileBytes;
  }
  SIATTN_DEVICE SharedAddress values(int stage) const { return keys(Shape::kStages + stage); }
  SIATTN_DEVICE SharedAddress slice(int stage) const { return keys(2 * Shape::kStages) + stage * Shape::kSliceBytes; }
};

/// The tiles of a block in turn, over both passes: stage and parity of the n-th.
struct Turn {
  int n = 0;
  template <int kStages>
  SIATTN_DEVICE int stage() const {
    return n % kStages;
  }
  /// What a wait for `full` waits for; one for `empty` waits for the other one, and the first time round for nothing.
  template <int kStages>
  SIATTN_DEVICE int parity() const {
    return n / kStages % 2;
  }
};

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_KERNELS_PLACES_SM90_HPP
