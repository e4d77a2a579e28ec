#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_object.sh NAME OBJECT: is this the object file that cpu/CMakeLists.txt promises for the instruction set NAME?
# Prints what is wrong, one a line; exit status 1 if anything is.
set -eu
name=$1
object=$2
: "${NM:=nm}" "${OBJDUMP:=objdump}"
bad=0
complain() {
  printf '%s: %s\n' "$name" "$1"
  bad=1
}

# A weak symbol is an inline function that the linker may take for the whole program: with instructions that other
# machines do not have.
symbols=$("$NM" --defined-only "$object")
weak=$(printf '%s\n' "$symbols" | grep -E ' [WwVvu] ' || true)
[ -z "$weak" ] || complain "weak symbols: $weak"
strong=$(printf '%s\n' "$symbols" | grep -E ' [A-Z] ' | sed 's/.* //' | tr '\n' ' ')
[ "$strong" = "siattn_cpu_kernels_$name " ] || complain "expected one symbol, the table, got: $strong"

# Code that runs before main, before anything has asked what the machine can do.
"$OBJDUMP" -h "$object" | grep -q -E 'init_array|\.ctors' && complain 'static initialisers'

code=$("$OBJDUMP" -d --no-show-raw-insn "$object")
has() { printf '%s\n' "$code" | grep -q -E "$1"; }
has '[[:space:]](v?ldmxcsr|fldcw|fxrstor|xrstor|msr[[:space:]]+fpcr)' && complain 'sets a floating-point control word'
case $name in
  avx512)
    has 'vfmadd.*%zmm' || complain 'no fused multiply-add of zmm registers'
    ;;
  avx2)
    has 'vfmadd.*%ymm' || complain 'no fused multiply-add of ymm registers'
    has '%zmm|%k[0-7]|%[xy]mm(1[6-9]|2[0-9]|3[01])' && complain 'AVX-512 instructions'
    ;;
  sse2)
    has '%ymm|%zmm|[[:space:]]v[a-z]+[ps][sd] ' && complain 'AVX instructions'
    ;;
  neon)
    has '[[:space:]]fmla' || complain 'no fused multiply-add'
    ;;
  *)
    complain 'no checks are known for this instruction set: add them here'
    ;;
esac
exit $bad
