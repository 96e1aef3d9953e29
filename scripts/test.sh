#!/usr/bin/env bash
# Builds and tests everything. Warnings are errors. Ends with what this machine could not test, and why, how long each
# stage took, and ctest's summary line.
#
#   scripts/test.sh          g++ as users get it; libraries by clang under AddressSanitizer and UndefinedBehaviorSanitizer,
#                            and those with threads under ThreadSanitizer, linked with the tests that g++ has compiled;
#                            clang's warnings about the rest; the GPU report; the kernels of Arm under qemu (scripts/arm.sh)
#   scripts/test.sh tsan     one of them, compiled as a whole; likewise asan, ubsan, debug, clang, release
#
# INLAY_REQUIRE=avx512,data,... makes it a failure that this machine lacks one of these (tests/support/requirements.hpp).
# INLAY_SECONDS=N: what comes behind release's own tests is left out, and said to be, where by this machine's pace it
# would end later than that, and is cut off where it does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
install_packages "${build_packages[@]}" "${test_packages[@]}"
# Before the tests too: clang 15 compiles OpenCL sources for one machine more. Where it does not install they say so.
install_packages "${report_packages[@]}" || true
# Ranks that are processes are tested over each MPI that is there; where one does not install they say so.
install_packages "${mpi_packages[@]}" || true

log=$(mktemp)
skipped=$(mktemp)
trap 'rm -f "$log" "$skipped"' EXIT

# stage TITLE: what comes now, and how long everything before it took.
stages=() began=()
stage() {
  echo "== $1, after $SECONDS s"
  stages+=("$1") began+=("$SECONDS")
}
# How long each stage took, in order.
print_stages() {
  local i end
  began+=("$SECONDS")
  for i in "${!stages[@]}"; do
    end=$((i + 1))
    printf '%6d s  %s\n' $((began[end] - began[i])) "${stages[i]}"
  done
  printf '%6d s  in all\n' "$SECONDS"
}

# A tenth of clang's time is that of fetching its memory page by page.
huge_pages=glibc.malloc.hugetlb=1
# Two hundred tests are linked in a quarter of the time that binutils take.
linker="-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld -DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=lld"

# in_time "WHAT" SHARE: is there time for it? It takes SHARE percent of what release did, by a quiet machine.
in_time() {
  local end=$((SECONDS + release_took * $2 / 100))
  [ "$end" -le "${INLAY_SECONDS:-$end}" ] && return
  echo "not tested: $1, which would have ended after $end s of ${INLAY_SECONDS} s" >>"$skipped"
  return 1
}

# within COMMAND..: its status; 124 where INLAY_SECONDS were over before it ended. A machine that becomes busy in the middle
# of what it had time for is no failure, except of release, which has to end.
release_took=
within() {
  local left=$((${INLAY_SECONDS:-0} - SECONDS))
  [ -z "$release_took" ] || [ -z "${INLAY_SECONDS:-}" ] || set -- timeout $((left > 1 ? left : 1)) "$@"
  "$@"
}
cut_off() { echo "not tested: $1, which INLAY_SECONDS=$INLAY_SECONDS cut off" >>"$skipped"; }

# build PRESET "CMAKE OPTIONS" "TARGETS": configures and builds one preset.
build() {
  local status=0
  stage "build of $1"
  # shellcheck disable=SC2086  # lists of words
  cmake --preset "$1" $2 >"$log" 2>&1 || { cat "$log"; exit 1; }
  # shellcheck disable=SC2086
  within env GLIBC_TUNABLES=$huge_pages cmake --build "build/$1" $3 >"$log" 2>&1 || status=$?
  case $status in
    0) ;;
    124) cut_off "what the build of $1 is for"; finish 0 ;;
    *) cat "$log"; exit 1 ;;
  esac
}

# check PRESET CTEST-OPTIONS..: runs its tests and notes which were skipped.
check() {
  local preset=$1 status=0
  shift
  stage "tests of $preset"
  # One that hangs is to be named while CI still has time: the longest takes four minutes.
  within ctest --test-dir "build/$preset" -j3 --timeout 900 --output-on-failure "$@" | tee "$log" || status=$?
  grep -oh 'not tested: .*' "build/$preset/Testing/Temporary/LastTest.log" >>"$skipped" || true
  if [ $status -eq 124 ] && ! grep -E '[*]{3}[A-Z]' "$log" | grep -qv Skipped; then
    cut_off "some of the tests of $preset behind $(grep -c ' Passed ' "$log") that passed"
    finish 0
  fi
  summary=$(grep 'tests passed' "$log" || true)
  [ $status -eq 0 ] || finish 1
}

# where_it_installs TITLE "WHAT IS MISSING" COMMAND..: a stage that exits with 77 where its tools do not install.
where_it_installs() {
  local missing=$2 status=0
  stage "$1"
  within "${@:3}" >"$log" 2>&1 || status=$?
  case $status in
    0) ;;
    77) echo "not tested: $missing" >>"$skipped" ;;
    124) cut_off "$missing" ;;
    *) cat "$log"; finish 1 ;;
  esac
}
# The per-group shape of OpenCL kernels as compilers for GPUs see it; the CPU kernels of the other architecture.
report() { where_it_installs "GPU report" "GPU report, whose compilers do not install" scripts/gpu_report.sh --check; }
arm() { where_it_installs Arm "levels of Arm, whose compiler or emulator does not install" scripts/arm.sh; }

