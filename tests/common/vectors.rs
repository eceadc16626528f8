//! What every decomposition with vectors promises, and matrices that are hard to decompose.

use faer::{Mat, MatRef};
use num_complex::Complex;
use svdvals_gpu::{Element, MatSvd, RealElement, Scalar, SvdGpu, SvdOptions, SvdValsGpu, Vectors};

use crate::common::{complex_noise, eps, furthest, problems::smallest, widen};

/// The kinds of [`matrix`].
#[allow(dead_code)] // the GPU tests use some by name
pub const KINDS: [&str; 13] = [
    "random",
    "triangular",
    "zero",
    "diagonal",
    "rank third",
    "equal columns",
    "unitary",
    "two clusters",
    "graded",
    "graded rows",
    "hilbert",
    "one entry",
    "zero border",
];

/// An m x n matrix of a kind, with entries of magnitude about 1.
pub fn matrix<T: Element>(kind: &str, m: usize, n: usize) -> Mat<T> {
    let noise = |seed| Mat::<Complex<f64>>::from_fn(m, n, |i, j| of_type::<T>(complex_noise(seed, i, j)));
    let k = m.min(n);
    // Products of a few reflectors, which are unitary up to rounding, around a diagonal.
    let around = |value: &dyn Fn(usize) -> f64| {
        let mut a = Mat::from_fn(m, n, |i, j| Complex::from(if i == j { value(i) } else { 0.0 }));
        for seed in 0..3 {
            let v = Mat::from_fn(m, 1, |i, _| of_type::<T>(complex_noise(90 + seed, i, 0)));
            let w = Mat::from_fn(n, 1, |j, _| of_type::<T>(complex_noise(95 + seed, j, 1)));
            let (v2, w2) = (v.squared_norm_l2(), w.squared_norm_l2());
            a = &a - &v * (v.adjoint() * &a) * faer::Scale(Complex::from(2.0 / v2));
            a = &a - (&a * &w) * w.adjoint() * faer::Scale(Complex::from(2.0 / w2));
        }
        a
    };
    let a = match kind {
        "random" => noise(70),
        // With values of every size down to exponentially small ones.
        "triangular" => {
            let a = noise(74);
            Mat::from_fn(m, n, |i, j| if i > j { Complex::ZERO } else { a[(i, j)] })
        }
        "zero" => Mat::zeros(m, n),
        "diagonal" => Mat::from_fn(m, n, |i, j| Complex::from(if i == j { ((7 * i) % 5) as f64 / 4.0 } else { 0.0 })),
        "rank third" => around(&|i| if i < k / 3 { 1.0 } else { 0.0 }),
        "equal columns" => Mat::from_fn(m, n, |i, j| of_type::<T>(complex_noise(71, i, j / 3))),
        "unitary" => around(&|_| 1.0),
        "two clusters" => around(&|i| if i % 2 == 0 { 1.0 } else { 1e-5 }),
        "graded" => around(&|i| 10f64.powf(-40.0 * i as f64 / k as f64)),
        "graded rows" => {
            let a = noise(72);
            Mat::from_fn(m, n, |i, j| a[(i, j)] * 10f64.powf(-9.0 * i as f64 / m as f64))
        }
        "hilbert" => Mat::from_fn(m, n, |i, j| Complex::from(1.0 / (i + j + 1) as f64)),
        "one entry" => Mat::from_fn(m, n, |i, j| Complex::from(if (i, j) == (m / 2, n / 3) { 1.0 } else { 0.0 })),
        "zero border" => {
            let a = noise(73);
            Mat::from_fn(m, n, |i, j| if i == 0 || j + 1 == n { Complex::ZERO } else { a[(i, j)] })
        }
        _ => panic!("no matrix is called {kind}"),
    };
    Mat::from_fn(m, n, |i, j| T::from_complex(a[(i, j)]))
}

