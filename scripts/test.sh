#!/usr/bin/env bash
# Builds and tests everything. Warnings are errors. Ends with what this machine could not test, and why, and ctest's
# summary line.
#
#   scripts/test.sh          g++ as users get it; clang under AddressSanitizer and UndefinedBehaviorSanitizer, the programs
#                            with threads under ThreadSanitizer, each with the sweeps of operators as g++ has compiled
#                            them; clang without tests; the GPU report; the kernels of Arm under qemu (scripts/arm.sh)
#   scripts/test.sh tsan     one of them, compiled as a whole; likewise asan, ubsan, debug, clang, release
#
# INLAY_REQUIRE=avx512,data,... makes it a failure that this machine lacks one of these (tests/support/requirements.hpp).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
install_packages "${build_packages[@]}" "${test_packages[@]}"

log=$(mktemp)
skipped=$(mktemp)
trap 'rm -f "$log" "$skipped"' EXIT

# build PRESET "CMAKE OPTIONS" "TARGETS": configures and builds one preset.
build() {
  echo "== $1"
  # shellcheck disable=SC2086  # lists of words
  cmake --preset "$1" $2 >"$log" 2>&1 || { cat "$log"; exit 1; }
  # shellcheck disable=SC2086
  cmake --build "build/$1" $3 >"$log" 2>&1 || { cat "$log"; exit 1; }
}

# check PRESET CTEST-OPTIONS..: runs its tests and notes which were skipped.
check() {
  local preset=$1 failed=0
  shift
  ctest --test-dir "build/$preset" -j2 --output-on-failure "$@" | tee "$log" || failed=1
  grep -oh 'not tested: .*' "build/$preset/Testing/Temporary/LastTest.log" >>"$skipped" || true
  summary=$(grep 'tests passed' "$log" || true)
  [ $failed -eq 0 ] || finish 1
}

# report: the gpu shape of OpenCL kernels as compilers for GPUs see it, where these install.
report() {
  echo "== GPU report"
  local status=0
  scripts/gpu_report.sh --check >"$log" 2>&1 || status=$?
  if [ $status -eq 77 ]; then
    echo "not tested: GPU report, whose compilers do not install" >>"$skipped"
  elif [ $status -ne 0 ]; then
    cat "$log"
    finish 1
  fi
}

# arm: the CPU kernels of the other architecture, where its compiler installs.
arm() {
  echo "== Arm"
  local status=0
  scripts/arm.sh >"$log" 2>&1 || status=$?
  if [ $status -eq 77 ]; then
    echo "not tested: levels of Arm, whose compiler or emulator does not install" >>"$skipped"
  elif [ $status -ne 0 ]; then
    cat "$log"
    finish 1
  fi
}

# finish STATUS: the list of skipped tests; ctest's summary is the last line.
finish() {
  if [ -s "$skipped" ]; then
    echo "Not tested here:"
    sort "$skipped" | uniq -c | sed -E 's/^ *([0-9]+) not tested: /  /'
  fi
  [ -z "${summary:-}" ] || echo "$summary"
  exit "$1"
}

# Every operator divides its output among threads, and the executor runs them all.
threaded="$(sed -n '/^set(INLAY_OPS$/,/^)/p' CMakeLists.txt | grep -E '^  ') core_parallel core_threads exec_decoder"

# A sanitizer's build; $2: where the objects of the operators' tests come from, or nothing.
sanitized() {
  local objects="-DINLAY_TEST_OBJECTS=${2:-}" required
  # There is no OpenCL in it, nor a platform for objects that have been compiled with it.
  required=$(tr , '\n' <<<"${INLAY_REQUIRE:-}" | sed '/^cl$/d' | paste -sd,)
  local -x INLAY_REQUIRE=$required
  if [ "$1" = tsan ]; then
    # shellcheck disable=SC2086
    build tsan "-DINLAY_BENCH=OFF -DINLAY_TOOLS=OFF $objects" "--target $(printf 'test_%s ' $threaded)"
    # shellcheck disable=SC2086
    check tsan -R "^($(printf '%s|' $threaded)none)\$"
  else
    build "$1" "-DINLAY_BENCH=OFF $objects" ""
    check "$1"
  fi
}

# For its warnings: kernels set their own optimization, and tests are compiled once.
clang_build() { build clang "-DINLAY_TESTS=OFF -DCMAKE_CXX_FLAGS_RELEASE=-O1" ""; }

if [ $# -eq 0 ]; then
  build release "" ""
  sanitized asan "$PWD/build/release"
  sanitized tsan "$PWD/build/release"
  clang_build
  check release
  report
  arm
fi
for preset in "$@"; do
  case $preset in
    asan | ubsan | tsan) sanitized "$preset" ;;
    clang) clang_build ;;
    release) build release "" "" && check release && report ;;
    *) build "$preset" "" "" && check "$preset" ;;
  esac
done
finish 0
