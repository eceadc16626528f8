//! The CPU path against faer's `singular_values` and LAPACK's `gesdd` (no vectors), and each stage on its own.
//!
//! ```text
//! cargo bench                                 everything, against faer, and OpenBLAS and MKL where they are (`libopenblas-dev` on Debian; `pip install mkl`)
//! MKL=PATH/libmkl_rt.so.3 cargo bench         against a library that the loader does not find (OPENBLAS likewise: any LAPACK)
//! cargo bench -- 1024                         square matrices no larger than 1024
//! cargo bench -- 4096 2048                    and no smaller than 2048
//! cargo bench -- square complex               some of: square, tall, complex, stages, methods, machine
//! cargo bench -- rest                         not of those: single calls after a rest, with one thread and with all; quartiles (rest complex: c32, c64 too)
//! cargo bench -- paper 4096 256                nor this: what 2 to 64 threads would take, by the lengths of the tasks on one
//! OPENBLAS_CORETYPE=Haswell cargo bench --no-default-features --features ndarray,faer,gpu -- rest square
//!                                             all three as on a processor with AVX2 alone
//! ```
//!
//! The programs take turns, matrix by matrix, so that what else the machine does meets all of them; a figure is the median of its
//! turns. `difference` is ||s - s'||_2 / ||s'||_2 with s' by faer in double precision. `RAYON_NUM_THREADS` sets the threads of this
//! crate and of faer, `OPENBLAS_NUM_THREADS` those of OpenBLAS.

#[path = "../examples/shared/mod.rs"]
mod shared;
mod turns;

use std::hint::black_box;

use faer::{Mat, traits::ComplexField};
use num_complex::Complex;
use rayon::prelude::*;
use svdvals_gpu::{Element, RealElement, Stage3, StageSeconds, SvdValsGpu};

use turns::{
    arguments::Arguments,
    lapack::{self, LIBRARIES, Lapack},
    median, on_cpu as options, paper, random, rest, take_turns,
};

const SIZES: [usize; 12] = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

fn main() {
    let arguments = Arguments::read(usize::MAX);
    let (wanted, sizes) = (|name| arguments.wanted(name), arguments.sizes(&SIZES));
    println!("{} threads, random matrices, all singular values and no vectors; medians in seconds", rayon::current_num_threads());
    println!("{}", lapack::present());
    let square: Vec<(usize, usize)> = sizes.iter().map(|&n| (n, n)).collect();
    if wanted("square") {
        compare::<f32>(&square, &random);
        compare::<f64>(&square, &random);
    }
    if wanted("tall") {
        let shapes = [(1000, 8), (8, 1000), (100_000, 64), (64, 100_000), (4096, 512)];
        compare::<f32>(&shapes, &random);
        compare::<f64>(&shapes, &random);
        println!("\nThe last column like the first: A^H A would lose digits, and in double precision QR takes its place.");
        compare::<f64>(&[(100_000, 64), (4096, 512)], &|m, n| {
            let mut a = random(m, n);
            (0..m).for_each(|i| a[(i, n - 1)] = a[(i, 0)]);
            a
        });
    }
    if wanted("complex") && !arguments.named("rest") {
        let some: Vec<_> = square.iter().copied().filter(|&(n, _)| [16, 64, 256, 1024].contains(&n)).collect();
        compare::<Complex<f32>>(&some, &random);
        compare::<Complex<f64>>(&some, &random);
    }
    if arguments.named("rest") {
        at_rest::<f32>(&sizes);
        at_rest::<f64>(&sizes);
    }
    if arguments.named("rest") && arguments.named("complex") {
        at_rest::<Complex<f32>>(&sizes);
        at_rest::<Complex<f64>>(&sizes);
    }
    if arguments.named("paper") {
        paper::print::<f32>(&sizes);
        paper::print::<f64>(&sizes);
    }
    if wanted("stages") {
        stages::<f32>(&sizes);
        stages::<f64>(&sizes);
    }
    if wanted("methods") {
        methods::<f32>(&sizes);
        methods::<f64>(&sizes);
    }
    if wanted("machine") {
        bandwidth();
        products::<f32>();
        products::<f64>();
    }
}

