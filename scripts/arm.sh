#!/usr/bin/env bash
# The CPU kernels of 64-bit Arm, cross-built with Debian's compiler and run under qemu-user, which has every extension
# that a level takes. Says nothing of speed but how many instructions the main loops take (scripts/arm_counts.py).
#
#   scripts/arm.sh            the SIMD primitives of each level; linear_w4a16 with both forms of its codes and random
#                             structs of every operator, on all levels
#   scripts/arm.sh all        the whole sweep of every operator besides (a quarter of an hour on two
#                             cores, and as long to build); OpenCL and NPU machines sit it out
#   scripts/arm.sh all OP..   of these operators
#
# INLAY_FUZZ_RUNS=n takes n structs of each operator. Exits with 77 where the compiler or qemu does not install.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
install_packages "${arm_packages[@]}" || { echo "the compiler for Arm or qemu does not install" >&2; exit 77; }

tests=(simd_neon simd_neon_dotprod simd_neon_i8mm core_w4_forms fuzz_operators)
if [ "${1:-}" = all ]; then
  shift
  [ $# -gt 0 ] || mapfile -t operators < <(sed -n '/^set(INLAY_OPS$/,/^)/{s/^  //p}' CMakeLists.txt)
  tests+=("$@" "${operators[@]}")
fi
cmake --preset arm
cmake --build build/arm --target "${tests[@]/#/test_}" arm_loops_neon_dotprod arm_loops_neon_i8mm
INLAY_SWEEP=cpu ctest --test-dir build/arm -j2 --output-on-failure \
  -R "^($(IFS='|'; echo "${tests[*]}")|arm_counts|weak_symbols_(scalar|neon.*))\$"
