#!/bin/sh
# The kernels as headers (inlay/cpu_inline.hpp) as their users compile them: every operator at scalar, avx2, avx512 and this
# machine's own level in one program, with each compiler, optimized and not; the oldest unit on the oldest machine that
# qemu-user has. ctest runs one of these (consumer_headers); all take some minutes of two cores.
#
#   scripts/consumers.sh            # all
#   scripts/consumers.sh g++ -O2    # one
set -e
source=$(cd "$(dirname "$0")/.." && pwd)
build=$source/build/consumers

consume() { # compiler flags
  echo "$1 $2"
  rm -rf "$build"
  cmake -S "$source/tests/consumer/headers" -B "$build" -G Ninja "-DCMAKE_CXX_COMPILER=$1" "-DCMAKE_CXX_FLAGS=$2" \
    -DNATIVE=ON "-DINLAY_SOURCE=$source" > /dev/null
  cmake --build "$build" > "$build/log" || { cat "$build/log"; exit 1; }
  "$build/consumer"
  if [ "$(uname -m)" = x86_64 ] && command -v qemu-x86_64 > /dev/null; then
    qemu-x86_64 -cpu Nehalem "$build/consumer" baseline
  fi
}

if [ $# -gt 0 ]; then
  consume "$1" "$2"
  exit
fi
for compiler in g++ clang++; do
  for flags in -O0 -O2; do
    if command -v $compiler > /dev/null; then consume $compiler $flags; fi
  done
done
