// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_PARALLEL_HPP
#define SIATTN_VERIFY_PARALLEL_HPP

#include <cstddef>
#include <exception>

namespace siattn::verify {

/// body(0) .. body(count - 1), on as many threads as OpenMP has; what the last of them throws comes out.
template <class Body>
void for_each_index(std::size_t count, const Body& body) {
  std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic, 1)
  for (std::size_t k = 0; k < count; ++k) {
    try {
      body(k);
    } catch (...) {
#pragma omp critical(siattn_verify_failure)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_PARALLEL_HPP
