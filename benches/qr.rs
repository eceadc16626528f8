//! The QR factorisation against faer's and LAPACK's (`geqrf`, `orgqr`), on the CPU: R alone, and R with the thin Q.
//!
//! ```text
//! cargo bench --bench qr
//! cargo bench --bench qr -- rest      R and Q in single calls after a rest, with one thread and with all
//! ```
//!
//! The programs take turns; a figure is the median of its turns. Each works on a copy of the matrix of its own.

#[path = "../examples/shared/mod.rs"]
mod shared;
mod turns;

use std::hint::black_box;

use faer::{Mat, traits::ComplexField};
use svdvals_gpu::{QrGpu, QrOptions};

use turns::{
    arguments::Arguments,
    lapack::{self, LIBRARIES, Lapack, Library},
    on_cpu, random, rest, take_turns,
};

const SHAPES: [(usize, usize); 6] = [(256, 256), (1024, 1024), (2048, 2048), (1024, 4096), (4096, 512), (100_000, 64)];

fn main() {
    if Arguments::read(usize::MAX).named("rest") {
        at_rest::<f32>();
        at_rest::<f64>();
        return;
    }
    println!("{} threads, random matrices; medians in seconds", rayon::current_num_threads());
    for &(m, n) in &SHAPES {
        compare::<f32>(m, n);
        compare::<f64>(m, n);
    }
}

/// Calls after a rest.
fn at_rest<T: Lapack>() {
    rest::title(T::NAME);
    let [openblas, mkl] = &*LIBRARIES;
    for &(m, n) in &SHAPES {
        let a = random::<T>(m, n);
        let (one, many) = (on_cpu().threads(1).run.into(), on_cpu().run.into());
        let run = |options: &QrOptions| {
            let qr = a.qr_gpu_with(options).expect("a finite matrix");
            black_box((qr.r(), qr.thin_q().expect("room for Q")));
        };
        let of = |library: &Option<Library>| geqrf(library, &a, true);
        rest::row(&format!("{m} x {n}"), [&mut || run(&one), &mut || run(&many), &mut || of(openblas), &mut || of(mkl)]);
    }
}

fn compare<T: Lapack + ComplexField>(m: usize, n: usize) {
    let [openblas, mkl] = &*LIBRARIES;
    let a = random::<T>(m, n);
    let options = QrOptions::from(on_cpu().run);
    let route = a.qr_gpu_report(&options).expect("a finite matrix").route;
    for q in [false, true] {
        let [ours, of_faer, of_openblas, of_mkl] = take_turns([
            &mut || match q {
                true => {
                    let qr = a.qr_gpu_with(&options).expect("a finite matrix");
                    black_box((qr.r(), qr.thin_q().expect("room for Q")));
                }
                false => drop(black_box(a.qr_r_gpu_with(&options).expect("a finite matrix"))),
            },
            &mut || faer(&a, q),
            &mut || geqrf(openblas, &a, q),
            &mut || geqrf(mkl, &a, q),
        ]);
        println!(
            "{:>4} {:>14} {:<10} {:>10.6} faer {:>6.2} OpenBLAS, MKL{}   {} turns, {route}",
            T::NAME,
            format!("{m} x {n}"),
            if q { "R and Q" } else { "R" },
            ours.median,
            of_faer.median / ours.median,
            lapack::ratios([&of_openblas, &of_mkl], &ours),
            ours.turns,
        );
    }
}

fn faer<T: ComplexField>(a: &Mat<T>, q: bool) {
    let qr = a.qr();
    black_box(qr.thin_R());
    if q {
        black_box(qr.compute_thin_Q());
    }
}

fn geqrf<T: Lapack>(library: &Option<Library>, a: &Mat<T>, q: bool) {
    lapack::run(library, |library| T::geqrf(library, a, q));
}
