// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_BENCH_CEILINGS_HPP
#define SIATTN_BENCH_CEILINGS_HPP

#include <cstddef>
#include <span>
#include <string_view>

#include <siattn/tensor_view.hpp>

/// What this machine can do at most, as loops that do nothing else. A benchmark quotes its rates against these, taken
/// in turn with it in the same run: machines have fast and slow moments.
namespace siattn::bench {

/// Multiplies and adds in registers, with the vectors of one instruction set.
struct Peak {
  std::string_view unit;        ///< "float32 FMA, 512 bits"
  double flops_per_call;        ///< of one call of run()
  void (*run)(double* result);  ///< about half a millisecond; `result` keeps the work from being optimised away
};

/// The float32 peak of the backend's instruction set ("cpu-avx512", ...); nullptr: none known.
const Peak* fma_peak(std::string_view backend) noexcept;
/// The peak of products of bfloat16 pairs added up in float32, where this processor has them; else nullptr.
const Peak* bf16_dot_peak() noexcept;

/// Of the units that the backend onednn reaches for this type: AMX tiles for bfloat16 where there are any.
const Peak* onednn_peak(DType dtype) noexcept;

/// Reads every byte once, by every thread a part, with the widest vectors that this processor has.
void read_all(std::span<const std::byte> memory, int threads, double* result) noexcept;

/// Runs the peak `calls` times on each of `threads` threads at once.
void run_peak(const Peak& peak, int calls, int threads) noexcept;

}  // namespace siattn::bench

#endif  // SIATTN_BENCH_CEILINGS_HPP
