#!/usr/bin/env bash
# Plants the bugs of tests/mutants/ one at a time and demands that the operator's own tests fail. docs/testing.md.
#
#   scripts/mutate.sh                    every list
#   scripts/mutate.sh softmax linear     those lists; softmax/sink_weighs_one: one mutant
#   scripts/mutate.sh --draw 30 softmax  thirty routine mistakes, made by rule from its sources; --seed 2: others;
#                                        machine_time: a room's; --show: only what they would be
#   scripts/mutate.sh --check            only that each mutant's text still stands where it says
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
install_packages "${build_packages[@]}" "${test_packages[@]}"
exec python3 scripts/mutate.py "$@"
