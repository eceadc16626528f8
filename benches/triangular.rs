//! Triangular multiply and solve on the CPU against faer's own routines and BLAS's, for right-hand sides of n x 256 and n x n (the
//! recursive TRMM/TRSM paper, Figure 3).
//!
//! ```text
//! cargo bench --bench triangular                                 against faer
//! cargo bench --bench triangular --features lapack-openblas      against faer and the system's OpenBLAS
//! cargo bench --bench triangular -- 2048 512                     n no larger than 2048, and no smaller than 512
//! cargo bench --bench triangular -- f64 left                     some of: f32, f64, c32, c64, left, right
//! ```
//!
//! The programs take turns; a figure is the median of its turns. Each solves for (or multiplies) the same B, copied anew within its time;
//! faer's product is not in place and needs no copy. `RAYON_NUM_THREADS` sets the threads of
//! this crate and of faer, `OPENBLAS_NUM_THREADS` those of OpenBLAS.

#[path = "../examples/shared/mod.rs"]
mod shared;
mod turns;

use std::cell::RefCell;

use faer::{
    Accum, Mat, MatMut, MatRef, Par,
    linalg::{
        matmul::triangular::{BlockStructure, matmul},
        triangular_solve::solve_lower_triangular_in_place,
    },
};
use num_complex::Complex;
use svdvals_gpu::{
    Element, RunOptions, Scalar,
    triangular::{Diag, Op, Side, TriangularGpu, Uplo},
};

use turns::{arguments::Arguments, on_cpu, random, take_turns};

const SIZES: [usize; 5] = [256, 512, 1024, 2048, 4096];

fn main() {
    let arguments = Arguments::read(2048);
    let among = |these: &[&str], name| !these.iter().any(|other| arguments.named(other)) || arguments.named(name);
    let sizes = arguments.sizes(&SIZES);
    println!("{} threads, random lower triangles; medians in seconds", rayon::current_num_threads());
    let types = ["f32", "f64", "c32", "c64"];
    let sides: Vec<Side> = [("left", Side::Left), ("right", Side::Right)]
        .into_iter()
        .filter_map(|(name, side)| among(&["left", "right"], name).then_some(side))
        .collect();
    if among(&types, "f32") {
        compare::<f32>(&sizes, &sides);
    }
    if among(&types, "f64") {
        compare::<f64>(&sizes, &sides);
    }
    if among(&types, "c32") {
        compare::<Complex<f32>>(&sizes, &sides);
    }
    if among(&types, "c64") {
        compare::<Complex<f64>>(&sizes, &sides);
    }
}

fn compare<T: Peer>(sizes: &[usize], sides: &[Side]) {
    println!("\n{}: seconds, and how many times longer the others take", T::NAME);
    println!("{:>24} {:>11} {:>8} {:>8} {:>11} {:>8} {:>8} {:>6}", "B", "trsm", "faer", "BLAS", "trmm", "faer", "BLAS", "turns");
    for &side in sides {
        for &n in sizes {
            for k in [256, n] {
                // Each problem once.
                if n != 256 || k != n || sizes.len() == 1 {
                    compare_with_peers::<T>(side, n, k);
                }
            }
        }
    }
}

/// A lower triangle of order n that is well conditioned, and a B with k columns, or rows.
fn problem<T: Peer>(side: Side, n: usize, k: usize) -> (Mat<T>, Mat<T>) {
    let mut a = random::<T>(n, n);
    for i in 0..n {
        a[(i, i)] = T::from_complex((n as f64).into());
    }
    let b = if side == Side::Left { random::<T>(n, k) } else { random::<T>(k, n) };
    (a, b)
}

fn run<T: Peer>(solve: bool, side: Side, a: &Mat<T>, b: &mut Mat<T>, options: &RunOptions) {
    let one = T::one_impl();
    let (uplo, op, diag) = (Uplo::Lower, Op::NoTrans, Diag::NonUnit);
    let result = if solve {
        b.trsm_gpu_with(side, uplo, op, diag, one, a, options)
    } else {
        b.trmm_gpu_with(side, uplo, op, diag, one, a, options)
    };
    result.expect("a regular triangle");
}

fn compare_with_peers<T: Peer>(side: Side, n: usize, k: usize) {
    let (a, b) = problem::<T>(side, n, k);
    let options = on_cpu();
    let x = RefCell::new(b.clone());
    let fresh = || {
        let mut x = x.borrow_mut();
        x.copy_from(&b);
        x
    };
    let blas = |solve| T::blas(solve, side, &a, &mut fresh());
    let [solve, faer_solve, blas_solve, multiply, faer_multiply, blas_multiply] = take_turns([
        &mut || run(true, side, &a, &mut fresh(), &options.run),
        &mut || faer_trsm(side, &a, fresh().as_mut()),
        &mut || blas(true),
        &mut || run(false, side, &a, &mut fresh(), &options.run),
        &mut || faer_trmm(side, &a, b.as_ref(), x.borrow_mut().as_mut()),
        &mut || blas(false),
    ]);
    let of_blas = |text: String| if cfg!(feature = "lapack-openblas") { text } else { "-".into() };
    let shape = if side == Side::Left { format!("left, {n} x {k}") } else { format!("right, {k} x {n}") };
    println!(
        "{shape:>24} {:>11.6} {:>8.2} {:>8} {:>11.6} {:>8.2} {:>8} {:>6}",
        solve.median,
        faer_solve.median / solve.median,
        of_blas(format!("{:.2}", blas_solve.median / solve.median)),
        multiply.median,
        faer_multiply.median / multiply.median,
        of_blas(format!("{:.2}", blas_multiply.median / multiply.median)),
        solve.turns,
    );
}

