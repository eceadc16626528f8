//! Least squares with one right-hand side against faer's (`qr`, `solve_lstsq`) and LAPACK's (`gels`), on the CPU.
//!
//! ```text
//! cargo bench --bench lstsq
//! ```
//!
//! The programs take turns; a figure is the median of its turns. Each works on a copy of the matrix of its own. `gels` and faer assume full
//! rank; this crate also estimates the condition number, and computes the residual and a bound on the backward error.

#[path = "../examples/shared/mod.rs"]
mod shared;
mod turns;

use std::hint::black_box;

use faer::{
    linalg::solvers::SolveLstsq,
    traits::{ComplexField, Conjugate},
};
use svdvals_gpu::{LstsqGpu, LstsqOptions};

use turns::{
    lapack::{self, LIBRARIES, Lapack},
    on_cpu, random, take_turns,
};

const SHAPES: [(usize, usize); 6] = [(256, 256), (1024, 1024), (2048, 2048), (1024, 4096), (4096, 512), (100_000, 64)];

fn main() {
    println!("{} threads, random matrices; medians in seconds", rayon::current_num_threads());
    for &(m, n) in &SHAPES {
        compare::<f32>(m, n);
        compare::<f64>(m, n);
    }
}

fn compare<T: Lapack + ComplexField + Conjugate<Canonical = T>>(m: usize, n: usize) {
    let (a, b) = (random::<T>(m, n), random::<T>(m, 1));
    let options = LstsqOptions::from(on_cpu().run);
    let report = a.lstsq_gpu_report(&b, &options).expect("a finite matrix");
    let gels = |library| lapack::run(library, |library| T::gels(library, &a, &b));
    let [openblas, mkl] = &*LIBRARIES;
    let [ours, faer, of_openblas, of_mkl] = take_turns([
        &mut || drop(black_box(a.lstsq_gpu_with(&b, &options).expect("a finite matrix"))),
        &mut || {
            if m >= n {
                black_box(a.qr().solve_lstsq(&b));
            }
        },
        &mut || gels(openblas),
        &mut || gels(mkl),
    ]);
    println!(
        "{:>4} {:>14} {:>10.6} faer {:>6} OpenBLAS, MKL{}   {} turns, {}, {} iterations, backward error {:.1e}",
        T::NAME,
        format!("{m} x {n}"),
        ours.median,
        // faer has no solution of least norm.
        if m < n { "-".into() } else { format!("{:.2}", faer.median / ours.median) },
        lapack::ratios([&of_openblas, &of_mkl], &ours),
        ours.turns,
        report.route,
        report.values.iterations,
        report.values.backward_error,
    );
}
