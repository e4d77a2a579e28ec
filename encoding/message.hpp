// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_ENCODING_MESSAGE_HPP
#define SIATTN_ENCODING_MESSAGE_HPP

#include <exception>
#include <locale>
#include <new>
#include <sstream>
#include <string>

#include <siattn/status.hpp>
#include <siattn/tensor_view.hpp>

namespace siattn::encoding {

/// An error that names an argument: the parts, one after the other, with enough digits to tell any two doubles apart.
template <class... Parts>
Status invalid(const Parts&... parts) {
  std::ostringstream stream;
  stream.imbue(std::locale::classic());
  stream.precision(17);
  (stream << ... << parts);
  if (!stream) throw std::bad_alloc();  // streams swallow it
  return Status::invalid(stream.str());
}

inline std::string text_of(const Shape4& shape) {
  return '[' + std::to_string(shape[0]) + ", " + std::to_string(shape[1]) + ", " + std::to_string(shape[2]) + ", " +
         std::to_string(shape[3]) + ']';
}

/// Nothing is thrown across the library's boundary. The messages here are short enough to need no memory.
template <class T, class Body>
T guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::out_of_memory, "out of memory");
  } catch (...) {
    return Status(StatusCode::internal, "exception");
  }
}

}  // namespace siattn::encoding

#endif  // SIATTN_ENCODING_MESSAGE_HPP
