#!/usr/bin/env python3
"""Other libraries' singular values, triangular solves, QR and least squares on an NVIDIA or AMD GPU, on the matrices of `cargo bench --bench gpu`.

    python3 benches/gpu_peers.py                              torch and CuPy, whichever there is
    python3 benches/gpu_peers.py --sizes 1024,4096 --types f32 --csv peers.csv
    python3 benches/gpu_peers.py --qr                         QR factorisations and least squares instead
    python3 benches/gpu_peers.py --qr --sweep --sizes 32768   from tall to square matrices, of as many entries each
    python3 benches/gpu_peers.py --stacks --types f32         many small matrices in a call, values and vectors: those of `examples/cost.rs`, batch=K
    cargo run --release -p svdvals-gpu-gallery --bin gpu_times -- gpu.csv peers.csv      the two together, as a picture

Needs numpy, and torch or CuPy or both; what is missing is said in one line. Seconds are wall-clock seconds between synchronisations of
the device, medians of the runs that follow a first one. `total` starts and ends with the matrix and the values in the host's (pageable)
memory; `resident` is the library's call alone, the matrix and the values on the device; `upload` is the matrix's way there. `error` is
| ||s||_2 / ||A||_F - 1 | for singular values, of a stack all together, and ||T X - B||_F / ||B||_F of the first 16
columns for solves, and for QR and least squares what `cargo bench --bench gpu -- --qr` says. A note stands in place of figures where the library ran out of memory, did not converge or refused.

Entry (i, j) of a real n x m matrix is the (i + n j)-th number of SplitMix64 with seed 1 (right-hand sides: 2), of a complex one the numbers
2 (i + n j) and the next; 53 bits of each make a number in [-1, 1), which is then rounded to the type.
"""

import argparse
import csv
import ctypes
import statistics
import sys
import time

try:
    import numpy as np
except ModuleNotFoundError:
    sys.exit("gpu_peers.py needs numpy, and torch or CuPy")

COLUMNS = (
    "program,routine,device,driver,backend,version,type,n,columns,runs,first_s,total_s,resident_s,scale_s,upload_s,to_band_s,"
    "band_to_bidiag_s,svdvals_s,error,note"
).split(",")
TYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "c32": np.complex64, "c64": np.complex128}
SEED, SEED_OF_RIGHT_HAND_SIDES = 1, 2
BLOCK = 1 << 22  # numbers made at once
STACKS = ((32, 10000), (64, 2000), (128, 1000), (512, 64))  # order and number of the matrices of a stack


