// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERSION_HPP
#define SIATTN_VERSION_HPP

#include <siattn/export.h>

namespace siattn SIATTN_EXPORT {

/// Semantic version of the library, "MAJOR.MINOR.PATCH".
const char* version() noexcept;

}  // namespace siattn

#endif  // SIATTN_VERSION_HPP
