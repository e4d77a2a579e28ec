// SPDX-License-Identifier: Apache-2.0
#include "bench/workload.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>

#include "gpu/run.hpp"
#include "verify/random.hpp"

namespace siattn::bench {
namespace {

constexpr std::size_t kAlignment = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

TensorView view_at(const std::byte* data, DType dtype, const Shape4& shape, bool heads_inside) {
  Shape4 strides = dense_strides(shape);
  if (heads_inside) {
    strides = {shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1};
  }
  return {data, dtype, shape, strides};
}

MutableTensorView writable(const TensorView& x) { return {const_cast<void*>(x.data), x.dtype, x.shape, x.strides}; }

std::size_t bytes_of(const Shape4& shape, DType dtype) {
  return static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]) * size_of(dtype);
}

/// Standard normal entries: a block of random ones, then again and again from another place in it, so that a gigabyte
/// takes no longer than it must.
void fill_gaussian(std::byte* to, std::size_t bytes, DType dtype, std::uint32_t stream) {
  constexpr std::size_t kBlock = 65521;  // a prime: rows do not repeat
  const std::size_t size = size_of(dtype);
  std::vector<std::byte> block(kBlock * size);
  const verify::Random random(1, stream);
  for (std::size_t i = 0; i < kBlock; ++i) {
    const double x = random.gaussian(i);
    const auto put = [&](auto value) { std::memcpy(block.data() + i * size, &value, sizeof(value)); };
    if (dtype == DType::bfloat16) {
      put(to_bfloat16(x));
    } else if (dtype == DType::float16) {
      put(to_float16(x));
    } else if (dtype == DType::float64) {
      put(x);
    } else if (dtype == DType::int8) {
      put(static_cast<std::int8_t>(std::lround(std::clamp(32 * x, -127.0, 127.0))));
    } else {
      put(static_cast<float>(x));
    }
  }
  for (std::size_t at = 0; at < bytes; at += block.size()) {
    std::memcpy(to + at, block.data(), std::min(block.size(), bytes - at));
  }
}

std::size_t round_up(std::size_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void Workload::Free::operator()(std::byte* memory) const noexcept { std::free(memory); }

Shape4 Workload::lay_out_keys() {
  const AttentionShape& s = spec_.problem.shape;
  const bool own_lengths = !spec_.kv_lengths.empty();
  const auto length = [&](std::int64_t b) { return own_lengths ? spec_.kv_lengths[static_cast<std::size_t>(b)] : s.kv_len; };
  if (spec_.page_size == 0) {
    if (!own_lengths) return {s.batch, s.kv_heads, s.kv_len, 0};
    cu_kv_ = {0};
    for (std::int64_t b = 0; b < s.batch; ++b) cu_kv_.push_back(cu_kv_.back() + length(b));
    tensors_.cu_kv = cu_kv_;
    return {1, s.kv_heads, cu_kv_.back(), 0};
  }
  if (!own_lengths) spec_.kv_lengths.assign(static_cast<std::size_t>(s.batch), s.kv_len);
  const std::int64_t a_sequence = (s.kv_len + spec_.page_size - 1) / spec_.page_size;
  std::vector<std::int32_t> free;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const std::int64_t used = (length(b) + spec_.page_size - 1) / spec_.page_size;
    for (std::int64_t k = 0; k < used; ++k) free.push_back(static_cast<std::int32_t>(free.size()));
  }
  const auto count = static_cast<std::int64_t>(free.size());
  std::mt19937 random(1);
  std::shuffle(free.begin(), free.end(), random);
  pages_.assign(static_cast<std::size_t>(s.batch * a_sequence), -1);
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t k = 0; k * spec_.page_size < length(b); ++k) {
      pages_[static_cast<std::size_t>(b * a_sequence + k)] = free.back();
      free.pop_back();
    }
  }
  tensors_.kv_lengths = spec_.kv_lengths;
  tensors_.pages = {pages_.data(), a_sequence, spec_.page_size};
  return {count, s.kv_heads, spec_.page_size, 0};
}

