// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_CAPI_DESCRIBE_HPP
#define SIATTN_CAPI_DESCRIBE_HPP

#include <cstddef>
#include <span>

#include <siattn/siattn.h>
#include <siattn/kv_cache.hpp>

/// From the descriptors of C to the structs of C++. Judged here is only what C++ could not say: null pointers, numbers
/// of no enumerator, sizes. Ranges are the C++ interface's.
struct siattn_table_cache {
  siattn::TableCache cache;
};

namespace siattn::capi {

/// The size of a descriptor when `member` was its last.
#define SIATTN_SIZE_UP_TO(type, member) (offsetof(type, member) + sizeof(type::member))

/// A copy of the descriptor `from` in `to`, whose `size` bytes are zero: what an older caller does not know stays so.
/// least: the size in the first version that had the descriptor.
Status copy_descriptor(const char* name, const void* from, std::size_t least, void* to, std::size_t size);

template <class Descriptor>
Status copy_descriptor(const char* name, const Descriptor* from, std::size_t least, Descriptor& to) {
  return copy_descriptor(name, from, least, &to, sizeof(Descriptor));
}

Status check_reserved(const char* name, std::int32_t reserved);

Result<DType> dtype_of(const char* name, siattn_dtype dtype);
Result<MutableTensorView> view_of(const char* name, const siattn_tensor& tensor);
Result<std::span<const std::int64_t>> span_of(const char* name, const siattn_int64s& array);
Result<CumulativeLengths> cumulative_of(const char* name, const siattn_cumulative& array);

/// Options alone, or with extents and types. nullptr is an error of the second only.
Result<AttentionOptions> options_of(const siattn_problem* problem);
Result<AttentionProblem> problem_of(const siattn_problem* problem);
Result<ExecutionOptions> execution_of(const siattn_execution* execution);
Result<AttentionTensors> tensors_of(const siattn_tensors* tensors);
Result<PositionEncoding> encoding_of(const siattn_encoding* encoding);

}  // namespace siattn::capi

#endif  // SIATTN_CAPI_DESCRIBE_HPP
