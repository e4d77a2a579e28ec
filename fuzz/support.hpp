// SPDX-License-Identifier: Apache-2.0
// What the fuzzing targets share: properties that end the program when broken, a reader of the fuzzer's bytes, the
// largest allocation, and views of tensors that are hostile or lie in memory of exactly their size.
#ifndef SIATTN_FUZZ_SUPPORT_HPP
#define SIATTN_FUZZ_SUPPORT_HPP

#include <sanitizer/allocator_interface.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <siattn/status.hpp>
#include <siattn/tensor_view.hpp>

namespace siattn::fuzz {

/// Ends the program with the property that does not hold, so that libFuzzer keeps the input.
inline void require(bool holds, std::string_view property, std::string_view detail = {}) {
  if (holds) return;
  std::fprintf(stderr, "broken: %.*s\n  %.*s\n", static_cast<int>(property.size()), property.data(),
               static_cast<int>(detail.size()), detail.data());
  std::abort();
}

/// What every error owes: a code that fits, one short line. A defect of the library or a lack of memory is none.
inline void require_good_error(const Status& status) {
  require(status.code() != StatusCode::ok && status.code() != StatusCode::internal &&
              status.code() != StatusCode::out_of_memory,
          "an error has the code of a wrong argument", status.message());
  require(!status.message().empty() && status.message().size() < 4096, "an error has a message of one short line");
  for (const char c : status.message()) {
    require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F, "a message holds no control character",
            status.message());
  }
}

inline bool same(const Status& a, const Status& b) { return a.code() == b.code() && a.message() == b.message(); }

/// The largest single allocation since the last call of reset().
class LargestAllocation {
 public:
  static void reset() {
    static const bool installed = __sanitizer_install_malloc_and_free_hooks(&note, &ignore) != 0;
    require(installed, "the sanitizer takes allocation hooks");
    bytes_ = 0;
  }
  static std::size_t bytes() { return bytes_; }

 private:
  static void note(const volatile void* /*memory*/, std::size_t bytes) { bytes_ = std::max(bytes_, bytes); }
  static void ignore(const volatile void* /*memory*/) {}
  inline static std::size_t bytes_ = 0;
};

/// The fuzzer's bytes as numbers, likely ones for one byte each. Zeros after the end. fuzz/seeds.py writes the same.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}

  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const std::uint8_t first = rest_.front();
    rest_ = rest_.subspan(1);
    return first;
  }

  /// 0 .. 127 as themselves, then the borders of ranges, then eight bytes of its own.
  std::int64_t integer() {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    constexpr std::int64_t position = std::numeric_limits<std::int32_t>::max();
    constexpr std::array<std::int64_t, 40> borders{-1,
                                                   -2,
                                                   -3,
                                                   -4,
                                                   -8,
                                                   -16,
                                                   -64,
                                                   128,
                                                   255,
                                                   256,
                                                   257,
                                                   300,
                                                   512,
                                                   513,
                                                   4096,
                                                   65536,
                                                   position,
                                                   -position,
                                                   position + 1,
                                                   -position - 1,
                                                   position + 2,
                                                   position - 1,
                                                   position / 2,
                                                   std::int64_t{1} << 32,
                                                   std::int64_t{1} << 40,
                                                   std::int64_t{1} << 59,
                                                   std::int64_t{1} << 60,
                                                   std::int64_t{1} << 61,
                                                   std::int64_t{1} << 62,
                                                   -(std::int64_t{1} << 60),
                                                   -(std::int64_t{1} << 61),
                                                   -(std::int64_t{1} << 62),
                                                   most,
                                                   most - 1,
                                                   most / 2,
                                                   most / 3,
                                                   -most,
                                                   -most - 1,
                                                   -most / 2,
                                                   -most / 3};
    const std::uint8_t tag = byte();
    if (tag < 128) return tag;
    if (tag < 240) return borders[(tag - 128) % borders.size()];
    return static_cast<std::int64_t>(word());
  }

  double number() {
    constexpr double inf = std::numeric_limits<double>::infinity();
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    constexpr std::array<double, 32> likely{1,      0,       -1,     0.5,   2,     10,    0.1,    1.6487212707001281,
                                            4096,   32,      1e-3,   -0.0,  nan,   inf,   -inf,   1e-290,
                                            1e-291, 1e-308,  4e-324, 1e100, 1e101, 1e308, -1e308, 3.5e38,
                                            1e-38,  1.2e-38, 1e-45,  1e300, 700,   -700,  1e9,    1e-9};
    const std::uint8_t tag = byte();
    if (tag < 240) return likely[tag % likely.size()];
    const std::uint64_t bits = word();
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

 private:
  std::uint64_t word() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value |= std::uint64_t{byte()} << (8 * i);
    return value;
  }

  std::span<const std::uint8_t> rest_;
};

