// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <vector>

#include <siattn/position_encoding.hpp>

#include "encoding/frequencies.hpp"
#include "encoding/message.hpp"
#include "encoding/rotation.hpp"
#include "encoding/validate.hpp"

namespace siattn::encoding {
namespace {

double widen(double x) { return x; }
double widen(float x) { return x; }
double widen(bfloat16 x) { return to_float(x); }
double widen(float16 x) { return to_float(x); }

template <class T>
T narrow(double x) {
  return static_cast<T>(x);
}
template <>
bfloat16 narrow(double x) {
  return to_bfloat16(x);
}
template <>
float16 narrow(double x) {
  return to_float16(x);
}

/// Cosines and sines of some tokens, magnitude included, [tokens][turning].
struct Tables {
  std::vector<double> cosines;
  std::vector<double> sines;
};

/// Where the tokens stand: a list, or consecutive from `first` on.
struct Positions {
  const std::int64_t* list = nullptr;
  std::int64_t first = 0;

  std::int64_t at(std::int64_t i) const { return list != nullptr ? list[i] : first + i; }
  Positions from(std::int64_t i) const {
    return list != nullptr ? Positions{list + i, 0} : Positions{nullptr, first + i};
  }
};

/// Dimensions [first, last) do not turn. Bit for bit where there is no magnitude: x * 1 would quieten a NaN.
template <class T>
void keep(const T* in, T* out, std::int64_t first, std::int64_t last, double magnitude) {
  if (magnitude != 1) {
    for (std::int64_t d = first; d < last; ++d) out[d] = narrow<T>(widen(in[d]) * magnitude);
  } else if (in != out && first < last) {
    std::memcpy(out + first, in + first, static_cast<std::size_t>(last - first) * sizeof(T));
  }
}

/// Pairs f < turning of one token; their members are `step` f and `step` f + `gap`. Both are read before either is
/// written and no two pairs share a member, so out may be in.
template <std::int64_t step, class T>
void turn(const T* in, T* out, std::int64_t turning, std::int64_t gap, const double* cosines, const double* sines) {
  const auto turn_pair = [=](std::int64_t f) {
    const double x = widen(in[step * f]);
    const double y = widen(in[step * f + gap]);
    out[step * f] = narrow<T>(x * cosines[f] - y * sines[f]);
    out[step * f + gap] = narrow<T>(x * sines[f] + y * cosines[f]);
  };
  if constexpr (sizeof(T) >= sizeof(float)) {
#pragma omp simd
    for (std::int64_t f = 0; f < turning; ++f) turn_pair(f);
  } else {  // rounding to 16 bits branches: nothing to vectorise, and Clang warns where it is asked to
    for (std::int64_t f = 0; f < turning; ++f) turn_pair(f);
  }
}

/// One token, one head: [head_dim] -> [head_dim].
template <class T>
void encode_row(const T* in, T* out, std::int64_t head_dim, const Pairs& pairs, const double* cosines,
                const double* sines) {
  const auto count = static_cast<std::int64_t>(pairs.frequencies.size());
  if (pairs.layout == PairLayout::half) {
    turn<1>(in, out, pairs.turning, count, cosines, sines);
    keep(in, out, pairs.turning, count, pairs.magnitude);
    keep(in, out, count + pairs.turning, head_dim, pairs.magnitude);
  } else {
    turn<2>(in, out, pairs.turning, 1, cosines, sines);
    keep(in, out, 2 * pairs.turning, head_dim, pairs.magnitude);
  }
}

/// What a call works with, once its arguments are known to be good.
struct Job {
  const TensorView& in;
  const MutableTensorView& out;
  const Pairs& pairs;
  std::vector<TurnRate> rates;  // [turning]
  Tables tables;
  std::int64_t block = 1;  // tokens that the tables hold
};

/// Tables of the tokens at positions 0 .. tokens - 1 of the list.
void fill(Job& job, const Positions& positions, std::int64_t tokens) {
  std::size_t k = 0;
  for (std::int64_t i = 0; i < tokens; ++i) {
    for (const TurnRate& rate : job.rates) {
      const Rotation r = rotation(rate, positions.at(i));
      job.tables.cosines[k] = job.pairs.magnitude * r.cosine;
      job.tables.sines[k] = job.pairs.magnitude * r.sine;
      ++k;
    }
  }
}

/// Sequences [first_batch, last_batch), all at these positions. A block of tokens at a time: its tables stay in cache
/// and serve every head of every sequence.
template <class T>
void encode(Job& job, std::int64_t first_batch, std::int64_t last_batch, const Positions& positions) {
  const Shape4& shape = job.in.shape;
  for (std::int64_t start = 0; start < shape[2]; start += job.block) {
    const std::int64_t tokens = std::min(job.block, shape[2] - start);
    fill(job, positions.from(start), tokens);
    for (std::int64_t b = first_batch; b < last_batch; ++b) {
      for (std::int64_t h = 0; h < shape[1]; ++h) {
        for (std::int64_t i = 0; i < tokens; ++i) {
          const T* from = static_cast<const T*>(job.in.data) + row_offset(job.in, b, h, start + i);
          T* to = static_cast<T*>(job.out.data) + row_offset(job.out, b, h, start + i);
          const std::int64_t table = i * job.pairs.turning;
          if (positions.at(start + i) == 0) {
            keep(from, to, 0, shape[3], job.pairs.magnitude);
          } else {
            encode_row(from, to, shape[3], job.pairs, job.tables.cosines.data() + table,
                       job.tables.sines.data() + table);
          }
        }
      }
    }
  }
}

void encode(Job& job, std::int64_t first_batch, std::int64_t last_batch, const Positions& positions) {
  switch (job.in.dtype) {
    case DType::float32: return encode<float>(job, first_batch, last_batch, positions);
    case DType::float64: return encode<double>(job, first_batch, last_batch, positions);
    case DType::bfloat16: return encode<bfloat16>(job, first_batch, last_batch, positions);
    case DType::float16: return encode<float16>(job, first_batch, last_batch, positions);
    case DType::int8: return;  // refused by validation
  }
}

/// Tensors and positions have been validated. `per_sequence`: the list of positions is [batch, len].
Status encode_all(const PositionEncoding& encoding, const TensorView& in, const MutableTensorView& out,
                  const Positions& positions, bool per_sequence) {
  const auto pairs = pairs_of(encoding, in.shape[3]);
  if (!pairs) return pairs.status();
  const std::int64_t batch = in.shape[0];
  const std::int64_t len = in.shape[2];
  if (batch == 0 || in.shape[1] == 0 || len == 0) return {};

  constexpr std::int64_t table_entries = 8192;  // 128 KiB for both tables
  Job job{in, out, *pairs, {}, {}, 1};
  job.block = std::clamp<std::int64_t>(table_entries / std::max<std::int64_t>(pairs->turning, 1), 1, len);
  for (std::int64_t f = 0; f < pairs->turning; ++f) {
    job.rates.push_back(turn_rate(pairs->frequencies[static_cast<std::size_t>(f)]));
  }
  job.tables.cosines.resize(static_cast<std::size_t>(job.block * pairs->turning));
  job.tables.sines.resize(job.tables.cosines.size());
  // All the memory there will be is there: from here on nothing fails.
  if (!per_sequence) {
    encode(job, 0, batch, positions);
  } else {
    for (std::int64_t b = 0; b < batch; ++b) encode(job, b, b + 1, positions.from(b * len));
  }
  return {};
}

}  // namespace
}  // namespace siattn::encoding

namespace siattn {

Status apply(const PositionEncoding& encoding, const TensorView& in, const MutableTensorView& out,
             std::int64_t first_position) noexcept {
  return encoding::guarded<Status>([&]() -> Status {
    if (Status status = encoding::validate_views(in, out); !status) return status;
    if (Status status = encoding::validate_positions(first_position, in.shape[2]); !status) return status;
    return encoding::encode_all(encoding, in, out, {nullptr, first_position}, false);
  });
}

Status apply(const PositionEncoding& encoding, const TensorView& in, const MutableTensorView& out,
             std::span<const std::int64_t> positions) noexcept {
  return encoding::guarded<Status>([&]() -> Status {
    if (Status status = encoding::validate_views(in, out); !status) return status;
    if (Status status = encoding::validate_positions(positions, in.shape[0], in.shape[2]); !status) return status;
    const bool per_sequence = positions.size() != static_cast<std::size_t>(in.shape[2]);
    return encoding::encode_all(encoding, in, out, {positions.data(), 0}, per_sequence);
  });
}

}  // namespace siattn
