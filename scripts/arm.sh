#!/usr/bin/env bash
# The CPU kernels of 64-bit Arm, cross-built with Debian's compiler and run under qemu-user, which has every extension
# that a level takes. Says nothing of speed but how many instructions the main loops take (scripts/arm_counts.py).
#
#   scripts/arm.sh            the SIMD primitives of each level; linear_w4a16 with both forms of its codes and random
#                             structs of every operator, on all levels
#   scripts/arm.sh all        the whole sweep of every operator besides (a quarter of an hour on two
#                             cores, and as long to build); OpenCL and NPU machines sit it out
#   scripts/arm.sh all OP..   of these operators
#   scripts/arm.sh wheel      the Python package: a wheel for 64-bit Arm in build/arm_wheel, and its tests
#
# INLAY_FUZZ_RUNS=n takes n structs of each operator. Exits with 77 where the compiler or qemu does not install.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
install_packages "${arm_packages[@]}" || { echo "the compiler for Arm or qemu does not install" >&2; exit 77; }

# pyproject.toml's build with Debian's Python for Arm, which the kernel starts through qemu (binfmt_misc): CMake and the
# compiler that it calls are this machine's own.
wheel() {
  local root=$PWD/build/arm_root folder=$PWD/build/arm_wheel release test
  local python=$root/usr/bin/python3 libraries=$root/usr/lib/aarch64-linux-gnu/pkgconfig
  install_packages "${story_packages[@]}" "${arm_wheel_packages[@]}" || { echo "Python for Arm does not install" >&2; exit 77; }
  mkdir -p build
  release=$(. /etc/os-release && echo "$VERSION_CODENAME")
  [ -x "$python" ] || mmdebstrap --variant=extract --architectures=arm64 \
    --include=python3-dev,python3-pip,libc6-dev,libstdc++6,libpcre2-dev,libutf8proc-dev "$release" "$root"
  export QEMU_LD_PREFIX=$root PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$libraries PIP_DISABLE_PIP_VERSION_CHECK=1
  "$python" -c '' || { echo "the kernel does not start programs for Arm (binfmt_misc)" >&2; exit 77; }
  # The versions are those of the test bindings_python.
  local -a packages
  mapfile -t packages < <(grep -oE '(scikit-build-core|nanobind|numpy|ml_dtypes|tqdm)==[0-9.]+' tests/bindings/python/run.py)
  "$python" -m pip install -q --break-system-packages --root-user-action ignore "${packages[@]}"
  "$python" -m pip wheel --no-build-isolation --no-deps -w "$folder" . --config-settings=build-dir="$folder/build" \
    --config-settings=cmake.define.CMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake" \
    --config-settings=cmake.define.CMAKE_SYSROOT="$root"
  "$python" -m pip install -q --break-system-packages --root-user-action ignore --force-reinstall --no-deps "$folder"/inlay-*.whl
  for test in metadata operators refusals weights model; do
    echo "+ $test.py"
    "$python" "tests/bindings/python/$test.py" models/stories.gguf  # which is for the last one
  done
  ls -l "$folder"/inlay-*.whl
}
if [ "${1:-}" = wheel ]; then
  wheel
  exit
fi

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
