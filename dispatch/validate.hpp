// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_DISPATCH_VALIDATE_HPP
#define SIATTN_DISPATCH_VALIDATE_HPP

#include <siattn/attention.hpp>

namespace siattn::dispatch {

/// Extents, options and transform of a problem; the message names the argument and its value.
Status validate_problem(const AttentionProblem& problem);

/// The tensors of one run against a validated problem: shapes, types, strides, alignment, lengths, and that no output
/// overlaps an input, another output or itself. Allocates nothing when all is well.
Status validate_tensors(const AttentionShape& shape, DType dtype, const AttentionTensors& tensors);

}  // namespace siattn::dispatch

#endif  // SIATTN_DISPATCH_VALIDATE_HPP
