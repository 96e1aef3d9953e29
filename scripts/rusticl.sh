#!/usr/bin/env bash
# Small random structs of every operator on rusticl over llvmpipe (Mesa): another compiler than PoCL's, and a device
# without doubles. Both shapes run on it. It compiles for minutes what PoCL compiles in a second.
#
#   scripts/rusticl.sh                a struct of each operator
#   scripts/rusticl.sh 10 rms_norm    10 structs of one
#
# A wrong result fails. A program that rusticl does not come to an end with (LIMIT seconds, 300), or falls on, is told.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
install_packages "${build_packages[@]}" "${test_packages[@]}" "${rusticl_packages[@]}"

mkdir -p build/rusticl
echo libRusticlOpenCL.so.1 >build/rusticl/rusticl.icd  # alone: PoCL stays the other tests' device
export INLAY_FUZZ_RUNS=${1:-1} OCL_ICD_VENDORS=$PWD/build/rusticl RUSTICL_ENABLE=llvmpipe
cmake --preset release >build/rusticl.log 2>&1 || { cat build/rusticl.log; exit 1; }
cmake --build build/release --target test_cl_random >build/rusticl.log 2>&1 || { cat build/rusticl.log; exit 1; }
program=build/release/tests/test_cl_random
operators=${2:-$($program --gtest_list_tests | sed -n 's/^ClRandom\/\([a-z_0-9]*\)\..*/\1/p')}

failed=0
for operator in $operators; do
  log=build/rusticl.$operator.log
  code=0
  timeout "${LIMIT:-300}" $program --gtest_brief=1 --gtest_filter="ClRandom/$operator.*" >"$log" 2>&1 || code=$?
  case $code in
    0) echo "$operator: passed" ;;
    1) echo "$operator: FAILED"; grep -A8 Failure "$log" || true; failed=1 ;;
    124) echo "$operator: no end in ${LIMIT:-300} s" ;;
    *) echo "$operator: rusticl fell (exit code $code)" ;;
  esac
done
exit $failed
