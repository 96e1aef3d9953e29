#!/usr/bin/env bash
# Compiles the per-group shape of every OpenCL kernel for GPUs that are not here and writes docs/gpu_report.md:
# registers, spills, local memory, resident warps, widths of loads and stores. It needs no GPU.
#
#   scripts/gpu_report.sh            writes the page
#   scripts/gpu_report.sh --check    fails where the page is not what the kernels give, or a kernel breaks a rule
#
# ptxas is NVIDIA's, from PyPI: it is unpacked in build/ptxas. Exits with 77 where the compilers do not install.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
version=12.9.86
ptxas=build/ptxas/$version/nvidia/cuda_nvcc/bin/ptxas

install_compilers() {
  install_packages "${report_packages[@]}" || return
  [ ! -e "$ptxas" ] || return 0
  mkdir -p build/ptxas
  python3 -m pip download --quiet --no-deps --dest build/ptxas "nvidia-cuda-nvcc-cu12==$version" &&
    python3 -m zipfile -e build/ptxas/nvidia_cuda_nvcc_cu12-"$version"-*.whl "build/ptxas/$version" &&
    rm build/ptxas/*.whl && chmod +x "$ptxas"
}
install_compilers || { echo "the compilers of the GPU report do not install" >&2; exit 77; }
exec python3 scripts/gpu_report.py --ptxas "$ptxas" "$@"
