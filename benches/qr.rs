//! The QR factorisation against faer's and LAPACK's (`geqrf`, `orgqr`), on the CPU: R alone, and R with the thin Q.
//!
//! ```text
//! cargo bench --bench qr --features lapack-openblas
//! cargo bench --bench qr --features lapack-openblas -- rest      R and Q in single calls after a rest, with one thread and with all
//! ```
//!
//! The programs take turns; a figure is the median of its turns. Each works on a copy of the matrix of its own.

#[path = "../examples/shared/mod.rs"]
mod shared;
mod turns;

use std::hint::black_box;

use faer::Mat;
use svdvals_gpu::{Element, QrGpu, QrOptions};

use turns::{arguments::Arguments, lapack::or_dash, on_cpu, random, rest, take_turns};

#[cfg(feature = "lapack-openblas")]
use openblas_src as _;

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
fn at_rest<T: Peer>() {
    rest::title(T::NAME, "LAPACK");
    for &(m, n) in &SHAPES {
        let a = random::<T>(m, n);
        let (one, many) = (on_cpu().threads(1).run.into(), on_cpu().run.into());
        let run = |options: &QrOptions| {
            let qr = a.qr_gpu_with(options).expect("a finite matrix");
            black_box((qr.r(), qr.thin_q().expect("room for Q")));
        };
        rest::row(&format!("{m} x {n}"), [&mut || run(&one), &mut || run(&many), &mut || T::lapack(&a, true)]);
    }
}

fn compare<T: Peer>(m: usize, n: usize) {
    let a = random::<T>(m, n);
    let options = QrOptions::from(on_cpu().run);
    let route = a.qr_gpu_report(&options).expect("a finite matrix").route;
    for q in [false, true] {
        let [ours, faer, lapack] = take_turns([
            &mut || match q {
                true => {
                    let qr = a.qr_gpu_with(&options).expect("a finite matrix");
                    black_box((qr.r(), qr.thin_q().expect("room for Q")));
                }
                false => drop(black_box(a.qr_r_gpu_with(&options).expect("a finite matrix"))),
            },
            &mut || T::faer(&a, q),
            &mut || T::lapack(&a, q),
        ]);
        println!(
            "{:>4} {:>14} {:<10} {:>10.6} faer {:>6.2} LAPACK {:>6}   {} turns, {route}",
            T::NAME,
            format!("{m} x {n}"),
            if q { "R and Q" } else { "R" },
            ours.median,
            faer.median / ours.median,
            or_dash(format!("{:.2}", lapack.median / ours.median)),
            ours.turns,
        );
    }
}

/// What this crate is compared with.
trait Peer: Element {
    fn faer(a: &Mat<Self>, q: bool);
    /// LAPACK's, of a copy of `a`. Nothing without LAPACK.
    fn lapack(a: &Mat<Self>, q: bool);
}

macro_rules! peer {
    ($t:ty, $geqrf:ident, $orgqr:ident) => {
        impl Peer for $t {
            fn faer(a: &Mat<$t>, q: bool) {
                let qr = a.qr();
                black_box(qr.thin_R());
                if q {
                    black_box(qr.compute_thin_Q());
                }
            }

            #[cfg(not(feature = "lapack"))]
            fn lapack(_: &Mat<$t>, _: bool) {}

            #[cfg(feature = "lapack")]
            fn lapack(a: &Mat<$t>, q: bool) {
                let (mut copy, [m, n]) = turns::lapack::columns(a);
                let k = m.min(n);
                let mut tau = vec![0.0; k as usize];
                turns::lapack::with_workspace(|work, lwork, info| {
                    // SAFETY: the arrays have the sizes that geqrf asks for, `work` the one that its query returned.
                    unsafe { lapack::$geqrf(m, n, &mut copy, m, &mut tau, work, lwork, info) };
                });
                if q {
                    turns::lapack::with_workspace(|work, lwork, info| {
                        // SAFETY: as above, for orgqr; the first k columns of `copy` are replaced by those of Q.
                        unsafe { lapack::$orgqr(m, k, k, &mut copy, m, &tau, work, lwork, info) };
                    });
                }
                black_box(copy);
            }
        }
    };
}

peer!(f32, sgeqrf, sorgqr);
peer!(f64, dgeqrf, dorgqr);
