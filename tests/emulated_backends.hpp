// SPDX-License-Identifier: Apache-2.0
// The backend cuda on the emulated driver: with tensors in host memory, which it copies, and with tensors that count as
// device memory where they lie.
#ifndef SIATTN_TESTS_EMULATED_BACKENDS_HPP
#define SIATTN_TESTS_EMULATED_BACKENDS_HPP

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "gpu/backend.hpp"
#include "gpu/emulator/driver.hpp"

namespace siattn::test {

/// Makes the rows of tensors device memory: exactly their elements, so that a kernel that reads one element outside a
/// row, or writes an input, is reported.
class RowsOnDevice {
 public:
  RowsOnDevice() = default;
  RowsOnDevice(const RowsOnDevice&) = delete;
  RowsOnDevice& operator=(const RowsOnDevice&) = delete;
  ~RowsOnDevice() {
    for (const void* begin : buffers_) gpu::emulator::remove_buffer(begin);
  }

  void add(const TensorView& x, bool writable) {
    const auto size = static_cast<std::int64_t>(size_of(x.dtype));
    const std::int64_t bytes = x.shape[3] * size;
    if (x.data == nullptr || bytes == 0) return;
    for (std::int64_t b = 0; b < x.shape[0]; ++b) {
      for (std::int64_t h = 0; h < x.shape[1]; ++h) {
        for (std::int64_t i = 0; i < x.shape[2]; ++i) {
          const auto begin = reinterpret_cast<std::uintptr_t>(x.data) +
                             static_cast<std::uintptr_t>(row_offset(x, b, h, i) * size);
          ranges_.push_back({begin, begin + static_cast<std::uintptr_t>(bytes), writable});
        }
      }
    }
  }

  /// After the last add().
  void map() {
    std::ranges::sort(ranges_, {}, &Range::begin);
    for (std::size_t first = 0, next = 0; first < ranges_.size(); first = next) {
      Range whole = ranges_[first];
      for (next = first + 1; next < ranges_.size(); ++next) {
        const Range& range = ranges_[next];
        const bool same_row = range.begin < whole.end;  // read again where a stride is zero
        if (range.writable != whole.writable || (range.begin != whole.end && !same_row)) break;
        whole.end = std::max(whole.end, range.end);
      }
      gpu::emulator::add_buffer(reinterpret_cast<const void*>(whole.begin), whole.end - whole.begin, whole.writable);
      buffers_.push_back(reinterpret_cast<const void*>(whole.begin));
    }
  }

 private:
  struct Range {
    std::uintptr_t begin, end;
    bool writable;
  };
  std::vector<Range> ranges_;
  std::vector<const void*> buffers_;
};

/// The backend on tensors that it finds in device memory.
class InPlaceBackend final : public Backend {
 public:
  explicit InPlaceBackend(const Backend& inner) noexcept : inner_(inner) {}

  std::string_view name() const noexcept override { return "cuda-in-place"; }
  std::string_view family() const noexcept override { return "cuda-in-place"; }
  std::string_view description() const noexcept override { return "cuda, emulated, tensors in device memory"; }
  Status available() const override { return inner_.available(); }
  Status supports(const AttentionProblem& problem) const override { return inner_.supports(problem); }
  bool wins(const AttentionProblem& problem) const noexcept override { return inner_.wins(problem); }
  bool allocates() const noexcept override { return true; }
  LogBase log_base() const noexcept override { return inner_.log_base(); }
  Numerics numerics(DType dtype) const noexcept override { return inner_.numerics(dtype); }
  int default_threads() const noexcept override { return inner_.default_threads(); }
  std::size_t workspace_bytes(const PreparedAttention& problem) const noexcept override {
    return inner_.workspace_bytes(problem);
  }
  Result<std::shared_ptr<const void>> prepare(const PreparedAttention& problem) const override {
    return inner_.prepare(problem);
  }

  Status run(const PreparedAttention& problem, const AttentionTensors& tensors,
             std::span<std::byte> workspace) const noexcept override {
    RowsOnDevice rows;
    for (const TensorView* input : {&tensors.query, &tensors.key, &tensors.value}) rows.add(*input, false);
    for (const MutableTensorView* output : {&tensors.out, &tensors.lse}) rows.add(*output, true);
    rows.map();
    Status status = inner_.run(problem, tensors, workspace);
    // With everything on the device nobody has waited yet.
    Status waited = gpu::emulator::finish_streams();
    return status ? waited : status;
  }

 private:
  const Backend& inner_;
};

/// "cuda" and "cuda-in-place".
inline std::span<const Backend* const> emulated_backends() {
  static const gpu::CudaBackend copying("cuda", gpu::emulator::load_emulated_driver, gpu::emulator::emulated_images());
  static const InPlaceBackend in_place(copying);
  static const Backend* const list[] = {&copying, &in_place};
  return list;
}

}  // namespace siattn::test

#endif  // SIATTN_TESTS_EMULATED_BACKENDS_HPP