Result<std::unique_ptr<Workload>> Workload::create(const WorkloadSpec& spec) {
  auto plan = spec.on != nullptr ? AttentionPlan::create_on(*spec.on, spec.problem, {spec.backend, spec.threads})
                                 : AttentionPlan::create(spec.problem, {spec.backend, spec.threads});
  if (!plan) return plan.status();
  auto workload = std::make_unique<Workload>(spec, *std::move(plan));
  const AttentionShape& s = spec.problem.shape;
  const DType dtype = spec.problem.dtype;
  const DType kv_dtype = spec.problem.kv_dtype.value_or(dtype);
  const Shape4 keys = workload->lay_out_keys();
  const Shape4 query{s.batch, s.query_heads, s.query_len, s.head_dim};
  const Shape4 key{keys[0], keys[1], keys[2], s.head_dim};
  const Shape4 value{keys[0], keys[1], keys[2], s.value_dim};
  const Shape4 scale{keys[0], keys[1], keys[2], 1};
  const Shape4 out{s.batch, s.query_heads, s.query_len, s.value_dim};
  const Shape4 lse{s.batch, s.query_heads, s.query_len, 1};
  const std::size_t scale_bytes = kv_dtype == DType::int8 ? bytes_of(scale, DType::float32) : 0;
  std::size_t bytes = 0;
  const auto take = [&bytes](std::size_t more) { return std::exchange(bytes, bytes + round_up(more)); };
  const std::size_t key_at = take(bytes_of(key, kv_dtype));
  const std::size_t value_at = take(bytes_of(value, kv_dtype));
  const std::size_t key_scale_at = take(scale_bytes);
  const std::size_t value_scale_at = take(scale_bytes);
  workload->key_value_bytes_ = bytes;
  const std::size_t query_at = take(bytes_of(query, dtype));
  const std::size_t out_at = take(bytes_of(out, dtype));
  const std::size_t lse_at = take(bytes_of(lse, DType::float32));
  const std::size_t workspace_at = take(workload->plan_.workspace_bytes());
  const std::size_t unit = spec.huge_pages ? kHugePage : kAlignment;
  const std::size_t all = (std::max(bytes, unit) + unit - 1) / unit * unit;
  workload->memory_.reset(static_cast<std::byte*>(std::aligned_alloc(unit, all)));
  std::byte* const memory = workload->memory_.get();
  if (memory == nullptr) return Status(StatusCode::out_of_memory, "out of memory");
  if (spec.huge_pages) ::madvise(memory, all, MADV_HUGEPAGE);
  fill_gaussian(memory + key_at, bytes_of(key, kv_dtype), kv_dtype, 2);
  fill_gaussian(memory + value_at, bytes_of(value, kv_dtype), kv_dtype, 3);
  std::fill_n(reinterpret_cast<float*>(memory + key_scale_at), 2 * round_up(scale_bytes) / sizeof(float), 1.0F / 32);
  fill_gaussian(memory + query_at, bytes_of(query, dtype), dtype, 1);
  AttentionTensors& tensors = workload->tensors_;
  tensors.query = view_at(memory + query_at, dtype, query, spec.heads_inside);
  tensors.key = view_at(memory + key_at, kv_dtype, key, spec.heads_inside);
  tensors.value = view_at(memory + value_at, kv_dtype, value, spec.heads_inside);
  if (scale_bytes > 0) {
    tensors.key_scale = view_at(memory + key_scale_at, DType::float32, scale, spec.heads_inside);
    tensors.value_scale = view_at(memory + value_scale_at, DType::float32, scale, spec.heads_inside);
  }
  tensors.out = writable(view_at(memory + out_at, dtype, out, spec.heads_inside));
  tensors.lse = writable(view_at(memory + lse_at, DType::float32, lse, spec.heads_inside));
  workload->workspace_ = {memory + workspace_at, workload->plan_.workspace_bytes()};
  if (workload->backend().family() == "cuda") {
    if (Status status = workload->move_to_device(bytes); !status) return status;
  }
  return workload;
}

