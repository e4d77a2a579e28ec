// SPDX-License-Identifier: Apache-2.0
#include "gpu/kernels/prefill_sm90.hpp"

SIATTN_KERNEL(siattn_prefill_sm90_bf16_128, siattn::gpu::PrefillSm90Shape<128>::kThreads, 1, siattn::gpu::ForwardSm90) {
  siattn::gpu::prefill_sm90<siattn::bfloat16, 128>(params);
}
SIATTN_KERNEL(siattn_prefill_sm90_f16_128, siattn::gpu::PrefillSm90Shape<128>::kThreads, 1, siattn::gpu::ForwardSm90) {
  siattn::gpu::prefill_sm90<siattn::float16, 128>(params);
}
SIATTN_KERNEL(siattn_prefill_sm90_bf16_64, siattn::gpu::PrefillSm90Shape<64>::kThreads, 1, siattn::gpu::ForwardSm90) {
  siattn::gpu::prefill_sm90<siattn::bfloat16, 64>(params);
}
SIATTN_KERNEL(siattn_prefill_sm90_f16_64, siattn::gpu::PrefillSm90Shape<64>::kThreads, 1, siattn::gpu::ForwardSm90) {
  siattn::gpu::prefill_sm90<siattn::float16, 64>(params);
}
