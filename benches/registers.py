#!/usr/bin/env python3
"""Registers, spills and instructions of the GPU kernels by NVIDIA's compiler for sm_90, without a GPU, as Markdown.

    pip install nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-nvdisasm      and g++
    cargo install naga-cli                                                     of the version of naga in Cargo.lock
    python3 benches/registers.py                          geqrt, unmqr, chase, chase_team, chase_team-subgroups, bisect, gemm and apply_chase in f32, f64, c32
    python3 benches/registers.py --types f64,c64 geqrt-kept trsm     others, by the names of their files, without f16
    python3 benches/registers.py --blocks unmqr           and their basic blocks
    python3 benches/registers.py --wgsl DIR               with the WGSL that is in DIR; --keep DIR keeps all files there

The library's test `write_sources` writes the WGSL with the constants of the defaults for an H100 and n = 4096. naga translates it to
Metal's language, `to_cuda` and `PRELUDE` make that CUDA, and nvcc compiles it. Nothing is run.

The figures are of nvcc -O3, which contracts to fused multiply-adds, with divisions to 2 ulps. They are not of the driver's compiler, which
gets naga's SPIR-V and may unroll, schedule, spill and compute addresses otherwise. `code` and `loop` count instructions of the program, not
those that a thread executes. The text is what the crate gives to a driver (naga-cli's bounds of loops and zeros in workgroup memory are
removed), except that `@coherent` is missing, and that f64, which Metal does not have, is written as f32 and compiled with `double` for
`float`; constants outside the range of f32 are changed.

| column | |
| --- | --- |
| registers | of a thread, at most 255 and 65536 a workgroup |
| stack, spills | bytes of a thread: arrays with variable indices, and registers that did not fit (stores + loads) |
| shared | bytes of workgroup memory |
| warps | resident on a multiprocessor (of 64), limited by registers, shared memory and threads |
| code | instructions |
| loop | the loop with the greatest share of floating-point instructions: their number, that of all, and some kinds |
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile

KERNELS = ("geqrt", "unmqr-vectors", "unmqr", "chase", "chase_team", "chase_team-subgroups", "bisect", "gemm", "apply_chase")

PRELUDE = r"""
#include <type_traits>
#define FN __device__ __forceinline__
namespace metal {
using uint = unsigned;
template <class T, int N> struct Fields;
template <class T> struct alignas(2 * sizeof(T)) Fields<T, 2> { T x, y; };
template <class T> struct alignas(4 * sizeof(T)) Fields<T, 3> { T x, y, z; };
template <class T> struct alignas(4 * sizeof(T)) Fields<T, 4> { T x, y, z, w; };
#define EACH(N) _Pragma("unroll") for (int i = 0; i < N; i++)
#define OPERATOR(o) friend FN auto operator o(Vector a, Vector b) \
    { Vector<decltype(a.x o b.x), N> r; EACH(N) r[i] = a[i] o b[i]; return r; }
template <class T, int N> struct Vector : Fields<T, N> {
    Vector() = default;
    FN Vector(T s) { EACH(N) (*this)[i] = s; }
    FN constexpr Vector(T a, T b) : Fields<T, N>{a, b} {}
    FN constexpr Vector(T a, T b, T c) : Fields<T, N>{a, b, c} {}
    FN constexpr Vector(T a, T b, T c, T d) : Fields<T, N>{a, b, c, d} {}
    FN Vector(Vector<T, 2> a, Vector<T, 2> b) : Fields<T, N>{a.x, a.y, b.x, b.y} {}
    template <class U> explicit FN Vector(Vector<U, N> a) { EACH(N) (*this)[i] = T(a[i]); }
    FN T& operator[](int i) { return (&this->x)[i]; }
    template <int... K> FN Vector<T, sizeof...(K)> pick() { return {(*this)[K]...}; }
    FN Vector operator-() { Vector r; EACH(N) r[i] = -(*this)[i]; return r; }
    OPERATOR(+) OPERATOR(-) OPERATOR(*) OPERATOR(/) OPERATOR(^) OPERATOR(&) OPERATOR(|) OPERATOR(<) OPERATOR(<=) OPERATOR(>)
    OPERATOR(>=) OPERATOR(==) OPERATOR(!=)
};
using float2 = Vector<float, 2>; using float3 = Vector<float, 3>; using float4 = Vector<float, 4>;
using uint2 = Vector<uint, 2>; using uint3 = Vector<uint, 3>; using uint4 = Vector<uint, 4>;
using bool2 = Vector<bool, 2>; using bool3 = Vector<bool, 3>; using bool4 = Vector<bool, 4>;
#define UNARY(f, call) FN float f(float a) { return call(a); } \
    template <int N> FN Vector<float, N> f(Vector<float, N> a) { EACH(N) a[i] = f(a[i]); return a; }
UNARY(abs, ::fabs) UNARY(sqrt, ::sqrt)
FN uint max(uint a, uint b) { return ::max(a, b); }
FN uint clz(uint a) { return __clz(a); }
FN uint simd_max(uint a) { return __reduce_max_sync(~0u, a); }
FN uint simd_sum(uint a) { return __reduce_add_sync(~0u, a); }
FN int simd_sum(int a) { return __reduce_add_sync(~0u, a); }
FN float simd_shuffle(float a, uint lane) { return __shfl_sync(~0u, a, lane); }
template <int N> FN Vector<float, N> simd_shuffle(Vector<float, N> a, uint lane) { EACH(N) a[i] = simd_shuffle(a[i], lane); return a; }
FN uint min(uint a, uint b) { return ::min(a, b); }
FN float max(float a, float b) { return ::fmax(a, b); }
FN float min(float a, float b) { return ::fmin(a, b); }
template <class T, int N> FN Vector<T, N> max(Vector<T, N> a, Vector<T, N> b) { EACH(N) a[i] = max(a[i], b[i]); return a; }
template <class T, int N> FN Vector<T, N> min(Vector<T, N> a, Vector<T, N> b) { EACH(N) a[i] = min(a[i], b[i]); return a; }
template <class T> FN T clamp(T x, T low, T high) { return min(max(x, low), high); }
FN float fma(float a, float b, float c) { return ::fma(a, b, c); }
template <int N> FN Vector<float, N> fma(Vector<float, N> a, Vector<float, N> b, Vector<float, N> c)
    { EACH(N) c[i] = fma(a[i], b[i], c[i]); return c; }
template <class T> FN T select(T a, T b, bool c) { return c ? b : a; }
template <class T, int N> FN Vector<T, N> select(Vector<T, N> a, Vector<T, N> b, Vector<bool, N> c)
    { EACH(N) a[i] = c[i] ? b[i] : a[i]; return a; }
template <int N> FN bool any(Vector<bool, N> a) { bool r = false; EACH(N) r |= a[i]; return r; }
template <int N> FN bool all(Vector<bool, N> a) { bool r = true; EACH(N) r &= a[i]; return r; }
}
template <class U, class T> FN U as_type(T x) { U r; memcpy(&r, &x, sizeof r); return r; }
"""
BUILTINS = {
    "threadgroup_position_in_grid": "{blockIdx.x, blockIdx.y, blockIdx.z}",
    "threadgroups_per_grid": "{gridDim.x, gridDim.y, gridDim.z}",
    "thread_index_in_threadgroup": "threadIdx.x",
    "simdgroup_index_in_threadgroup": "threadIdx.x / 32",
    "thread_index_in_simdgroup": "threadIdx.x % 32",
}


def to_cuda(metal, threads, double):
    """CUDA of naga's Metal text."""
    text = metal[metal.index("using metal::uint;") :]
    # What naga-cli adds and the crate's `ShaderRuntimeChecks::unchecked` does not.
    text = re.sub(r"\n *(uint2 loop_bound.*|if \(metal::all\(loop_bound.*|loop_bound\w* -= .*)", "", text)
    text = re.sub(r" +if \(\w+ == 0u\) \{\n(?: +\w+ = \{\};\n)+ +\}\n +metal::threadgroup_barrier.*\n", "", text)
    text = re.sub(r"(?<=\.)[xyzw]{2,4}\b", lambda m: "pick<" + ", ".join(str("xyzw".index(c)) for c in m[0]) + ">()", text)
    # Of complex types, Scalar4's fields are named as picks are.
    pick = "template <int K, int> FN metal::float4 pick() const { return K ? zw : xy; }"
    text = text.replace("    metal::float4 xy;\n", f"    {pick}\n    metal::float4 xy;\n")
    text = re.sub(r"(typedef .*)\[1\];", r"\1[1 << 28];", text)  # a buffer, of any length
    text = re.sub(r"metal::threadgroup_barrier\(.*mem_threadgroup\)", "__syncthreads()", text)
    text = re.sub(r"metal::threadgroup_barrier\(.*mem_device\)", "__threadfence(), __syncthreads()", text)
    if not double:  # literals are of float in Metal's language
        text = re.sub(r"\b(\d+\.\d+(?:e-?\d+)?)\b", r"\1f", text)
    text = re.sub(r"^constant ", "static __device__ const ", text, flags=re.M)
    text = re.sub(r"^(?=[\w:]+ \w+\($)", "FN ", text.replace("constant ", "const "), flags=re.M)
    text = re.sub(r"^(?=uint naga_)", "FN ", text, flags=re.M)

    head = re.search(r"^kernel void (\w+)\((.*?)^\) \{\n", text, re.M | re.S)
    parameters, own = [], []
    for parameter in filter(None, map(str.strip, head[2].split("\n"))):
        declared, _, attribute = parameter.lstrip(", ").partition(" [[")
        if attribute.rstrip("]") in BUILTINS:
            own.append(f"    {declared} = {BUILTINS[attribute.rstrip(']')]};\n")
        elif declared.startswith("threadgroup "):
            own.append(f"    __shared__ {declared.replace('threadgroup ', '').replace('&', '')};\n")
        elif declared.startswith("const "):
            parameters.append(f"__grid_constant__ {declared.replace('&', '')}")
        else:
            parameters.append(declared.removeprefix("device ").replace("&", "& __restrict__"))
    kernel = f"__global__ void __launch_bounds__({threads}) {head[1]}({', '.join(parameters)}) {{\n{''.join(own)}"
    text = text[: head.start()] + kernel + text[head.end() :]
    text = re.sub(r"\b(thread|threadgroup|device) (?=[\w:]+ ?(const)?&)", "", text)  # address spaces
    return ("#define float double\n" if double else "") + PRELUDE + text


