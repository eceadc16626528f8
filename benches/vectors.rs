//! The decomposition with vectors (thin) against faer's `thin_svd` and LAPACK's `gesdd`, on the CPU.
//!
//! ```text
//! cargo bench --bench vectors                    square, tall, the leading vectors, and the share of each phase
//! cargo bench --bench vectors -- 512 64          square matrices no larger than 512, and no smaller than 64
//! cargo bench --bench vectors -- tall keep       some of: square, tall, keep, phases, stages
//! cargo bench --bench vectors -- stages 2048 256                             one stage beside two (only on request)
//! cargo bench --bench vectors -- rest             single calls after a rest, with one thread and with all (likewise)
//! ```
//!
//! The programs take turns; a figure is the median of its turns. Errors are in units of max(m, n) eps: ||A - U S V^H|| / ||A||, ||I - U^H U|| and
//! ||I - V^H V||, in the Frobenius norm.

#[path = "../examples/shared/mod.rs"]
mod shared;
mod turns;

use std::hint::black_box;

use faer::{Mat, MatRef, traits::ComplexField};
use num_traits::Float;
use svdvals_gpu::{Element, Number, RealElement, Reduction, SvdGpu, SvdOptions, SvdValsGpu};

use turns::{
    arguments::Arguments,
    lapack::{self, Factors, LIBRARIES, Lapack},
    on_cpu as options, random, rest, take_turns,
};

const SIZES: [usize; 10] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
const TALL: [(usize, usize); 4] = [(4096, 512), (512, 4096), (100_000, 64), (1000, 8)];

fn main() {
    let arguments = Arguments::read(usize::MAX);
    let (wanted, sizes) = (|name| arguments.wanted(name), arguments.sizes(&SIZES));
    println!("{} threads, random matrices, thin; medians in seconds", rayon::current_num_threads());
    let square: Vec<(usize, usize)> = sizes.iter().map(|&n| (n, n)).collect();
    if wanted("square") {
        compare::<f32>(&square);
        compare::<f64>(&square);
    }
    if wanted("tall") {
        compare::<f32>(&TALL);
        compare::<f64>(&TALL);
    }
    if wanted("keep") {
        keep::<f32>(&sizes);
        keep::<f64>(&sizes);
    }
    if arguments.named("stages") {
        stages::<f32>(&sizes);
        stages::<f64>(&sizes);
    }
    if arguments.named("rest") {
        at_rest::<f32>(&sizes);
        at_rest::<f64>(&sizes);
    }
    if wanted("phases") {
        phases::<f32>(&sizes);
        phases::<f64>(&sizes);
    }
}

/// Matrices of these shapes.
fn compare<T: Lapack + ComplexField>(shapes: &[(usize, usize)]) {
    println!("\n{}: the whole, and how many times longer the others take; errors of this crate and of the last of them", T::NAME);
    println!(
        "{:>14} {:>11} {:>9}{} {:>6} {:>20} {:>20}",
        "m x n",
        "this crate",
        "faer",
        lapack::titles(),
        "turns",
        "errors",
        "gesdd's"
    );
    let [openblas, mkl] = &*LIBRARIES;
    for &(m, n) in shapes {
        let a = random::<T>(m, n);
        let gesdd = |library| lapack::run(library, |library| T::gesdd(library, &a, true));
        let [ours, faer, of_openblas, of_mkl] = take_turns([
            &mut || _ = black_box(a.svd_gpu_with(&options()).expect("a finite matrix")),
            &mut || _ = black_box(a.thin_svd().expect("faer converges")),
            &mut || gesdd(openblas),
            &mut || gesdd(mkl),
        ]);
        let svd = a.svd_gpu_with(&options()).expect("a finite matrix");
        let values: Vec<f64> = svd.s.iter().map(|s| s.to_double()).collect();
        let theirs = LIBRARIES.iter().flatten().next_back().map_or("-".into(), |library| {
            let Factors { s, u, vt } = T::gesdd(library, &a, true);
            let values: Vec<f64> = s.iter().map(|s| s.to_double()).collect();
            let u = MatRef::from_column_major_slice(&u, m, m.min(n));
            let vt = MatRef::from_column_major_slice(&vt, m.min(n), n);
            errors(a.as_ref(), u, &values, vt.transpose())
        });
        println!(
            "{:>14} {:>11.6} {:>9.2}{} {:>6} {:>20} {:>20}",
            format!("{m} x {n}"),
            ours.median,
            faer.median / ours.median,
            lapack::ratios([&of_openblas, &of_mkl], &ours),
            ours.turns,
            errors(a.as_ref(), svd.u.as_ref(), &values, svd.v.as_ref()),
            theirs,
        );
    }
}

