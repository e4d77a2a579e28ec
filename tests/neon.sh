#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# neon.sh SOURCE BUILD: cross-compiles for AArch64, then runs the quick conformance and the kernels' tests (cross.cmake)
# under emulation. Exit status 77 where the tools for it are missing.
set -eu
for tool in aarch64-linux-gnu-g++ qemu-aarch64-static; do
  command -v "$tool" >/dev/null || {
    echo "skipped: no $tool (Debian packages g++-aarch64-linux-gnu, qemu-user-static)"
    exit 77
  }
done
cmake -S "$1" -B "$2" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$1/cmake/aarch64-linux-gnu.cmake" -DSIATTN_BUILD_TESTS=ON
cmake --build "$2"
ctest --test-dir "$2" --verbose -j "$(nproc)"
