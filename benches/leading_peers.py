#!/usr/bin/env python3
"""Leading singular triples by scikit-learn and SciPy, on the matrices of `cargo bench --bench leading`, with residuals as small as that asks for.

    python3 benches/leading_peers.py
    python3 benches/leading_peers.py --gpu [--sizes 4096,16384] [--triples 64]     torch.svd_lowrank and cuSOLVER's Xgesvdr instead, the dense ones

Needs numpy and scipy, or torch; scikit-learn is left out where it is missing. `randomized_svd` has no tolerance: it is given more power iterations until the largest
residual max(||A v - s u||, ||A^T u - s v||) / s_1 is small enough, and the last of these calls is timed. `svds` is given the accuracy as its `tol`; its residual
is printed. `svd_lowrank` and `Xgesvdr`, with 10 more columns, are as `randomized_svd`: their matrix and triples are on the device. Seconds are medians of three
calls.
"""

import argparse
import statistics
import sys
import time

import numpy as np

try:
    from sklearn.utils.extmath import randomized_svd
except ModuleNotFoundError:
    randomized_svd = None


def dense(n, power):
    i = np.arange(n)
    angle = 2 * np.pi * (np.outer(i, i) % n) / n
    c = ((np.cos(angle) + np.sin(angle)) / np.sqrt(n)).astype(np.float32)
    return np.ascontiguousarray(((c / ((i + 1.0) ** power).astype(np.float32)) @ c)[:, (5 * i + 3) % n])


def sparse(m, n):
    import scipy.sparse

    i, t = np.meshgrid(np.arange(m, dtype=np.int64), np.arange(12, dtype=np.int64), indexing="ij")
    values = 1.0 / ((1 + t) * np.sqrt(1 + i % 1000))
    columns = (i * i + 7919 * t * (i % 97 + 1)) % n
    return scipy.sparse.csc_matrix((values.ravel(), (i.ravel(), columns.ravel())), shape=(m, n))


def residual(a, u, s, vt):
    of_u, of_v = a @ vt.T - u * s, a.T @ u - vt.T * s
    return max(np.linalg.norm(of_u, axis=0).max(), np.linalg.norm(of_v, axis=0).max()) / s.max()


def timed(call):
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return result, statistics.median(seconds)


ITERATIONS = (0, 1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40)


def compare(name, a, k):
    import scipy.sparse.linalg

    for accuracy in (1e-3, 1e-6):
        if randomized_svd is not None:
            for power in ITERATIONS:
                call = lambda: randomized_svd(a, k, n_iter=power, random_state=0)
                found = residual(a, *call())
                if found <= accuracy:
                    break
            _, seconds = timed(call)
            print(f"{name} {accuracy:.0e} randomized_svd   {seconds:9.6f}   n_iter {power}, residual {found:.1e}", flush=True)
        for solver in ("arpack", "propack"):
            call = lambda: scipy.sparse.linalg.svds(a, k, solver=solver, tol=accuracy, rng=0)
            try:
                result, seconds = timed(call)
            except Exception as error:
                print(f"{name} {accuracy:.0e} svds {solver:<11} {error}", flush=True)
                continue
            print(f"{name} {accuracy:.0e} svds {solver:<11} {seconds:9.6f}   residual {residual(a, *result):.1e}", flush=True)


def compare_on_gpu(sizes, k):
    try:
        import torch
    except ModuleNotFoundError:
        sys.exit("leading_peers.py --gpu needs torch")
    if not torch.cuda.is_available():
        sys.exit("torch finds no GPU")
    from gpu_peers import CuSolver

    print(f"torch {torch.__version__} on {torch.cuda.get_device_name(0)}, CUDA {torch.version.cuda}")

    def lowrank(a, iterations):
        u, s, v = torch.svd_lowrank(a, q=k + 10, niter=iterations)
        return u[:, :k], s[:k], v[:, :k]

    def residual_there(a, u, s, v):
        of_u, of_v = a @ v - u * s, a.T @ u - v * s
        return (torch.maximum(of_u.norm(dim=0).max(), of_v.norm(dim=0).max()) / s.max()).item()

    def finished(call):
        result = call()
        torch.cuda.synchronize()
        return result

    calls = {"svd_lowrank": lowrank}
    try:
        solver = CuSolver(torch)
    except OSError as problem:
        print(f"Xgesvdr is left out: {problem}")
    else:
        calls["Xgesvdr"] = lambda a, iterations: solver.gesvdr(a, k, 10, iterations)
    for n in sizes:
        for spectrum, power in (("1/i", 1.0), ("1/sqrt i", 0.5)):
            a = torch.from_numpy(dense(n, power)).to("cuda")
            for accuracy in (1e-3, 1e-6):
                for name, call in calls.items():
                    for iterations in ITERATIONS:
                        run = lambda: finished(lambda: call(a, iterations))
                        found = residual_there(a, *run())
                        if found <= accuracy:
                            break
                    _, seconds = timed(run)
                    text = f"f32 {n:>6} x {n:<6} k {k:<3} {spectrum:<9} {accuracy:.0e} {name:<16} {seconds:9.6f}"
                    print(f"{text}   iterations {iterations}, residual {found:.1e}", flush=True)


parser = argparse.ArgumentParser(description="leading singular triples by other libraries")
parser.add_argument("--gpu", action="store_true", help="torch.svd_lowrank and cuSOLVER's Xgesvdr on a GPU")
parser.add_argument("--sizes", default="4096,16384", metavar="N,..", help="with --gpu: orders of the matrices (4096,16384)")
parser.add_argument("--triples", type=int, default=64, metavar="K", help="with --gpu: triples (64)")
arguments = parser.parse_args()
if arguments.gpu:
    compare_on_gpu([int(n) for n in arguments.sizes.split(",")], arguments.triples)
    sys.exit()
for n, k in ((1024, 20), (2048, 20), (4096, 64)):
    for spectrum, power in (("1/i", 1.0), ("1/sqrt i", 0.5)):
        compare(f"f32 {n:>6} x {n:<6} k {k:<3} {spectrum:<9}", dense(n, power), k)
for m, n, k in ((50_000, 20_000, 20), (200_000, 50_000, 50)):
    compare(f"f64 {m:>6} x {n:<6} k {k:<3} sparse   ", sparse(m, n), k)
