#!/usr/bin/env bash
# Small random structs of every operator on oclgrind, which watches each access of each work-item: out of bounds, races,
# divergent barriers, and values that nobody wrote, in two passes. Zero findings are wanted, and kernels with planted bugs
# must be found. oclgrind's exit code says nothing: its words are read.
#
#   scripts/oclgrind.sh            a few structs of each operator
#   scripts/oclgrind.sh 50 rms_norm   50 structs of one
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
install_packages "${build_packages[@]}" "${test_packages[@]}" "${oclgrind_packages[@]}"
export INLAY_FUZZ_RUNS=${1:-4} INLAY_UNDER_OCLGRIND=1 INLAY_CL_LANGUAGE=CL1.2 INLAY_CL_DEVICE=Oclgrind
operator=${2:-*}

mkdir -p build
cmake --preset release >build/oclgrind.log 2>&1 || { cat build/oclgrind.log; exit 1; }
cmake --build build/release --target test_cl_random >build/oclgrind.log 2>&1 || { cat build/oclgrind.log; exit 1; }
words='Invalid (read|write)|Uninitialized|data race|Divergence|divergence|FATAL|Unaligned|Invalid memory'
failed=0
for pass in --data-races --uninitialized; do
  log=build/oclgrind$pass.log
  oclgrind $pass build/release/tests/test_cl_random --gtest_brief=1 --gtest_filter="ClRandom/$operator.*" >"$log" 2>&1 || failed=1
  found=$(grep -cEi "$words" "$log" || true)
  echo "$pass: $found findings, $(tail -n 1 "$log")"
  if [ "$found" -ne 0 ] || [ $failed -ne 0 ]; then grep -Ei -A4 "$words|Failure" "$log" | head -60; failed=1; fi
done
for bug in race:--data-races outside: unwritten:--uninitialized; do
  # shellcheck disable=SC2086
  oclgrind ${bug#*:} build/release/tests/test_cl_random --gtest_filter="ClBroken.${bug%%:*}" >build/oclgrind_broken.log 2>&1 || true
  if grep -qEi "$words" build/oclgrind_broken.log; then
    echo "planted ${bug%%:*}: found"
  else
    echo "planted ${bug%%:*}: NOT found"
    failed=1
  fi
done
exit $failed
