"""No test program built for release calls a floating-point intrinsic of the processor's vector instructions. `python3 .ci/inlined.py`, after `tests/run`.

An intrinsic is inlined only into a function that has its instruction set. A closure has not, unless it is inlined itself first: the products of
complex vectors once took ten times as long because of one. Such an intrinsic has a symbol of its own."""

import os
import pathlib
import subprocess
import sys

MODULES = tuple(f"core::core_arch::x86::{module}" for module in ("avx", "fma"))  # avx2 and avx512 too

deps = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "release" / "deps"
names = ("all", "coop")  # front_ends is not optimised
programs = [max(built, key=lambda path: path.stat().st_mtime) for name in names if (built := [p for p in deps.glob(f"{name}-*") if not p.suffix])]
found = set()
for program in programs:
    lines = subprocess.run(["nm", "-C", program], check=True, capture_output=True, text=True).stdout.splitlines()
    symbols = (line.split(maxsplit=2)[-1] for line in lines)
    found |= {f"{program.name}: {s}" for s in symbols if s.startswith(MODULES) and s.endswith(("_ps", "_pd"))}
if not programs:
    sys.exit(f"no test programs in {deps}")
print("\n".join(sorted(found)) or f"no intrinsic is called in {len(programs)} programs")
sys.exit(bool(found))