def as_f32(wgsl):
    """f64's text with f32, and constants that f32 has."""
    wgsl = re.sub(r"\bf64\b", "f32", wgsl)
    return re.sub(r"(?<=\d)e(-?)(\d\d+)\b", lambda m: f"e{m[1]}{min(int(m[2]), 30)}", wgsl)


def instructions(assembly):
    """Triples (label or None, opcode, operands) of nvdisasm's text."""
    lines, label = [], None
    for line in assembly.splitlines():
        if match := re.match(r"(\.L_x_\d+):", line):
            label = match[1]
        elif match := re.match(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+ )?\s*([\w.]+)(.*?);", line):
            if match[1] != "NOP":
                lines.append((label, match[1], match[2]))
            label = None
    return lines


FLOATING = re.compile(r"[FD](FMA|MUL|ADD|SETP|MNMX|SEL)|MUFU")
CLASSES = ("FFMA", "DFMA", "FMUL", "FADD", "DMUL", "DADD", "MUFU", "LDS", "STS", "LDG", "STG", "LDL", "STL", "BAR", "BRA")


def census(lines):
    """Number of floating-point instructions, number of all, and those of `CLASSES` as a text."""
    counts = collections.Counter(opcode.split(".")[0] for _, opcode, _ in lines)
    kinds = [f"{counts[kind]} {kind}" for kind in CLASSES if counts[kind]]
    floating = sum(bool(FLOATING.match(opcode)) for _, opcode, _ in lines)
    return floating, len(lines), ", ".join(kinds)


