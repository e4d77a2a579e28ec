// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_DISPATCH_BACKENDS_HPP
#define SIATTN_DISPATCH_BACKENDS_HPP

#include <vector>

#include <siattn/backend.hpp>

namespace siattn::dispatch {

/// Every backend that was built, best first, available or not.
std::vector<const Backend*> all_backends();

}  // namespace siattn::dispatch

#endif  // SIATTN_DISPATCH_BACKENDS_HPP
