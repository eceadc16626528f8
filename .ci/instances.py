"""rustc instantiates no more functions for the library than LIMIT: what every user's build waits for, and what grows unseen with a type, a closure or
a parameter. A debug build with default features gives the same number on every machine. Argument: how many of the largest to print."""

import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

# 5% above what is reached. Whoever needs more says what for; whoever needs less lowers it.
LIMIT = 83_800

with tempfile.TemporaryDirectory() as directory:
    # Only this crate is compiled with unstable flags, so that its dependencies are those of other debug builds.
    wrapper = os.path.join(directory, "wrapper")
    with open(wrapper, "w") as file:
        file.write('#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec "$@"\n')
    os.chmod(wrapper, 0o755)
    flags = [f"-Zdump-mono-stats={directory}", "-Zdump-mono-stats-format=json"]
    command = ["cargo", "rustc", "--quiet", "--lib", "--", *flags]
    subprocess.run(command, check=True, env=os.environ | {"RUSTC_WORKSPACE_WRAPPER": wrapper})
    (found,) = glob.glob(f"{directory}/svdvals_gpu.*.json")
    with open(found) as file:
        items = json.load(file)

count = sum(item["instantiation_count"] for item in items)
statements = sum(item["total_estimate"] for item in items)
by_layer = collections.Counter()
for item in items:
    layer = re.search(r"(?:^|[<& ])(base|tile|algo|cost|cpu|gpu|plan|api)::\w+", item["name"])
    crate = re.match(r"<?&?(?:mut )?(\w+)", item["name"])
    by_layer[layer.group(1) if layer else f"from {crate.group(1)}" if crate else "?"] += item["total_estimate"]
print(f"{count} instances of at most {LIMIT}, {statements} statements of MIR:", end=" ")
print(", ".join(f"{name} {100 * of / statements:.0f}%" for name, of in by_layer.most_common(8)))
for item in sorted(items, key=lambda item: -item["total_estimate"])[: int(sys.argv[1]) if sys.argv[1:] else 0]:
    print(f"{item['total_estimate']:8} {item['instantiation_count']:6} {item['name'][:150]}")
sys.exit(count > LIMIT)
