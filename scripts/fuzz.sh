#!/usr/bin/env bash
# Fuzzes for a long time: libFuzzer, under the address and undefined behaviour sanitizers.
#
#   scripts/fuzz.sh                each target of tests/fuzz/CMakeLists.txt for 5 minutes, one after the other
#   scripts/fuzz.sh gguf 60        one of them, for an hour
#
# What it learns stays in build/fuzz/corpus/<target> and is where the next run begins; what it finds is in
# build/fuzz/found/<target>, and the script fails. A finding becomes a test with a name, and then it is mended.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
install_packages "${build_packages[@]}" "${test_packages[@]}"

mapfile -t targets < <(sed -nE 's/^ *inlay_fuzz_target\(([a-z_0-9]+) .*/\1/p' tests/fuzz/CMakeLists.txt)
minutes=${2:-5}
if [ $# -gt 0 ]; then
  [[ " ${targets[*]} " == *" $1 "* ]] || { echo "no target '$1'; there are: ${targets[*]}" >&2; exit 2; }
  targets=("$1")
fi

mkdir -p build
cmake --preset fuzz >build/fuzz.log 2>&1 || { cat build/fuzz.log; exit 1; }
# shellcheck disable=SC2046  # a list of words
cmake --build build/fuzz --target $(printf 'fuzz_%s ' "${targets[@]}") >build/fuzz.log 2>&1 || { cat build/fuzz.log; exit 1; }

failed=0
for target in "${targets[@]}"; do
  mkdir -p "build/fuzz/corpus/$target" "build/fuzz/found/$target"
  corpora=("build/fuzz/corpus/$target")
  [ ! -d "tests/fuzz/corpus/$target" ] || corpora+=("tests/fuzz/corpus/$target")
  log=build/fuzz/$target.log
  # Limits and dictionary are the target's own.
  read -ra flags <"build/fuzz/tests/fuzz/$target.flags"
  seconds=$SECONDS
  nice -n 19 "build/fuzz/tests/fuzz/fuzz_$target" "${flags[@]}" -max_total_time=$((minutes * 60)) -print_final_stats=1 \
    -artifact_prefix="build/fuzz/found/$target/" "${corpora[@]}" >"$log" 2>&1 || failed=1
  runs=$(sed -nE 's/^stat::number_of_executed_units: *//p' "$log")
  found=$(find "build/fuzz/found/$target" -type f | wc -l)
  echo "$target: ${runs:-?} executions in $(((SECONDS - seconds) / 60)) minutes, $found found"
  [ "$found" -eq 0 ] || failed=1
  if [ $failed -ne 0 ]; then grep -E 'broken promise|ERROR|runtime error|SUMMARY|Test unit written' "$log" || tail -5 "$log"; fi
done
exit $failed