using Wide = __int128;

inline bool is_empty(const Shape4& shape) { return std::ranges::count(shape, 0) != 0; }

/// Calls use(offset) for the offset in elements of each element.
template <class Use>
void for_each_element(const TensorView& x, Use&& use) {
  if (is_empty(x.shape)) return;  // its strides may be anything
  for (std::int64_t b = 0; b < x.shape[0]; ++b) {
    for (std::int64_t h = 0; h < x.shape[1]; ++h) {
      for (std::int64_t i = 0; i < x.shape[2]; ++i) {
        const std::int64_t row = (x.shape[0] > 1 ? b * x.strides[0] : 0) + (x.shape[1] > 1 ? h * x.strides[1] : 0) +
                                 (x.shape[2] > 1 ? i * x.strides[2] : 0);
        for (std::int64_t d = 0; d < x.shape[3]; ++d) use(row + d);
      }
    }
  }
}

/// The product of the extents, each at least 1: the loops over a shape take so long even where it is empty.
inline Wide work_of(const Shape4& shape) {
  Wide product = 1;
  for (const std::int64_t extent : shape)
    product = std::min(product, Wide{1} << 62) * std::max<std::int64_t>(extent, 1);
  return product;
}

/// Whether the contract takes a view; `maybe` where it leaves room.
enum class Verdict { good, maybe, bad };

/// A view as the fuzzer wants it, and the memory behind it: exactly the bytes from the first element to the last, so
/// that the sanitizer sees every access beside them. A view whose memory can't be had still has a pointer.
class Operand {
 public:
  static constexpr std::size_t most_bytes = std::size_t{1} << 18;

  Operand() = default;

  /// A view of about this shape and type: the bytes say what is wrong with it, 0 where nothing is.
  Operand(const Shape4& shape, DType dtype, Bytes& in) : wanted_shape_(shape), wanted_dtype_(dtype) {
    view.shape = shape;
    view.dtype = dtype;
    read_strides(in);
    read_mistakes(in);
    take_memory();
  }

  /// Dense, and nothing wrong with it.
  static Operand dense(const Shape4& shape, DType dtype) {
    Bytes nothing(nullptr, 0);
    return {shape, dtype, nothing};
  }

  MutableTensorView view;

  /// Memory of its own.
  bool has_memory() const { return is_empty(view.shape) || (memory_ != nullptr && !moved_); }
  /// Memory of its own or another's.
  bool can_be_read() const { return has_memory() || reads_another_; }

  /// Begins where another operand does.
  void alias(Operand& other) {
    if (memory_ == nullptr || other.memory_ == nullptr) return;
    view.data = other.view.data;
    moved_ = true;
    const auto [first, last] = addresses();
    const Wide begin = reinterpret_cast<std::uintptr_t>(other.memory_.get());
    reads_another_ = begin <= first && last <= begin + static_cast<Wide>(other.bytes_);
  }

  /// The view by itself, for an input or an output of the wanted shape and type.
  Verdict verdict(bool written) const {
    if (view.shape != wanted_shape_ || view.dtype != wanted_dtype_) return Verdict::bad;
    if (std::ranges::any_of(view.shape,
                            [](std::int64_t extent) { return extent < 0 || extent >= std::int64_t{1} << 31; }))
      return Verdict::bad;
    if (is_empty(view.shape)) return Verdict::good;
    if (view.data == nullptr || size_of(view.dtype) == 0) return Verdict::bad;
    if (view.shape[3] > 1 && view.strides[3] != 1) return Verdict::bad;
    if (reinterpret_cast<std::uintptr_t>(view.data) % size_of(view.dtype) != 0) return Verdict::bad;
    const auto [first, last] = addresses();
    if (first < 0 || last > (Wide{1} << 64)) return Verdict::bad;
    Verdict verdict = last >= (Wide{1} << 62) ? Verdict::maybe : Verdict::good;
    if (written && (overlaps_itself() || !plain_strides_)) verdict = overlaps_itself() ? Verdict::bad : Verdict::maybe;
    return verdict;
  }

