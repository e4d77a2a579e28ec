// SPDX-License-Identifier: Apache-2.0
#include "cpu/run.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "cpu/decode.hpp"
#include "cpu/prefill.hpp"
#include "cpu/sequence.hpp"

namespace siattn::cpu {
namespace {

constexpr std::int64_t kMaxDim = 512;
constexpr std::int64_t kAlignment = 64;

/// Rows of no sequence, past the query length of one or behind the last of a ragged batch: rows that see no key.
void write_unused_rows(const Run& run) noexcept {
  const AttentionShape& shape = run.problem.shape;
  const std::size_t bytes = static_cast<std::size_t>(shape.value_dim) * size_of(run.problem.dtype);
  const auto write = [&](std::int64_t b, std::int64_t first, std::int64_t last) {
    if (first == last) return;  // heads may be as many as there is no memory for
    for (std::int64_t h = 0; h < shape.query_heads; ++h) {
      for (std::int64_t i = first; i < last; ++i) {
        std::fill_n(row_address(run.tensors, run.tensors.out, b, h, i), bytes, std::byte{0});
        if (run.tensors.lse.data == nullptr) continue;
        *reinterpret_cast<float*>(row_address(run.tensors, run.tensors.lse, b, h, i)) = -HUGE_VALF;
      }
    }
  };
  const CumulativeLengths& cu = run.tensors.cu_query;
  if (!cu.empty()) return write(0, cu[cu.size() - 1], run.tensors.query.shape[2]);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    write(b, sequence_bounds(run.problem, run.tensors, b).query_len, shape.query_len);
  }
}

/// More slices than this have nothing to do.
std::int64_t most_slices(const Kernels& kernels, const PreparedAttention& problem) noexcept {
  return std::max(prefill_slices(kernels, problem), decode_slices(problem));
}

/// Memory of one slice of a run, which waits for no other: what one does with it must not be where another is.
std::int64_t slice_bytes(const Kernels& kernels, const Products* products, const PreparedAttention& problem) noexcept {
  return round_up(std::max(prefill_slice_bytes(kernels, products, problem), decode_slice_bytes(kernels, problem)),
                  kAlignment);
}

}  // namespace

Status supported_by_kernels(const std::string& who, const AttentionProblem& problem) {
  if (problem.dtype == DType::float64) {
    return Status::unsupported("dtype = f64: " + who + " computes in float32; use the backend reference");
  }
  const auto check = [&who](const char* what, std::int64_t dim) {
    return dim <= kMaxDim ? Status{}
                          : Status::unsupported(std::string(what) + " = " + std::to_string(dim) + ": " + who +
                                                " takes up to " + std::to_string(kMaxDim) +
                                                "; use the backend reference");
  };
  const Status status = check("head_dim", problem.shape.head_dim);
  return status ? check("value_dim", problem.shape.value_dim) : status;
}

std::size_t workspace_bytes_on(const Kernels& kernels, const Products* products,
                               const PreparedAttention& problem) noexcept {
  // Sequences that stream and sequences that do not come one after the other and share the memory.
  const std::int64_t bytes =
      std::max(prefill_workspace_bytes(kernels, products, problem), decode_workspace_bytes(kernels, problem));
  const std::int64_t of_slices = most_slices(kernels, problem) * slice_bytes(kernels, products, problem);
  return static_cast<std::size_t>(std::max(bytes, of_slices)) + kAlignment - 1;
}

bool run_on(const Kernels& kernels, const Products* products, const PreparedAttention& problem,
            const AttentionTensors& tensors, std::span<std::byte> workspace, const Slice* slice) noexcept {
  void* start = workspace.data();
  std::size_t space = workspace.size();
  auto* aligned = static_cast<std::byte*>(std::align(kAlignment, 0, start, space));
  if (slice != nullptr) {
    if (slice->index >= most_slices(kernels, problem)) return true;  // nothing is left for it
    aligned += slice->index * slice_bytes(kernels, products, problem);
  }
  const Run run{kernels, products,
                problem, tensors,
                element_of(problem.dtype), element_of(problem.kv_dtype),
                aligned, slice};
  bool some_stream = false;
  bool some_do_not = false;
  for (std::int64_t b = 0; b < sequences(problem, tensors); ++b) {
    const SequenceBounds s = sequence_bounds(problem, tensors, b);
    if (s.query_len > 0) (streams(problem, s) ? some_stream : some_do_not) = true;
  }
  if (slice == nullptr || slice->index == 0) write_unused_rows(run);
  if (some_stream) decode(run);
  return !some_do_not || prefill(run);
}

}  // namespace siattn::cpu