def loops(lines):
    """The first and last instruction of every loop."""
    at = {label: k for k, (label, _, _) in enumerate(lines) if label}
    for k, (_, opcode, rest) in enumerate(lines):
        target = re.search(r"\.L_x_\d+", rest)
        if opcode.startswith("BRA") and target and at.get(target[0], k) < k:
            yield at[target[0]], k


def warps(registers, shared, threads):
    """Resident warps of an H100's multiprocessor: 65536 registers, 256 at a time for a warp; 228 KiB, of which a workgroup takes 1."""
    own = -(-threads // 32)
    by_registers = 65536 // (-(-registers * 32 // 256) * 256) // own
    return own * min(by_registers, (228 << 10) // (shared + 1024), 64 // own, 32)


def tool(name):
    """The program of this environment's package, else that of the path."""
    return next(map(str, pathlib.Path(sysconfig.get_paths()["purelib"]).glob(f"nvidia/*/bin/{name}")), name)


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def measure(wgsl, directory, show_blocks):
    name, kind = wgsl.stem.split(".")
    source, double = wgsl.read_text(), kind.endswith("64")
    threads = re.search(r"@workgroup_size\((\w+)\)", source)[1]
    threads = int(re.search(rf"const {threads}: u32 = (\d+)u", source)[1])
    base = directory / wgsl.stem
    for_naga, metal, cuda, cubin = (f"{base}{end}" for end in (".naga.wgsl", ".metal", ".cu", ".cubin"))
    pathlib.Path(for_naga).write_text(as_f32(source) if double else source)
    run("naga", for_naga, metal, "--capabilities", "all")
    pathlib.Path(cuda).write_text(to_cuda(pathlib.Path(metal).read_text(), threads, double))
    flags = ["-arch=sm_90", "-std=c++17", "-prec-div=false", "-prec-sqrt=false", "-diag-suppress=177,549", "-Xptxas=-v"]
    said = run(tool("nvcc"), "-cubin", *flags, cuda, "-o", cubin)

    def number(pattern):
        match = re.search(rf"(\d+) {pattern}", said)
        return int(match[1]) if match else 0

    registers, shared = int(re.search(r"Used (\d+) registers", said)[1]), number("bytes smem")
    lines = instructions(run(tool("nvdisasm"), "-c", cubin))
    counts = [census(lines[first : last + 1]) for first, last in loops(lines)]
    least = census(lines)[0] / 8
    dense = max((c for c in counts if c[0] >= least), key=lambda c: c[0] / c[1], default=census(lines))
    spills = f"{number('bytes spill stores')} + {number('bytes spill loads')}"
    print(
        f"| {name} | {kind} | {threads} | {registers} | {number('bytes stack frame')} | {spills} | {shared} "
        f"| {warps(registers, shared, threads)} | {len(lines)} | {dense[0]} of {dense[1]}: {dense[2]} |"
    )
    if show_blocks:
        ends = [k for k, line in enumerate(lines) if re.match("BRA|BAR|EXIT", line[1]) or (k + 1 < len(lines) and lines[k + 1][0])]
        for first, last in zip([0, *(end + 1 for end in ends)], ends):
            label, (_, count, kinds) = lines[first][0] or "", census(lines[first : last + 1])
            print(f"    {first:5} {label:8} {count:4}  {kinds}  ({lines[last][1]}{lines[last][2]})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", default=KERNELS)
    parser.add_argument("--types", default="f32,f64,c32")
    parser.add_argument("--wgsl", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--blocks", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.keep or pathlib.Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        if not arguments.wgsl:
            test = "gpu::device::pipeline::tests::write_sources"
            environment = {**os.environ, "SVDVALS_GPU_WGSL": str(directory.resolve())}
            run("cargo", "test", "--lib", "--", "--ignored", "--exact", test, env=environment, cwd=pathlib.Path(__file__).parent)
        print("| kernel | type | threads | registers | stack | spills | shared | warps | code | loop |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
        for kernel in arguments.kernels:
            for kind in arguments.types.split(","):
                measure((arguments.wgsl or directory) / f"{kernel}.{kind}.wgsl", directory, arguments.blocks)


if __name__ == "__main__":
    main()
