// SPDX-License-Identifier: Apache-2.0
// OpenMP for the fuzzing build, which is compiled without it: one thread, and nothing to install beside Clang.
#ifndef SIATTN_FUZZ_SERIAL_OMP_H
#define SIATTN_FUZZ_SERIAL_OMP_H

inline int omp_get_max_threads() { return 1; }
inline int omp_get_thread_num() { return 0; }

#endif  // SIATTN_FUZZ_SERIAL_OMP_H