# finish STATUS: the list of skipped tests; ctest's summary is the last line.
finish() {
  if [ -s "$skipped" ]; then
    echo "Not tested here:"
    sort "$skipped" | uniq -c | sed -E 's/^ *([0-9]+) not tested: /  /'
  fi
  print_stages
  [ -z "${summary:-}" ] || echo "$summary"
  exit "$1"
}

# Every operator divides its output among threads, and the executor runs them all, on devices with threads of their own too.
operators=$(sed -n '/^set(INLAY_OPS$/,/^)/p' CMakeLists.txt | grep -E '^  ')
threaded="$operators core_parallel core_threads core_threads_ahead exec_decoder exec_devices_at_once exec_ranks exec_ranks_by_rows exec_ranks_lost exec_second_fails"
either() { local IFS="|" && echo "$*"; }  # words as alternatives of a regular expression

# A sanitizer's build; $2: the build whose objects it takes for what it need not watch, or nothing.
sanitized() {
  local preset=$1 options="-DINLAY_BENCH=OFF -DINLAY_TOGETHER=ON -DINLAY_CHECK_ONCE=ON $linker"
  local plain required
  # There is no OpenCL in it, nor a platform for what was compiled with it.
  required=$(tr , '\n' <<<"${INLAY_REQUIRE:-}" | sed '/^cl$/d' | paste -sd,)
  local -x INLAY_REQUIRE=$required
  case $preset in
    # What has threads is watched, tests with threads of their own among it; of the levels those that run.
    tsan)
      plain="inlay_((cl|npu|reference)(_.*)?|engine_(cl|npu|reference)|tile_machine|files|text|model) test_($(either $operators))" options+=" -DINLAY_TOOLS=OFF"
      if grep -qw avx512f /proc/cpuinfo; then
        plain+=" inlay_cpu_(scalar|avx2)_.*"
      else
        plain+=" inlay_cpu_avx512.*"
      fi
      ;;
    # Watched is what writes to memory by numbers that others give it, and what every model runs through: kernels, what reads
    # files, tokenizers, the executor and the decoder that engines have. What calls them stays as g++ compiled it: tests,
    # tools and the reference, half of the time of flash_attention's test; so do the NPU's programs, which have a checker of
    # their own. What starts the command line starts that of its own build. A build as a whole watches all of it:
    # scripts/test.sh asan, by hand.
    *)
      plain="inlay(_cl_.*|_npu_.*|_reference_.*|_engine_(cl|npu|reference|cpu_cl|cpu_npu)|_tune|_verify|_tile_machine|_files)? test_.*"
      # What this machine cannot run nobody watches: a sixth of the build.
      grep -qw avx512f /proc/cpuinfo || plain+=" inlay_cpu_avx512.*"
      ;;
  esac
  [ -z "${2:-}" ] || options+=" -DINLAY_CL=ON -DINLAY_PLAIN_BUILD=$2 -DINLAY_PLAIN=$(either $plain)"
  if [ "$preset" = tsan ]; then
    build tsan "$options" "--target $(printf 'test_%s ' $threaded)"
    check tsan -R "^($(either $threaded))\$"
  else
    build "$preset" "$options" ""
    # Those of what it does not watch, and those that ask for time.
    check "$preset" ${2:+-E '^(consumer_|machine_|npu_|recipes$|simd_|text_(long_texts|chat_costs)$)'}
  fi
}

# For its warnings: kernels set their own optimization, and tests are compiled once.
clang_build() { build clang "-DINLAY_TESTS=OFF -DCMAKE_CXX_FLAGS_RELEASE=-O1" ""; }

# clang_reads [BUILD]: its warnings about what it has not compiled in that build; without one it reads all.
clang_reads() {
  where_it_installs "clang reads what it has not compiled" "clang's warnings about what g++ alone has compiled" \
    env GLIBC_TUNABLES=$huge_pages scripts/clang_reads.py build/release "$@"
}

if [ $# -eq 0 ]; then
  build release "-DINLAY_PRECOMPILE=ON -DINLAY_TOGETHER=ON -DINLAY_CHECK_ONCE=ON -DINLAY_QUICK=ON $linker" ""
  check release -LE long
  release_took=$SECONDS
  compiled_by_clang=
  if in_time "memory, by AddressSanitizer" 50; then
    sanitized asan "$PWD/build/release"
    compiled_by_clang=build/asan
  fi
  in_time "races, by ThreadSanitizer" 25 && sanitized tsan "$PWD/build/release"
  in_time "planted bugs of the NPU's programs, its smallest memories, and projects that build Inlay" 12 && check release -L long
  in_time "GPU report" 6 && report
  in_time "clang's warnings about what g++ alone has compiled" 40 && clang_reads $compiled_by_clang
  in_time "levels of Arm" 25 && arm
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
