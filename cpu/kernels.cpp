// SPDX-License-Identifier: Apache-2.0
// The vector kernels, compiled once for each line of cpu/CMakeLists.txt with that instruction set's flags. All code is
// in unnamed namespaces and all of it is inlined or local: the object exports the table below and nothing else.
#include "cpu/kernels.hpp"

#if defined(__FAST_MATH__)
#error "NaN, infinities and the order of additions are part of the contract: do not compile this with -ffast-math"
#endif
#if !defined(SIATTN_CPU_ARCH) || !defined(SIATTN_CPU_TABLE)
#error "cpu/CMakeLists.txt defines the xsimd architecture and the name of the table"
#endif

#include "cpu/kernels/blocks.hpp"
#include "cpu/kernels/element.hpp"
#include "cpu/kernels/exp2.hpp"
#include "cpu/kernels/finish.hpp"
#include "cpu/kernels/logits.hpp"
#include "cpu/kernels/pack.hpp"
#include "cpu/kernels/products.hpp"
#include "cpu/kernels/quantise.hpp"
#include "cpu/kernels/simd.hpp"
#include "cpu/kernels/softmax.hpp"
#include "cpu/kernels/stream.hpp"

extern "C" {
extern const siattn::cpu::Kernels SIATTN_CPU_TABLE;
}

namespace siattn::cpu {
namespace {

static_assert(kMaxTileRows % kBlock == 0 && kMaxTileRows % kLanes == 0);

/// One function for each element type, in the order of Element.
#define SIATTN_BY_ELEMENT(function) \
  { function<Float32>, function<Bfloat16>, function<Float16> }
#define SIATTN_BY_KV_ELEMENT(function) \
  { function<Float32>, function<Bfloat16>, function<Float16>, function<Int8> }

}  // namespace
}  // namespace siattn::cpu

using namespace siattn::cpu;

const Kernels SIATTN_CPU_TABLE = {
    .lanes = kLanes,
    .block = kBlock,
    .panel = kPanel,
    .tile_rows = kTileRows,
    .exp2_relative_error = kExp2RelativeError,
    .widen = SIATTN_BY_ELEMENT(widen),
    .narrow = SIATTN_BY_ELEMENT(narrow),
    .exp2 = exp2_array,
    .largest = largest,
    .quantise = quantise,
    .pack_query = SIATTN_BY_ELEMENT(pack_query),
    .pack_key = SIATTN_BY_KV_ELEMENT(pack_key),
    .pack_value = SIATTN_BY_KV_ELEMENT(pack_value),
    .scores = scores,
    .stream_scores = SIATTN_BY_KV_ELEMENT(stream_scores),
    .softmax = softmax,
    .weigh = weigh,
    .stream_weigh = SIATTN_BY_KV_ELEMENT(stream_weigh),
    .transform = transform,
    .spread = {spread<WeightFloat32>, spread<WeightBfloat16>, nullptr},
    .bfloat16_finite = bfloat16_finite,
    .pack_value_pairs = pack_value_pairs,
    .merge = merge,
    .finish = SIATTN_BY_ELEMENT(finish),
};
