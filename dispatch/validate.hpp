// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_DISPATCH_VALIDATE_HPP
#define SIATTN_DISPATCH_VALIDATE_HPP

#include <siattn/backend.hpp>

#include "dispatch/operands.hpp"

namespace siattn::dispatch {

/// Extents, options and transform of a problem; the message names the argument and its value.
Status validate_problem(const AttentionProblem& problem);

/// Page size and stride, not the entries.
Status validate_page_table(const PageTable& table);

/// The tensors of one run against a validated problem: lengths, offsets and pages of each sequence, shapes, types,
/// strides, alignment, and that no output overlaps an input, another output or itself. Of the prepared problem only
/// shape, types and options are looked at. Allocates nothing when all is well.
Status validate_tensors(const PreparedAttention& problem, const AttentionTensors& tensors);

/// The same for a call that reads query and key only, and writes these outputs.
Status validate_query_and_key(const PreparedAttention& problem, const AttentionTensors& tensors,
                              std::span<const Operand> outputs);

}  // namespace siattn::dispatch

#endif  // SIATTN_DISPATCH_VALIDATE_HPP
