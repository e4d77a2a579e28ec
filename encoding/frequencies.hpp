// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_ENCODING_FREQUENCIES_HPP
#define SIATTN_ENCODING_FREQUENCIES_HPP

#include <cstdint>
#include <vector>

#include <siattn/position_encoding.hpp>

#include "encoding/double_double.hpp"

namespace siattn::encoding {

/// An encoding, validated and spelled out for one head_dim.
struct Pairs {
  /// w_f in radians per position, for each pair. Relative error at most (23 d + 40)u^2, u = 2^-53, d = head_dim.
  /// *Derived*: a frequency is q^f, f < d/2, whose q has an error of 16u^2 (inverse_root) and each of whose f products
  /// one of 7u^2; two such factors with NTK; YaRN's ramp costs a division, two products and a sum.
  std::vector<DoubleDouble> frequencies;
  std::int64_t turning = 0;  ///< The first so many pairs turn, the others have frequency 0.
  PairLayout layout = PairLayout::half;
  double magnitude = 1;
};

/// The error names the argument and its value. Throws std::bad_alloc.
Result<Pairs> pairs_of(const PositionEncoding& encoding, std::int64_t head_dim);

}  // namespace siattn::encoding

#endif  // SIATTN_ENCODING_FREQUENCIES_HPP
