// SPDX-License-Identifier: Apache-2.0
#include <siattn/introspection.hpp>

#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "dispatch/boundary.hpp"
#include "dispatch/environment.hpp"
#include "dispatch/logit_row.hpp"
#include "dispatch/message.hpp"
#include "dispatch/validate.hpp"
#include "reference/equations.hpp"

namespace siattn {
namespace {

template <class T>
void load(const std::byte* from, std::span<double> to) {
  for (std::size_t d = 0; d < to.size(); ++d) {
    T element;
    std::memcpy(&element, from + d * sizeof(T), sizeof(T));
    if constexpr (std::is_arithmetic_v<T>) {
      to[d] = static_cast<double>(element);
    } else {
      to[d] = static_cast<double>(to_float(element));
    }
  }
}

/// The elements from this offset on, in double, which holds every type.
void load(const TensorView& x, std::int64_t offset, std::span<double> to) {
  const auto* from = static_cast<const std::byte*>(x.data) + offset * static_cast<std::int64_t>(size_of(x.dtype));
  switch (x.dtype) {
    case DType::float32: return load<float>(from, to);
    case DType::float64: return load<double>(from, to);
    case DType::bfloat16: return load<bfloat16>(from, to);
    case DType::float16: return load<float16>(from, to);
    case DType::int8: return load<std::int8_t>(from, to);
  }
}

/// In eight partial sums, which a compiler may keep in vectors without changing a bit.
double dot(std::span<const double> x, std::span<const double> y) {
  constexpr std::size_t lanes = 8;
  double sums[lanes] = {};
  std::size_t d = 0;
  for (; d + lanes <= x.size(); d += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += x[d + lane] * y[d + lane];
  }
  for (; d < x.size(); ++d) sums[d % lanes] += x[d] * y[d];
  double all = 0;
  for (const double sum : sums) all += sum;
  return all;
}

/// Row r of an output [1, 1, rows, width]: these values where keys lie, `elsewhere` otherwise.
void store(const MutableTensorView& out, std::int64_t r, dispatch::KeyRange keys, std::span<const double> values,
           double elsewhere) {
  if (out.data == nullptr) return;
  const auto put = [&]<class T>(T* row) {
    std::fill(row, row + keys.first, static_cast<T>(elsewhere));
    for (std::int64_t j = keys.first; j < keys.last; ++j)
      row[j] = static_cast<T>(values[static_cast<std::size_t>(j - keys.first)]);
    std::fill(row + keys.last, row + out.shape[3], static_cast<T>(elsewhere));
  };
  const std::int64_t offset = row_offset(out, 0, 0, r);
  if (out.dtype == DType::float64) return put(static_cast<double*>(out.data) + offset);
  put(static_cast<float*>(out.data) + offset);
}

/// Everything that the rows share.
struct Work {
  const PreparedAttention& problem;
  const AttentionTensors& tensors;
  const IntrospectionOutputs& outputs;
};

/// What one thread needs for a row; grows to the longest of its rows.
class Worker {
 public:
  explicit Worker(const Work& work) : work_(work), row_(work.problem.options, work.problem.shape) {}

  void compute(const QueryIndex& row, std::int64_t r) {
    const AttentionOptions& options = work_.problem.options;
    const SequenceBounds sequence = sequence_bounds(work_.problem, work_.tensors, row.sequence);
    const std::int64_t position = sequence.query_offset + row.query;
    const dispatch::KeyRange keys = dispatch::visible_keys(sequence, options, row.query);
    values_.resize(static_cast<std::size_t>(keys.size()));
    score(row, keys);
    row_.transform(row.head, position, keys, values_);
    store(work_.outputs.logits, r, keys, values_, -std::numeric_limits<double>::infinity());
    const RowSummary summary = dispatch::summarize(position, keys, options.n_sink, values_);
    if (!work_.outputs.summaries.empty()) work_.outputs.summaries[static_cast<std::size_t>(r)] = summary;
    store(work_.outputs.weights, r, keys, values_, 0.0);
  }

 private:
  void score(const QueryIndex& row, dispatch::KeyRange keys) {
    const AttentionShape& s = work_.problem.shape;
    const AttentionTensors& t = work_.tensors;
    const std::int64_t g = row.head / (s.query_heads / s.kv_heads);
    query_.resize(static_cast<std::size_t>(s.head_dim));
    key_.resize(query_.size());
    if (keys.size() > 0) load(t.query, query_rows(t, t.query, row.sequence, row.head).offset(row.query), query_);
    const RowOffsets rows = kv_rows(t, t.key, row.sequence, g);
    const bool scaled = t.key.dtype == DType::int8;
    const RowOffsets scales = scaled ? kv_rows(t, t.key_scale, row.sequence, g) : RowOffsets{};
    for (std::int64_t j = keys.first; j < keys.last; ++j) {
      load(t.key, rows.offset(j), key_);
      double product = dot(query_, key_);
      if (scaled) {
        double scale = 0;
        load(t.key_scale, scales.offset(j), {&scale, 1});
        product *= scale;
      }
      values_[static_cast<std::size_t>(j - keys.first)] = work_.problem.softmax_scale * product;
    }
  }