/// Matrices of these shapes, as `matrix` makes them.
fn compare<T: Lapack + ComplexField>(shapes: &[(usize, usize)], matrix: &dyn Fn(usize, usize) -> Mat<T>) {
    println!("\n{}: the whole, and how many times longer the others take", T::NAME);
    println!(
        "{:>16} {:>12} {:>9}{} {:>6} {:>11} {:>7}",
        "m x n",
        "this crate",
        "faer",
        lapack::titles(),
        "turns",
        "difference",
        "GB/s"
    );
    let [openblas, mkl] = &*LIBRARIES;
    for &(m, n) in shapes {
        let a = matrix(m, n);
        let options = options();
        let gesdd = |library| lapack::run(library, |library| T::gesdd(library, &a, false));
        let [ours, faer, of_openblas, of_mkl] = take_turns([
            &mut || _ = black_box(a.svdvals_gpu_with(&options).expect("a finite matrix")),
            &mut || _ = black_box(a.singular_values().expect("faer converges")),
            &mut || gesdd(openblas),
            &mut || gesdd(mkl),
        ]);
        let values = a.svdvals_gpu_with(&options).expect("a finite matrix");
        let reference = Mat::from_fn(m, n, |i, j| a[(i, j)].to_complex()).singular_values().expect("faer converges");
        let norm = reference.iter().fold(0f64, |norm, s| norm.hypot(*s));
        let difference =
            values.iter().zip(&reference).fold(0f64, |sum, (ours, theirs)| sum.hypot(ours.to_double() - theirs)) / norm;
        println!(
            "{:>16} {:>12.7} {:>9.2}{} {:>6} {:>11.1e} {:>7.2}",
            format!("{m} x {n}"),
            ours.median,
            faer.median / ours.median,
            lapack::ratios([&of_openblas, &of_mkl], &ours),
            ours.turns,
            difference,
            (m * n * size_of::<T>()) as f64 / ours.median / 1e9,
        );
    }
}

/// Calls after a rest.
fn at_rest<T: Lapack>(sizes: &[usize]) {
    rest::decompositions::<T>(sizes, false, |a, options| _ = black_box(a.svdvals_gpu_with(options).expect("a finite matrix")));
}

fn stages<T: Element>(sizes: &[usize]) {
    println!("\n{}: stage by stage, within one call and each alone", T::NAME);
    println!(
        "{:>6} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}   {:>10} {:>10} {:>10}",
        "n", "0 scale", "upload", "1 to_band", "2 to_bidi", "3 svdvals", "total", "1 alone", "2 alone", "3 alone"
    );
    for &n in sizes {
        let a = random::<T>(n, n);
        let options = options();
        let band = a.to_band(&options.run).expect("a finite matrix");
        let bidiagonal = band.band_to_bidiag(&options.run).expect("a finite band");
        let (mut runs, mut count): (Vec<StageSeconds>, usize) = (Vec::new(), 0);
        let [_, first, second, third] = take_turns([
            &mut || {
                let seconds = a.svdvals_gpu_report(&options).expect("a finite matrix").seconds;
                // The last thousand.
                if runs.len() < 1000 {
                    runs.push(seconds)
                } else {
                    runs[count % 1000] = seconds
                }
                count += 1;
            },
            &mut || {
                black_box(a.to_band(&options.run).expect("a finite matrix"));
            },
            &mut || {
                black_box(band.band_to_bidiag(&options.run).expect("a finite band"));
            },
            &mut || {
                black_box(bidiagonal.svdvals().expect("a finite bidiagonal"));
            },
        ]);
        let within = |stage: fn(&StageSeconds) -> f64| median(runs.iter().map(stage).collect());
        println!(
            "{n:>6} {:>10.6} {:>10.6} {:>10.6} {:>10.6} {:>10.6} {:>10.6}   {:>10.6} {:>10.6} {:>10.6}",
            within(|s| s.scale),
            within(|s| s.upload),
            within(|s| s.to_band),
            within(|s| s.band_to_bidiag),
            within(|s| s.svdvals),
            within(|s| s.total),
            first.median,
            second.median,
            third.median,
        );
    }
}

/// Stage 3 on the bidiagonal forms of random matrices, by each method.
fn methods<T: Element>(sizes: &[usize]) {
    println!("\n{}: stage 3 alone, seconds\n{:>16} {:>12} {:>12}", T::NAME, "n", "Newton", "Bisection");
    for &n in sizes {
        let band = random::<T>(n, n).to_band(&options().run).expect("a finite matrix");
        let bidiagonal = band.band_to_bidiag(&options().run).expect("a finite band");
        let by = |method| {
            black_box(bidiagonal.svdvals_by(method).expect("values in range"));
        };
        let [newton, bisection] = take_turns([&mut || by(Stage3::Newton), &mut || by(Stage3::Bisection)]).map(|t| t.median);
        println!("{n:>16} {newton:>12.7} {bisection:>12.7}");
    }
}

