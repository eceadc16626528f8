//! Least squares with one right-hand side against faer's (`qr`, `solve_lstsq`) and LAPACK's (`gels`), on the CPU.
//!
//! ```text
//! cargo bench --bench lstsq --features lapack-openblas
//! ```
//!
//! The programs take turns; a figure is the median of its turns. Each works on a copy of the matrix of its own. `gels` and faer assume full
//! rank; this crate also estimates the condition number, and computes the residual and a bound on the backward error.

#[path = "../examples/shared/mod.rs"]
mod shared;
mod turns;

use std::hint::black_box;

use faer::{Mat, linalg::solvers::SolveLstsq};
use svdvals_gpu::{Element, LstsqGpu, LstsqOptions};

use turns::{lapack::or_dash, on_cpu, random, take_turns};

#[cfg(feature = "lapack-openblas")]
use openblas_src as _;

const SHAPES: [(usize, usize); 6] = [(256, 256), (1024, 1024), (2048, 2048), (1024, 4096), (4096, 512), (100_000, 64)];

fn main() {
    println!("{} threads, random matrices; medians in seconds", rayon::current_num_threads());
    for &(m, n) in &SHAPES {
        compare::<f32>(m, n);
        compare::<f64>(m, n);
    }
}

fn compare<T: Peer>(m: usize, n: usize) {
    let (a, b) = (random::<T>(m, n), random::<T>(m, 1));
    let options = LstsqOptions::from(on_cpu().run);
    let report = a.lstsq_gpu_report(&b, &options).expect("a finite matrix");
    let [ours, faer, lapack] = take_turns([
        &mut || drop(black_box(a.lstsq_gpu_with(&b, &options).expect("a finite matrix"))),
        &mut || T::faer(&a, &b),
        &mut || T::lapack(&a, &b),
    ]);
    println!(
        "{:>4} {:>14} {:>10.6} faer {:>6} LAPACK {:>6}   {} turns, {}, {} iterations, backward error {:.1e}",
        T::NAME,
        format!("{m} x {n}"),
        ours.median,
        // faer has no solution of least norm.
        if m < n { "-".into() } else { format!("{:.2}", faer.median / ours.median) },
        or_dash(format!("{:.2}", lapack.median / ours.median)),
        ours.turns,
        report.route,
        report.values.iterations,
        report.values.backward_error,
    );
}

/// What this crate is compared with.
trait Peer: Element {
    fn faer(a: &Mat<Self>, b: &Mat<Self>);
    /// LAPACK's, of copies. Nothing without LAPACK.
    fn lapack(a: &Mat<Self>, b: &Mat<Self>);
}

macro_rules! peer {
    ($t:ty, $gels:ident $(, $length:expr)?) => {
        impl Peer for $t {
            fn faer(a: &Mat<$t>, b: &Mat<$t>) {
                if a.nrows() >= a.ncols() {
                    black_box(a.qr().solve_lstsq(b));
                }
            }

            #[cfg(not(feature = "lapack"))]
            fn lapack(_: &Mat<$t>, _: &Mat<$t>) {}

            #[cfg(feature = "lapack")]
            fn lapack(a: &Mat<$t>, b: &Mat<$t>) {
                let (mut copy, [m, n]) = turns::lapack::columns(a);
                let mut x: Vec<$t> = b.col_as_slice(0).to_vec();
                x.resize(m.max(n) as usize, 0.0);
                let order = m.max(n);
                turns::lapack::with_workspace(|work, lwork, info| {
                    // SAFETY: the arrays have the sizes that gels asks for, `work` the one that its query returned.
                    unsafe { lapack::$gels(b'N', m, n, 1, &mut copy, m, &mut x, order, work, lwork, info $(, $length)?) };
                });
                black_box(x);
            }
        }
    };
}

peer!(f32, sgels);
peer!(f64, dgels, 1); // and the length of the first argument, which the binding of sgels leaves out
