// SPDX-License-Identifier: Apache-2.0
#include "bench/full_matrix.hpp"

#if !defined(SIATTN_HAS_ONEDNN)

namespace siattn::bench {

const Backend* full_matrix_backend() noexcept { return nullptr; }

}  // namespace siattn::bench

#else

#include <omp.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include <oneapi/dnnl/dnnl.hpp>

#include "cpu/isa.hpp"
#include "cpu/loops.hpp"
#include "cpu/onednn/products.hpp"
#include "cpu/sequence.hpp"

namespace siattn::bench {
namespace {

using cpu::Kernels;

dnnl::memory::data_type type_of(DType dtype) {
  return dtype == DType::float32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

struct Product {
  dnnl::memory::desc a, b, c;
  dnnl::matmul primitive;

  /// c [m, n] = a [m, k] b [k, n]; b with these strides.
  Product(const dnnl::engine& engine, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
          const dnnl::memory::dims& strides)
      : a({m, k}, type_of(dtype), {k, 1}), b({k, n}, type_of(dtype), strides) {
    c = {{m, n}, dnnl::memory::data_type::f32, {n, 1}};
    primitive = dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), engine));
  }

  void run(const dnnl::engine& engine, dnnl::stream& stream, const void* left, const void* right, float* result) const {
    primitive.execute(stream, {{DNNL_ARG_SRC, {a, engine, const_cast<void*>(left)}},
                               {DNNL_ARG_WEIGHTS, {b, engine, const_cast<void*>(right)}},
                               {DNNL_ARG_DST, {c, engine, result}}});
  }
};

struct Products {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  Product scores, weigh;

  explicit Products(const PreparedAttention& p)
      : scores(engine, p.dtype, p.shape.query_len, p.shape.kv_len, p.shape.head_dim, {1, p.shape.head_dim}),
        weigh(engine, p.dtype, p.shape.query_len, p.shape.value_dim, p.shape.kv_len, {p.shape.value_dim, 1}) {}
};

/// oneDNN takes as many threads as OpenMP would use: here, as many as this.
template <class Body>
void with_threads(int threads, Body body) {
#pragma omp parallel num_threads(1)
  {
    omp_set_num_threads(threads);
    body();
  }
}

const cpu::Isa* best() {
  const auto cap = cpu::isa_cap_from_environment();
  return cpu::best_isa(cpu::isas(), cpu::detect_cpu(), cap ? *cap : std::string_view{});
}

class FullMatrix final : public Backend {
 public:
  std::string_view name() const noexcept override { return "onednn-full-matrix"; }
  std::string_view family() const noexcept override { return name(); }
  std::string_view description() const noexcept override { return "two products by oneDNN, all scores in between"; }
  Status available() const override {
    return best() == nullptr ? Status::unavailable("no instruction set of the kernels can be used") : Status{};
  }
  Status supports(const AttentionProblem& problem) const override {
    return problem.dtype == DType::float32 || problem.dtype == DType::bfloat16
               ? Status{}
               : Status::unsupported("onednn-full-matrix takes f32 and bf16");
  }
  LogBase log_base() const noexcept override { return LogBase::two; }
  Numerics numerics(DType dtype) const noexcept override { return cpu::onednn_numerics(*best()->kernels, dtype); }
  int default_threads() const noexcept override { return std::max(1, omp_get_max_threads()); }
  bool allocates() const noexcept override { return true; }

  Result<std::shared_ptr<const void>> prepare(const PreparedAttention& problem) const override {
    std::shared_ptr<const Products> products;
    with_threads(problem.threads, [&] { products = std::make_shared<Products>(problem); });
    return std::shared_ptr<const void>(std::move(products));
  }

  std::size_t workspace_bytes(const PreparedAttention& problem) const noexcept override {
    cpu::Layout layout;
    Memory(layout, problem);
    return static_cast<std::size_t>(layout.bytes()) + 64;
  }

