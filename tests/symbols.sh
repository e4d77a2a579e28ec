#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# symbols.sh LIBRARY HEADER: the shared library exports the functions that the C header declares and the C++ interface,
# namespace siattn, and nothing else. Prints what is wrong; exit status 1 if anything is.
set -eu
: "${NM:=nm}"
exported=$("$NM" --dynamic --defined-only --format=posix "$1" | sed 's/[ @].*//' | sort -u)
declared=$(sed -n 's/^SIATTN_EXPORT .*[ *]\(siattn_[a-z0-9_]*\)(.*/\1/p' "$2" | sort -u)
bad=0

c_names=$(printf '%s\n' "$exported" | grep -v '^_Z' | sort -u)
if [ "$c_names" != "$declared" ]; then
  echo "exported without a declaration, or declared and not exported:"
  printf '%s\n%s\n' "$c_names" "$declared" | sort | uniq -u
  bad=1
fi
others=$(printf '%s\n' "$exported" | grep '^_Z' | grep -v -E '^_Z(N|NK|T[ISV]N)6siattn' || true)
if [ -n "$others" ]; then
  printf 'not of namespace siattn:\n%s\n' "$others"
  bad=1
fi
inner=$(printf '%s\n' "$exported" | grep -E '6siattn(8dispatch|3cpu|9reference|3gpu|4capi|8encoding)' || true)
if [ -n "$inner" ]; then
  printf 'inner parts:\n%s\n' "$inner"
  bad=1
fi
# Those with inline functions and types alone need not be exported; all else a program of others would not find.
hidden=$(cd "$(dirname "$2")" && grep -L 'SIATTN_EXPORT' ./*.hpp | tr '\n' ' ')
if [ "$hidden" != './float16.hpp ./status.hpp ./tensor_view.hpp ' ]; then
  echo "headers that do not export their namespace: $hidden"
  bad=1
fi
[ "$(printf '%s\n' "$declared" | wc -l)" -ge 10 ] || { echo "too few declarations found in $2"; bad=1; }
exit $bad
