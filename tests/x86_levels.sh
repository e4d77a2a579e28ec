#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# x86_levels.sh TOOL: older processors, emulated, and caps on this one. On each the best backend is chosen that it can
# run, every backend that is there computes what the reference does (an instruction that the processor lacks ends the
# program), and one that is not there is refused in words. Exit status 77 where the emulator is missing.
set -eu
tool=$1
emulator=$(command -v qemu-x86_64-static) || {
  echo "skipped: no qemu-x86_64-static (Debian package qemu-user-static)"
  exit 77
}
bad=0

# level NAME BEST CASES COMMAND...: CASES is a prefix of conformance cases, "" for all the quick ones.
level() {
  name=$1 best=$2 cases=$3
  shift 3
  chosen=$("$@" info 2>/dev/null | sed -n 's/^ -> \([^ ]*\).*/\1/p')
  if [ "$chosen" = "$best" ]; then
    echo "$name: $chosen"
  else
    echo "$name: FAILED, chose '$chosen', not $best"
    bad=1
  fi
  status=0
  figures=$("$@" conform --quick --backend cpu ${cases:+--case "$cases"} 2>&1) || status=$?
  if [ $status -eq 0 ]; then
    printf '%s\n' "$figures" | grep -E '^cpu-.* at |passed,' | sed 's/^/  /'
  else
    echo "$name: FAILED, conform ended with status $status: $figures"
    bad=1
  fi
  for backend in $("$@" info 2>/dev/null | sed -n 's/^  *\([^ ]*\)  *unavailable.*/\1/p'); do
    status=0
    message=$("$@" conform --backend "$backend" 2>&1 >/dev/null) || status=$?
    case $status$message in
      2*"siattn: $backend: "*) echo "  refused: $backend" ;;
      *)
        echo "$name: FAILED, $backend is not there, and yet: status $status, $message"
        bad=1
        ;;
    esac
  done
}

emulated() {
  level "$1" "$2" "$3" "$emulator" -cpu "$1" "$tool"
}
emulated Nehalem cpu-sse2 ""              # no AVX
emulated SandyBridge cpu-sse2 sizes       # AVX, no AVX2
emulated max,-fma cpu-sse2 probes         # AVX2, no fused multiply-add
emulated max,-xsave cpu-sse2 probes       # AVX2, but the operating system saves no ymm registers
emulated Haswell cpu-avx2 probes          # AVX2

# This machine, as far as it goes.
export SIATTN_MAX_CPU_ISA
for SIATTN_MAX_CPU_ISA in sse2 avx2 avx512; do
  uncapped=$(env -u SIATTN_MAX_CPU_ISA "$tool" info)
  if printf '%s\n' "$uncapped" | grep -q "cpu-$SIATTN_MAX_CPU_ISA  *available"; then
    level "SIATTN_MAX_CPU_ISA=$SIATTN_MAX_CPU_ISA" "cpu-$SIATTN_MAX_CPU_ISA" probes "$tool"
  fi
done
exit $bad
