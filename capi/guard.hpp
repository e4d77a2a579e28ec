// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_CAPI_GUARD_HPP
#define SIATTN_CAPI_GUARD_HPP

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>

#include <siattn/siattn.h>
#include <siattn/status.hpp>

namespace siattn::capi {

/// Writes as much of the text as there is room for, and no part of a UTF-8 character.
inline void write_message(siattn_message* message, std::string_view text) noexcept {
  if (message == nullptr) return;
  std::size_t size = std::min(text.size(), sizeof(message->text) - 1);
  const auto continues = [&text](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U; };
  while (size > 0 && size < text.size() && continues(size)) --size;
  std::memcpy(message->text, text.data(), size);
  message->text[size] = '\0';
}

inline siattn_status code_of(StatusCode code) noexcept {
  switch (code) {
    case StatusCode::ok: return SIATTN_OK;
    case StatusCode::invalid_argument: return SIATTN_INVALID_ARGUMENT;
    case StatusCode::unsupported: return SIATTN_UNSUPPORTED;
    case StatusCode::unavailable: return SIATTN_UNAVAILABLE;
    case StatusCode::out_of_memory: return SIATTN_OUT_OF_MEMORY;
    case StatusCode::internal: return SIATTN_INTERNAL;
  }
  return SIATTN_INTERNAL;
}

/// What the body says, as C has it. Nothing is thrown out of the library.
template <class Body>
siattn_status guarded(siattn_message* message, Body&& body) noexcept {
  try {
    const Status status = body();
    write_message(message, status.message());
    return code_of(status.code());
  } catch (const std::bad_alloc&) {
    write_message(message, "out of memory");
    return SIATTN_OUT_OF_MEMORY;
  } catch (...) {
    write_message(message, "unexpected");
    return SIATTN_INTERNAL;
  }
}

}  // namespace siattn::capi

#endif  // SIATTN_CAPI_GUARD_HPP
