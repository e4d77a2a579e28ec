// SPDX-License-Identifier: Apache-2.0
#include "cpu/onednn/backend.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <string>

#include "cpu/isa.hpp"
#include "cpu/onednn/products.hpp"
#include "cpu/run.hpp"

namespace siattn::cpu {
namespace {

/// The kernels whose panels are those of oneDNN's packed format.
const Isa* wide_isa() noexcept {
  const auto list = isas();
  const auto found = std::ranges::find(list, std::string_view("avx512"), &Isa::name);
  return found == list.end() ? nullptr : &*found;
}

class OneDnnBackend final : public Backend {
 public:
  explicit OneDnnBackend(const Isa& isa) noexcept : isa_(isa) {}

  std::string_view name() const noexcept override { return "onednn"; }
  std::string_view family() const noexcept override { return "onednn"; }
  std::string_view description() const noexcept override {
    return this_cpu().amx_bf16 ? "products by oneDNN (bf16: AMX), float32 inside" : "products by oneDNN, float32 inside";
  }

  Status available() const override {
    const Result<std::string_view> cap = isa_cap_from_environment();
    if (!cap) return cap.status();
    if (!cap->empty()) {
      return Status::unavailable(std::string(kMaxIsaVariable) + " = '" + std::string(*cap) +
                                 "': oneDNN chooses its instructions by itself");
    }
    return usable(isa_, this_cpu(), {});
  }

  Status supports(const AttentionProblem& problem) const override {
    if (problem.dtype == DType::float16) {
      return Status::unsupported("dtype = f16: backend onednn takes f32 and bf16; use the backend cpu");
    }
    if (problem.dtype == DType::bfloat16 && !this_cpu().avx512_bf16) {
      return Status::unsupported("dtype = bf16: backend onednn needs a processor with avx512_bf16; use the backend cpu");
    }
    if (problem.kv_dtype == DType::int8) {
      return Status::unsupported("kv_dtype = i8: backend onednn takes keys and values of the query's type; use the backend cpu");
    }
    return supported_by_kernels("backend onednn", problem);
  }

  bool wins(const AttentionProblem& problem) const noexcept override {
    // docs/performance.md: float32 is slower than the fused kernels, bfloat16 by AMX faster from some 32 rows on that
    // share a kv head.
    const AttentionShape& shape = problem.shape;
    return problem.dtype == DType::bfloat16 && problem.kv_dtype != DType::int8 && this_cpu().amx_bf16 &&
           shape.query_heads / shape.kv_heads * shape.query_len >= kLeastRows;
  }
  bool allocates() const noexcept override { return true; }

  LogBase log_base() const noexcept override { return LogBase::two; }

  Numerics numerics(DType dtype) const noexcept override { return onednn_numerics(*isa_.kernels, dtype); }

  int default_threads() const noexcept override { return std::max(1, omp_get_max_threads()); }

  Result<std::shared_ptr<const void>> prepare(const PreparedAttention& problem) const override {
    return std::shared_ptr<const void>(
        onednn_products(*isa_.kernels, problem.dtype, problem.shape.head_dim, problem.shape.value_dim));
  }

  std::size_t workspace_bytes(const PreparedAttention& problem) const noexcept override {
    return workspace_bytes_on(*isa_.kernels, products(problem), problem);
  }

  Status run(const PreparedAttention& problem, const AttentionTensors& tensors,
             std::span<std::byte> workspace) const noexcept override {
    return status_of(run_on(*isa_.kernels, products(problem), problem, tensors, workspace));
  }

  Status run_slice(const PreparedAttention& problem, const AttentionTensors& tensors, std::span<std::byte> workspace,
                   Slice slice) const noexcept override {
    return status_of(run_on(*isa_.kernels, products(problem), problem, tensors, workspace, &slice));
  }

 private:
  static Status status_of(bool good) {
    return good ? Status{} : Status(StatusCode::out_of_memory, "oneDNN could not run a matmul: out of memory");
  }

  static constexpr std::int64_t kLeastRows = 32;

  static const Products* products(const PreparedAttention& problem) noexcept {
    return static_cast<const Products*>(problem.state.get());
  }

  const Isa& isa_;
};

}  // namespace

std::span<const Backend* const> onednn_backends() noexcept {
  static const Isa* const isa = wide_isa();
  if (isa == nullptr) return {};
  static const OneDnnBackend backend(*isa);
  static const std::array<const Backend*, 1> list{&backend};
  return list;
}

}  // namespace siattn::cpu
