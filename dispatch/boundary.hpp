// SPDX-License-Identifier: Apache-2.0
// What stands between a caller and the work: no exception comes out, a forked child gets threads, strides that mean
// nothing are 0.
#ifndef SIATTN_DISPATCH_BOUNDARY_HPP
#define SIATTN_DISPATCH_BOUNDARY_HPP

#include <unistd.h>

#include <cstddef>
#include <thread>

#include <siattn/status.hpp>

#include "encoding/message.hpp"

namespace siattn::dispatch {

/// Nothing is thrown across the library's boundary: what the standard library throws becomes a Status.
using encoding::guarded;

/// OpenMP's runtime keeps a pool of threads for each thread that has opened a parallel region. A forked child inherits
/// the pool but not its threads, and would wait for them for ever; a new thread has no pool yet. So in a child of the
/// process that loaded the library each run gets a thread of its own (some 50 microseconds).
inline const pid_t loading_process = ::getpid();

template <class Body>
Status run_safe_after_fork(Body&& body) {
  if (::getpid() == loading_process) return body();
  Status status;
  std::thread([&status, &body] { status = body(); }).join();
  return status;
}

/// Strides that no element needs may hold anything. Backends, which multiply by all of them, get 0 instead.
template <class View>
void clear_unused_strides(View& x) {
  const bool empty = x.shape[0] == 0 || x.shape[1] == 0 || x.shape[2] == 0 || x.shape[3] == 0;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (empty || x.shape[axis] == 1) x.strides[axis] = 0;
  }
}

}  // namespace siattn::dispatch

#endif  // SIATTN_DISPATCH_BOUNDARY_HPP
