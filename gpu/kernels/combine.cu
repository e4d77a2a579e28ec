// SPDX-License-Identifier: Apache-2.0
#include "gpu/kernels/combine.hpp"

SIATTN_KERNEL(siattn_combine_f32, siattn::gpu::kRowThreads, 1, siattn::gpu::Forward) {
  siattn::gpu::combine<float>(params);
}

SIATTN_KERNEL(siattn_combine_bf16, siattn::gpu::kRowThreads, 1, siattn::gpu::Forward) {
  siattn::gpu::combine<siattn::bfloat16>(params);
}

SIATTN_KERNEL(siattn_combine_f16, siattn::gpu::kRowThreads, 1, siattn::gpu::Forward) {
  siattn::gpu::combine<siattn::float16>(params);
}

SIATTN_KERNEL(siattn_fill_f32, siattn::gpu::kRowThreads, 1, siattn::gpu::Forward) { siattn::gpu::fill<float>(params); }

SIATTN_KERNEL(siattn_fill_16, siattn::gpu::kRowThreads, 1, siattn::gpu::Forward) {
  siattn::gpu::fill<siattn::bfloat16>(params);
}
