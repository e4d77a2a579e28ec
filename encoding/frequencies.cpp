// SPDX-License-Identifier: Apache-2.0
#include "encoding/frequencies.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "encoding/message.hpp"

namespace siattn::encoding {
namespace {

/// Limits of the error bounds: they grow with head_dim, and the roots stay clear of underflow.
constexpr std::int64_t kLargestHeadDim = 16384;
constexpr double kLargestBase = 1e100;
constexpr std::int64_t kLargestLength = std::numeric_limits<std::int32_t>::max();

Status check_head_dim(std::int64_t head_dim, std::int64_t multiple, std::int64_t least) {
  if (head_dim >= least && head_dim <= kLargestHeadDim && head_dim % multiple == 0) return {};
  return invalid("head_dim = ", head_dim, ": expected ", least, " .. ", kLargestHeadDim,
                 multiple > 1 ? ", a multiple of " : "", multiple > 1 ? std::to_string(multiple) : "");
}

/// Written so that NaN fails.
Status check_range(const char* name, double value, double least, double most) {
  if (value >= least && value <= most) return {};
  return invalid(name, " = ", value, ": expected ", least, " .. ", most);
}

Status check_length(const char* name, std::int64_t value) {
  if (value >= 1 && value <= kLargestLength) return {};
  return invalid(name, " = ", value, ": expected 1 .. ", kLargestLength);
}

Status check_layout(PairLayout layout) {
  if (layout == PairLayout::half || layout == PairLayout::interleaved) return {};
  return invalid("layout = ", static_cast<int>(layout), ": expected half or interleaved");
}

Status first_error(std::initializer_list<Status> checks) {
  for (const Status& status : checks) {
    if (!status) return status;
  }
  return {};
}

/// Multiplies w_f by base^(-f / root), f = 0 .. count - 1. With root = 0 there is no f but 0.
void multiply_powers(std::vector<DoubleDouble>& frequencies, std::int64_t count, DoubleDouble base, std::int64_t root) {
  if (root == 0) return;
  const DoubleDouble ratio = inverse_root(base, root);
  DoubleDouble factor = 1.0;
  for (std::int64_t f = 0; f < count; ++f) {
    frequencies[static_cast<std::size_t>(f)] = frequencies[static_cast<std::size_t>(f)] * factor;
    factor = factor * ratio;
  }
}

/// `count` pairs, the first `turning` of which have base^(-f / root).
Pairs geometric(std::int64_t count, std::int64_t turning, double base, std::int64_t root, PairLayout layout) {
  Pairs pairs;
  pairs.frequencies.assign(static_cast<std::size_t>(count), 0.0);
  std::fill_n(pairs.frequencies.begin(), turning, DoubleDouble(1.0));
  multiply_powers(pairs.frequencies, turning, base, root);
  pairs.turning = turning;
  pairs.layout = layout;
  return pairs;
}

/// RoPE of the base factor^(d/(d-2)) times as large: another factor^(-2f/(d-2)) on w_f.
Pairs ntk(std::int64_t head_dim, double base, DoubleDouble factor, PairLayout layout) {
  Pairs pairs = geometric(head_dim / 2, head_dim / 2, base, head_dim / 2, layout);
  multiply_powers(pairs.frequencies, head_dim / 2, factor, head_dim / 2 - 1);
  return pairs;
}

/// f(r) of Yarn.
double yarn_index(const Yarn& yarn, std::int64_t head_dim, double rotations) {
  const double at_end = static_cast<double>(yarn.train_length) / (2 * std::numbers::pi * rotations);
  return static_cast<double>(head_dim) * std::log(at_end) / (2 * std::log(yarn.base));
}

void interpolate(Pairs& pairs, const Yarn& yarn, std::int64_t head_dim) {
  if (yarn.factor == 1) return;
  const auto last = static_cast<double>(head_dim - 1);
  const double low = std::clamp(std::floor(yarn_index(yarn, head_dim, yarn.beta_fast)), 0.0, last);
  const double high = std::clamp(std::ceil(yarn_index(yarn, head_dim, yarn.beta_slow)), 0.0, last);
  for (std::size_t f = 0; f < pairs.frequencies.size(); ++f) {
    // Where low and high meet, the ramp is a step after that pair.
    const double width = std::max(high - low, 1.0);
    const double part = std::clamp(static_cast<double>(f) - low, 0.0, width);
    if (part == 0) continue;
    // (1 - g) + g / s with g = part / width, on one denominator
    const DoubleDouble numerator = two_product(width - part, yarn.factor) + part;
    pairs.frequencies[f] = pairs.frequencies[f] * (numerator / two_product(width, yarn.factor));
  }
}

struct Compile {
  std::int64_t head_dim;

  Result<Pairs> operator()(const NoEncoding&) const {
    if (Status status = check_head_dim(head_dim, 1, 1); !status) return status;
    return Pairs{};
  }