/// m x n matrices at the ends of a type's range, each with its name: entries so large that the norm is a part of the largest number, entries
/// that are subnormal, and blocks of both.
#[allow(dead_code)] // tests/coop.rs has none
pub fn ends_of_range<T: Element>(m: usize, n: usize) -> [(&'static str, Mat<T>); 3] {
    // Both parts of an entry are below 1, so the norm of the noise is below `size`. Values of half types are f32.
    let size = (2.0 * (m * n) as f64).sqrt();
    let (largest, smallest) = match T::NAME {
        "f16" => (65504.0, 2f64.powi(-24)),
        "bf16" => (3.3e38 / size, 2f64.powi(-133)),
        "f32" | "c32" => (f64::from(f32::MAX) / size, 2f64.powi(-149)),
        _ => (f64::MAX / size, 2f64.powi(-1074)),
    };
    let of = |size: &dyn Fn(usize, usize) -> f64| {
        Mat::from_fn(m, n, |i, j| {
            let x = of_type::<T>(complex_noise(75, i, j));
            T::from_complex(Complex::new(x.re * size(i, j), x.im * size(i, j)))
        })
    };
    let subnormal = 50.0 * smallest;
    [
        ("large", of(&|_, _| largest)),
        ("subnormal", of(&|_, _| subnormal)),
        ("both", of(&|i, j| if (i / 10 + j / 10) % 2 == 0 { largest } else { subnormal })),
    ]
}

/// The number, without an imaginary part if the type has none.
fn of_type<T: Element>(x: Complex<f64>) -> Complex<f64> {
    if <T::Scalar as Scalar>::IS_COMPLEX { x } else { x.re.into() }
}

/// The Frobenius norm.
fn norm(a: MatRef<'_, Complex<f64>>) -> f64 {
    a.norm_l2()
}

/// ||I - X^H X||_F
fn from_orthonormal(x: MatRef<'_, Complex<f64>>) -> f64 {
    let gram = x.adjoint() * x;
    norm((gram - Mat::<Complex<f64>>::identity(x.ncols(), x.ncols())).as_ref())
}

/// Two powers of two whose product brings the largest part of an entry near 1. One alone may be outside the range of f64.
fn to_one(a: MatRef<'_, Complex<f64>>) -> [f64; 2] {
    let largest = furthest((0..a.ncols()).flat_map(|j| (0..a.nrows()).flat_map(move |i| [a[(i, j)].re, a[(i, j)].im])));
    let exponent = if largest > 0.0 { -largest.log2().floor() as i32 } else { 0 };
    [exponent / 2, exponent - exponent / 2].map(|k| 2f64.powi(k))
}

/// The three ratios of a decomposition, in units of max(m, n) eps: ||A - U S V^H|| / ||A|| (0 without one of the sides), ||I - U^H U|| and
/// ||I - V^H V||. The first is computed after a power of two has brought A near 1. It lacks what values below the normal numbers of their
/// type are rounded by, at most half of the smallest positive number each.
pub fn ratios<T: Element>(a: MatRef<'_, T>, svd: &MatSvd<T>) -> [f64; 3] {
    let unit = a.nrows().max(a.ncols()) as f64 * eps::<T>();
    let (a, u, v) = (widen(a), widen(svd.u.as_ref()), widen(svd.v.as_ref()));
    let k = svd.s.nrows();
    let residual = if u.ncols() < k || v.ncols() < k {
        0.0
    } else {
        let factors = to_one(a.as_ref());
        let scaled = |x: f64| x * factors[0] * factors[1];
        let a = Mat::from_fn(a.nrows(), a.ncols(), |i, j| Complex::new(scaled(a[(i, j)].re), scaled(a[(i, j)].im)));
        let us = Mat::from_fn(u.nrows(), k, |i, j| u[(i, j)] * scaled(svd.s[j].to_double()));
        let (normal, smallest) = smallest::<T::Real>();
        let rounded = svd.s.iter().filter(|s| s.to_double() < normal).count() as f64;
        let rounding = rounded.sqrt() * scaled(smallest) / 2.0;
        let (rest, size) = (norm((&a - us * v.subcols(0, k).adjoint()).as_ref()) - rounding, norm(a.as_ref()));
        if size == 0.0 { rest } else { rest / size }
    };
    [residual / unit, from_orthonormal(u.as_ref()) / unit, from_orthonormal(v.as_ref()) / unit]
}

/// Checks the decomposition of `a` with these options, and returns its [`ratios`] (of what was computed).
///
/// * Shapes, and values that are, to the last bit, the first of `svdvals_gpu`.
/// * The three ratios at most 1, with what `keep` and `tolerance` drop in the residual; and the rounding of the entries, 1 eps, for
///   max(m, n) = 1.
#[allow(dead_code)] // tests/coop.rs has its own bounds
pub fn check<T: Element>(what: &str, a: MatRef<'_, T>, options: &SvdOptions) -> Result<[f64; 3], String> {
    check_within(what, a, options, 0.0)
}

/// [`check`], with values that may be `off` max(m, n) eps of the largest from those of `svdvals_gpu`.
#[allow(dead_code)]
pub fn check_within<T: Element>(what: &str, a: MatRef<'_, T>, options: &SvdOptions, off: f64) -> Result<[f64; 3], String> {
    let (m, n) = a.shape();
    let fail = |e: svdvals_gpu::SvdError| format!("{what}: {e}");
    // All of them; without vectors, whose options they would refuse.
    let of_all = SvdOptions::from(options.run.clone()).reduction(options.reduction).stage3(options.stage3);
    let values = a.svdvals_gpu_with(&of_all).map_err(fail)?;
    let svd = a.svd_gpu_with(options).map_err(fail)?;
    let k = svd.s.nrows();
    let sides = match options.vectors {
        Vectors::Full => (m, n),
        Vectors::Left => (k, 0),
        Vectors::Right => (0, k),
        _ => (k, k),
    };
    if svd.u.shape() != (m, sides.0) || svd.v.shape() != (n, sides.1) {
        return Err(format!("{what}: U is {:?} and V {:?} for {k} values", svd.u.shape(), svd.v.shape()));
    }
    let expected =
        values.iter().take_while(|s| s.to_double() >= options.tolerance.unwrap_or(0.0) * values[0].to_double()).count();
    if k != expected.min(options.keep.unwrap_or(usize::MAX)) {
        return Err(format!("{what}: {k} of {expected} values"));
    }
    let off = off * m.max(n) as f64 * eps::<T>() * values.iter().next().map_or(0.0, |s| s.to_double());
    let near = |x: f64, y: f64| x == y || (x - y).abs() <= off;
    if let Some(j) = (0..k).find(|&j| !near(svd.s[j].to_double(), values[j].to_double())) {
        return Err(format!("{what}: value {j} is {}, and {} without vectors", svd.s[j], values[j]));
    }
    let [mut residual, u, v] = ratios(a, &svd);
    if k < m.min(n) && sides.0 >= k && sides.1 >= k {
        // ||A - U S V^H||_F is that of the values left out.
        let size = values.iter().map(|s| s.to_double().powi(2)).sum::<f64>().sqrt();
        let left_out = values.iter().skip(k).map(|s| s.to_double().powi(2)).sum::<f64>().sqrt();
        let unit = m.max(n) as f64 * eps::<T>();
        residual -= left_out / size / unit;
    }
    let found = [residual, u, v];
    let bound = if m.max(n) == 1 { 2.0 } else { 1.0 };
    if found.iter().all(|ratio| *ratio <= bound) { Ok(found) } else { Err(format!("{what}: ratios {found:.3?}")) }
}
