#!/usr/bin/env bash
# Puts together what a first day on a GPU needs, for a machine with no cargo:
#   benches/first_day.sh pack DIR     builds the programs and copies them to DIR
#   DIR/gpu --first-day --out RESULTS     there: 20 minutes, and a report as RESULTS/report.md
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ "${1:-}" == pack && $# == 2 ]] || { sed -n '2,4p' "${BASH_SOURCE[0]}"; exit 2; }
mkdir -p "$2"

# The last program that a cargo command says it has built, without its debugging symbols: machines are lent through narrow doors.
built() {
    local to=$1 program
    program=$(cargo "${@:2}" --message-format=json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1)
    [[ -n $program ]] || { echo "cargo ${*:2}: no program" >&2; exit 1; }
    if command -v strip > /dev/null; then strip -o "$to" "$program"; else cp "$program" "$to"; fi
}
# No system library but the C library's: the other machine has no OpenBLAS.
features=(--no-default-features --features ndarray,faer,gpu,avx512,serde)
built "$2/gpu" bench --no-run "${features[@]}" --bench gpu
built "$2/gpu_tests" test --release --no-run "${features[@]}" --test gpu
built "$2/cost" build --release "${features[@]}" --example cost
built "$2/accuracy" build --release -p svdvals-gpu-gallery --bin accuracy
cp benches/gpu_peers.py "$2/"
# The Vulkan loader, for a machine that has a driver and no loader: LD_LIBRARY_PATH=DIR/lib DIR/gpu --first-day
loader=$(ldconfig -p 2> /dev/null | sed -n 's/.*libvulkan.so.1 .*=> //p' | head -1)
if [[ -n $loader ]]; then mkdir -p "$2/lib"; cp -L "$loader" "$2/lib/libvulkan.so.1"; fi
git describe --always --dirty --tags > "$2/commit"
for program in gpu gpu_tests cost accuracy; do ldd "$2/$program" | grep -i 'not found\|blas\|gfortran' && exit 1; done
ls -lR "$2"