  Result<Pairs> operator()(const Rope& e) const {
    Status status = first_error(
        {check_head_dim(head_dim, 2, 2), check_range("base", e.base, 1, kLargestBase), check_layout(e.layout)});
    if (!status) return status;
    return geometric(head_dim / 2, head_dim / 2, e.base, head_dim / 2, e.layout);
  }

  Result<Pairs> operator()(const PartialRope& e) const {
    Status status = first_error(
        {check_head_dim(head_dim, 1, 1), check_range("base", e.base, 1, kLargestBase), check_layout(e.layout)});
    if (!status) return status;
    if (e.rotary_dim < 0 || e.rotary_dim > head_dim || e.rotary_dim % 2 != 0) {
      return invalid("rotary_dim = ", e.rotary_dim, ": expected an even number of 0 .. head_dim = ", head_dim);
    }
    return geometric(e.rotary_dim / 2, e.rotary_dim / 2, e.base, e.rotary_dim / 2, e.layout);
  }

  Result<Pairs> operator()(const PRope& e) const {
    Status status = first_error({check_head_dim(head_dim, 2, 2), check_range("p", e.p, 0, 1),
                                 check_range("base", e.base, 1, kLargestBase), check_layout(e.layout)});
    if (!status) return status;
    const double kept = std::floor(e.p * static_cast<double>(head_dim / 2) + 1e-9);
    return geometric(head_dim / 2, static_cast<std::int64_t>(kept), e.base, head_dim / 2, e.layout);
  }

  Result<Pairs> operator()(const HalfTruncatedRope& e) const {
    Status status =
        first_error({check_head_dim(head_dim, 4, 4), check_range("effective_base", e.effective_base, 1, kLargestBase),
                     check_layout(e.layout)});
    if (!status) return status;
    return geometric(head_dim / 2, head_dim / 4, e.effective_base, head_dim / 4 - 1, e.layout);
  }

  Result<Pairs> operator()(const NtkRope& e) const {
    Status status = first_error({check_head_dim(head_dim, 2, 4), check_range("factor", e.factor, 1, kLargestBase),
                                 check_range("base", e.base, 1, kLargestBase), check_layout(e.layout)});
    if (!status) return status;
    return ntk(head_dim, e.base, e.factor, e.layout);
  }

  Result<Pairs> operator()(const DynamicNtkRope& e) const {
    Status status = first_error({check_head_dim(head_dim, 2, 4), check_length("train_length", e.train_length),
                                 check_length("length", e.length), check_range("base", e.base, 1, kLargestBase),
                                 check_layout(e.layout)});
    if (!status) return status;
    const DoubleDouble factor =
        DoubleDouble(static_cast<double>(e.length)) / DoubleDouble(static_cast<double>(e.train_length));
    return ntk(head_dim, e.base, e.length > e.train_length ? factor : DoubleDouble(1.0), e.layout);
  }

  Result<Pairs> operator()(const Yarn& e) const {
    Status status = first_error({check_head_dim(head_dim, 2, 2), check_range("factor", e.factor, 1, kLargestBase),
                                 check_length("train_length", e.train_length),
                                 check_range("base", e.base, 1, kLargestBase), check_layout(e.layout)});
    if (!status) return status;
    if (e.base == 1) return invalid("base = 1: expected a number above 1, up to ", kLargestBase);
    if (!(e.beta_slow > 0)) return invalid("beta_slow = ", e.beta_slow, ": expected a number above 0");
    if (!(e.beta_fast > e.beta_slow) || !std::isfinite(e.beta_fast)) {
      return invalid("beta_fast = ", e.beta_fast, ": expected a finite number above beta_slow = ", e.beta_slow);
    }
    if (e.magnitude && !(*e.magnitude > 0 && std::isfinite(*e.magnitude))) {
      return invalid("magnitude = ", *e.magnitude, ": expected a finite number above 0");
    }
    Pairs pairs = geometric(head_dim / 2, head_dim / 2, e.base, head_dim / 2, e.layout);
    interpolate(pairs, e, head_dim);
    pairs.magnitude = magnitude(e);
    return pairs;
  }
};

}  // namespace

Result<Pairs> pairs_of(const PositionEncoding& encoding, std::int64_t head_dim) {
  return std::visit(Compile{head_dim}, encoding);
}

}  // namespace siattn::encoding

namespace siattn {

Result<std::vector<double>> pair_frequencies(const PositionEncoding& encoding, std::int64_t head_dim) noexcept {
  return encoding::guarded<Result<std::vector<double>>>([&]() -> Result<std::vector<double>> {
    const auto pairs = encoding::pairs_of(encoding, head_dim);
    if (!pairs) return pairs.status();
    std::vector<double> frequencies;
    frequencies.reserve(pairs->frequencies.size());
    for (const auto& frequency : pairs->frequencies) frequencies.push_back(frequency.high);
    return frequencies;
  });
}

double magnitude(const PositionEncoding& encoding) noexcept {
  const auto* yarn = std::get_if<Yarn>(&encoding);
  if (yarn == nullptr) return 1;
  return yarn->magnitude.value_or(0.1 * std::log(yarn->factor) + 1);
}

}  // namespace siattn
