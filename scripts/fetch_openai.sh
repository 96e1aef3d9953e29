#!/usr/bin/env bash
# Fetches OpenAI's own client, which serve's test talks through, from PyPI into build/openai, once, and prints where it
# lies: what PYTHONPATH must be.
#
# Exits with 77 where no package registry answers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
there=$PWD/build/openai-3.57.0
if [ ! -e "$there" ]; then
  source scripts/packages.sh
  install_packages python3-pip
  mkdir -p build
  fetching=$(mktemp -d build/openai.XXXXXX)
  trap 'rm -rf "$fetching"' EXIT
  echo "fetching openai from PyPI" >&2
  python3 -m pip install --quiet --retries 1 --timeout 20 --no-cache-dir --only-binary :all: --target "$fetching/all" \
    openai==3.57.0 >&2 || exit 77
  mv "$fetching/all" "$there"
fi
echo "$there"
