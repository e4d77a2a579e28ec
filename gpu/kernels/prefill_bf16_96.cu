// SPDX-License-Identifier: Apache-2.0
#include "gpu/kernels/prefill.hpp"

SIATTN_KERNEL(siattn_prefill_bf16_96, siattn::gpu::PrefillShape<96>::kThreads, 2, siattn::gpu::Forward) {
  siattn::gpu::prefill<siattn::bfloat16, 96>(params);
}
