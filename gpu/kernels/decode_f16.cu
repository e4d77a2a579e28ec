// SPDX-License-Identifier: Apache-2.0
#include "gpu/kernels/decode.hpp"

SIATTN_KERNEL(siattn_decode_f16_64, siattn::gpu::DecodeShape<64>::kThreads, 2, siattn::gpu::Forward) {
  siattn::gpu::decode<siattn::float16, 64>(params);
}

SIATTN_KERNEL(siattn_decode_f16_96, siattn::gpu::DecodeShape<96>::kThreads, 2, siattn::gpu::Forward) {
  siattn::gpu::decode<siattn::float16, 96>(params);
}

SIATTN_KERNEL(siattn_decode_f16_128, siattn::gpu::DecodeShape<128>::kThreads, 2, siattn::gpu::Forward) {
  siattn::gpu::decode<siattn::float16, 128>(params);
}
