#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, runs the tests.  test.sh [PRESET [CTEST ARGUMENTS ...]]
#   tools/test.sh                     the fast tests under the address and undefined-behaviour sanitizers, those with
#                                     threads under the thread sanitizer, then everything in release
#   tools/test.sh release -L fast     the fast tests only
#   tools/test.sh asan-ubsan -L fast | tsan -L threads | debug
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh --test

build_and_test() {  # PRESET TARGET CTEST_ARGUMENTS...
  local preset=$1 target=$2
  shift 2
  mkdir -p "build/$preset"
  local log=build/$preset/configure.log
  cmake --preset "$preset" -DSIATTN_BUILD_TESTS=ON >"$log" 2>&1 || { cat "$log" >&2; return 1; }
  cmake --build --preset "$preset" --target "$target" -j "$(nproc)"
  ctest --preset "$preset" -j "$(nproc)" "$@"
}

if (($#)); then
  preset=$1
  shift
  target=all
  [[ $preset != tsan ]] || target=thread_tests  # built without the claims, which others need
  build_and_test "$preset" "$target" "$@"
else
  # Not again what runs the same code with a mistake planted, by other threads or from a separate program: minutes.
  build_and_test asan-ubsan fast_tests -L fast \
    -E 'FailsWhenTheMistake|TauOnePercentOff|JsonIsWhatGoogle|VerifyQuickIsGood|NoThreadChanges|^independent'
  build_and_test tsan thread_tests -L threads
  build_and_test release all
fi
