#!/usr/bin/env bash
# Puts together what a first day on a GPU needs, for a machine with no cargo:
#   benches/first_day.sh pack DIR     builds the programs and copies them to DIR
#   DIR/gpu --first-day --out RESULTS     there: 20 minutes, and a report as RESULTS/report.md
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ "${1:-}" == pack && $# == 2 ]] || { sed -n '2,4p' "${BASH_SOURCE[0]}"; exit 2; }
mkdir -p "$2"

# The last program that a cargo command says it has built.
built() { cargo "$@" --message-format=json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1; }
features=(--workspace --features svdvals-gpu/lapack-openblas,svdvals-gpu-gallery/lapack-openblas)
cp "$(built bench --no-run "${features[@]}" --bench gpu)" "$2/gpu"
cp "$(built test --release --no-run "${features[@]}" --test gpu)" "$2/gpu_tests"
cp "$(built build --release "${features[@]}" --example cost)" "$2/cost"
cp "$(built build --release "${features[@]}" --bin accuracy)" "$2/accuracy"
cp benches/gpu_peers.py "$2/"
git describe --always --dirty --tags > "$2/commit"
ls -l "$2"
