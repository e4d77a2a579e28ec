#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzzing targets with Clang and runs each from its seeds.  fuzz.sh [SECONDS | --runs N] [TARGET ...]
#   SECONDS for each target (default 30); two targets at a time where there are two cores
#   --runs N inputs for each target: the same ones each time
#   TARGET  npy, safetensors, attention or encoding (default: all)
# Prints one line for each. Exit status: 0 no finding, 1 a finding, 2 it cannot run. What was found lies in build/fuzz/.
# SIATTN_FUZZ_SEED=N changes the seed, which is fixed else.
set -euo pipefail
cd "$(dirname "$0")/.."
limit=-max_total_time
count=30
if [[ ${1:-} == --runs ]]; then
  limit=-runs
  count=${2:-}
  shift 2 || shift
elif (($#)); then
  count=$1
  shift
fi
targets=("${@:-}")
[[ -n ${targets[0]} ]] || targets=(npy safetensors attention encoding)
seed=${SIATTN_FUZZ_SEED:-20250517}
if [[ ! $count =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: tools/fuzz.sh [SECONDS | --runs N] [TARGET ...]" >&2
  exit 2
fi
for target in "${targets[@]}"; do
  if [[ ! -f fuzz/$target.cpp ]]; then
    echo "fuzz: no target $target: expected npy, safetensors, attention or encoding" >&2
    exit 2
  fi
done

# Clang can be there without its libFuzzer: Debian has them in two packages.
probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' >"$probe/probe.cpp"
if ! clang++ -fsanitize=fuzzer,address "$probe/probe.cpp" -o "$probe/probe" 2>"$probe/log"; then
  echo "fuzz: SKIPPED: no clang++ with libFuzzer here; on Debian: apt-get install clang libclang-rt-dev" >&2
  exit 2
fi

build=build/fuzz
mkdir -p "$build"
{ cmake --preset fuzz && cmake --build --preset fuzz -j "$(nproc)" --target "${targets[@]/#/fuzz_}"; } \
  >"$build/build.log" 2>&1 || { tail -n 40 "$build/build.log" >&2; exit 2; }
rm -rf "$build/seeds"
python3 fuzz/seeds.py "$build/seeds"

# Files that the targets read and write: in memory where that is possible.
scratch=$probe
[[ -w /dev/shm ]] && scratch=$(mktemp -d /dev/shm/siattn-fuzz-XXXXXX) && trap 'rm -rf "$probe" "$scratch"' EXIT

run() {  # TARGET: its log in build/fuzz/TARGET.log
  local target=$1 options=()
  case $target in npy | safetensors) options=(-dict=fuzz/headers.dict) ;; esac
  mkdir -p "$build/found/$target" "$build/corpus/$target"
  rm -rf "${build:?}/corpus/$target"/*
  # What is found goes to a folder of its own, so that every run starts from the seeds alone.
  env -u SIATTN_BACKEND -u SIATTN_NUM_THREADS -u SIATTN_MAX_CPU_ISA TMPDIR="$scratch" \
    "$build/fuzz/fuzz_$target" -seed="$seed" "$limit=$count" -timeout=60 -malloc_limit_mb=64 \
    -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="$build/found/$target/" "${options[@]}" \
    "$build/corpus/$target" "$build/seeds/$target" >"$build/$target.log" 2>&1
}

report() {  # TARGET STATUS
  local log=$build/$1.log executions coverage
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  coverage=$(sed -n 's/.* cov: \([0-9]*\) ft: \([0-9]*\) .*/\1 edges, \2 features/p' "$log" | tail -n 1)
  if (($2 == 0)); then
    printf 'fuzz: %-11s %9s executions, %s, no finding\n' "$1" "$executions" "$coverage"
    return 0
  fi
  local input
  input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
  printf 'fuzz: %-11s %9s executions, %s, FOUND: %s\n' "$1" "${executions:-?}" "$coverage" \
    "$(grep -m 1 -A 1 -E '^broken:|runtime error:|ERROR: ' "$log" | tr -s ' \n' ' ')"
  echo "  again: $build/fuzz/fuzz_$1 ${input:-(no input; see $log)}"
  return 1
}

status=0
at_once=$(nproc)
((at_once <= 2)) || at_once=2
for ((i = 0; i < ${#targets[@]}; i += at_once)); do
  declare -A running=()
  for target in "${targets[@]:i:at_once}"; do
    run "$target" &
    running[$target]=$!
  done
  for target in "${targets[@]:i:at_once}"; do
    code=0
    wait "${running[$target]}" || code=$?
    report "$target" "$code" || status=1
  done
done
exit "$status"