  /// The first byte and one past the last. Not for empty shapes.
  std::pair<Wide, Wide> addresses() const {
    Wide low = 0;
    Wide high = 1;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      const Wide reach = Wide{view.shape[axis] - 1} * view.strides[axis];
      (reach < 0 ? low : high) += reach;
    }
    const Wide base = reinterpret_cast<std::uintptr_t>(view.data);
    const auto size = static_cast<Wide>(size_of(view.dtype));
    return {base + low * size, base + high * size};
  }

  std::span<std::byte> memory() { return {memory_.get(), memory_ ? bytes_ : 0}; }

  std::byte* element(std::int64_t offset) const {
    return static_cast<std::byte*>(view.data) + offset * static_cast<std::int64_t>(size_of(view.dtype));
  }

  /// The elements one after the other, without the gaps.
  std::vector<std::byte> elements() const {
    std::vector<std::byte> list;
    for_each_element(view, [&](std::int64_t offset) {
      list.insert(list.end(), element(offset), element(offset) + size_of(view.dtype));
    });
    return list;
  }

 private:
  void read_strides(Bytes& in) {
    const auto& s = view.shape;
    // Products that overflow make views that are refused: they have no memory.
    const auto product = [](std::int64_t a, std::int64_t b) {
      std::int64_t result = 0;
      return __builtin_mul_overflow(a, b, &result) ? std::int64_t{1} << 62 : result;
    };
    const std::uint8_t layout = in.byte();
    const std::int64_t row = std::min(s[3], std::int64_t{1} << 62) + (layout == 2 ? in.byte() % 8 : 0);
    if (layout == 1) {  // [batch, len, heads, dim]
      view.strides = {product(product(s[1], s[2]), row), row, product(s[1], row), 1};
    } else {
      view.strides = {product(product(s[1], s[2]), row), product(s[2], row), row, 1};
    }
    if (layout == 3) {
      for (std::size_t axis = 0; axis < 3; ++axis) view.strides[axis] = product(view.strides[axis], -1);
    } else if (layout == 4) {
      const std::uint8_t mask = in.byte();
      for (std::size_t axis = 0; axis < 3; ++axis) {
        if ((mask >> axis & 1) != 0) view.strides[axis] = 0;
      }
    } else if (layout >= 5) {
      for (std::int64_t& stride : view.strides) stride = in.integer();
    }
    plain_strides_ = layout < 4;
  }

  void read_mistakes(Bytes& in) {
    const std::uint8_t mistake = in.byte();
    switch (mistake) {
      case 1:
        view.data = nullptr;
        null_ = true;
        break;
      case 2: shift_ = 1; break;                    // no multiple of the element
      case 3: shift_ = size_of(view.dtype); break;  // right, but aligned to the element only
      case 4: view.shape[in.byte() % 4] = in.integer(); break;
      case 5: view.dtype = static_cast<DType>(in.byte()); break;
      case 6:
        moved_ = true;
        view.data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(in.integer()));
        break;
      default: break;
    }
  }

  void take_memory() {
    if (null_ || moved_ || size_of(view.dtype) == 0) return;
    constexpr std::int64_t most_extent = std::int64_t{1} << 31;  // addresses() stay below 2^127
    if (std::ranges::any_of(view.shape, [](std::int64_t extent) { return extent < 0 || extent > most_extent; })) return;
    view.data = nullptr;
    Wide below = 0;
    Wide bytes = 0;
    if (!is_empty(view.shape)) {
      const auto [first, last] = addresses();  // from 0
      below = -first;
      bytes = last - first;
    }
    if (bytes <= static_cast<Wide>(most_bytes)) {
      bytes_ = static_cast<std::size_t>(bytes) + shift_;
      memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes_);
      view.data = memory_.get() + shift_ + static_cast<std::ptrdiff_t>(below);
    } else {
      moved_ = true;
      view.data = reinterpret_cast<void*>(std::uintptr_t{1} << 40);
    }
  }

  bool overlaps_itself() const {
    constexpr Wide most = 4096;
    if (work_of(view.shape) > most) return false;  // not looked at
    const auto [first, last] = addresses();
    if (last - first > static_cast<Wide>(most_bytes)) return false;
    std::vector<std::int64_t> offsets;
    for_each_element(view, [&](std::int64_t offset) { offsets.push_back(offset); });
    std::ranges::sort(offsets);
    return std::ranges::adjacent_find(offsets) != offsets.end();
  }

  Shape4 wanted_shape_{};
  DType wanted_dtype_ = DType::float32;
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
  std::size_t shift_ = 0;
  bool plain_strides_ = true;
  bool null_ = false;
  bool moved_ = false;  ///< The pointer is not that of the memory.
  bool reads_another_ = false;
};

/// Two operands by their ranges of addresses: good where these are apart, maybe where they meet.
inline Verdict apart(const Operand& a, const Operand& b) {
  if (is_empty(a.view.shape) || is_empty(b.view.shape)) return Verdict::good;
  const auto [a_first, a_last] = a.addresses();
  const auto [b_first, b_last] = b.addresses();
  if (a_last <= b_first || b_last <= a_first) return Verdict::good;
  return a.view.data == b.view.data ? Verdict::bad : Verdict::maybe;  // element (0, 0, 0, 0) is in both
}

inline std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

inline bool begins_with_one_of(std::string_view message, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& name) { return message.substr(0, name.size()) == name; });
}

}  // namespace siattn::fuzz

#endif  // SIATTN_FUZZ_SUPPORT_HPP
