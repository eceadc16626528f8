"""Every file of src/ imports its own layer and lower ones only, every file of src/gpu/ lower rooms only, and no files import each other in a circle (but for a
module and those within it, where the one holds what the others share). src/base/parallel.rs alone names the crate
rayon, tests included: what is generic in rayon is compiled there, once. `python3 .ci/layers.py [ROOT]`; ROOT is
the crate's, and this one by default.

A file's layer is the folder under src/ that it is in. Read are the paths that begin with `crate::` or `super::`, in `use` trees and in expressions;
not comments (links in documentation may point anywhere), strings, what is under `#[cfg(test)]`, and files called tests.rs. src/lib.rs puts
the layers together and is in none."""

import pathlib
import re
import sys

# From the lowest to the highest; layers on one line know nothing of each other.
ORDER = """
base
tile
algo
cost
cpu gpu
plan
api
"""

# The rooms of src/gpu/, from the lowest to the highest.
GPU = """
device
limits
storage
matrix
kernels
open
"""

RANK = {layer: rank for rank, line in enumerate(ORDER.split("\n")) for layer in line.split()}

RANK_IN_GPU = {room: rank for rank, room in enumerate(GPU.split())}

# What is no code: raw strings, strings, characters (but no lifetimes), comments (block comments do not nest in this crate).
NO_CODE = re.compile(
    r'''r(#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:\\[^']+|[^'\\])'|//[^\n]*|/\*.*?\*/''',
    re.DOTALL,
)
PATH = re.compile(r"(?<![\w:])(crate|super)\s*::\s*")
# But not faer's Par::rayon(..).
RAYON = re.compile(r"\brayon\b(?!\s*\()")


def blank(text):
    """As many lines, of nothing."""
    return re.sub(r"[^\n]", " ", text)


def end_of_item(text, at):
    """Behind the item that begins at `at`: behind its braces, or its semicolon."""
    depth = 0
    for k in range(at, len(text)):
        if text[k] in "([{":
            depth += 1
        elif text[k] in ")]}":
            depth -= 1
            if depth == 0 and text[k] == "}":
                return k + 1
        elif text[k] == ";" and depth == 0:
            return k + 1
    return len(text)


def code_of(text):
    """The text, with blanks for what is no code, and for what only tests have."""
    text = NO_CODE.sub(lambda found: blank(found[0]), text)
    while found := re.search(r"#!?\[cfg\((all\()?test\b[^\]]*\]", text):
        end = len(text) if found[0].startswith("#!") else end_of_item(text, found.end())
        text = text[: found.start()] + blank(text[found.start() : end]) + text[end:]
    return text


def paths(text, at):
    """The paths of a use tree or an expression at `at`, each with where it begins, and where all end: `a::{b, c::d}` has a::b and a::c::d."""

    def skip(pattern):
        nonlocal at
        at += len(re.match(pattern, text[at:])[0])

    start, names = at, []
    while text[at] != "{":
        name = re.match(r"\w+|\*", text[at:])
        if not name:
            break  # the < of a::<B>
        names.append(name[0])
        at += name.end()
        skip(r"\s*(as\s+\w+\s*)?")
        if not text.startswith("::", at):
            break
        skip(r"::\s*")
    if text[at] != "{":
        return [(start, names)], at
    found = []
    at += 1
    skip(r"[\s,]*")
    while text[at] != "}":
        inner, at = paths(text, at)
        found += [(start, names + more) for start, more in inner]
        skip(r"[\s,]*")
    return found, at + 1


def imports(text, module):
    """Line and absolute path of each path in `text`, which is the code of `module`."""
    # Modules with their code in the file.
    within = [(m.start(), end_of_item(text, m.end() - 1), m[1]) for m in re.finditer(r"\bmod\s+(\w+)\s*\{", text)]
    for found in PATH.finditer(text):
        here = module + [name for start, end, name in within if start < found.start() < end]
        base = [] if found[1] == "crate" else here[:-1]
        for start, names in paths(text, found.end())[0]:
            above = base
            while names[:1] == ["super"]:
                above, names = above[:-1], names[1:]
            yield text.count("\n", 0, start) + 1, above + names


def resolved(path, exported):
    """The module that defines what the path names: the longest of its beginnings that is a module, or where that module takes the next name from."""
    for _ in range(8):
        length = next((k for k in range(len(path), 0, -1) if tuple(path[:k]) in exported), 0)
        further = exported[tuple(path[:length])].get(path[length]) if 0 < length < len(path) else None
        if further is None or further == path:
            return tuple(path[:length])
        path = further + path[length + 1 :]
    return ()


