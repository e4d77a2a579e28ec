// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_TOOLS_IO_GUARDED_HPP
#define SIATTN_TOOLS_IO_GUARDED_HPP

#include <exception>
#include <new>
#include <stdexcept>
#include <string_view>
#include <type_traits>

#include <siattn/status.hpp>

#include "tools/io/text.hpp"

namespace siattn::io {

namespace detail {

/// The Status of the exception in flight. It allocates nothing if it can't: both short texts fit into the string.
inline Status status_of_exception(std::string_view path) noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      return at_path(path, Status(StatusCode::out_of_memory, "out of memory"));
    } catch (const std::length_error&) {  // what a container says of a size that no memory could hold
      return at_path(path, Status(StatusCode::out_of_memory, "out of memory"));
    } catch (const std::exception& error) {
      return at_path(path, Status(StatusCode::internal, error.what()));
    }
  } catch (...) {
    return Status(StatusCode::out_of_memory, "out of memory");
  }
}

}  // namespace detail

/// Calls `body`, which gives a Status or a Result, and turns whatever it throws into a Status that names `path`.
template <class Body>
std::invoke_result_t<Body> guarded(std::string_view path, Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    return detail::status_of_exception(path);
  }
}

}  // namespace siattn::io

#endif  // SIATTN_TOOLS_IO_GUARDED_HPP