/// On the right the same on transposes.
fn faer_trsm<T: Peer>(side: Side, a: &Mat<T>, x: MatMut<'_, T>) {
    use faer::linalg::triangular_solve::solve_upper_triangular_in_place;
    let par = Par::rayon(rayon::current_num_threads());
    match side {
        Side::Left => solve_lower_triangular_in_place(a.as_ref(), x, par),
        Side::Right => solve_upper_triangular_in_place(a.transpose(), x.transpose_mut(), par),
    }
}

fn faer_trmm<T: Peer>(side: Side, a: &Mat<T>, b: MatRef<'_, T>, x: MatMut<'_, T>) {
    use BlockStructure::{Rectangular, TriangularLower};
    let (one, par) = (T::one_impl(), Par::rayon(rayon::current_num_threads()));
    let (replace, a) = (Accum::Replace, a.as_ref());
    match side {
        Side::Left => matmul(x, Rectangular, replace, a, TriangularLower, b, Rectangular, one, par),
        Side::Right => matmul(x, Rectangular, replace, b, Rectangular, a, TriangularLower, one, par),
    }
}

/// The element types, with BLAS's routines for each.
trait Peer: Element<Arithmetic = Self> + Scalar {
    /// Solves or multiplies by the lower triangle of `a`, from the side given.
    fn blas(solve: bool, side: Side, a: &Mat<Self>, b: &mut Mat<Self>);
}

#[cfg(feature = "lapack-openblas")]
use openblas_src as _;

/// BLAS's `?trsm` and `?trmm`, which have the same arguments.
#[cfg(feature = "lapack-openblas")]
macro_rules! blas_routines {
    ($($routine:ident: $t:ty),* $(,)?) => {
        // SAFETY: the arguments of reference BLAS's routines of these names, by reference, integers of 32 bits, as OpenBLAS has them.
        unsafe extern "C" {
            $(fn $routine(
                side: *const u8,
                uplo: *const u8,
                transa: *const u8,
                diag: *const u8,
                m: *const i32,
                n: *const i32,
                alpha: *const $t,
                a: *const $t,
                lda: *const i32,
                b: *mut $t,
                ldb: *const i32,
            );)*
        }
    };
}

#[cfg(feature = "lapack-openblas")]
blas_routines! {
    strsm_: f32,
    strmm_: f32,
    dtrsm_: f64,
    dtrmm_: f64,
    ctrsm_: Complex<f32>,
    ctrmm_: Complex<f32>,
    ztrsm_: Complex<f64>,
    ztrmm_: Complex<f64>,
}

macro_rules! peer {
    ($t:ty, $trsm:ident, $trmm:ident) => {
        impl Peer for $t {
            #[cfg(not(feature = "lapack-openblas"))]
            fn blas(_: bool, _: Side, _: &Mat<$t>, _: &mut Mat<$t>) {}

            #[cfg(feature = "lapack-openblas")]
            fn blas(solve: bool, side: Side, a: &Mat<$t>, b: &mut Mat<$t>) {
                let int = |x: usize| i32::try_from(x).expect("a side that BLAS can count");
                let (m, n, lda, ldb) =
                    (int(b.nrows()), int(b.ncols()), int(a.col_stride() as usize), int(b.col_stride() as usize));
                let side = if side == Side::Left { b"L" } else { b"R" };
                let routine = if solve { $trsm } else { $trmm };
                let (uplo, op, diag, one) = (b"L", b"N", b"N", <$t as faer::traits::ComplexField>::one_impl());
                // SAFETY: both matrices are column-major with these leading dimensions, and A is of B's order on this side.
                unsafe {
                    routine(
                        side.as_ptr(),
                        uplo.as_ptr(),
                        op.as_ptr(),
                        diag.as_ptr(),
                        &m,
                        &n,
                        &one,
                        a.as_ptr(),
                        &lda,
                        b.as_ptr_mut(),
                        &ldb,
                    );
                }
            }
        }
    };
}

peer!(f32, strsm_, strmm_);
peer!(f64, dtrsm_, dtrmm_);
peer!(Complex<f32>, ctrsm_, ctrmm_);
peer!(Complex<f64>, ztrsm_, ztrmm_);
