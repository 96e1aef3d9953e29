#!/usr/bin/env bash
# Small random structs of every operator on oclgrind, which watches each access of each work-item: out of bounds, races and
# divergent barriers in one pass, values that nobody wrote in another. Nothing may be found, and kernels with planted bugs
# must be. oclgrind's exit code says nothing: its words are read.
#
#   scripts/oclgrind.sh            a few structs of each operator
#   scripts/oclgrind.sh 50 rms_norm   50 structs of one
#
# OCLGRIND=PROGRAM takes another than Debian's 21.10, whose second pass is not true of kernels without a bug
# (ClPlanted.sound) and is left out then. What an oclgrind needs for it:
#
#   lane -1 of a shuffle holds anything    21.10 compares with a number of LLVM's kinds of values, 11: lane 11 of a float16
#                                          counts as unwritten, and -1 is read in front of an array, which ends the process
#   a buffer is unwritten from the first   21.10 knows of one when the host writes it, as far as it does: what kernels alone
#                                          write counts as unwritten, or as written where an earlier buffer lay
#   a write of a part keeps the rest       of what is known, by the host too
#   fma() of something unwritten           and a copy to local memory, and a lane that is masked off, are no use of it: the
#                                          result is unwritten. 21.10 tells, and takes it for written.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
install_packages "${build_packages[@]}" "${test_packages[@]}" "${oclgrind_packages[@]}"
export INLAY_FUZZ_RUNS=${1:-4} INLAY_UNDER_OCLGRIND=1 INLAY_CL_LANGUAGE=CL1.2 INLAY_CL_DEVICE=Oclgrind

# quietly COMMAND..: its words only where it fails.
mkdir -p build
quietly() { "$@" >build/oclgrind.log 2>&1 || { cat build/oclgrind.log; exit 1; }; }
quietly cmake --preset release
quietly cmake --build build/release --target test_cl_random
program=build/release/tests/test_cl_random
operators=${2:-$($program --gtest_list_tests | sed -n 's/^ClRandom\/\([a-z_0-9]*\)\..*/\1/p')}

words='^(Invalid|Uninitialized|Controlflow depends|Read-write data race|Write-write data race|Work-group divergence'
words+='|Unaligned|OCLGRIND FATAL)'
# watched PASS FILTER LOG: the number of findings, "failed" where a result was wrong, or "fell" where there was no end.
watched() {
  # Optimized programs use what oclgrind does not know (llvm.assume).
  "${OCLGRIND:-oclgrind}" "$1" --build-options -cl-opt-disable $program --gtest_brief=1 --gtest_filter="$2" \
    >"$3" 2>&1 || true
  if ! grep -q '^\[  PASSED  \]' "$3"; then
    echo fell
  elif grep -q '^\[  FAILED  \]' "$3"; then
    echo failed
  else
    grep -cE "$words" "$3" || true
  fi
}

passes=(--data-races)
if [ "$(watched --uninitialized ClPlanted.sound build/oclgrind_sound.log)" = 0 ]; then
  passes+=(--uninitialized)
elif [ -n "${OCLGRIND:-}" ]; then
  echo "$OCLGRIND finds unwritten values in kernels without a bug: build/oclgrind_sound.log" >&2
  exit 1
else
  echo "not tested: values that nobody wrote, which Debian's oclgrind cannot follow (OCLGRIND=PROGRAM takes another)"
fi

failed=0
# nothing_in NAME FILTER
nothing_in() {
  local pass log found
  for pass in "${passes[@]}"; do
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
  [[ " ${passes[*]} " == *" ${bug#*:} "* ]] || continue
  found=$(watched "${bug#*:}" "ClPlanted.${bug%%:*}" build/oclgrind_planted.log)
  echo "planted ${bug%%:*}: $found"
  [[ "$found" == [1-9]* ]] || failed=1
done
exit $failed
