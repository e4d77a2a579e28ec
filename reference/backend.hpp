// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_REFERENCE_BACKEND_HPP
#define SIATTN_REFERENCE_BACKEND_HPP

#include <siattn/backend.hpp>

namespace siattn::reference {

/// The reference in double behind the dispatch interface: every type, every shape, slow.
std::span<const Backend* const> backends() noexcept;

}  // namespace siattn::reference

#endif  // SIATTN_REFERENCE_BACKEND_HPP
