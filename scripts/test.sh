#!/usr/bin/env bash
# Builds and tests everything: with clang under ThreadSanitizer (the threaded tests), with clang under
# AddressSanitizer and UndefinedBehaviorSanitizer, and with g++ as users get it. Warnings are errors.
# Ends with ctest's summary.
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
  ctest --test-dir "build/$preset" --output-on-failure "$@"
}

threaded="core_parallel linear linear_int8 linear_w4a16 flash_attention incre_flash_attention paged_attention"
# shellcheck disable=SC2086
suite tsan "-DINLAY_BENCH=OFF -DINLAY_TOOLS=OFF" "--target $(printf 'test_%s ' $threaded)" \
  -R "^(${threaded// /|})\$"
suite asan "-DINLAY_BENCH=OFF" ""
suite release "" ""
