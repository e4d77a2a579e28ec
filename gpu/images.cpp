// SPDX-License-Identifier: Apache-2.0
// The fat binaries as bytes of this object file: the assembler copies them in, which takes no time however large.
#include "gpu/images.hpp"

#include "siattn_cuda_images.inc"

#define SIATTN_CUDA_BYTES(name, file)                       \
  extern "C" const std::byte siattn_cuda_image_##name[];    \
  asm(".pushsection .rodata.siattn_cuda_image_" #name "\n"  \
      ".balign 64\n"                                        \
      ".globl siattn_cuda_image_" #name "\n"                \
      ".hidden siattn_cuda_image_" #name "\n"               \
      "siattn_cuda_image_" #name ":\n"                      \
      ".incbin \"" file "\"\n"                              \
      ".popsection\n");
SIATTN_CUDA_IMAGES(SIATTN_CUDA_BYTES)
#undef SIATTN_CUDA_BYTES

namespace siattn::gpu {
namespace {

#define SIATTN_CUDA_IMAGE(name, file) Image{#name, siattn_cuda_image_##name},
constexpr Image kImages[] = {SIATTN_CUDA_IMAGES(SIATTN_CUDA_IMAGE) Image{}};
#undef SIATTN_CUDA_IMAGE

}  // namespace

std::span<const Image> images() noexcept { return std::span(kImages).first(std::size(kImages) - 1); }

}  // namespace siattn::gpu
