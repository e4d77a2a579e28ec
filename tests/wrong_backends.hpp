// SPDX-License-Identifier: Apache-2.0
// Backends with a planted mistake around a real one: what a check of backends has to reject.
#ifndef SIATTN_TESTS_WRONG_BACKENDS_HPP
#define SIATTN_TESTS_WRONG_BACKENDS_HPP

#include <cstring>
#include <string_view>

#include <siattn/backend.hpp>

#include "cpu/backend.hpp"
#include "dispatch/tables.hpp"

namespace siattn::test {

enum class Mistake {
  tau_one_percent_off,
  writes_behind_out,
  leaves_one_element,
  returns_an_error,
  nan_everywhere,
  swaps_heads,
  rounds_out_to_bfloat16,
  reads_behind_key,
  reads_behind_workspace,
};

class WrongBackend final : public Backend {
 public:
  WrongBackend(const char* name, Mistake mistake) : name_(name), mistake_(mistake) {}

  std::string_view name() const noexcept override { return name_; }
  std::string_view family() const noexcept override { return "wrong"; }
  std::string_view description() const noexcept override { return "has a planted mistake"; }
  Status available() const override { return inner().available(); }
  Status supports(const AttentionProblem& problem) const override { return inner().supports(problem); }
  LogBase log_base() const noexcept override { return inner().log_base(); }
  Numerics numerics(DType dtype) const noexcept override { return inner().numerics(dtype); }
  int default_threads() const noexcept override { return 1; }
  std::size_t workspace_bytes(const PreparedAttention& problem) const noexcept override {
    return inner().workspace_bytes(problem);
  }

  /// The problem with its tables, as this backend takes it.
  Result<std::shared_ptr<const void>> prepare(const PreparedAttention& problem) const override {
    auto taken = std::make_shared<PreparedAttention>(problem);
    auto* const transform = std::get_if<ScaleInvariant>(&taken->options.transform);
    if (mistake_ == Mistake::tau_one_percent_off && transform != nullptr) {
      for (double& tau : transform->tau.values) tau *= 1.01;
      auto tables = dispatch::compile_tables(*taken, log_base());
      if (tables) taken->tables = std::make_shared<LogitTables>(*std::move(tables));
    }
    return std::shared_ptr<const void>(std::move(taken));
  }

  Status run(const PreparedAttention& problem, const AttentionTensors& tensors,
             std::span<std::byte> workspace) const noexcept override {
    const auto& taken = *static_cast<const PreparedAttention*>(problem.state.get());
    const Shape4& shape = tensors.out.shape;
    const bool any = shape[0] * shape[1] * shape[2] > 0;
    std::byte* const last = any ? row(tensors.out, shape[0] - 1, shape[1] - 1, shape[2] - 1) : nullptr;
    const std::size_t element = size_of(tensors.out.dtype);
    std::byte before[8];
    if (any) std::memcpy(before, last, element);

    AttentionTensors changed = tensors;
    if (mistake_ == Mistake::swaps_heads && any) {
      changed.query.data = row(tensors.query, 0, shape[1] - 1, 0);
      changed.query.strides[1] = -tensors.query.strides[1];
    }
    Status status = inner().run(taken, changed, workspace);
    if (!status || !any) return status;
    switch (mistake_) {
      case Mistake::writes_behind_out: last[static_cast<std::size_t>(shape[3]) * element] = std::byte{1}; break;
      case Mistake::leaves_one_element: std::memcpy(last, before, element); break;
      case Mistake::returns_an_error: return Status(StatusCode::internal, "planted");
      case Mistake::nan_everywhere:
      case Mistake::rounds_out_to_bfloat16: change_out(tensors.out); break;
      case Mistake::reads_behind_key: {
        const Shape4& keys = tensors.key.shape;
        if (keys[2] == 0) break;
        touch(row(tensors.key, keys[0] - 1, keys[1] - 1, keys[2] - 1) + static_cast<std::size_t>(keys[3]) * element);
        break;
      }
      case Mistake::reads_behind_workspace: touch(workspace.data() + workspace.size()); break;
      default: break;
    }
    return status;
  }

 private:
  static const Backend& inner() noexcept {
    for (const Backend* backend : cpu::backends()) {
      if (backend->available()) return *backend;
    }
    return *cpu::backends().back();
  }

  template <class Void>
  static std::byte* row(const BasicTensorView<Void>& x, std::int64_t b, std::int64_t h, std::int64_t i) noexcept {
    return static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(x.data))) +
           row_offset(x, b, h, i) * static_cast<std::int64_t>(size_of(x.dtype));
  }
  static void touch(const std::byte* at) noexcept { *const_cast<volatile const std::byte*>(at); }

  void change_out(const MutableTensorView& out) const noexcept {
    const auto channels = static_cast<std::size_t>(out.shape[3]);
    for (std::int64_t r = 0; r < out.shape[0] * out.shape[1] * out.shape[2]; ++r) {
      const std::int64_t i = r % out.shape[2], h = r / out.shape[2] % out.shape[1];
      std::byte* const at = row(out, r / out.shape[2] / out.shape[1], h, i);
      if (mistake_ == Mistake::nan_everywhere) {
        std::memset(at, 0xFF, channels * size_of(out.dtype));
      } else if (out.dtype == DType::float32) {
        for (std::size_t c = 0; c < channels; ++c) {
          float x;
          std::memcpy(&x, at + c * sizeof(x), sizeof(x));
          x = to_float(to_bfloat16(x));
          std::memcpy(at + c * sizeof(x), &x, sizeof(x));
        }
      }
    }
  }

  const char* name_;
  Mistake mistake_;
};

}  // namespace siattn::test

#endif  // SIATTN_TESTS_WRONG_BACKENDS_HPP
