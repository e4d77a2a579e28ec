#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install.sh SOURCE BUILD WORK: installs BUILD, moves the result, and builds others' programs against it, with
# find_package and with pkg-config, against the static and the shared library; then looks into the packages of CPack.
set -eu
source=$1 build=$2 work=$3
prefix=$work/moved
examples=$source/examples
CC=${CC:-cc} CXX=${CXX:-c++}
export CC CXX

fail() {
  echo "install: $*" >&2
  exit 1
}

# Runs a program, with what the loader says that it needs: the shared library of this prefix, or none.
runs() {  # FORM WORDS PROGRAM...
  form=$1 words=$2
  shift 2
  loaded=$(ldd "$1" | sed -n 's/.*libsiattn\.so[^ ]* => \([^ ]*\).*/\1/p')
  case $form in
    static) [ -z "$loaded" ] || fail "$1 is static but loads $loaded" ;;
    shared) [ "$(realpath "$loaded")" = "$(realpath "$prefix"/lib/libsiattn.so)" ] || fail "$1 loads '$loaded'" ;;
  esac
  out=$("$@") || fail "$1 exits with $?: $out"
  case $out in
    *"$words"*) ;;
    *) fail "$1 prints '$out': expected '$words'" ;;
  esac
}

refused() {  # WORDS CMAKE_ARGUMENTS...
  words=$1
  shift
  rm -rf "$work/refused"
  out=$(cmake -S "$source/tests/consumer" -B "$work/refused" -DCMAKE_PREFIX_PATH="$prefix" "$@" 2>&1) &&
    fail "$* is accepted"
  case $(printf '%s' "$out" | tr -s '\n ' ' ') in
    *"$words"*) ;;
    *) fail "$* is refused with '$out': expected '$words'" ;;
  esac
}

rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --prefix "$work/first" >"$work/install.log"
mv "$work/first" "$prefix"
for path in "$source" "$build" "$work/first"; do
  ! grep -rlF "$path" "$prefix/lib/cmake" "$prefix/lib/pkgconfig" || fail "these name $path"
done
readelf -d "$prefix/lib/libsiattn.so" | grep -q 'SONAME.*\[libsiattn\.so\.[0-9.]*\]' || fail 'no soname'
! readelf -d "$prefix/lib/libsiattn.so" "$prefix/bin/siattn" | grep -E 'RPATH|RUNPATH' || fail 'a run path is left'

consumer() {  # FORM FOLDER CMAKE_ARGUMENTS...
  form=$1 folder=$work/$2
  shift 2
  { cmake -G Ninja -S "$source/tests/consumer" -B "$folder" -DCMAKE_PREFIX_PATH="$prefix" -DEXAMPLES="$examples" \
      -DFORM="$form" "$@" && cmake --build "$folder"; } >"$folder.log" 2>&1 || fail "$form $*: $(cat "$folder.log")"
}

for form in static shared; do
  verify=OFF
  [ $form = shared ] || verify=ON
  consumer $form $form -DVERIFY=$verify -DSIATTN_WANTED=0.1
  runs $form '= 0.1' "$work/$form/app"
  runs $form 'from one prefill' "$work/$form/decode"
  [ $verify = OFF ] || runs static 'good' "$work/$form/conform"
  consumer $form $form-c -DLANGUAGES=C
  runs $form 'from one prefill' "$work/$form-c/decode"
done

PKG_CONFIG_PATH=$prefix/lib/pkgconfig
export PKG_CONFIG_PATH
LD_LIBRARY_PATH=$prefix/lib
export LD_LIBRARY_PATH
for form in static shared; do
  package=siattn
  [ $form = shared ] || package=siattn-static
  # shellcheck disable=SC2046
  "$CXX" -std=c++20 "$examples/attention.cpp" $(pkg-config --cflags --libs $package) -o "$work/app-$form"
  runs $form '= 0.1' "$work/app-$form"
  # shellcheck disable=SC2046
  "$CC" -std=c11 "$examples/decode.c" $(pkg-config --cflags --libs $package) -lm -o "$work/decode-$form"
  runs $form 'from one prefill' "$work/decode-$form"
done

refused 'no component nonsense' -DFORM=nonsense
refused 'take one' -DFORM=shared -DVERIFY=ON
refused 'version' -DSIATTN_WANTED=99

(cd "$build" && cpack -G 'TGZ;DEB' -B "$work/packages") >"$work/cpack.log" 2>&1 ||
  fail "cpack: $(cat "$work/cpack.log")"
files() { (cd "$1" && find . ! -type d | sort); }
mkdir "$work/tgz" "$work/deb"
tar -xzf "$work"/packages/*.tar.gz -C "$work/tgz" --strip-components 1
dpkg-deb -x "$work"/packages/*.deb "$work/deb"
files "$prefix" >"$work/expected"
files "$work/tgz" | diff "$work/expected" - || fail 'the .tar.gz holds other files'
files "$work/deb/usr" | diff "$work/expected" - || fail 'the .deb holds other files'
dpkg-deb -f "$work"/packages/*.deb Depends | grep -q libgomp1 || fail 'the .deb does not depend on libgomp1'

echo "install: all good"
