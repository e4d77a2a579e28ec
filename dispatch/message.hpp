// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_DISPATCH_MESSAGE_HPP
#define SIATTN_DISPATCH_MESSAGE_HPP

#include <locale>
#include <new>
#include <sstream>
#include <string>

#include <siattn/tensor_view.hpp>

namespace siattn::dispatch {

/// The parts, one after the other; numbers with enough digits to tell any two doubles apart.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream stream;
  stream.imbue(std::locale::classic());
  stream.precision(17);
  (stream << ... << parts);
  if (!stream) throw std::bad_alloc();  // streams swallow it
  return stream.str();
}

inline std::string text_of(const Shape4& shape) {
  return text('[', shape[0], ", ", shape[1], ", ", shape[2], ", ", shape[3], ']');
}

}  // namespace siattn::dispatch

#endif  // SIATTN_DISPATCH_MESSAGE_HPP
