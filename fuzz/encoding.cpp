// SPDX-License-Identifier: Apache-2.0
// Position encodings with numbers of every kind against the contract of position_encoding.hpp, stated here a second
// time; what is accepted runs inside memory of exactly its size, and turns back.
#include <cmath>
#include <numbers>

#include <siattn/position_encoding.hpp>

#include "fuzz/support.hpp"

namespace siattn::fuzz {
namespace {

constexpr std::int64_t largest = 2147483647;  // 2^31 - 1
constexpr std::int64_t most_positions = 256;

PositionEncoding read_encoding(Bytes& in) {
  const auto layout = [&in] { return static_cast<PairLayout>(in.byte()); };
  switch (in.byte() % 8) {
    case 0: return NoEncoding{};
    case 1: return Rope{in.number(), layout()};
    case 2: return PartialRope{in.integer(), in.number(), layout()};
    case 3: return PRope{in.number(), in.number(), layout()};
    case 4: return HalfTruncatedRope{in.number(), layout()};
    case 5: return NtkRope{in.number(), in.number(), layout()};
    case 6: return DynamicNtkRope{in.integer(), in.integer(), in.number(), layout()};
    default: {
      Yarn yarn;
      yarn.factor = in.number();
      yarn.train_length = in.integer();
      yarn.beta_fast = in.number();
      yarn.beta_slow = in.number();
      if (in.byte() % 2 == 1) yarn.magnitude = in.number();
      yarn.base = in.number();
      yarn.layout = layout();
      return yarn;
    }
  }
}

/// The arguments that are wrong.
struct Faults {
  std::int64_t head_dim;
  std::vector<std::string> names;

  void add(bool wrong, const char* name) {
    if (wrong) names.emplace_back(name);
  }
  void dim(std::int64_t multiple, std::int64_t least) {
    add(head_dim < least || head_dim > 16384 || head_dim % multiple != 0, "head_dim");
  }
  void range(const char* name, double value, double least, double most) {
    add(!(value >= least && value <= most), name);
  }
  void common(double base, PairLayout layout, const char* name = "base") {
    range(name, base, 1, 1e100);
    add(static_cast<int>(layout) > 1, "layout");
  }
  void length(const char* name, std::int64_t value) { add(value < 1 || value > largest, name); }

  void operator()(const NoEncoding&) { dim(1, 1); }
  void operator()(const Rope& e) {
    dim(2, 2);
    common(e.base, e.layout);
  }
  void operator()(const PartialRope& e) {
    dim(1, 1);
    common(e.base, e.layout);
    add(e.rotary_dim < 0 || e.rotary_dim > head_dim || e.rotary_dim % 2 != 0, "rotary_dim");
  }
  void operator()(const PRope& e) {
    dim(2, 2);
    range("p", e.p, 0, 1);
    common(e.base, e.layout);
  }
  void operator()(const HalfTruncatedRope& e) {
    dim(4, 4);
    common(e.effective_base, e.layout, "effective_base");
  }
  void operator()(const NtkRope& e) {
    dim(2, 4);
    range("factor", e.factor, 1, 1e100);
    common(e.base, e.layout);
  }
  void operator()(const DynamicNtkRope& e) {
    dim(2, 4);
    length("train_length", e.train_length);
    length("length", e.length);
    common(e.base, e.layout);
  }
  void operator()(const Yarn& e) {
    dim(2, 2);
    range("factor", e.factor, 1, 1e100);
    length("train_length", e.train_length);
    common(e.base, e.layout);
    add(e.base == 1, "base");
    add(!(e.beta_slow > 0), "beta_slow");
    add(!(e.beta_fast > e.beta_slow && std::isfinite(e.beta_fast)), "beta_fast");
    add(e.magnitude && !(*e.magnitude > 0 && std::isfinite(*e.magnitude)), "magnitude");
  }
};

void require_frequencies(const PositionEncoding& encoding, std::int64_t head_dim, const std::vector<double>& list) {
  std::int64_t pairs = head_dim / 2;
  if (std::holds_alternative<NoEncoding>(encoding)) pairs = 0;
  if (const auto* partial = std::get_if<PartialRope>(&encoding)) pairs = partial->rotary_dim / 2;
  require(static_cast<std::int64_t>(list.size()) == pairs, "there is a frequency for each pair");
  double before = 1;
  for (const double w : list) {
    require(w >= 0 && w <= before, "frequencies lie in 0 .. 1 and fall", std::to_string(w));
    before = w;
  }
}

void test_frequencies(const PositionEncoding& encoding, std::int64_t head_dim) {
  Faults faults{head_dim, {}};
  std::visit([&faults](const auto& e) { faults(e); }, encoding);
  const auto frequencies = pair_frequencies(encoding, head_dim);
  require(frequencies.ok() == faults.names.empty(), "an encoding is judged as the contract says",
          frequencies.ok() ? joined(faults.names) : frequencies.status().message());
  if (!frequencies) {
    require_good_error(frequencies.status());
    require(begins_with_one_of(frequencies.status().message(), faults.names), "a message names what is wrong",
            frequencies.status().message());
    return;
  }
  require_frequencies(encoding, head_dim, *frequencies);
  const double factor = magnitude(encoding);
  require(std::isfinite(factor) && factor > 0, "the magnitude is finite and above 0");
  const auto again = pair_frequencies(encoding, head_dim);
  require(again.ok() && *again == *frequencies, "the same encoding gives the same frequencies");
}

/// Where the tokens stand: a list, or from one position on.
struct Positions {
  bool is_list = false;
  std::int64_t first = 0;
  std::vector<std::int64_t> list;

