// SPDX-License-Identifier: Apache-2.0
#include "reference/backend.hpp"

#include <omp.h>

#include <array>

#include "reference/attention.hpp"

namespace siattn::reference {
namespace {

/// Writes a double with one rounding.
void store(const MutableTensorView& x, std::int64_t element_offset, double value) {
  auto* at = static_cast<std::byte*>(x.data) + element_offset * static_cast<std::int64_t>(size_of(x.dtype));
  const auto put = [at](auto rounded) { std::memcpy(at, &rounded, sizeof(rounded)); };
  switch (x.dtype) {
    case DType::float32: return put(static_cast<float>(value));
    case DType::float64: return put(value);
    case DType::bfloat16: return put(to_bfloat16(value));
    case DType::float16: return put(to_float16(value));
    case DType::int8: return;  // no output has it
  }
}

/// Doubles that one thread works on: scores, logits and weights of a row, and its output.
std::size_t doubles_per_thread(const AttentionShape& shape) {
  return static_cast<std::size_t>(3 * shape.kv_len + shape.value_dim);
}

class ReferenceBackend final : public Backend {
 public:
  std::string_view name() const noexcept override { return "reference"; }
  std::string_view family() const noexcept override { return "reference"; }
  std::string_view description() const noexcept override { return "plain loops in float64, every type and shape"; }
  Status available() const override { return {}; }
  Status supports(const AttentionProblem& /*problem*/) const override { return {}; }
  LogBase log_base() const noexcept override { return LogBase::natural; }
  bool uses_tables() const noexcept override { return false; }

  Numerics numerics(DType /*dtype*/) const noexcept override {
    // The C library's exp and log1p stay within one unit in the last place, 2^-52.
    return {.unit_roundoff = 0x1p-53,
            .score_unit_roundoff = 0x1p-53,
            .weight_roundoff = 0,
            .exp_relative_error = 0x1p-52,
            .least_normal = 0x1p-1022};
  }

  int default_threads() const noexcept override { return omp_get_max_threads(); }

  std::size_t workspace_bytes(const PreparedAttention& problem) const noexcept override {
    return static_cast<std::size_t>(problem.threads) * doubles_per_thread(problem.shape) * sizeof(double) +
           alignof(double);
  }

  Result<std::shared_ptr<const void>> prepare(const PreparedAttention& problem) const override {
    return std::shared_ptr<const void>(std::make_shared<const Transform<double>>(problem.options, problem.shape));
  }

  Status run(const PreparedAttention& problem, const AttentionTensors& tensors,
             std::span<std::byte> workspace) const noexcept override {
    double* const doubles = aligned(workspace);
#pragma omp parallel num_threads(problem.threads)
    {
      double* mine = doubles + static_cast<std::size_t>(omp_get_thread_num()) * doubles_per_thread(problem.shape);
#pragma omp for schedule(dynamic, 1)
      for (std::int64_t r = 0; r < rows(problem, tensors); ++r) run_row(problem, tensors, r, mine);
    }
    write_unused_tokens(problem, tensors);
    return {};
  }

  Status run_slice(const PreparedAttention& problem, const AttentionTensors& tensors, std::span<std::byte> workspace,
                   Slice slice) const noexcept override {
    double* mine = aligned(workspace) + static_cast<std::size_t>(slice.index) * doubles_per_thread(problem.shape);
    for (std::int64_t r = slice.index; r < rows(problem, tensors); r += slice.count) run_row(problem, tensors, r, mine);
    if (slice.index == 0) write_unused_tokens(problem, tensors);
    return {};
  }

 private:
  static double* aligned(std::span<std::byte> workspace) {
    void* start = workspace.data();
    std::size_t space = workspace.size();
    return static_cast<double*>(std::align(alignof(double), 0, start, space));
  }

  /// Numbered by (sequence, head, query), a ragged sequence as if it were of the greatest length.
  static std::int64_t rows(const PreparedAttention& problem, const AttentionTensors& tensors) {
    return sequences(problem.shape, tensors) * problem.shape.query_heads * problem.shape.query_len;
  }

  static void run_row(const PreparedAttention& problem, const AttentionTensors& tensors, std::int64_t r,
                      double* doubles) {
    const AttentionShape& shape = problem.shape;
    const std::int64_t i = r % shape.query_len;
    const std::int64_t h = r / shape.query_len % shape.query_heads;
    const std::int64_t b = r / shape.query_len / shape.query_heads;
    const bool ragged = !tensors.cu_query.empty();
    if (ragged && i >= sequence(shape, problem.options, tensors, b).query_len) return;
    const auto n = static_cast<std::size_t>(shape.kv_len);
    Row<double> row;
    row.scores = {doubles, n};
    row.logits = {doubles + n, n};
    row.weights = {doubles + 2 * n, n};
    row.out = {doubles + 3 * n, static_cast<std::size_t>(shape.value_dim)};
    const auto& transform = *static_cast<const Transform<double>*>(problem.state.get());
    attention_row(shape, problem.options, transform, tensors, b, h, i, row);
    if (ragged) return write(tensors, 0, h, tensors.cu_query[static_cast<std::size_t>(b)] + i, row);
    write(tensors, b, h, i, row);
  }

  /// Tokens past the last sequence: rows that see no key.
  static void write_unused_tokens(const PreparedAttention& problem, const AttentionTensors& tensors) {
    if (tensors.cu_query.empty()) return;
    for (std::int64_t i = tensors.cu_query[tensors.cu_query.size() - 1]; i < tensors.query.shape[2]; ++i) {
      for (std::int64_t h = 0; h < problem.shape.query_heads; ++h) {
        for (std::int64_t c = 0; c < problem.shape.value_dim; ++c) {
          store(tensors.out, row_offset(tensors.out, 0, h, i) + c, 0.0);
        }
        write(tensors, 0, h, i, Row<double>{});
      }
    }
  }

  static void write(const AttentionTensors& tensors, std::int64_t b, std::int64_t h, std::int64_t i,
                    const Row<double>& row) {
    const std::int64_t out_row = row_offset(tensors.out, b, h, i);
    for (std::size_t c = 0; c < row.out.size(); ++c) {
      store(tensors.out, out_row + static_cast<std::int64_t>(c), row.out[c]);
    }
    if (tensors.lse.data != nullptr) store(tensors.lse, row_offset(tensors.lse, b, h, i), row.lse);
  }
};

}  // namespace

std::span<const Backend* const> backends() noexcept {
  static const ReferenceBackend backend;
  static const std::array<const Backend*, 1> list{&backend};
  return list;
}

}  // namespace siattn::reference
