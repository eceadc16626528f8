#!/usr/bin/env python3
"""Leading singular triples by scikit-learn and SciPy, on the matrices of `cargo bench --bench leading`, with residuals as small as that asks for.

    python3 benches/leading_peers.py

Needs numpy and scipy; scikit-learn is left out where it is missing. `randomized_svd` has no tolerance: it is given more power iterations until the largest
residual max(||A v - s u||, ||A^T u - s v||) / s_1 is small enough, and the last of these calls is timed. `svds` is given the accuracy as its `tol`; its residual
is printed. Seconds are medians of three calls.
"""

import statistics
import time

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

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


def compare(name, a, k):
    for accuracy in (1e-3, 1e-6):
        if randomized_svd is not None:
            for power in (0, 1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40):
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


for n, k in ((1024, 20), (2048, 20), (4096, 64)):
    for spectrum, power in (("1/i", 1.0), ("1/sqrt i", 0.5)):
        compare(f"f32 {n:>6} x {n:<6} k {k:<3} {spectrum:<9}", dense(n, power), k)
for m, n, k in ((50_000, 20_000, 20), (200_000, 50_000, 50)):
    compare(f"f64 {m:>6} x {n:<6} k {k:<3} sparse   ", sparse(m, n), k)
