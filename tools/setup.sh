#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs exactly the Debian packages that the build and the tests need and that are missing. Without the rights to
# install it prints the command and stops.  setup.sh [--build | --test | --list]   (default: --test, which is all)
set -euo pipefail

build_packages=(
  g++ cmake ninja-build git ca-certificates
  libxsimd-dev            # vector types of the CPU kernels
  libboost1.81-dev libmpfr-dev libgmp-dev  # arbitrary precision of the reference and the claims (1.74's quadrature throws)
  libdnnl-dev             # products by matrix units: the backend onednn
  librandom123-dev        # counter-based random numbers
  libcli11-dev libfmt-dev nlohmann-json3-dev  # the command
)
test_packages=(
  libgtest-dev librapidcheck-dev
  libboost-context1.81-dev  # the stacks of the threads of emulated CUDA kernels
  binutils                # nm and objdump: what the kernels' object files hold
  python3-numpy python3-mpmath  # the independent check
  g++-aarch64-linux-gnu qemu-user-static  # the NEON kernels and older x86 levels, emulated
  clang libclang-rt-dev   # libFuzzer
  pkgconf dpkg-dev file   # the installed library as others find it, its Debian package
)

packages=("${build_packages[@]}")
case ${1:---test} in
  --build) ;;
  --test) packages+=("${test_packages[@]}") ;;
  --list) printf '%s\n' "${build_packages[@]}" "${test_packages[@]}"; exit 0 ;;
  *) echo "usage: tools/setup.sh [--build | --test | --list]" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not a Debian system; the packages needed there are: ${packages[*]}" >&2
  exit 0
fi
missing=()
for package in "${packages[@]}"; do
  [[ $(dpkg-query -W -f='${Status}' "$package" 2>/dev/null) == "install ok installed" ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: all ${#packages[@]} packages are there"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo)
  else
    echo "setup: no rights to install packages; as root run" >&2
    echo "  apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 2
  fi
fi
echo "setup: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${as_root[@]}" apt-get update && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
       apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  exit 2
fi
