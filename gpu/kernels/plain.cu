// SPDX-License-Identifier: Apache-2.0
#include "gpu/kernels/plain.hpp"

SIATTN_KERNEL(siattn_plain_f32_128, siattn::gpu::PlainShape::kThreads, 2, siattn::gpu::Forward) {
  siattn::gpu::plain<float, 128>(params);
}

SIATTN_KERNEL(siattn_plain_f32_512, siattn::gpu::PlainShape::kThreads, 2, siattn::gpu::Forward) {
  siattn::gpu::plain<float, 512>(params);
}

SIATTN_KERNEL(siattn_plain_bf16_512, siattn::gpu::PlainShape::kThreads, 2, siattn::gpu::Forward) {
  siattn::gpu::plain<siattn::bfloat16, 512>(params);
}

SIATTN_KERNEL(siattn_plain_f16_512, siattn::gpu::PlainShape::kThreads, 2, siattn::gpu::Forward) {
  siattn::gpu::plain<siattn::float16, 512>(params);
}
