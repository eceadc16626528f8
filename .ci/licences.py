"""Every dependency, of tests and examples too, has a licence that deny.toml allows, and comes from the registry: what
`cargo deny --all-features check licenses sources` checks, where that program is not installed. And none
wants a newer Rust than the crate's."""

import json
import re
import subprocess
import sys
import tomllib

with open("deny.toml", "rb") as file:
    rules = tomllib.load(file)["licenses"]
exceptions = {rule["name"]: rule["allow"] for rule in rules["exceptions"]}


def allows(expression, allowed):
    """Whether an SPDX expression can be met by licences that are allowed. (AND binds more tightly than OR; `/` is an old OR.)"""
    words = re.findall(r"[()]|[^\s()/]+", expression.replace("/", " OR "))

    def choice():
        met = both()
        while words and words[0] == "OR":
            words.pop(0)
            met = both() or met
        return met

    def both():
        met = one()
        while words and words[0] == "AND":
            words.pop(0)
            met = one() and met
        return met

    def one():
        word = words.pop(0)
        if word == "(":
            met = choice()
            words.pop(0)
            return met
        if words and words[0] == "WITH":
            word = f"{word} WITH {words[1]}"
            del words[:2]
        return word in allowed

    return choice()


assert allows("(MIT OR GPL-3.0) AND Zlib", {"MIT", "Zlib"}) and not allows("MIT OR Zlib AND GPL-3.0", {"Zlib"})
assert allows("GPL-2.0 / MIT", {"MIT"}) and not allows("Apache-2.0 WITH LLVM-exception", {"Apache-2.0"})


def release(version):
    """1.90 and 1.90.0 as the same."""
    return [*map(int, version.split(".")), 0, 0][:3]


command = ["cargo", "metadata", "--format-version", "1", "--all-features", "--locked"]
packages = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["packages"]
own = next(package["rust_version"] for package in packages if package["name"] == "svdvals-gpu")
wrong = []
for package in packages:
    name, expression, source = package["name"], package["license"], package["source"]
    if not expression or not allows(expression, set(rules["allow"] + exceptions.get(name, []))):
        wrong.append(f"{name}: licence {expression}")
    if package["rust_version"] and release(package["rust_version"]) > release(own):
        wrong.append(f"{name}: Rust {package['rust_version']}")
    if source and not source.startswith("registry+"):
        wrong.append(f"{name}: from {source}")
print(f"{len(packages)} packages; {len(wrong)} whose licence or source deny.toml does not allow, or newer than Rust {own}", *wrong, sep="\n  ")
sys.exit(bool(wrong))