/// Calls after a rest.
fn at_rest<T: Lapack>(sizes: &[usize]) {
    rest::decompositions::<T>(sizes, true, |a, options| _ = black_box(a.svd_gpu_with(options).expect("a finite matrix")));
}

/// The three errors; products in f64.
fn errors<T: Element, S: Number>(a: MatRef<'_, T>, u: MatRef<'_, S>, s: &[f64], v: MatRef<'_, S>) -> String {
    let unit = a.nrows().max(a.ncols()) as f64 * <T::Real as Float>::epsilon().to_double();
    let (a, u, v) = (wide(a), wide(u), wide(v));
    let us = Mat::from_fn(u.nrows(), u.ncols(), |i, j| u[(i, j)] * s[j]);
    let off = |x: &Mat<f64>| (x.transpose() * x - Mat::<f64>::identity(x.ncols(), x.ncols())).norm_l2() / unit;
    format!("{:.3} {:.3} {:.3}", (&a - us * v.transpose()).norm_l2() / a.norm_l2() / unit, off(&u), off(&v))
}

/// A real matrix in f64.
fn wide<T: Number>(x: MatRef<'_, T>) -> Mat<f64> {
    Mat::from_fn(x.nrows(), x.ncols(), |i, j| x[(i, j)].to_complex().re)
}

/// The 64 leading vectors beside the values alone.
fn keep<T: Element>(sizes: &[usize]) {
    println!("\n{}: seconds of the values alone, and how many times longer 64 vectors and all take", T::NAME);
    println!("{:>14} {:>12} {:>10} {:>10}", "n", "values", "keep(64)", "all");
    for &n in sizes.iter().filter(|&&n| n >= 256) {
        let a = random::<T>(n, n);
        let [values, some, all] = take_turns([
            &mut || {
                black_box(a.svdvals_gpu_with(&options()).expect("a finite matrix"));
            },
            &mut || {
                black_box(a.svd_gpu_with(&options().keep(64)).expect("a finite matrix"));
            },
            &mut || {
                black_box(a.svd_gpu_with(&options()).expect("a finite matrix"));
            },
        ]);
        println!("{n:>14} {:>12.6} {:>10.2} {:>10.2}", values.median, some.median / values.median, all.median / values.median);
    }
}

/// One stage beside two, values alone and with vectors: the fastest of their turns.
fn stages<T: Element>(sizes: &[usize]) {
    println!("\n{}: seconds by two stages and by one, the least of some turns", T::NAME);
    let names = ["two, values", "one, values", "one/two", "two, vectors", "one, vectors", "one/two", "turns"];
    println!("{:>6}{}", "n", names.map(|name| format!(" {name:>13}")).concat());
    for &n in sizes {
        let a = random::<T>(n, n);
        let (two, one) = (options().reduction(Reduction::TwoStage), options().reduction(Reduction::OneStage));
        let values = |options: &SvdOptions| {
            black_box(a.svdvals_gpu_with(options).expect("a finite matrix"));
        };
        let vectors = |options: &SvdOptions| {
            black_box(a.svd_gpu_with(options).expect("a finite matrix"));
        };
        let turns = take_turns([&mut || values(&two), &mut || values(&one), &mut || vectors(&two), &mut || vectors(&one)]);
        let [v2, v1, w2, w1] = turns.each_ref().map(|timing| timing.least);
        let ratio = |x: f64, y: f64| format!(" {:>13.2}", x / y);
        let seconds = |x: f64, y: f64| format!(" {x:>13.6} {y:>13.6}");
        println!("{n:>6}{}{}{}{} {:>13}", seconds(v2, v1), ratio(v1, v2), seconds(w2, w1), ratio(w1, w2), turns[0].turns);
    }
}

/// The share of each phase (the GPU-centered SVD paper's Figure 18), of the fastest of some calls.
fn phases<T: Element>(sizes: &[usize]) {
    println!("\n{}: milliseconds of each phase", T::NAME);
    let names = ["scale", "upload", "to_band", "to_bidiag", "values", "of bidiag", "back", "left", "total"];
    println!("{:>6}{}", "n", names.map(|name| format!(" {name:>10}")).concat());
    for &n in sizes {
        let a = random::<T>(n, n);
        let calls = if n > 1024 { 3 } else { 15 };
        let fastest = (0..calls).map(|_| a.svd_gpu_report(&options()).expect("a finite matrix").seconds);
        let s = fastest.min_by(|x, y| x.total.total_cmp(&y.total)).expect("some calls");
        let of_vectors = [s.bidiagonal_vectors, s.back_transformation, s.left_vectors];
        let all = [[s.scale, s.upload, s.to_band].as_slice(), &[s.band_to_bidiag, s.svdvals], &of_vectors, &[s.total]].concat();
        println!("{n:>6}{}", all.iter().map(|seconds| format!(" {:>10.3}", seconds * 1e3)).collect::<String>());
    }
}
