// SPDX-License-Identifier: Apache-2.0
#include <siattn/version.hpp>

const char* siattn::version() noexcept { return SIATTN_VERSION; }
