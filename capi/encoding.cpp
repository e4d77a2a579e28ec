// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <siattn/siattn.h>
#include <siattn/position_encoding.hpp>

#include "capi/describe.hpp"
#include "capi/guard.hpp"
#include "dispatch/message.hpp"

namespace siattn::capi {
namespace {

using dispatch::text;

template <class T>
T or_default(T value, T otherwise) {
  return value == 0 ? otherwise : value;
}

}  // namespace

Result<PositionEncoding> encoding_of(const siattn_encoding* encoding) {
  siattn_encoding e{};
  Status status = copy_descriptor("encoding", encoding, SIATTN_SIZE_UP_TO(siattn_encoding, length), e);
  if (!status) return status;
  if (e.layout != SIATTN_PAIRS_HALF && e.layout != SIATTN_PAIRS_INTERLEAVED) {
    return Status::invalid(text("layout = ", e.layout, ": expected SIATTN_PAIRS_HALF or SIATTN_PAIRS_INTERLEAVED"));
  }
  const PairLayout layout = e.layout == SIATTN_PAIRS_HALF ? PairLayout::half : PairLayout::interleaved;
  const double base = or_default(e.base, Rope{}.base);
  switch (e.kind) {
    case SIATTN_NO_ENCODING: return PositionEncoding(NoEncoding{});
    case SIATTN_ROPE: return PositionEncoding(Rope{base, layout});
    case SIATTN_PARTIAL_ROPE: return PositionEncoding(PartialRope{e.rotary_dim, base, layout});
    case SIATTN_P_ROPE: return PositionEncoding(PRope{e.p, base, layout});
    case SIATTN_HALF_TRUNCATED_ROPE:
      return PositionEncoding(
          HalfTruncatedRope{or_default(e.effective_base, HalfTruncatedRope{}.effective_base), layout});
    case SIATTN_NTK_ROPE: return PositionEncoding(NtkRope{e.factor, base, layout});
    case SIATTN_DYNAMIC_NTK_ROPE:
      return PositionEncoding(DynamicNtkRope{or_default(e.train_length, DynamicNtkRope{}.train_length),
                                             or_default(e.length, DynamicNtkRope{}.length), base, layout});
    case SIATTN_YARN: {
      Yarn yarn{.factor = e.factor, .base = base, .layout = layout};
      yarn.train_length = or_default(e.train_length, yarn.train_length);
      yarn.beta_fast = or_default(e.beta_fast, yarn.beta_fast);
      yarn.beta_slow = or_default(e.beta_slow, yarn.beta_slow);
      if (e.magnitude != 0) yarn.magnitude = e.magnitude;
      return PositionEncoding(yarn);
    }
    default: return Status::invalid(text("encoding kind = ", e.kind, ": expected 0 .. ", SIATTN_YARN));
  }
}

namespace {

Status encode(const siattn_encoding* encoding, const siattn_tensor* in, const siattn_tensor* out,
              std::int64_t first_position, const siattn_int64s& positions) {
  const auto method = encoding_of(encoding);
  if (!method) return method.status();
  if (in == nullptr || out == nullptr) return Status::invalid(text(in == nullptr ? "in" : "out", " is null"));
  const auto from = view_of("in", *in);
  if (!from) return from.status();
  const auto to = view_of("out", *out);
  if (!to) return to.status();
  const auto at = span_of("positions", positions);
  if (!at) return at.status();
  return at->empty() ? apply(*method, *from, *to, first_position) : apply(*method, *from, *to, *at);
}

}  // namespace
}  // namespace siattn::capi

siattn_status siattn_encode(const siattn_encoding* encoding, const siattn_tensor* in, const siattn_tensor* out,
                            int64_t first_position, siattn_int64s positions, siattn_message* message) {
  return siattn::capi::guarded(message,
                               [&] { return siattn::capi::encode(encoding, in, out, first_position, positions); });
}

siattn_status siattn_pair_frequencies(const siattn_encoding* encoding, int64_t head_dim, double* frequencies,
                                      int64_t capacity, int64_t* count, siattn_message* message) {
  using siattn::Status;
  return siattn::capi::guarded(message, [&]() -> Status {
    if (count == nullptr) return Status::invalid("count is null");
    const auto method = siattn::capi::encoding_of(encoding);
    if (!method) return method.status();
    const auto list = siattn::pair_frequencies(*method, head_dim);
    if (!list) return list.status();
    const auto wanted = static_cast<std::int64_t>(list->size());
    if (capacity < wanted || (frequencies == nullptr && wanted > 0)) {
      return Status::invalid(siattn::dispatch::text("frequencies has room for ", frequencies == nullptr ? 0 : capacity,
                                                    ": expected ", wanted));
    }
    std::copy(list->begin(), list->end(), frequencies);
    *count = wanted;
    return {};
  });
}
