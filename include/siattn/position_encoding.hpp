// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_POSITION_ENCODING_HPP
#define SIATTN_POSITION_ENCODING_HPP

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include <siattn/export.h>
#include <siattn/status.hpp>
#include <siattn/tensor_view.hpp>

/// Position encodings that rotate pairs of dimensions of query and key before attention. Pair f of a token at position
/// p turns by the angle p w_f (radians), counter-clockwise:
///
///     (x, y)  ->  magnitude (x cos(p w_f) - y sin(p w_f),  x sin(p w_f) + y cos(p w_f))
///
/// so that <query, key> depends on the two positions through their difference alone (Su et al. 2021, RoFormer, section
/// 3.2). A method is its list of frequencies w_f, 0 <= w_f <= 1, and a magnitude, which is 1 in all but YaRN. Query and
/// key take the same encoding. Some implementations turn clockwise: explicit positions -p do so.
///
/// Scale-invariant attention is used on top of any of them: the paper's own method is that transform with
/// HalfTruncatedRope ("scale-invariant p-RoPE").
namespace siattn SIATTN_EXPORT {

/// Which two dimensions make pair f, among the first 2n, n the number of pairs.
enum class PairLayout : std::uint8_t {
  half,         ///< f and f + n: GPT-NeoX, Llama in Transformers, the paper.
  interleaved,  ///< 2f and 2f + 1: RoFormer, GPT-J, the original Llama.
};

/// NoPE: positions are not encoded. Any head_dim.
struct NoEncoding {};

/// RoPE (Su et al. 2021): w_f = base^(-2f/d), f = 0 .. d/2 - 1, d = head_dim, even.
struct Rope {
  double base = 10000;  ///< theta, 1 .. 1e100.
  PairLayout layout = PairLayout::half;
};

/// Partial rotary embedding (GPT-J, GPT-NeoX): RoPE of its own on the first rotary_dim dimensions,
/// w_f = base^(-2f/rotary_dim), f = 0 .. rotary_dim/2 - 1; the other dimensions stay. Not p-RoPE: pairs and
/// frequencies both differ.
struct PartialRope {
  std::int64_t rotary_dim = 0;  ///< Even, 0 .. head_dim.
  double base = 10000;          ///< 1 .. 1e100.
  PairLayout layout = PairLayout::half;
};

/// p-RoPE (Barbero et al. 2024): the pairs and frequencies of RoPE, of which the floor(p d/2) highest are kept and the
/// others are 0. p = 1 is RoPE, p = 0 is NoPE. A p d/2 within 1e-9 of an integer counts as that integer, so that 0.29
/// of 100 pairs are 29.
struct PRope {
  double p = 0.5;       ///< 0 .. 1.
  double base = 10000;  ///< 1 .. 1e100.
  PairLayout layout = PairLayout::half;
};

/// p-RoPE in the form that the scale-invariant attention paper trains (the half-truncated RoPE of modded-nanogpt):
/// of the d/2 pairs, d/4 have w_k = effective_base^(-k/(d/4 - 1)), k = 0 .. d/4 - 1 (from 1 down to 1/effective_base,
/// both included), and the other d/4 have 0. d = head_dim, a multiple of 4; d = 4 keeps w_0 = 1. modded-nanogpt turns
/// clockwise: its checkpoints want positions -p.
struct HalfTruncatedRope {
  double effective_base = 1024;  ///< 1 .. 1e100.
  PairLayout layout = PairLayout::half;
};

/// NTK-aware scaling (bloc97 2023; Peng et al. 2023, section 3.1): RoPE with base factor^(d/(d-2)), which divides the
/// lowest frequency by factor and leaves the highest. d = head_dim, even, at least 4.
struct NtkRope {
  double factor = 1;    ///< Length wanted over length trained, 1 .. 1e100.
  double base = 10000;  ///< 1 .. 1e100.
  PairLayout layout = PairLayout::half;
};

/// Dynamic NTK scaling: NtkRope with factor = length / train_length where that is above 1, else RoPE unchanged. Keys
/// that a cache holds keep the length with which they were encoded: encode them anew when it grows.
struct DynamicNtkRope {
  std::int64_t train_length = 4096;  ///< Tokens, 1 .. 2^31 - 1.
  std::int64_t length = 4096;        ///< Tokens of the sequence at hand, 1 .. 2^31 - 1.
  double base = 10000;               ///< 1 .. 1e100.
  PairLayout layout = PairLayout::half;
};

/// YaRN (Peng et al. 2023). Pair f of RoPE makes r rotations over the train length at the (real) index
///
///     f(r) = d ln(train_length / (2 pi r)) / (2 ln base)
///
/// With low = floor(f(beta_fast)) and high = ceil(f(beta_slow)), both limited to 0 .. d - 1, RoPE's frequencies are
/// kept up to pair low, divided by factor from pair high on, and between them multiplied by (1 - g) + g / factor,
/// g = (f - low) / (high - low). This is the ramp over pair indices of the authors' program, as users have it; the
/// article's text has a ramp over rotations. factor = 1 is RoPE.
struct Yarn {
  double factor = 1;                               ///< s, length wanted over length trained, 1 .. 1e100.
  std::int64_t train_length = 4096;                ///< Tokens, 1 .. 2^31 - 1.
  double beta_fast = 32;                           ///< Rotations; above beta_slow, finite.
  double beta_slow = 1;                            ///< Rotations; above 0.
  std::optional<double> magnitude = std::nullopt;  ///< On query and key, finite, above 0. Absent: 0.1 ln(factor) + 1.
  double base = 10000;                             ///< Above 1, up to 1e100.
  PairLayout layout = PairLayout::half;
};

using PositionEncoding =
    std::variant<NoEncoding, Rope, PartialRope, PRope, HalfTruncatedRope, NtkRope, DynamicNtkRope, Yarn>;

/// w_f in radians per position, one for each pair that the encoding forms: none for NoEncoding, rotary_dim / 2 for
/// PartialRope, head_dim / 2 for the others. Computed to about 95 bits and rounded once to double. head_dim is
/// 1 .. 16384. Errors: invalid_argument names the argument and its value; out_of_memory.
Result<std::vector<double>> pair_frequencies(const PositionEncoding& encoding, std::int64_t head_dim) noexcept;

/// The factor on query and on key: that of YaRN, 1 for the other methods. Logits get its square. Does not validate.
double magnitude(const PositionEncoding& encoding) noexcept;

/// Encodes in into out. Both are [batch, heads, len, head_dim], of one shape and one type (float32, bfloat16, float16
/// or float64), strides free but for the innermost, which is 1. Token i stands at first_position + i in every
/// sequence; positions are -(2^31 - 1) .. 2^31 - 1.
///
/// Accuracy, for every head_dim and position allowed: cosines and sines are within 4u of exact (u = 2^-53; derived in
/// encoding/rotation.hpp, checked against 50 digits in tests/position_encoding_accuracy_test.cpp); the rotation is
/// computed in double, within 7u (|x| + |y|) (11u magnitude (|x| + |y|) where the magnitude is not 1), and rounded
/// once to the type.
///
/// Dimensions that do not turn (frequency 0, outside rotary_dim, position 0) are copied bit for bit where the magnitude
/// is 1. NaN or infinity reaches both members of its pair and nothing else.
///
/// In place: in and out may be the same view (data, type, shape, and strides of the axes longer than 1); the bits are
/// those of the call out of place. Any other overlap is an error, judged by the range of addresses from the first to
/// the last element; so is an out with two elements at one address.
///
/// Errors: invalid_argument names the argument and its value; out_of_memory (some 128 KiB are needed). Either way out
/// has not been touched. Runs in the calling thread; the same bits every time, for any other tokens in the call.
Status apply(const PositionEncoding& encoding, const TensorView& in, const MutableTensorView& out,
             std::int64_t first_position) noexcept;

/// The same with a position for each token: positions has len values, which all sequences share, or batch * len, in
/// the order [batch, len].
Status apply(const PositionEncoding& encoding, const TensorView& in, const MutableTensorView& out,
             std::span<const std::int64_t> positions) noexcept;

}  // namespace siattn

#endif  // SIATTN_POSITION_ENCODING_HPP