def taken(text, module):
    """What a module's `use` declarations bring into it, by its name there."""
    found = {}
    for use in re.finditer(r"(?<!\w)use\s+", text):
        for _, names in paths(text, use.end())[0]:
            here = list(module)
            while names[:1] in (["super"], ["self"]):
                here, names = here[: len(here) - (names[0] == "super")], names[1:]
            path = names[1:] if names[:1] == ["crate"] else here + names
            path = path[:-1] if path[-1:] == ["self"] else path
            if path:
                found[path[-1]] = path
    return found


def circles(modules):
    """Groups of modules (a dictionary of their code by path) that import each other, in order."""
    exported = {module: taken(text, module) for module, text in modules.items()}
    apart = lambda a, b: a != b[: len(a)] and b != a[: len(b)]
    below = {}
    for module, text in modules.items():
        there = {resolved(path, exported) for _, path in imports(text, list(module))}
        there |= {resolved(path, exported) for path in exported[module].values()}
        below[module] = {other for other in there if other and apart(module, other)}

    def reached(module):
        seen, ahead = set(), [module]
        while ahead:
            new = below[ahead.pop()] - seen
            seen |= new
            ahead += new
        return seen

    reach = {module: reached(module) for module in modules}
    groups = {tuple(sorted(other for other in reach[module] if module in reach[other])) for module in modules if module in reach[module]}
    return sorted(groups)


def names_of_rayon(text):
    """The lines of a file that name the crate."""
    text = NO_CODE.sub(lambda found: blank(found[0]), text)
    return [text.count("\n", 0, found.start()) + 1 for found in RAYON.finditer(text)]


def check(root):
    wrong, files, seen, modules = [], 0, 0, {}
    for path in sorted((root / "src").rglob("*.rs")):
        place = path.relative_to(root / "src")
        text = path.read_text()
        if str(place) != "base/parallel.rs":
            wrong += [f"src/{place}:{line}: names rayon, which only base/parallel.rs may" for line in names_of_rayon(text)]
        if str(place) == "lib.rs" or path.name == "tests.rs":
            continue
        files += 1
        layer = place.parts[0].removesuffix(".rs")
        room = RANK_IN_GPU.get(place.parts[1].removesuffix(".rs")) if layer == "gpu" else None
        if layer not in RANK:
            wrong.append(f"src/{place}: in no layer; the layers are {' '.join(RANK)}")
            continue
        if layer == "gpu" and room is None and path.name != "mod.rs":
            wrong.append(f"src/{place}: in no room of gpu; the rooms are {' '.join(RANK_IN_GPU)}")
        # The module of src/a/b.rs is a::b, that of src/a/mod.rs a.
        module = [*place.with_suffix("").parts]
        if module[-1] == "mod":
            module.pop()
        modules[tuple(module)] = code_of(text)
        for line, names in imports(modules[tuple(module)], module):
            seen += 1
            there = names[0] if names else "*"
            if there not in RANK:
                why = "which names no layer: take it from the layer that defines it"
            elif there != layer and RANK[there] == RANK[layer]:
                why = f"but {layer} and {there} are side by side"
            elif RANK[there] > RANK[layer]:
                why = f"but {there} is above {layer}"
            elif room is not None and there == "gpu" and RANK_IN_GPU.get("".join(names[1:2]), 0) > room:
                why = f"but {names[1]} is above {place.parts[1]}"
            else:
                continue
            wrong.append(f"src/{place}:{line}: imports crate::{'::'.join(names)}, {why}")
    wrong += [f"import each other in a circle: {' '.join('::'.join(module) for module in group)}" for group in circles(modules)]
    return wrong, files, seen


TREE = "use crate::{gpu::A as B, base::{self, c::*}}; // crate::d\nmod e { use super::super::plan; }\n#[cfg(test)]\nmod tests { use crate::api; }"
FOUND = [(1, ["gpu", "A"]), (1, ["base", "self"]), (1, ["base", "c", "*"]), (2, ["plan"])]
assert [*imports(code_of(TREE), ["cpu"])] == FOUND
assert names_of_rayon("// rayon::join\nPar::rayon(0);\nuse {faer, rayon};\n\"rayon\"; ::rayon::join(a, b)\n#[cfg(test)]\nuse rayon::*;") == [3, 4, 6]
# A circle of two through the name that their parent exports; a parent and its child are none.
HOUSE = {("a",): "pub use b::B; use c::C;", ("a", "b"): "use super::c::C;", ("a", "c"): "use crate::a::B; use super::D;", ("e",): "use crate::a::c;"}
assert circles(HOUSE) == [(("a", "b"), ("a", "c"))]

if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent
    wrong, files, seen = check(root)
    print(f"{files} files, {seen} paths; {len(wrong)} against the order of the layers, in a circle, or naming rayon: {' < '.join(ORDER.strip().split(chr(10)))}", *wrong, sep="\n  ")
    sys.exit(bool(wrong) or not files)