def splitmix64(seed, index):
    """The `index`-th numbers of SplitMix64 (Steele, Lea and Flood 2014) with this seed; `index` is an array of uint64."""
    z = np.uint64(seed) + (index + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def signed_uniform(bits):
    """64 random bits as numbers in [-1, 1), multiples of 2^-52."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0


def generator_check():
    bits = splitmix64(SEED, np.arange(4096, dtype=np.uint64))
    total = int(np.sum(bits, dtype=np.uint64))
    entry = matrix(16, 16, np.complex128)[0][3, 5]
    return f"generator check {total:#018x}, entry (3, 5) of a complex 16 x 16 matrix {entry.real:.16f} {entry.imag:.16f}"


def matrix(n, columns, dtype, seed=SEED):
    """The matrix, column after column in memory, and its Frobenius norm."""
    a = np.empty((n, columns), dtype=dtype, order="F")
    parts = 2 if np.issubdtype(dtype, np.complexfloating) else 1
    squares = 0.0
    step = max(1, BLOCK // (n * parts))
    for start in range(0, columns, step):
        end = min(start + step, columns)
        x = signed_uniform(splitmix64(seed, np.arange(parts * n * start, parts * n * end, dtype=np.uint64)))
        x = x.view(np.complex128) if parts == 2 else x
        block = x.astype(dtype)
        squares += float(np.sum(np.abs(block.astype(x.dtype)) ** 2))
        a[:, start:end] = block.reshape((n, end - start), order="F")
    return a, squares**0.5


def triangle(n, dtype):
    """A well-conditioned lower triangle: ones, and entries of at most 1/n below."""
    a, _ = matrix(n, n, dtype)
    t = np.tril(a, -1) / np.asarray(n, dtype=dtype)
    np.fill_diagonal(t, 1)
    return np.asfortranarray(t.astype(dtype))


class Torch:
    """torch on the first device that it calls cuda (ROCm's is called so too)."""

    def __init__(self):
        import torch

        if not torch.cuda.is_available():
            raise RuntimeError("it finds no GPU")
        self.torch, self.name, self.version = torch, "torch", torch.__version__
        self.device = torch.cuda.get_device_name(0)
        rocm = getattr(torch.version, "hip", None)
        self.backend = f"ROCm {rocm}" if rocm else f"CUDA {torch.version.cuda}"
        svdvals = torch.linalg.svdvals
        self.singular_values = {"svdvals": svdvals}
        for driver in () if rocm else ("gesvd", "gesvdj", "gesvda"):
            self.singular_values[f"svdvals {driver}"] = lambda a, driver=driver: svdvals(a, driver=driver)
        if not rocm:
            try:
                solver = CuSolver(torch)
            except OSError as problem:
                print(f"Xgesvdp is left out: {first_line(problem)}")
            else:
                self.singular_values["Xgesvdp"] = solver.gesvdp
        # With vectors the values come back alone, as without. torch's gesvdj is cuSOLVER's gesvdjBatched up to n = 32, its gesvda is gesvdaStridedBatched.
        svd = lambda a, **driver: torch.linalg.svd(a, full_matrices=False, **driver).S
        self.stacks = {"svdvals": svdvals, "svd": svd}
        for driver in () if rocm else ("gesvdj", "gesvda"):
            self.stacks[f"svdvals {driver}"] = self.singular_values[f"svdvals {driver}"]
            self.stacks[f"svd {driver}"] = lambda a, driver=driver: svd(a, driver=driver)
        self.solves = {"solve_triangular": lambda t, b: torch.linalg.solve_triangular(t, b, upper=False)}
        self.factors = {
            "geqrf": ("qr r", lambda a, b: torch.linalg.qr(a, mode="r").R),
            "qr": ("qr reduced", lambda a, b: torch.linalg.qr(a).Q),
            "gels": ("lstsq", lambda a, b: torch.linalg.lstsq(a, b).solution),
        }

    def upload(self, a):
        if a.ndim == 3:
            return self.torch.from_numpy(a).to("cuda")
        # Transposed twice, so that the copy keeps the columns' order.
        return self.torch.from_numpy(a.T).to("cuda").T

    def to_host(self, s):
        return s.cpu().numpy()

    def synchronize(self):
        self.torch.cuda.synchronize()

    def free(self):
        self.torch.cuda.empty_cache()

    def is_out_of_memory(self, error):
        return isinstance(error, self.torch.cuda.OutOfMemoryError)


class CuSolver:
    """cuSOLVER's routines that torch and CuPy do not offer: called through ctypes, with torch's memory."""

    def __init__(self, torch):
        self.torch = torch
        torch.linalg.svdvals(torch.eye(2, device="cuda"))  # loads cuSOLVER, where torch has it
        for name in ("libcusolver.so.12", "libcusolver.so.11", "libcusolver.so"):
            try:
                self.library = ctypes.CDLL(name)
                break
            except OSError as problem:
                missing = problem
        else:
            raise missing
        self.handle, self.params = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.library.cusolverDnCreate(ctypes.byref(self.handle)))
        self.check(self.library.cusolverDnCreateParams(ctypes.byref(self.params)))
        # cudaDataType of a matrix and of its values: CUDA_R_32F, CUDA_R_64F, CUDA_C_32F, CUDA_C_64F.
        self.types = {torch.float32: (0, 0), torch.float64: (1, 1), torch.complex64: (4, 0), torch.complex128: (5, 1)}

    @staticmethod
    def check(status):
        if status != 0:
            raise RuntimeError(f"cuSOLVER status {status}")

    def run(self, name, shape, more=()):
        """A routine with these arguments before its workspace, `more` of which only the routine itself has behind it."""
        size = ctypes.c_size_t
        on_device, on_host = size(), size()
        self.check(getattr(self.library, f"{name}_bufferSize")(*shape, ctypes.byref(on_device), ctypes.byref(on_host)))
        device = self.torch.empty(max(on_device.value, 1), dtype=self.torch.uint8, device="cuda")
        host = ctypes.create_string_buffer(max(on_host.value, 1))
        info = self.torch.zeros(1, dtype=self.torch.int32, device="cuda")
        work = (ctypes.c_void_p(device.data_ptr()), on_device, host, on_host, ctypes.c_void_p(info.data_ptr()))
        self.torch.cuda.synchronize()
        self.check(getattr(self.library, name)(*shape, *work, *more))
        self.torch.cuda.synchronize()
        if int(info.item()) != 0:
            raise RuntimeError(f"{name}: info {int(info.item())}")

    def gesvdr(self, a, k, more, iterations):
        """The k leading triples U, s, V of an m x n matrix, by randomised subspace iteration with `more` columns."""
        torch, pointer, count = self.torch, ctypes.c_void_p, ctypes.c_int64
        of_a, of_s = self.types[a.dtype]
        (m, n), a = a.shape, a.T.clone().T
        columns = lambda rows: torch.empty((k, rows), dtype=a.dtype, device="cuda").T
        s, u, v = torch.empty(k, dtype=torch.float64 if of_s else torch.float32, device="cuda"), columns(m), columns(n)
        shape = (self.handle, self.params, ctypes.c_char(b"S"), ctypes.c_char(b"S"), count(m), count(n), count(k), count(more))
        shape += (count(iterations), of_a, pointer(a.data_ptr()), count(m), of_s, pointer(s.data_ptr()))
        shape += (of_a, pointer(u.data_ptr()), count(m), of_a, pointer(v.data_ptr()), count(n), of_a)
        self.run("cusolverDnXgesvdr", shape)
        return u, s, v

    def gesvdp(self, a):
        """Singular values by the polar decomposition."""
        torch, n = self.torch, a.shape[0]
        if a.dtype not in self.types:
            raise RuntimeError(f"no {a.dtype}")
        of_a, of_s = self.types[a.dtype]
        a = a.T.clone().T  # which the routine overwrites
        s = torch.empty(n, dtype=torch.float64 if of_s else torch.float32, device="cuda")
        u, v = torch.empty_like(a), torch.empty_like(a)
        pointer, order = ctypes.c_void_p, ctypes.c_int64(n)
        # jobz = CUSOLVER_EIG_MODE_NOVECTOR, econ = 0.
        shape = (self.handle, self.params, 0, 0, order, order, of_a, pointer(a.data_ptr()), order, of_s, pointer(s.data_ptr()))
        shape += (of_a, pointer(u.data_ptr()), order, of_a, pointer(v.data_ptr()), order, of_a)
        self.run("cusolverDnXgesvdp", shape, (ctypes.byref(ctypes.c_double()),))
        return s


class Cupy:
    """CuPy on its current device."""

    def __init__(self):
        import cupy
        import cupyx
        import cupyx.scipy.linalg

        if cupy.cuda.runtime.getDeviceCount() == 0:
            raise RuntimeError("it finds no GPU")
        cupyx.seterr(linalg="raise")  # an iteration that does not converge is an error
        self.cupy, self.name, self.version = cupy, "cupy", cupy.__version__
        name = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"]
        self.device = name.decode() if isinstance(name, bytes) else name
        runtime = cupy.cuda.runtime.runtimeGetVersion()
        self.backend = f"ROCm {runtime}" if cupy.cuda.runtime.is_hip else f"CUDA {runtime // 1000}.{runtime % 1000 // 10}"
        self.singular_values = {"svd": lambda a: cupy.linalg.svd(a, compute_uv=False)}
        self.stacks = {"svdvals": self.singular_values["svd"], "svd": lambda a: cupy.linalg.svd(a, full_matrices=False)[1]}
        self.solves = {"solve_triangular": lambda t, b: cupyx.scipy.linalg.solve_triangular(t, b, lower=True)}
        self.factors = {
            "geqrf": ("qr r", lambda a, b: cupy.linalg.qr(a, mode="r")),
            "qr": ("qr reduced", lambda a, b: cupy.linalg.qr(a)[0]),
            "gels": ("lstsq", lambda a, b: cupy.linalg.lstsq(a, b, rcond=None)[0]),
        }

    def upload(self, a):
        return self.cupy.asarray(a, order="C" if a.ndim == 3 else "F")

    def to_host(self, s):
        return self.cupy.asnumpy(s)

    def synchronize(self):
        self.cupy.cuda.Device().synchronize()

    def free(self):
        self.cupy.get_default_memory_pool().free_all_blocks()

    def is_out_of_memory(self, error):
        return isinstance(error, self.cupy.cuda.memory.OutOfMemoryError)


def driver_version():
    """The NVIDIA driver's, where there is one."""
    try:
        with open("/sys/module/nvidia/version", encoding="ascii") as file:
            return f"NVIDIA {file.read().strip()}"
    except OSError:
        return ""


def note_of(library, error):
    if isinstance(error, MemoryError) or library.is_out_of_memory(error):
        return "out of memory"
    if "LinAlgError" in type(error).__name__:
        return f"not converged: {first_line(error)}"
    return f"{type(error).__name__}: {first_line(error)}"


def first_line(error):
    return (str(error).splitlines() or [""])[0]


def measure(library, hosts, call, error_of, arguments):
    """The row's figures: `call` of the arrays in `hosts`, copied to the device; `error_of` judges the result on the host."""
    runs = []

    def run():
        library.synchronize()
        start = time.perf_counter()
        arrays = [library.upload(host) for host in hosts]
        library.synchronize()
        uploaded = time.perf_counter()
        result = call(*arrays)
        library.synchronize()
        computed = time.perf_counter()
        result = library.to_host(result)
        end = time.perf_counter()
        return (end - start, computed - uploaded, uploaded - start), result

    try:
        (first, _, _), result = run()
        error = error_of(result)
        start = time.perf_counter()
        while not runs or (len(runs) < arguments.repeat and time.perf_counter() - start < arguments.seconds):
            runs.append(run()[0])
    except Exception as problem:  # whatever a library raises is a line of the table
        library.free()
        return {"note": note_of(library, problem)}
    library.free()
    total, resident, upload = (statistics.median(column) for column in zip(*runs))
    figures = {"runs": len(runs), "first_s": first, "total_s": total, "resident_s": resident, "upload_s": upload, "error": error}
    if not np.isfinite(error):
        return {"note": "values that are not finite"}
    return figures


class Table:
    """Rows are printed and written as they come."""

    def __init__(self, path):
        self.file = open(path, "w", newline="", encoding="utf-8") if path else None
        self.writer = csv.DictWriter(self.file, COLUMNS, restval="") if path else None
        if path:
            self.writer.writeheader()

    def title(self, text):
        print(f"\n{text}\n{'program':>8} {'routine':<18} {'n':>6} {'columns':>7} {'runs':>4}", end="")
        print(f" {'first':>10} {'total':>10} {'resident':>10} {'upload':>10} {'error':>9}")

    def push(self, row):
        line = f"{row['program']:>8} {row['routine']:<18} {row['n']:>6} {row['columns']:>7}"
        if row.get("note"):
            print(f"{line} {row['note']}")
        else:
            seconds = " ".join(f"{row[name]:>10.6f}" for name in ("first_s", "total_s", "resident_s", "upload_s"))
            print(f"{line} {row['runs']:>4} {seconds} {row['error']:>9.1e}", flush=True)
        if self.writer:
            self.writer.writerow({"runs": 0, **row})
            self.file.flush()


def compare(libraries, arguments):
    table = Table(arguments.csv)
    driver = driver_version()
    took = {}  # the last n of each routine, and its seconds

    def figures_of(library, routine, of, n, hosts, call, error):
        key = (library.name, routine, *of)
        before, seconds = took.get(key, (n, 0.0))
        expected = seconds * (n / before) ** 3
        if expected > arguments.give_up:
            return {"note": f"left out: {expected:.3g} s expected from the {seconds:.3g} s of n = {before}"}
        figures = measure(library, hosts, call, error, arguments)
        if figures.get("total_s") is not None:
            took[key] = n, figures["total_s"]
        return figures

    def push(library, routine, name, n, columns, figures):
        what = {"program": library.name, "routine": routine, "device": library.device, "driver": driver}
        what |= {"backend": library.backend, "version": library.version, "type": name, "n": n, "columns": columns}
        table.push(what | figures)

    for name in arguments.types if arguments.qr else ():
        dtype = TYPES[name]
        table.title(f"{name}: QR and least squares of n x columns matrices")
        for m, columns in (shape for n in arguments.sizes for shape in shapes(n, arguments.sweep)):
            (a, norm), (b, of_b) = matrix(m, columns, dtype), matrix(m, 1, dtype, SEED_OF_RIGHT_HAND_SIDES)
            errors = {
                "geqrf": lambda r: abs(float(np.linalg.norm(wide(r))) / norm - 1),
                "qr": lambda q: abs(float(np.linalg.norm(wide(q))) / columns**0.5 - 1),
                "gels": lambda x: float(np.linalg.norm(wide(a).conj().T @ (wide(b) - wide(a) @ wide(x)))) / (norm * of_b),
            }
            for library in libraries:
                for kind, (routine, call) in library.factors.items():
                    of = (name, m // columns) if arguments.sweep else (name, columns == m)
                    push(library, routine, name, m, columns, figures_of(library, routine, of, m, [a, b], call, errors[kind]))

    for name in arguments.types if arguments.stacks else ():
        table.title(f"{name}: stacks of so many (columns) n x n matrices")
        for n, count in STACKS:
            a, norm = matrix(n, n * count, TYPES[name])
            stack = np.ascontiguousarray(a.T.reshape(count, n, n))  # the transposes of n columns each
            error = lambda s: abs(float(np.linalg.norm(s.astype(np.float64))) / norm - 1)
            for library in libraries:
                for routine, call in library.stacks.items():
                    push(library, routine, name, n, count, figures_of(library, routine, (name, n), n, [stack], call, error))

    for name in () if arguments.qr or arguments.stacks else arguments.types:
        dtype = TYPES[name]
        table.title(f"{name}: all singular values of n x n matrices")
        for n in arguments.sizes:
            a, norm = matrix(n, n, dtype)
            error = lambda s: abs(float(np.linalg.norm(s.astype(np.float64))) / norm - 1)
            for library in libraries:
                for routine, call in library.singular_values.items():
                    push(library, routine, name, n, n, figures_of(library, routine, (name,), n, [a], call, error))
        table.title(f"{name}: triangular solves, T of order n")
        for n in arguments.sizes if arguments.solves else ():
            t = triangle(n, dtype)
            for columns in sorted({256, n}):
                b, _ = matrix(n, columns, dtype, SEED_OF_RIGHT_HAND_SIDES)
                error = lambda x: residual(t, x, b)
                for library in libraries:
                    for routine, call in library.solves.items():
                        of = (name, columns == n)
                        push(library, routine, name, n, columns, figures_of(library, routine, of, n, [t, b], call, error))


def shapes(n, sweep):
    """A square, and a tall matrix with as many entries; or tall ones from 2^8 n rows on to the square: those of `cargo bench --bench gpu -- --qr`."""
    if sweep:
        return [(n << k, n >> k) for k in range(8, -1, -1) if n >> k > 0 and n % (1 << k) == 0]
    columns = min(max(n // 4, 1), 512)
    return [(n, n)] if columns == n else [(n, n), (n * n // columns, columns)]


def residual(t, x, b, columns=16):
    """||T X - B||_F / ||B||_F of the first columns: the product on the host is to take no longer than the solve."""
    x, b = wide(x[:, :columns]), wide(b[:, :columns])
    return float(np.linalg.norm(wide(t) @ x - b) / np.linalg.norm(b))


def wide(a):
    return a.astype(np.complex128 if np.iscomplexobj(a) else np.float64)


def numbers(text):
    return sorted({int(word) for word in text.split(",")})


def types(text):
    unknown = set(text.split(",")) - set(TYPES)
    if unknown:
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not among {', '.join(TYPES)}")
    return text.split(",")


def main():
    parser = argparse.ArgumentParser(description="singular values and triangular solves by torch and CuPy on a GPU")
    parser.add_argument("--sizes", type=numbers, default=[1 << k for k in range(8, 16)], metavar="N,..", help="256,512,..,32768")
    parser.add_argument("--types", type=types, default=["f16", "f32", "f64", "c32"], metavar="T,..", help=", ".join(TYPES))
    parser.add_argument("--repeat", type=int, default=5, metavar="K", help="runs after the first (5)")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="no new run of a row after this long (60)")
    parser.add_argument("--give-up", type=float, default=120.0, metavar="S", help="leaves out what would take longer, by n^3 from the size before (120)")
    parser.add_argument("--csv", metavar="FILE", help="writes the table there too")
    parser.add_argument("--no-solves", dest="solves", action="store_false", help="singular values only")
    parser.add_argument("--qr", action="store_true", help="QR factorisations and least squares in place of singular values and solves")
    parser.add_argument("--sweep", action="store_true", help="with --qr: from 256 n x n / 256 to n x n, the shapes of the paper on QR by tensor cores")
    parser.add_argument("--stacks", action="store_true", help="many small matrices in a call instead, values alone and with vectors")
    arguments = parser.parse_args()
    if arguments.sweep and not arguments.qr:
        parser.error("--sweep is of --qr")
    if arguments.stacks and arguments.qr:
        parser.error("--stacks and --qr are two tables")
    print(generator_check())
    libraries = []
    for library in (Torch, Cupy):
        try:
            libraries.append(library())
        except Exception as problem:  # absent, or with no device
            print(f"{library.__name__.lower()} is left out: {first_line(problem)}")
        else:
            print(f"{libraries[-1].name} {libraries[-1].version} on {libraries[-1].device}, {libraries[-1].backend}")
    if not libraries:
        print("nothing to measure")
        return 1
    compare(libraries, arguments)
    print("\nresident: the library's call alone, operands and result on the device")
    return 0


if __name__ == "__main__":
    sys.exit(main())
