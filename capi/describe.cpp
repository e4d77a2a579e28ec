// SPDX-License-Identifier: Apache-2.0
#include "capi/describe.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "dispatch/message.hpp"

namespace siattn::capi {
namespace {

using dispatch::text;

/// More than any descriptor will ever have: a size beyond it was never set.
constexpr std::size_t kLargest = 4096;

Result<PerHead> per_head_of(const char* name, const siattn_per_head& given, PerHead otherwise) {
  if (given.count == 0) return otherwise;
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();  // as heads
  if (given.count < 0 || given.count > most) {
    return Status::invalid(text(name, ".count = ", given.count, ": expected 0 .. ", most));
  }
  if (given.values == nullptr) {
    return Status::invalid(text(name, ".values is null: expected ", given.count, " values"));
  }
  return PerHead(std::vector<double>(given.values, given.values + given.count));
}

Result<LogitTransform> transform_of(const siattn_problem& p) {
  switch (p.transform) {
    case SIATTN_SCALE_INVARIANT: {
      ScaleInvariant transform;
      auto tau = per_head_of("tau", p.tau, transform.tau);
      if (!tau) return tau.status();
      transform.tau = *std::move(tau);
      if (p.alpha != 0) transform.alpha = p.alpha;
      if (p.beta != 0) transform.beta = p.beta;
      return LogitTransform(std::move(transform));
    }
    case SIATTN_NO_TRANSFORM: return LogitTransform(NoTransform{});
    case SIATTN_LOGN: {
      auto scale = per_head_of("logn_scale", p.logn_scale, LogN{}.scale);
      if (!scale) return scale.status();
      return LogitTransform(LogN{*std::move(scale)});
    }
    case SIATTN_INFOSCALE: return LogitTransform(p.train_length == 0 ? InfoScale{} : InfoScale{p.train_length});
    case SIATTN_ALIBI: {
      auto slopes = per_head_of("slopes", p.slopes, PerHead{});
      if (!slopes) return slopes.status();
      return LogitTransform(Alibi{*std::move(slopes)});
    }
    default: return Status::invalid(text("transform = ", p.transform, ": expected 0 .. ", SIATTN_ALIBI));
  }
}

Result<Calibration> calibration_of(const siattn_problem& p) {
  Calibration calibration;
  auto mean = per_head_of("calibration_mean", p.calibration_mean, calibration.mean);
  if (!mean) return mean.status();
  auto deviation =
      per_head_of("calibration_standard_deviation", p.calibration_standard_deviation, calibration.standard_deviation);
  if (!deviation) return deviation.status();
  return Calibration{*std::move(mean), *std::move(deviation)};
}

/// A member that counts only with its flag.
template <class T>
Status check_flag(const siattn_problem& p, std::uint32_t flag, const char* flag_name, const char* name, T value) {
  if ((p.flags & flag) != 0 || value == 0) return {};
  return Status::invalid(text(name, " = ", value, ": expected ", flag_name, " in flags"));
}

Result<AttentionOptions> options_of(const siattn_problem& p) {
  if (Status status = check_reserved("problem", p.reserved); !status) return status;
  if (p.mask != SIATTN_CAUSAL && p.mask != SIATTN_BIDIRECTIONAL) {
    return Status::invalid(text("mask = ", p.mask, ": expected SIATTN_CAUSAL or SIATTN_BIDIRECTIONAL"));
  }
  constexpr std::uint32_t known = SIATTN_HAS_QUERY_OFFSET | SIATTN_HAS_SOFTMAX_SCALE;
  if ((p.flags & ~known) != 0) return Status::invalid(text("flags = ", p.flags, ": expected bits of ", known));
  Status status = check_flag(p, SIATTN_HAS_QUERY_OFFSET, "SIATTN_HAS_QUERY_OFFSET", "query_offset", p.query_offset);
  if (!status) return status;
  status = check_flag(p, SIATTN_HAS_SOFTMAX_SCALE, "SIATTN_HAS_SOFTMAX_SCALE", "softmax_scale", p.softmax_scale);
  if (!status) return status;

  AttentionOptions options;
  auto transform = transform_of(p);
  if (!transform) return transform.status();
  auto calibration = calibration_of(p);
  if (!calibration) return calibration.status();
  options.transform = *std::move(transform);
  options.calibration = *std::move(calibration);
  options.mask = p.mask == SIATTN_CAUSAL ? Mask::causal : Mask::bidirectional;
  if (p.window != 0) options.window = p.window;
  if ((p.flags & SIATTN_HAS_QUERY_OFFSET) != 0) options.query_offset = p.query_offset;
  if ((p.flags & SIATTN_HAS_SOFTMAX_SCALE) != 0) options.softmax_scale = p.softmax_scale;
  options.n_sink = p.n_sink;
  return options;
}

Status copy_problem(const siattn_problem* problem, siattn_problem& to) {
  return copy_descriptor("problem", problem, SIATTN_SIZE_UP_TO(siattn_problem, calibration_standard_deviation), to);
}

bool is_absent(const siattn_tensor& tensor) {
  return tensor.data == nullptr && tensor.dtype == 0 &&
         std::all_of(tensor.shape, tensor.shape + 4, [](std::int64_t extent) { return extent == 0; });
}

}  // namespace

Status copy_descriptor(const char* name, const void* from, std::size_t least, void* to, std::size_t size) {
  if (from == nullptr) return Status::invalid(text(name, " is null"));
  std::size_t given = 0;
  std::memcpy(&given, from, sizeof(given));
  if (given < least || given > kLargest) {
    return Status::invalid(text(name, ".struct_size = ", given, ": expected sizeof(siattn_", name, "), here ", size));
  }
  const auto* bytes = static_cast<const unsigned char*>(from);
  if (std::any_of(bytes + std::min(given, size), bytes + given, [](unsigned char byte) { return byte != 0; })) {
    return Status::unsupported(text(name, ".struct_size = ", given, ": this library, ", SIATTN_VERSION,
                                    ", knows the first ", size, " bytes, and what follows is not 0"));
  }
  std::memcpy(to, from, std::min(given, size));
  return {};
}

Status check_reserved(const char* name, std::int32_t reserved) {
  if (reserved == 0) return {};
  return Status::invalid(text(name, ".reserved = ", reserved, ": expected 0"));
}

Result<DType> dtype_of(const char* name, siattn_dtype dtype) {
  switch (dtype) {
    case SIATTN_F32: return DType::float32;
    case SIATTN_BF16: return DType::bfloat16;
    case SIATTN_F16: return DType::float16;
    case SIATTN_F64: return DType::float64;
    case SIATTN_I8: return DType::int8;
    default:
      return Status::invalid(text(name, ": dtype = ", dtype, ": expected SIATTN_F32 .. SIATTN_I8, 1 .. ", SIATTN_I8));
  }
}

Result<MutableTensorView> view_of(const char* name, const siattn_tensor& tensor) {
  if (is_absent(tensor)) return MutableTensorView();
  if (Status status = check_reserved(name, tensor.reserved); !status) return status;
  const auto dtype = dtype_of(name, tensor.dtype);
  if (!dtype) return dtype.status();
  MutableTensorView view;
  view.data = tensor.data;
  view.dtype = *dtype;
  std::copy(tensor.shape, tensor.shape + 4, view.shape.begin());
  std::copy(tensor.strides, tensor.strides + 4, view.strides.begin());
  if (view.strides == Shape4{}) {
    std::int64_t stride = 1;
    for (std::size_t axis = 4; axis-- > 0;) {
      view.strides[axis] = stride;
      if (__builtin_mul_overflow(stride, view.shape[axis], &stride)) {
        return Status::invalid(text(name, " has shape ", dispatch::text_of(view.shape), ": more elements than memory"));
      }
    }
  }
  return view;
}

Result<std::span<const std::int64_t>> span_of(const char* name, const siattn_int64s& array) {
  if (array.count < 0) return Status::invalid(text(name, ".count = ", array.count, ": expected at least 0"));
  if (array.values == nullptr && array.count > 0) {
    return Status::invalid(text(name, ".values is null: expected ", array.count, " values"));
  }
  return std::span<const std::int64_t>(array.values, static_cast<std::size_t>(array.count));
}

Result<CumulativeLengths> cumulative_of(const char* name, const siattn_cumulative& array) {
  if (Status status = check_reserved(name, array.reserved); !status) return status;
  if (array.count == 0) return CumulativeLengths();
  if (array.count < 0) return Status::invalid(text(name, ".count = ", array.count, ": expected at least 0"));
  if (array.values == nullptr) return Status::invalid(text(name, ".values is null: expected ", array.count, " values"));
  const auto count = static_cast<std::size_t>(array.count);
  if (array.bits == 64) return CumulativeLengths(std::span(static_cast<const std::int64_t*>(array.values), count));
  if (array.bits == 32) return CumulativeLengths(std::span(static_cast<const std::int32_t*>(array.values), count));
  return Status::invalid(text(name, ".bits = ", array.bits, ": expected 32 or 64"));
}

Result<AttentionOptions> options_of(const siattn_problem* problem) {
  if (problem == nullptr) return AttentionOptions();
  siattn_problem p{};
  if (Status status = copy_problem(problem, p); !status) return status;
  return options_of(p);
}

Result<AttentionProblem> problem_of(const siattn_problem* problem) {
  siattn_problem p{};
  if (Status status = copy_problem(problem, p); !status) return status;
  auto options = options_of(p);
  if (!options) return options.status();
  const auto dtype = dtype_of("problem", p.dtype);
  if (!dtype) return dtype.status();
  AttentionProblem result;
  result.shape = {p.batch, p.query_heads, p.kv_heads, p.query_len, p.kv_len, p.head_dim, p.value_dim};
  result.dtype = *dtype;
  result.options = *std::move(options);
  if (p.kv_dtype != 0) {
    const auto kv_dtype = dtype_of("problem, kv", p.kv_dtype);
    if (!kv_dtype) return kv_dtype.status();
    result.kv_dtype = *kv_dtype;
  }
  return result;
}

Result<ExecutionOptions> execution_of(const siattn_execution* execution) {
  ExecutionOptions options;
  if (execution == nullptr) return options;
  siattn_execution e{};
  Status status = copy_descriptor("execution", execution, SIATTN_SIZE_UP_TO(siattn_execution, table_cache), e);
  if (!status) return status;
  if (status = check_reserved("execution", e.reserved); !status) return status;
  if (e.backend != nullptr) options.backend = e.backend;
  options.threads = e.threads;
  if (e.table_cache != nullptr) options.table_cache = e.table_cache->cache;
  return options;
}

Result<AttentionTensors> tensors_of(const siattn_tensors* tensors) {
  siattn_tensors t{};
  Status status = copy_descriptor("tensors", tensors, SIATTN_SIZE_UP_TO(siattn_tensors, stream), t);
  if (!status) return status;
  AttentionTensors result;
  const auto put = [&status](const auto& given, auto& to) {
    if (given)
      to = *given;
    else if (status)
      status = given.status();
  };
  put(view_of("query", t.query), result.query);
  put(view_of("key", t.key), result.key);
  put(view_of("value", t.value), result.value);
  put(view_of("out", t.out), result.out);
  put(view_of("lse", t.lse), result.lse);
  put(view_of("key_scale", t.key_scale), result.key_scale);
  put(view_of("value_scale", t.value_scale), result.value_scale);
  put(span_of("query_lengths", t.query_lengths), result.query_lengths);
  put(span_of("kv_lengths", t.kv_lengths), result.kv_lengths);
  put(span_of("query_offsets", t.query_offsets), result.query_offsets);
  put(cumulative_of("cu_query", t.cu_query), result.cu_query);
  put(cumulative_of("cu_kv", t.cu_kv), result.cu_kv);
  if (!status) return status;
  result.pages = {t.pages.pages, t.pages.stride, t.pages.page_size};
  result.stream = t.stream;
  return result;
}

}  // namespace siattn::capi
