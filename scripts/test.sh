#!/usr/bin/env bash
# Builds and tests everything. Ends with ctest's summary. Warnings are errors.
#
#   scripts/test.sh          clang under AddressSanitizer and UndefinedBehaviorSanitizer, then g++ as users get it
#   scripts/test.sh tsan     the threaded tests under ThreadSanitizer; likewise asan, ubsan, debug, clang, release
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
install_packages "${build_packages[@]}" "${test_packages[@]}"

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# suite PRESET "CMAKE OPTIONS" "TARGETS" CTEST-OPTIONS..: configures, builds and tests one preset.
suite() {
  local preset=$1 options=$2 targets=$3
  shift 3
  echo "== $preset"
  # shellcheck disable=SC2086  # lists of words
  cmake --preset "$preset" $options >"$log" 2>&1 || { cat "$log"; exit 1; }
  # shellcheck disable=SC2086
  cmake --build "build/$preset" $targets >"$log" 2>&1 || { cat "$log"; exit 1; }
  ctest --test-dir "build/$preset" -j2 --output-on-failure "$@"
}

threaded="core_parallel linear linear_int8 linear_w4a16 flash_attention incre_flash_attention paged_attention exec_decoder"

[ $# -gt 0 ] || set -- asan release
for preset in "$@"; do
  case $preset in
    # shellcheck disable=SC2086
    tsan) suite tsan "-DINLAY_BENCH=OFF -DINLAY_TOOLS=OFF" "--target $(printf 'test_%s ' $threaded)" -R "^(${threaded// /|})\$" ;;
    release | debug) suite "$preset" "" "" ;;
    *) suite "$preset" "-DINLAY_BENCH=OFF" "" ;;
  esac
done