  bool good(const Shape4& shape) const {
    const auto fits = [](Wide p) { return p >= -largest && p <= largest; };
    if (!is_list) return fits(first) && fits(first + std::max<Wide>(shape[2] - Wide{1}, 0));
    const auto count = static_cast<Wide>(list.size());
    return (count == shape[2] || count == Wide{shape[0]} * shape[2]) && std::ranges::all_of(list, fits);
  }
  Positions negated(std::int64_t batch, std::int64_t len) const {
    Positions other{true, 0, list};
    if (!is_list) {
      for (std::int64_t b = 0; b < batch; ++b) {
        for (std::int64_t i = 0; i < len; ++i) other.list.push_back(first + i);
      }
    }
    for (std::int64_t& position : other.list) position = -position;
    return other;
  }
};

Status apply(const PositionEncoding& encoding, const TensorView& in, const MutableTensorView& out,
             const Positions& positions) {
  return positions.is_list ? siattn::apply(encoding, in, out, std::span<const std::int64_t>(positions.list))
                           : siattn::apply(encoding, in, out, positions.first);
}

void fill_inputs(const Operand& x) {
  std::uint32_t state = 4711;
  for_each_element(x.view, [&](std::int64_t offset) {
    state = state * 1664525 + 1013904223;
    const double value = static_cast<double>(state >> 16) / 32768 - 1;
    if (x.view.dtype == DType::float64) {
      std::memcpy(x.element(offset), &value, sizeof value);
    } else if (x.view.dtype == DType::float32) {
      const auto rounded = static_cast<float>(value);
      std::memcpy(x.element(offset), &rounded, sizeof rounded);
    } else {
      const auto rounded = static_cast<std::uint16_t>(0x3000 | (state >> 20 & 0x8FF));  // finite in both types
      std::memcpy(x.element(offset), &rounded, sizeof rounded);
    }
  });
}

/// float64, dense: turning by the negated positions gives the input back, where there is no magnitude.
void require_turns_back(const PositionEncoding& encoding, const Operand& in, const Operand& out,
                        const Positions& positions) {
  if (in.view.dtype != DType::float64 || magnitude(encoding) != 1) return;
  const Operand back = Operand::dense(in.view.shape, DType::float64);
  if (!back.has_memory()) return;
  const Status status = apply(encoding, out.view, back.view, positions.negated(in.view.shape[0], in.view.shape[2]));
  require(status.ok(), "negated positions are good", status.message());
  const std::vector<std::byte> before = in.elements();
  const std::vector<std::byte> after = back.elements();
  for (std::size_t i = 0; i < before.size(); i += sizeof(double)) {
    double x = 0;
    double y = 0;
    std::memcpy(&x, &before[i], sizeof x);
    std::memcpy(&y, &after[i], sizeof y);
    require(std::abs(x - y) < 1e-14, "an encoding turns back", std::to_string(x - y));
  }
}

bool same_used_strides(const TensorView& a, const TensorView& b) {
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (a.shape[axis] > 1 && a.strides[axis] != b.strides[axis]) return false;
  }
  return true;
}

void test_apply(const PositionEncoding& encoding, std::int64_t head_dim, Bytes& bytes) {
  Shape4 shape;
  for (std::size_t axis = 0; axis < 3; ++axis) shape[axis] = bytes.integer();
  shape[3] = head_dim;
  const auto dtype = static_cast<DType>(bytes.byte());
  Operand in(shape, dtype, bytes);
  Operand out(shape, dtype, bytes);
  const bool in_place = bytes.byte() % 4 == 1;
  if (in_place) out.alias(in);
  Positions positions;
  positions.is_list = bytes.byte() % 2 == 1;
  positions.first = bytes.integer();
  if (positions.is_list) {
    const std::uint8_t kind = bytes.byte();
    const Wide count = kind == 0 ? shape[2] : kind == 1 ? Wide{shape[0]} * shape[2] : kind % 8;
    if (count < 0 || count > most_positions) return;
    for (Wide i = 0; i < count; ++i) positions.list.push_back(bytes.integer());
  }
  if (work_of(shape) > (1 << 14) || (in.view.shape == out.view.shape && work_of(in.view.shape) > (1 << 14))) return;

  const bool known_type = static_cast<int>(dtype) < 4;
  std::ranges::fill(in.memory(), std::byte{0xFF});
  std::ranges::fill(out.memory(), std::byte{0xA5});
  if (known_type && in.has_memory() && in.verdict(false) != Verdict::bad) fill_inputs(in);
  const std::vector<std::byte> in_before(in.memory().begin(), in.memory().end());
  const std::vector<std::byte> out_before(out.memory().begin(), out.memory().end());

  Faults faults{in.view.shape[3], {}};
  std::visit([&faults](const auto& e) { faults(e); }, encoding);
  const Verdict views = std::max({in.verdict(false), out.verdict(true), known_type ? Verdict::good : Verdict::bad});
  const bool good_positions = positions.good(shape);
  const bool same_view = in_place && views != Verdict::bad && same_used_strides(in.view, out.view);
  const Verdict memory = views == Verdict::bad ? Verdict::bad : same_view ? Verdict::good : apart(in, out);
  const bool must_fail = views == Verdict::bad && in.view.shape == shape && in.view.dtype == dtype;
  const bool runs = in.can_be_read() && out.can_be_read();
  if (!must_fail && !runs) return;  // no memory: only what is refused may be called

  const Status status = apply(encoding, in.view, out.view, positions);
  if (must_fail || !faults.names.empty() || !good_positions || (views == Verdict::good && memory == Verdict::bad)) {
    require(!status.ok() || in.view.shape != shape, "what is wrong is refused");
  } else if (views == Verdict::good && memory == Verdict::good) {
    require(status.ok(), "what is right is accepted", status.message());
  }
  if (!status) {
    require_good_error(status);
    require(std::ranges::equal(in.memory(), in_before) && std::ranges::equal(out.memory(), out_before),
            "a call that is refused writes nothing", status.message());
    return;
  }
  if (!(in_place && out.can_be_read() && !out.has_memory())) {
    require(std::ranges::equal(in.memory(), in_before), "the input stays as it is");
  }

  // Dense copies give the same bits.
  Operand dense_in = Operand::dense(in.view.shape, in.view.dtype);
  const Operand dense_out = Operand::dense(in.view.shape, in.view.dtype);
  if (!dense_in.has_memory()) return;
  const std::vector<std::byte> result = out.elements();
  std::vector<std::byte> elements;
  if (in_place) std::ranges::copy(in_before, in.memory().begin());
  elements = in.elements();
  std::ranges::copy(elements, dense_in.memory().begin());
  const Status dense = apply(encoding, dense_in.view, dense_out.view, positions);
  require(dense.ok(), "dense tensors are accepted", dense.message());
  require(dense_out.elements() == result, "strides, or working in place, change no bit");
  if (in.view.shape == shape && in.view.dtype == dtype) require_turns_back(encoding, dense_in, dense_out, positions);
  if (!out.has_memory()) return;
  for_each_element(out.view,
                   [&](std::int64_t offset) { std::memset(out.element(offset), 0xA5, size_of(out.view.dtype)); });
  require(std::ranges::equal(out.memory(), out_before), "nothing is written between the elements");
}

void test(Bytes in) {
  const PositionEncoding encoding = read_encoding(in);
  const std::int64_t head_dim = in.integer();
  test_frequencies(encoding, head_dim);
  test_apply(encoding, head_dim, in);
}

}  // namespace
}  // namespace siattn::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  siattn::fuzz::test({data, size});
  return 0;
}
