// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_COMPARE_HPP
#define SIATTN_VERIFY_COMPARE_HPP

#include <limits>
#include <string>

#include <siattn/backend.hpp>

namespace siattn::verify {

/// How a computed result stands to the reference, element by element. The elements of out are [b, h, i, c]; those of
/// lse have c = -1.
struct Comparison {
  std::int64_t elements = 0;
  std::int64_t unpromised = 0;  ///< of these, elements about which arithmetic of this width promises nothing
  std::int64_t failures = 0;    ///< elements beyond their bound, or not finite where the reference is, or the reverse
  /// max (|computed - exact| - rounding) / arithmetic, in the terms of bounds.hpp, over elements with a finite bound:
  /// above 1 exactly where the error is beyond the bound. The last rounding, which every right backend shares, is taken
  /// out: in 16-bit types it would hide the rest.
  double worst_ratio = 0;
  double worst_error = 0;  ///< |computed - exact| there
  Shape4 worst_at{0, 0, 0, 0};
  std::string first_failure;  ///< one line; empty when failures == 0

  bool good() const noexcept { return failures == 0; }
};

/// "out[0, 2, 17, 5]" or "lse[0, 2, 17]".
std::string element_name(const Shape4& at);

/// In a ragged batch elements are named by sequence and query, those behind the last sequence by token.
///
/// Compares tensors.out (and tensors.lse where it is there) with the double reference within verify/bounds.hpp. NaN and
/// infinities are compared first: a NaN where the reference has a number is a failure and so is the reverse.
/// `most_rows`: of each head only so many queries, evenly spread, the first and the last among them; for problems too
/// large for plain loops.
Comparison compare_with_reference(const AttentionProblem& problem, const AttentionTensors& tensors,
                                  const Numerics& numerics,
                                  std::int64_t most_rows = std::numeric_limits<std::int64_t>::max());

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_COMPARE_HPP
