#!/usr/bin/env bash
# Small random structs of every operator on oclgrind, which watches each access of each work-item: out of bounds, races and
# divergent barriers in one pass, values that nobody wrote in another. Nothing may be found, and kernels with planted bugs
# must be. oclgrind's exit code says nothing: its words are read.
#
#   scripts/oclgrind.sh            a few structs of each operator
#   scripts/oclgrind.sh 50 rms_norm   50 structs of one
#
# Debian's oclgrind 21.10 is built from its source with scripts/oclgrind.patch, which says why; a minute and a half of two
# cores, once. OCLGRIND_SOURCE=FILE: the archive of the source where it cannot be fetched.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
install_packages "${build_packages[@]}" "${test_packages[@]}" "${oclgrind_packages[@]}"
export INLAY_FUZZ_RUNS=${1:-4} INLAY_UNDER_OCLGRIND=1 INLAY_CL_LANGUAGE=CL1.2 INLAY_CL_DEVICE=Oclgrind

# quietly COMMAND..: its words only where it fails.
mkdir -p build
quietly() { "$@" >build/oclgrind.log 2>&1 || { cat build/oclgrind.log; exit 1; }; }

build_oclgrind() {
  local source=build/oclgrind.tar.gz llvm=/usr/lib/llvm-14
  local from=http://deb.debian.org/debian/pool/main/o/oclgrind/oclgrind_21.10.orig.tar.gz
  local sum=b40ea81fcf64e9012d63c3128640fde9785ef4f304f9f876f53496595b8e62cc
  if [ -n "${OCLGRIND_SOURCE:-}" ]; then cp "$OCLGRIND_SOURCE" $source; else quietly curl -fsSL -o $source $from; fi
  echo "$sum  $source" | sha256sum --quiet --check
  rm -rf build/oclgrind
  mkdir -p build/oclgrind/source
  tar xzf $source -C build/oclgrind/source --strip-components=1
  quietly patch -p1 -d build/oclgrind/source -i "$PWD/scripts/oclgrind.patch"
  # Without Python it has no tests to build.
  quietly cmake -S build/oclgrind/source -B build/oclgrind/build -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$PWD/build/oclgrind" -DLLVM_DIR=$llvm/lib/cmake/llvm -DCLANG_ROOT=$llvm \
    -DCMAKE_DISABLE_FIND_PACKAGE_PythonInterp=ON
  quietly cmake --build build/oclgrind/build --target install
  cp scripts/oclgrind.patch build/oclgrind/built_with
}
cmp -s scripts/oclgrind.patch build/oclgrind/built_with || build_oclgrind

quietly cmake --preset release
quietly cmake --build build/release --target test_cl_random
program=build/release/tests/test_cl_random
operators=${2:-$($program --gtest_list_tests | sed -n 's/^ClRandom\/\([a-z_0-9]*\)\..*/\1/p')}

words='^(Invalid|Uninitialized|Controlflow depends|Read-write data race|Write-write data race|Work-group divergence'
words+='|Unaligned|OCLGRIND FATAL)'
# watched PASS FILTER LOG: the number of findings, "failed" where a result was wrong, or "fell" where there was no end.
watched() {
  # Optimized programs use what oclgrind does not know (llvm.assume).
  build/oclgrind/bin/oclgrind "$1" --build-options -cl-opt-disable $program --gtest_brief=1 --gtest_filter="$2" \
    >"$3" 2>&1 || true
  if ! grep -q '^\[  PASSED  \]' "$3"; then
    echo fell
  elif grep -q '^\[  FAILED  \]' "$3"; then
    echo failed
  else
    grep -cE "$words" "$3" || true
  fi
}

failed=0
# nothing_in NAME FILTER
nothing_in() {
  local pass log found
  for pass in --data-races --uninitialized; do
    log=build/oclgrind$pass.$1.log
    found=$(watched $pass "$2" "$log")
    echo "$1 $pass: $found"
    [ "$found" = 0 ] || { grep -E -A4 "$words|Failure" "$log" | head -20 || true; failed=1; }
  done
}
for operator in $operators; do nothing_in "$operator" "ClRandom/$operator.*"; done
nothing_in sound 'ClPlanted.sound'
for bug in race:--data-races outside:--data-races unwritten:--uninitialized unwritten_scratch:--uninitialized \
  unwritten_private:--uninitialized unwritten_local:--uninitialized unwritten_lane:--uninitialized; do
  found=$(watched "${bug#*:}" "ClPlanted.${bug%%:*}" build/oclgrind_planted.log)
  echo "planted ${bug%%:*}: $found"
  [[ "$found" == [1-9]* ]] || failed=1
done
exit $failed