Status Workload::move_to_device(std::size_t bytes) {
  device_ = gpu::plan_device(plan_);
  const gpu::Current current(*device_);
  if (!current.status()) return current.status();
  auto memory = gpu::DeviceMemory::create(device_, bytes, memory_.get());
  if (!memory) return memory.status();
  auto target = gpu::DeviceMemory::create(device_, key_value_bytes_ / 2);
  if (!target) return target.status();
  device_memory_ = *std::move(memory);
  copy_target_ = *std::move(target);
  device_tensors_ = tensors_;
  const auto there = [this](const void* host) {
    const auto offset = static_cast<const std::byte*>(host) - memory_.get();
    return reinterpret_cast<void*>(device_memory_.pointer() + static_cast<gpu::CuPointer>(offset));
  };
  for (TensorView* input : {&device_tensors_.query, &device_tensors_.key, &device_tensors_.value}) {
    input->data = there(input->data);
  }
  for (MutableTensorView* output : {&device_tensors_.out, &device_tensors_.lse}) output->data = there(output->data);
  return {};
}

Status Workload::finish() const {
  if (!on_device()) return {};
  const gpu::Current current(*device_);
  return SIATTN_CUDA_CALL(device_->driver(), synchronize, nullptr);
}

Status Workload::copy_on_device() const {
  const gpu::Current current(*device_);
  return SIATTN_CUDA_CALL(device_->driver(), copy_on_device, copy_target_.pointer(), device_memory_.pointer(),
                          key_value_bytes_ / 2, nullptr);
}

std::span<const std::byte> Workload::key_value() const noexcept { return {memory_.get(), key_value_bytes_}; }

Result<verify::Comparison> Workload::validate() const {
  if (Status status = run(); !status) return status;
  if (Status status = finish(); !status) return status;
  if (on_device()) {
    const gpu::Current current(*device_);
    for (const auto& [host, there] : {std::pair{&tensors_.out, &device_tensors_.out},
                                      std::pair{&tensors_.lse, &device_tensors_.lse}}) {
      const auto from = static_cast<gpu::CuPointer>(reinterpret_cast<std::uintptr_t>(there->data));
      Status status = SIATTN_CUDA_CALL(device_->driver(), copy_to_host, host->data, from,
                                       bytes_of(host->shape, host->dtype), nullptr);
      if (status) status = finish();
      if (!status) return status;
    }
  }
  // Plain loops: as many rows as take a moment, the last among them.
  const AttentionShape& s = spec_.problem.shape;
  const double rows_together = static_cast<double>(s.kv_len) * static_cast<double>(s.head_dim + s.value_dim) *
                               static_cast<double>(std::max<std::int64_t>(s.batch * s.query_heads, 1));
  const auto rows = static_cast<std::int64_t>(std::clamp(1e8 / rows_together, 1.0, 1000.0));
  return verify::compare_with_reference(spec_.problem, tensors_, backend().numerics(spec_.problem.dtype), rows);
}

double Workload::flops() const noexcept {
  const AttentionShape& s = spec_.problem.shape;
  const AttentionOptions& options = spec_.problem.options;
  const std::int64_t offset = options.query_offset.value_or(s.kv_len - s.query_len);
  const std::int64_t window = options.window.value_or(std::int64_t{1} << 40);
  double pairs = 0;
  for (std::int64_t position = offset; position < offset + s.query_len; ++position) {
    const std::int64_t behind = options.mask == Mask::causal ? 1 : window;
    const std::int64_t last = std::clamp<std::int64_t>(position + behind, 0, s.kv_len);
    pairs += static_cast<double>(last - std::clamp<std::int64_t>(position - window + 1, 0, last));
  }
  return 2 * pairs * static_cast<double>(s.head_dim + s.value_dim) * static_cast<double>(s.batch * s.query_heads);
}

}  // namespace siattn::bench
