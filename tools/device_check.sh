#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shows on a machine with an NVIDIA device that the CUDA backend does there what the emulator says, and how fast: the
# device, instruction probes, conformance, timings against PyTorch where that is installed, a short table last. Under 8
# minutes on 16 cores. Exit status: 0 good, 1 a check failed, 2 it could not be run.
#   tools/device_check.sh              builds (packages of tools/setup.sh, nvcc), then checks
#   tools/device_check.sh --pack DIR   only builds, and puts into DIR what a machine without those packages needs
#   tools/device_check.sh --packed DIR checks what is in DIR
set -euo pipefail
folder=${2:+$(realpath -m "$2")}
cd "$(dirname "$0")/.."

build=build/release
programs=(siattn tests/siattn_device tests/siattn_probes)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0

build_all() {
  cmake --preset release -DSIATTN_CUDA=ON -DSIATTN_BUILD_TESTS=ON >"$log" 2>&1 || { cat "$log" >&2; exit 2; }
  cmake --build "$build" --target siattn_tool siattn_device siattn_probes -j "$(nproc)" >"$log" 2>&1 || { tail -n 40 "$log" >&2; exit 2; }
}

# The programs, and every shared library but the C library's and the compiler's, which fit the kernel there.
pack() {
  mkdir -p "$1/lib"
  local program library
  for program in "${programs[@]}"; do
    cp "$build/$program" "$1/"
    strip "$1/$(basename "$program")"
    for library in $(ldd "$build/$program" | awk '$3 ~ /^\// {print $3}'); do
      case $(basename "$library") in
        libc.so.* | libm.so.* | ld-linux* | libdl.so.* | libpthread.so.* | librt.so.*) ;;
        *) cp -L "$library" "$1/lib/" ;;
      esac
    done
  done
  cp tools/device_check.py "$build"/tests/probes*.fatbin "$1/"
  echo "device_check: packed into $1 ($(du -sh "$1" | cut -f1)); there: tools/device_check.sh --packed $1"
}

# step NAME SECONDS COMMAND...: one line, and the end of the output where it failed.
step() {
  local name=$1 limit=$2 status=0
  shift 2
  local start=$SECONDS
  timeout "$limit" "$@" >"$log" 2>&1 || status=$?
  if ((status == 0)); then
    printf '%-34s passed  %4d s  %s\n' "$name" $((SECONDS - start)) "$(tail -n 1 "$log")"
  else
    printf '%-34s FAILED  %4d s  status %d\n' "$name" $((SECONDS - start)) "$status"
    tail -n 40 "$log"
    failed=1
  fi
}

check() {  # TOOL FOLDER_OF_THE_OTHER_PROGRAMS COMPARISON
  local tool=$1 others=$2 comparison=$3 results
  results=$(mktemp -d)
  "$tool" info | sed -n '/cuda/p'
  "$tool" info --json >"$results/info.json"
  if ! "$tool" conform --backend cuda --case sizes/causal-0 --dtype f32 >"$log" 2>&1; then
    tail -n 1 "$log" >&2
    exit 2
  fi
  step "instruction probes" 60 "$others/siattn_probes" "$others"/probes*.fatbin
  step "conformance, host tensors" 120 "$tool" conform --quick --backend cuda
  step "conformance, device tensors" 120 "$others/siattn_device" conform --quick --backend cuda-in-place
  # batch, heads, kv heads, queries, keys, head_dim
  local shape
  for shape in 1,16,16,8192,8192,128 1,16,4,16384,16384,128 1,32,32,16384,16384,64 \
               1,32,8,1,131072,128 64,32,8,1,8192,128; do
    timeout 60 "$tool" bench --backend cuda --dtype bf16 --shape "$shape" --rounds 7 --json \
      >"$results/bench-$shape.json" 2>"$log" || { echo "bench $shape FAILED: $(tail -n 1 "$log")"; failed=1; }
  done
  echo
  python3 "$comparison" "$results" || failed=1
  rm -r "$results"
}

case ${1:-} in
  "")
    build_all
    check "$build/siattn" "$build/tests" tools/device_check.py
    ;;
  --pack)
    build_all
    pack "${folder:?a folder is expected}"
    ;;
  --packed)
    [[ -x ${folder:?a folder is expected}/siattn ]] || { echo "device_check: no $folder/siattn" >&2; exit 2; }
    export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    check "$folder/siattn" "$folder" "$folder/device_check.py"
    ;;
  *)
    echo "usage: tools/device_check.sh [--pack DIR | --packed DIR]" >&2
    exit 2
    ;;
esac
exit "$failed"