  Work work_;
  dispatch::LogitRow row_;
  std::vector<double> query_, key_, values_;
};

Status compute(const Work& work, std::span<const QueryIndex> rows, int threads) {
  std::vector<Worker> workers(static_cast<std::size_t>(threads), Worker(work));
  std::atomic<bool> without_memory = false;
  const auto count = static_cast<std::int64_t>(rows.size());
#pragma omp parallel num_threads(threads)
  {
    Worker& mine = workers[static_cast<std::size_t>(omp_get_thread_num())];
    // Rows that follow each other share most of a worker's a_t and m_t.
#pragma omp for schedule(dynamic, 16)
    for (std::int64_t r = 0; r < count; ++r) {
      try {
        if (!without_memory) mine.compute(rows[static_cast<std::size_t>(r)], r);
      } catch (const std::bad_alloc&) {
        without_memory = true;
      }
    }
  }
  return without_memory ? Status(StatusCode::out_of_memory, "out of memory") : Status();
}

// ---- What is wrong --------------------------------------------------------------------------------------------------

/// A row output as validate_operands() takes it; its width is its own affair until the rows are known.
dispatch::Operand operand_of(const char* name, const MutableTensorView& view, std::int64_t rows) {
  return {.name = name,
          .view = view,
          .written = true,
          .dtype = view.dtype == DType::float64 ? DType::float64 : DType::float32,
          .shape = {1, 1, rows, std::max<std::int64_t>(view.shape[3], 0)},
          .present = view.data != nullptr};
}

Status validate_row(const Work& work, const QueryIndex& row, std::size_t r) {
  const AttentionShape& s = work.problem.shape;
  const auto check = [r](const char* member, std::int64_t value, std::int64_t count) {
    if (value >= 0 && value < count) return Status();
    return Status::invalid(dispatch::text("rows[", r, "].", member, " = ", value, ": expected 0 .. ", count - 1));
  };
  Status status = check("sequence", row.sequence, sequences(work.problem, work.tensors));
  if (status) status = check("head", row.head, s.query_heads);
  if (!status) return status;
  const SequenceBounds sequence = sequence_bounds(work.problem, work.tensors, row.sequence);
  status = check("query", row.query, work.tensors.cu_query.empty() ? s.query_len : sequence.query_len);
  if (!status) return status;
  for (const auto& [name, view] :
       {std::pair{"logits", &work.outputs.logits}, std::pair{"weights", &work.outputs.weights}}) {
    if (view->data == nullptr || view->shape[3] >= sequence.kv_len) continue;
    return Status::invalid(dispatch::text(name, " has shape ", dispatch::text_of(view->shape), ": sequence ",
                                          row.sequence, ", which rows[", r, "] names, has ", sequence.kv_len, " keys"));
  }
  return {};
}

Status validate(const Work& work, std::span<const QueryIndex> rows) {
  const IntrospectionOutputs& outputs = work.outputs;
  const auto count = static_cast<std::int64_t>(rows.size());
  if (count > 0 && outputs.summaries.empty() && outputs.logits.data == nullptr && outputs.weights.data == nullptr) {
    return Status::invalid("outputs: none is given, expected one of summaries, logits and weights");
  }
  if (!outputs.summaries.empty() && outputs.summaries.size() != rows.size()) {
    return Status::invalid(
        dispatch::text("summaries has ", outputs.summaries.size(), " elements: expected ", rows.size(), ", one a row"));
  }
  const Shape4 bytes{1, 1, 1, static_cast<std::int64_t>(outputs.summaries.size_bytes())};
  const std::array<dispatch::Operand, 3> operands{
      {{.name = "summaries",
        .view = MutableTensorView(outputs.summaries.data(), DType::int8, bytes),
        .written = true,
        .dtype = DType::int8,
        .shape = bytes,
        .present = !outputs.summaries.empty()},
       operand_of("logits", outputs.logits, count),
       operand_of("weights", outputs.weights, count)}};
  if (Status status = dispatch::validate_query_and_key(work.problem, work.tensors, operands); !status) return status;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (Status status = validate_row(work, rows[r], r); !status) return status;
  }
  return {};
}

}  // namespace

Status introspect(const AttentionTensors& tensors, const AttentionOptions& options, std::span<const QueryIndex> rows,
                  const IntrospectionOutputs& outputs, int threads) noexcept {
  return dispatch::guarded<Status>([&]() -> Status {
    AttentionTensors used = tensors;
    used.value = tensors.key;  // whose shape counts for the problem: nothing is asked about values
    const AttentionProblem problem = problem_of(used, options);
    if (Status status = dispatch::validate_problem(problem); !status) return status;
    const auto resolved_threads = dispatch::threads_from(threads);
    if (!resolved_threads) return resolved_threads.status();

    PreparedAttention prepared;
    prepared.shape = problem.shape;
    prepared.dtype = problem.dtype;
    prepared.kv_dtype = problem.kv_dtype.value_or(problem.dtype);
    prepared.options = options;
    prepared.softmax_scale =
        options.softmax_scale.value_or(reference::default_softmax_scale<double>(problem.shape.head_dim));
    const Work work{prepared, used, outputs};
    if (Status status = validate(work, rows); !status) return status;
    for (TensorView* input : {&used.query, &used.key, &used.key_scale}) dispatch::clear_unused_strides(*input);
    const int team = *resolved_threads > 0 ? *resolved_threads : std::max(1, omp_get_max_threads());
    return dispatch::run_safe_after_fork([&] { return compute(work, rows, team); });
  });
}

}  // namespace siattn
