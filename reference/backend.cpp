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
    const AttentionShape& shape = problem.shape;
    void* start = workspace.data();
    std::size_t space = workspace.size();
    auto* const doubles = static_cast<double*>(std::align(alignof(double), 0, start, space));
    const std::int64_t rows = shape.batch * shape.query_heads * shape.query_len;
    const auto& transform = *static_cast<const Transform<double>*>(problem.state.get());

#pragma omp parallel num_threads(problem.threads)
    {
      double* mine = doubles + static_cast<std::size_t>(omp_get_thread_num()) * doubles_per_thread(shape);
#pragma omp for schedule(dynamic, 1)
      for (std::int64_t r = 0; r < rows; ++r) run_row(problem, tensors, transform, r, mine);
    }
    return {};
  }

 private:
  static void run_row(const PreparedAttention& problem, const AttentionTensors& tensors,
                      const Transform<double>& transform, std::int64_t r, double* doubles) {
    const AttentionShape& shape = problem.shape;
    const std::int64_t i = r % shape.query_len;
    const std::int64_t h = r / shape.query_len % shape.query_heads;
    const std::int64_t b = r / shape.query_len / shape.query_heads;
    const auto n = static_cast<std::size_t>(shape.kv_len);
    Row<double> row;
    row.scores = {doubles, n};
    row.logits = {doubles + n, n};
    row.weights = {doubles + 2 * n, n};
    row.out = {doubles + 3 * n, static_cast<std::size_t>(shape.value_dim)};
    attention_row(shape, problem.options, transform, tensors, b, h, i, row);

    const std::int64_t out_row = row_offset(tensors.out, b, h, i);
    for (std::int64_t c = 0; c < shape.value_dim; ++c)
      store(tensors.out, out_row + c, row.out[static_cast<std::size_t>(c)]);
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
