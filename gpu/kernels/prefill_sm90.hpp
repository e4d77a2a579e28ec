// SPDX-License-Identifier: Apache-2.0
// Forward attention of many queries for sm_90a: the same steps as prefill.hpp, with tensor copies and wgmma. A block has
// three warpgroups. The first fetches: one thread K and V of a tile of keys, one warp the table's slice; it runs up to
// two tiles ahead. The other two own 64 queries each before all keys, and overlap by being two: while one is at its
// softmax the other is at its products.
//
// Tensors that tensor copies cannot take are copied by all threads of the first warpgroup, into the same tiles.
//
//     full_k  K and the slice of a stage have come        empty_k  every warp is done with them
//     full_v  V of a stage has come                       empty_v  every warp is done with it
//
// Bits, and what is not finite: as in prefill.hpp, but that tiles of keys begin at multiples of kKeys, and that rows
// beyond a sequence's end are whatever lies there. Where such a row of V is not finite the tile of queries is computed
// twice.
#ifndef SIATTN_GPU_KERNELS_PREFILL_SM90_HPP
#define SIATTN_GPU_KERNELS_PREFILL_SM90_HPP

#include "gpu/kernels/consumer_sm90.hpp"
#include "gpu/kernels/producer_sm90.hpp"

namespace siattn::gpu {

template <class T, int kWidth>
SIATTN_DEVICE void prefill_sm90(const ForwardSm90& p) {
  using Shape = PrefillSm90Shape<kWidth>;
  ItemSm90 item;
  if (!item_sm90<Shape>(p.f, item)) return;
  const PlacesSm90<kWidth> at;
  if (thread_index() == 0) {
    mbarrier_init(at.full_query(), fetchers(p, false));
    for (int stage = 0; stage < Shape::kStages; ++stage) {
      mbarrier_init(at.full_k(stage), fetchers(p, true));
      mbarrier_init(at.full_v(stage), fetchers(p, false));
      mbarrier_init(at.empty_k(stage), 4 * Shape::kConsumers);
      mbarrier_init(at.empty_v(stage), 4 * Shape::kConsumers);
    }
    fence_mbarrier_init();
  }
  sync_threads();
  const int group = warp_index() / 4;
  if (group == 0) {
    lower_registers<Shape::kProducerRegisters>();
    ProducerSm90<kWidth>(p, item).run();
  } else {
    raise_registers<Shape::kConsumerRegisters>();
    ConsumerSm90<T, kWidth>(p.f, item, group - 1).run();
  }
}

}  // namespace siattn::gpu

#endif  // SIATTN_GPU_KERNELS_PREFILL_SM90_HPP