/// Bytes a second that all threads read together, and read and write.
fn bandwidth() {
    let mut memory = vec![1f64; 1 << 24];
    let gigabytes = size_of_val(memory.as_slice()) as f64 / 1e9;
    let [read] = take_turns([&mut || {
        let sums = memory.par_chunks(1 << 16).map(|piece| {
            let mut sums = [0.0; 32];
            piece.chunks_exact(32).for_each(|x| sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += x));
            sums.iter().sum::<f64>()
        });
        black_box(sums.sum::<f64>());
    }]);
    let [update] =
        take_turns([&mut || memory.par_chunks_mut(1 << 16).for_each(|piece| piece.iter_mut().for_each(|x| *x += 1e-9))]);
    println!(
        "\nmemory: {:.0} GB/s read, {:.0} GB/s read and written in place",
        gigabytes / read.median,
        2.0 * gigabytes / update.median
    );
}

/// The speed of faer's matrix product: of square matrices, and of the shapes of stage 1, each thread on its own, with X in a cache
/// (the same again) or far off (a matrix of 4096 x 4096, piece by piece), and with X's columns or its rows contiguous.
fn products<T: Element + ComplexField>() {
    use faer::{Accum, MatMut, Par, linalg::matmul::matmul, prelude::*};
    let one = T::one_impl();
    let threads = rayon::current_num_threads();
    let square = random::<T>(2048, 2048);
    let mut product = Mat::<T>::zeros(2048, 2048);
    let [whole] = take_turns([&mut || {
        matmul(product.as_mut(), Accum::Replace, square.as_ref(), square.as_ref(), one, Par::rayon(threads));
    }]);
    println!("\n{}: matrix product, GF/s: {:.0} at n = 2048", T::NAME, 2.0 * 2048f64.powi(3) / whole.median / 1e9);
    let (n, rows, b, cols) = (4096, 1024, 32, 256);
    let tiny = T::from_complex((-1e-9).into());
    // W = V^T X, X <- X - V W, for every piece of rows x cols.
    let pass = |v: &Mat<T>, x: MatMut<'_, T>| {
        x.par_col_chunks_mut(cols).for_each(|mut x| {
            let mut w = Mat::<T>::zeros(b, cols);
            for row in (0..x.nrows()).step_by(rows) {
                let mut x = x.rb_mut().subrows_mut(row, rows);
                matmul(w.as_mut(), Accum::Replace, v.transpose(), x.rb(), one, Par::Seq);
                matmul(x.rb_mut(), Accum::Add, v.as_ref(), w.as_ref(), tiny, Par::Seq);
            }
        });
    };
    let v = random::<T>(rows, b);
    let (mut near, mut near_turned) = (random::<T>(rows, threads * cols), random::<T>(threads * cols, rows));
    // Columns that do not fall on the same few cache sets.
    let mut far = random::<T>(n + 64 / size_of::<T>(), n);
    let again = (n * n).div_ceil(rows * threads * cols);
    let near_size = again * rows * threads * cols;
    let [near, near_turned, far_columns, far_rows] = {
        let far = std::cell::RefCell::new(&mut far);
        take_turns([
            &mut || (0..again).for_each(|_| pass(&v, near.as_mut())),
            &mut || (0..again).for_each(|_| pass(&v, near_turned.transpose_mut())),
            &mut || pass(&v, far.borrow_mut().get_mut(..n, ..)),
            &mut || pass(&v, far.borrow_mut().get_mut(..n, ..).transpose_mut()),
        ])
        .map(|timing| 4.0 * b as f64 / timing.median / 1e9)
    };
    let [near, near_turned] = [near, near_turned].map(|rate| rate * near_size as f64);
    let [far_columns, far_rows] = [far_columns, far_rows].map(|rate| rate * (n * n) as f64);
    println!("    {rows} x {b} on {rows} x {cols}: columns contiguous {near:.0}, far {far_columns:.0}");
    println!("    {:>29}: rows contiguous {near_turned:.0}, far {far_rows:.0}", "");
}
