#!/usr/bin/env bash
# The main job on a fresh Debian 12: installs what is missing, builds the command line, and lets the
# project's own model write a story. Figures go to standard error: time to first token, tokens per
# second, and the largest logit difference between the CPU kernels and the reference.
#
#   scripts/run.sh                                           our model, from the beginning of a text
#   scripts/run.sh run MODEL --prompt "Once" --tokens 64     any other command of `inlay`
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
install_packages "${build_packages[@]}"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
cmake --preset release -B build/run -DINLAY_TESTS=OFF -DINLAY_BENCH=OFF >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
cmake --build build/run --target inlay >&2

if [ $# -gt 0 ]; then
  build/run/tools/inlay "$@"
else
  build/run/tools/inlay run --compare reference
fi
