#!/bin/sh
# The kernels as headers (inlay/cpu_inline.hpp) as their users compile them: every operator at scalar, avx2, avx512 and this
# machine's own level in one program, with each compiler, optimized and not; the oldest unit on the oldest machine that
# qemu-user has. ctest runs one of these (consumer_headers); all take some minutes of two cores. Then everything as shared
# libraries, installed, for the projects in tests/consumer that link them (ctest: as static ones).
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
echo shared
build=$source/build/shared
cmake -S "$source" -B "$build" -G Ninja -DBUILD_SHARED_LIBS=ON -DINLAY_TESTS=OFF -DINLAY_BENCH=OFF -DINLAY_ONNX=OFF > /dev/null
cmake --build "$build" > "$build/log" || { cat "$build/log"; exit 1; }
for project in package exec; do
  cmake -DCONSUMER="$source/tests/consumer/$project" -DBUILD="$build" -DSOURCE="$source" -DCOMPILER=c++ -DFLAGS= \
    -P "$source/tests/consumer/build_and_run.cmake"
done
LD_LIBRARY_PATH='' "$build/consumer/prefix_exec/bin/inlay" run --tokens 8 "Once upon a time"
