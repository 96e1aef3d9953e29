#!/usr/bin/env bash
# Small random structs of every operator on oclgrind, which watches each access of each work-item: out of bounds, races and
# divergent barriers in one pass, values that nobody wrote in another. Kernels with planted bugs must be found.
# oclgrind's exit code says nothing: its words are read.
#
#   scripts/oclgrind.sh            a few structs of each operator
#   scripts/oclgrind.sh 50 rms_norm   50 structs of one
#
# The first pass decides. The second one is told and does not: oclgrind 21.10 takes what it does not follow (freeze, a
# vector of which a part was written) for unwritten, and falls on some kernels itself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
install_packages "${build_packages[@]}" "${test_packages[@]}" "${oclgrind_packages[@]}"
export INLAY_FUZZ_RUNS=${1:-4} INLAY_UNDER_OCLGRIND=1 INLAY_CL_LANGUAGE=CL1.2 INLAY_CL_DEVICE=Oclgrind

mkdir -p build
cmake --preset release >build/oclgrind.log 2>&1 || { cat build/oclgrind.log; exit 1; }
cmake --build build/release --target test_cl_random >build/oclgrind.log 2>&1 || { cat build/oclgrind.log; exit 1; }
program=build/release/tests/test_cl_random
operators=${2:-$($program --gtest_list_tests | sed -n 's/^ClRandom\/\([a-z_0-9]*\)\..*/\1/p')}

words='^(Invalid|Uninitialized value|Read-write data race|Write-write data race|Work-group divergence|Unaligned|OCLGRIND FATAL)'
# watched PASS FILTER LOG: the number of findings, or "fell" where oclgrind did not come to an end.
watched() {
  # Optimized programs use what oclgrind does not know (llvm.assume).
  oclgrind "$1" --build-options -cl-opt-disable $program --gtest_brief=1 --gtest_filter="$2" >"$3" 2>&1 || true
  if ! grep -q '^\[  PASSED  \]' "$3"; then echo fell; else grep -cE "$words" "$3" || true; fi
}

failed=0
for operator in $operators; do
  for pass in --data-races --uninitialized; do
    log=build/oclgrind$pass.$operator.log
    found=$(watched $pass "ClRandom/$operator.*" "$log")
    echo "$operator $pass: $found"
    if [ $pass = --data-races ] && [ "$found" != 0 ]; then
      grep -E -A4 "$words|Failure" "$log" | head -20 || true
      failed=1
    fi
  done
done
for bug in race:--data-races outside:--data-races unwritten:--uninitialized; do
  found=$(watched "${bug#*:}" "ClBroken.${bug%%:*}" build/oclgrind_broken.log)
  echo "planted ${bug%%:*}: $found"
  [ "$found" != 0 ] || failed=1
done
exit $failed