  Status run(const PreparedAttention& problem, const AttentionTensors& tensors,
             std::span<std::byte> workspace) const noexcept override {
    void* start = workspace.data();
    std::size_t space = workspace.size();
    cpu::Layout layout(static_cast<std::byte*>(std::align(64, 1, start, space)));
    const Memory memory(layout, problem);
    const cpu::Element element = cpu::element_of(problem.dtype);
    const cpu::Run run{*best()->kernels, nullptr, problem, tensors, element, element, nullptr, nullptr};
    const auto& products = *static_cast<const Products*>(problem.state.get());
    dnnl::stream stream(products.engine);
    const std::int64_t group = problem.shape.query_heads / problem.shape.kv_heads;
    with_threads(problem.threads, [&] {
      for (std::int64_t b = 0; b < problem.shape.batch; ++b) {
        for (std::int64_t h = 0; h < problem.shape.query_heads; ++h) {
          const auto at = [&](const TensorView& x, std::int64_t head) { return cpu::row_address(tensors, x, b, head, 0); };
          products.scores.run(products.engine, stream, at(tensors.query, h), at(tensors.key, h / group), memory.logits);
          soften(run, memory, b, h);
          products.weigh.run(products.engine, stream, memory.weights, at(tensors.value, h / group), memory.out);
          for (std::int64_t i = 0; i < problem.shape.query_len; ++i) {
            cpu::write_row(run, b, h, i, memory.maximum[i], memory.sum + i * run.kernels.lanes,
                           memory.out + i * problem.shape.value_dim);
          }
        }
      }
    });
    return {};
  }

 private:
  static constexpr std::int64_t kRows = 48;

  /// For one head.
  struct Memory {
    float* logits;  ///< [query_len][kv_len]
    void* weights;  ///< the same, of the tensors' type; float32: the same memory
    float* out;
    float* maximum;
    float* sum;

    Memory(cpu::Layout& layout, const PreparedAttention& p) {
      const std::int64_t rows = cpu::round_up(p.shape.query_len, kRows);
      const std::int64_t scores = rows * p.shape.kv_len + cpu::kMaxChunk;  // vectors are stored whole
      logits = layout.take<float>(scores);
      weights = p.dtype == DType::float32 ? logits : static_cast<void*>(layout.take<std::uint16_t>(scores));
      out = layout.take<float>(rows * p.shape.value_dim + cpu::kMaxChunk);
      maximum = layout.take<float>(rows);
      sum = layout.take<float>(rows * 16);
    }
  };

  /// Products of a head become weights, some rows at a time.
  static void soften(const cpu::Run& run, const Memory& memory, std::int64_t b, std::int64_t h) noexcept {
    const std::int64_t keys = run.problem.shape.kv_len;
    const std::int64_t queries = run.problem.shape.query_len;
    const SequenceBounds bounds = sequence_bounds(run.problem, run.tensors, b);
#pragma omp parallel for num_threads(run.problem.threads) schedule(dynamic, 1)
    for (std::int64_t first = 0; first < queries; first += kRows) {
      const std::int64_t n = std::min(kRows, queries - first);
      cpu::QueryRow query_rows[kRows];
      for (std::int64_t i = 0; i < n; ++i) query_rows[i] = cpu::query_row(run.problem, bounds, h, first + i);
      cpu::Row rows[kRows];
      alignas(64) float chunk_max[cpu::kMaxTileRows * 16];
      alignas(64) float alpha[cpu::kMaxTileRows];
      std::fill_n(memory.maximum + first, kRows, -std::numeric_limits<float>::infinity());
      std::fill_n(memory.sum + first * 16, kRows * 16, 0.0F);
      cpu::Tile tile{};
      tile.sink_scale = run.problem.tables->sink_scale;
      tile.sinks = cpu::sinks_in_chunk(run.problem.options, 0, keys);
      tile.has_factors = !run.problem.tables->row_factors.empty();
      cpu::set_rows(tile, rows, query_rows, static_cast<std::int32_t>(n), 0, keys);
      tile.logits = memory.logits + first * keys;
      tile.logits_stride = keys;
      tile.chunk_max = chunk_max;
      tile.alpha = alpha;
      tile.maximum = memory.maximum + first;
      tile.sum = memory.sum + first * run.kernels.lanes;
      run.kernels.transform(tile);
      const auto size = static_cast<std::int64_t>(size_of(run.problem.dtype));
      run.kernels.spread[run.element](tile, static_cast<std::byte*>(memory.weights) + first * keys * size, keys);
    }
  }
};

}  // namespace

const Backend* full_matrix_backend() noexcept {
  static const FullMatrix backend;
  return &backend;
}

}  // namespace siattn::bench

#endif
