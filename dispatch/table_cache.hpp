// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_DISPATCH_TABLE_CACHE_HPP
#define SIATTN_DISPATCH_TABLE_CACHE_HPP

#include <memory>

#include <siattn/backend.hpp>

namespace siattn::dispatch {

/// Tables for a validated problem: those of the cache where they reach far enough, else new ones, which the cache keeps.
/// nullptr: no cache. Errors are those of compile_tables.
Result<std::shared_ptr<const LogitTables>> shared_tables(TableCache::Tables* cache, const PreparedAttention& problem,
                                                         LogBase base);

}  // namespace siattn::dispatch

#endif  // SIATTN_DISPATCH_TABLE_CACHE_HPP
