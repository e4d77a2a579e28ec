// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_DISPATCH_MESSAGE_HPP
#define SIATTN_DISPATCH_MESSAGE_HPP

#include <charconv>
#include <locale>
#include <new>
#include <sstream>
#include <string>
#include <type_traits>

#include <siattn/tensor_view.hpp>

namespace siattn::dispatch {

/// A double with the fewest digits that tell it from every other.
inline std::string shortest(double x) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, x);
  return {buffer, end};
}

/// The parts, one after the other.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream stream;
  stream.imbue(std::locale::classic());
  const auto put = [&stream](const auto& part) {
    if constexpr (std::is_same_v<std::decay_t<decltype(part)>, double>) {
      stream << shortest(part);
    } else {
      stream << part;
    }
  };
  (put(parts), ...);
  if (!stream) throw std::bad_alloc();  // streams swallow it
  return stream.str();
}

inline std::string text_of(const Shape4& shape) {
  return text('[', shape[0], ", ", shape[1], ", ", shape[2], ", ", shape[3], ']');
}

}  // namespace siattn::dispatch

#endif  // SIATTN_DISPATCH_MESSAGE_HPP
