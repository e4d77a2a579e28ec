// SPDX-License-Identifier: Apache-2.0
#include "gpu/kernels/decode.hpp"

SIATTN_KERNEL(siattn_decode_bf16_64, siattn::gpu::DecodeShape<64>::kThreads, 2, siattn::gpu::Forward) {
  siattn::gpu::decode<siattn::bfloat16, 64>(params);
}

SIATTN_KERNEL(siattn_decode_bf16_96, siattn::gpu::DecodeShape<96>::kThreads, 2, siattn::gpu::Forward) {
  siattn::gpu::decode<siattn::bfloat16, 96>(params);
}

SIATTN_KERNEL(siattn_decode_bf16_128, siattn::gpu::DecodeShape<128>::kThreads, 2, siattn::gpu::Forward) {
  siattn::gpu::decode<siattn::bfloat16, 128>(params);
}
