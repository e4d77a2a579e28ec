// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <vector>

#include "dispatch/message.hpp"
#include "dispatch/operands.hpp"
#include "dispatch/tables.hpp"
#include "dispatch/validate.hpp"

namespace siattn::dispatch {
namespace {

constexpr std::int64_t kLargestPosition = std::numeric_limits<std::int32_t>::max();

Status validate_lengths(const char* name, std::span<const std::int64_t> lengths, std::int64_t count,
                        std::int64_t most) {
  if (lengths.empty()) return {};
  if (static_cast<std::int64_t>(lengths.size()) != count) {
    return Status::invalid(
        text(name, " has ", lengths.size(), " values: expected one for each of ", count, " sequences"));
  }
  for (std::int64_t b = 0; b < count; ++b) {
    if (lengths[b] < 0 || lengths[b] > most) {
      return Status::invalid(text(name, '[', b, "] = ", lengths[b], ": expected 0 .. ", most));
    }
  }
  return {};
}

/// c_0 = 0, no step down, none longer than `most`, and rows enough for the last.
Status validate_cumulative(const char* name, const CumulativeLengths& cumulative, std::int64_t most,
                           std::int64_t rows) {
  if (cumulative[0] != 0) return Status::invalid(text(name, "[0] = ", cumulative[0], ": expected 0"));
  for (std::size_t b = 1; b < cumulative.size(); ++b) {
    if (cumulative[b] < cumulative[b - 1]) {
      return Status::invalid(text(name, '[', b, "] = ", cumulative[b], ": sequence ", b - 1, " begins at ",
                                  cumulative[b - 1], " and cannot end before it"));
    }
    if (cumulative[b] - cumulative[b - 1] > most) {
      return Status::invalid(text(name, '[', b, "] = ", cumulative[b], ": sequence ", b - 1, " would have ",
                                  cumulative[b] - cumulative[b - 1], " rows, and the plan is for ", most, " at most"));
    }
    if (cumulative[b] > rows) {
      return Status::invalid(text(name, '[', b, "] = ", cumulative[b], ": sequence ", b - 1,
                                  " would end behind the tensor, which has ", rows, " rows"));
    }
  }
  return {};
}

Status validate_pages(const PreparedAttention& problem, const AttentionTensors& tensors) {
  const PageTable& table = tensors.pages;
  if (Status status = validate_page_table(table); !status) return status;
  const std::int64_t count = sequences(problem, tensors);
  if (static_cast<std::int64_t>(tensors.kv_lengths.size()) != count) {
    return Status::invalid(text("kv_lengths has ", tensors.kv_lengths.size(), " values: with pages expected one for ",
                                "each of ", count, " sequences"));
  }
  const std::int64_t pages = tensors.key.shape[0];
  for (std::int64_t b = 0; b < count; ++b) {
    const std::int64_t length = tensors.kv_lengths[b];
    const std::int64_t used = length / table.page_size + (length % table.page_size != 0 ? 1 : 0);
    if (used > table.stride) {
      return Status::invalid(text("kv_lengths[", b, "] = ", length, ": the page table has room for ", table.stride,
                                  " pages of ", table.page_size, " keys a sequence"));
    }
    if (used > 0 && table.pages == nullptr) {
      return Status::invalid(text("pages is null: sequence ", b, " has ", length, " keys"));
    }
    for (std::int64_t k = 0; k < used; ++k) {
      const std::int32_t page = table.pages[b * table.stride + k];
      if (page < 0 || page >= pages) {
        return Status::invalid(text("page ", k, " of sequence ", b, " is ", page, ": key has pages 0 .. ", pages - 1));
      }
    }
  }
  return {};
}

/// The plan's tables must cover the distances of each sequence where it stands.
Status validate_query_offsets(const PreparedAttention& problem, const AttentionTensors& tensors) {
  const auto& offsets = tensors.query_offsets;
  if (offsets.empty()) return {};
  const std::int64_t count = sequences(problem, tensors);
  if (static_cast<std::int64_t>(offsets.size()) != count) {
    return Status::invalid(
        text("query_offsets has ", offsets.size(), " values: expected one for each of ", count, " sequences"));
  }
  const DistanceRange covered = visible_distances(problem.shape, problem.options);
  for (std::int64_t b = 0; b < count; ++b) {
    const SequenceBounds s = sequence_bounds(problem, tensors, b);
    const std::int64_t room = kLargestPosition - std::max<std::int64_t>(s.query_len - 1, 0);
    if (offsets[b] < -kLargestPosition || offsets[b] > room) {
      return Status::invalid(
          text("query_offsets[", b, "] = ", offsets[b], ": expected ", -kLargestPosition, " .. ", room));
    }
    AttentionShape shape = problem.shape;
    shape.query_len = s.query_len;
    shape.kv_len = s.kv_len;
    const DistanceRange needed = visible_distances(shape, problem.options, offsets[b]);
    if (needed.first <= needed.last && (needed.first < covered.first || needed.last > covered.last)) {
      return Status::invalid(text("query_offsets[", b, "] = ", offsets[b], ": sequence ", b, " has distances ",
                                  needed.first, " .. ", needed.last, " then, and the plan covers ", covered.first,
                                  " .. ", covered.last));
    }
  }
  return {};
}

/// Lengths, offsets and pages of every sequence.
Status validate_sequences(const PreparedAttention& problem, const AttentionTensors& tensors) {
  const AttentionShape& s = problem.shape;
  const bool ragged = !tensors.cu_query.empty();
  const bool paged = !tensors.pages.empty();
  if (ragged && !tensors.query_lengths.empty()) {
    return Status::invalid("query_lengths and cu_query are both given: expected one of them");
  }
  if (!tensors.cu_kv.empty() && (paged || !tensors.kv_lengths.empty())) {
    return Status::invalid(text("cu_kv and ", paged ? "pages" : "kv_lengths", " are both given: expected one of them"));
  }
  const std::int64_t count = sequences(problem, tensors);
  if (count > s.batch) {
    return Status::invalid(text("cu_query has ", count, " sequences: the plan is for ", s.batch, " at most"));
  }
  if (!tensors.cu_kv.empty() && tensors.cu_kv.sequences() != count) {
    return Status::invalid(text("cu_kv has ", tensors.cu_kv.sequences(), " sequences: expected ", count));
  }
  Status status = ragged ? validate_cumulative("cu_query", tensors.cu_query, s.query_len, tensors.query.shape[2])
                         : validate_lengths("query_lengths", tensors.query_lengths, count, s.query_len);
  if (status && !tensors.cu_kv.empty()) {
    status = validate_cumulative("cu_kv", tensors.cu_kv, s.kv_len, tensors.key.shape[2]);
  }
  if (status) status = validate_lengths("kv_lengths", tensors.kv_lengths, count, s.kv_len);
  if (status && paged) status = validate_pages(problem, tensors);
  return status ? validate_query_offsets(problem, tensors) : status;
}

/// What the tensor's own extent says, where the problem does not: tokens of a ragged batch, pages of a cache.
std::int64_t own_extent(const TensorView& x, int axis) { return std::max<std::int64_t>(x.shape[axis], 0); }

/// Those of a run, in this order: query, key, key_scale, value, value_scale, out, lse.
std::array<Operand, 7> operands_of(const PreparedAttention& problem, const AttentionTensors& tensors) {
  const AttentionShape& s = problem.shape;
  const bool ragged = !tensors.cu_query.empty();
  const std::int64_t outer = ragged ? 1 : s.batch;
  const std::int64_t tokens = ragged ? own_extent(tensors.query, 2) : s.query_len;
  Shape4 keys{s.batch, s.kv_heads, s.kv_len, 0};
  if (!tensors.cu_kv.empty()) keys = {1, s.kv_heads, own_extent(tensors.key, 2), 0};
  if (!tensors.pages.empty()) keys = {own_extent(tensors.key, 0), s.kv_heads, tensors.pages.page_size, 0};
  const auto kv_shape = [&keys](std::int64_t dim) { return Shape4{keys[0], keys[1], keys[2], dim}; };
  const DType lse = problem.dtype == DType::float64 ? DType::float64 : DType::float32;

  const bool scaled = problem.kv_dtype == DType::int8;

  return {{{"query", tensors.query, false, problem.dtype, {outer, s.query_heads, tokens, s.head_dim}},
           {"key", tensors.key, false, problem.kv_dtype, kv_shape(s.head_dim)},
           {"key_scale", tensors.key_scale, false, DType::float32, kv_shape(1), scaled},
           {"value", tensors.value, false, problem.kv_dtype, kv_shape(s.value_dim)},
           {"value_scale", tensors.value_scale, false, DType::float32, kv_shape(1), scaled},
           {"out", tensors.out, true, problem.dtype, {outer, s.query_heads, tokens, s.value_dim}},
           {"lse", tensors.lse, true, lse, {outer, s.query_heads, tokens, 1}, tensors.lse.data != nullptr}}};
}

/// Sequences first, since the extents of the others follow from them.
Status validate(const PreparedAttention& problem, const AttentionTensors& tensors, std::span<Operand> operands) {
  if (Status status = validate_sequences(problem, tensors); !status) return status;
  for (const Operand& operand : operands) {
    if (operand.present || operand.view.data == nullptr) continue;
    return Status::invalid(text(operand.name, " is given: only keys and values of type i8 have scales, these have ",
                                name_of(problem.kv_dtype)));
  }
  return validate_operands(operands);
}

}  // namespace

Status validate_page_table(const PageTable& table) {
  if (table.page_size < 1 || table.page_size > kLargestPosition ||
      !std::has_single_bit(static_cast<std::uint64_t>(table.page_size))) {
    return Status::invalid(text("page_size = ", table.page_size, ": expected a power of two, at most 2^30"));
  }
  if (table.stride < 0 || table.stride > kLargestPosition) {
    return Status::invalid(text("page table stride = ", table.stride, ": expected 0 .. ", kLargestPosition));
  }
  return {};
}

Status validate_tensors(const PreparedAttention& problem, const AttentionTensors& tensors) {
  auto operands = operands_of(problem, tensors);
  return validate(problem, tensors, operands);
}

Status validate_query_and_key(const PreparedAttention& problem, const AttentionTensors& tensors,
                              std::span<const Operand> outputs) {
  const auto all = operands_of(problem, tensors);
  std::vector<Operand> operands(all.begin(), all.begin() + 3);
  operands.insert(operands.end(), outputs.begin(), outputs.end());
  return validate(problem, tensors, operands);
}

}  // namespace siattn::dispatch
