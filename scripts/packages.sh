# Sourced by run.sh and test.sh: installs what is missing of the Debian packages given as arguments.
install_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  local as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  echo "installing ${missing[*]}" >&2
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get update -qq >&2
  "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# What the library and the command line are built with: for a story, and for the parts that can be left out.
story_packages=(g++ cmake ninja-build pkg-config libexpected-dev libxsimd-dev libcli11-dev nlohmann-json3-dev libpcre2-dev
  libutf8proc-dev)
onnx_packages=(libprotobuf-dev protobuf-compiler libonnx-dev)
cl_packages=(ocl-icd-opencl-dev opencl-c-headers)
serve_packages=(libcpp-httplib-dev)
build_packages=("${story_packages[@]}" "${onnx_packages[@]}" "${cl_packages[@]}" "${serve_packages[@]}" libbenchmark-dev)
# What the tests need beyond it.
test_packages=(git clang libomp-dev libclang-rt-14-dev lld llvm-14 libgtest-dev libeigen3-dev libdlpack-dev python3
  python3-dev python3-pip python3-venv pocl-opencl-icd binutils)
# Both MPIs whose ranks are tested (tests/mpi.cmake).
mpi_packages=(libopenmpi-dev openmpi-bin libmpich-dev mpich)
# What scripts/gpu_report.sh compiles with.
report_packages=(clang-15 libclc-15 llvm-15 python3-pip)
# What scripts/oclgrind.sh runs under.
oclgrind_packages=(oclgrind)
# What scripts/rusticl.sh runs on.
rusticl_packages=(mesa-opencl-icd)
# What scripts/arm.sh cross-builds with and runs under.
arm_packages=(g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user googletest)
# What builds the Python package for Arm besides, and starts it.
arm_wheel_packages=(mmdebstrap qemu-user-static binfmt-support python3)
