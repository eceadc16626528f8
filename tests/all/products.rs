//! QR and least squares with products by low precision, as the CPU computes them.

use faer::{Mat, MatRef};
use half::{bf16, f16};
use num_complex::Complex;
use svdvals_gpu::{
    Backend, Element, HalfStorage, LstsqGpu, LstsqOptions, Orthogonal, Preconditioner, Products, QrGpu, QrOptions, Route, Solver,
    SvdError,
};

use crate::{
    check_qr::check,
    common::complex_noise,
    vectors::{KINDS, matrix},
};

fn with(products: Products) -> QrOptions {
    QrOptions::default().backend(Backend::Cpu).products(products)
}

fn lstsq_with(products: Products) -> LstsqOptions {
    LstsqOptions::default().backend(Backend::Cpu).products(products)
}

/// LAPACK's ratios with the eps of the products: 2^-10 for half, f32's for split. For hard matrices of all shapes, over several panels, over more
/// columns than have one T, with pivoting, a positive diagonal and small tiles.
#[test]
fn ratios() {
    let mut errors = Vec::new();
    for products in [Products::Half, Products::Split] {
        let mut worst = 0.0f64;
        let mut note = |what: String, a: MatRef<'_, f32>, options: &QrOptions| match check(&what, a, options) {
            Ok(ratio) => worst = worst.max(ratio),
            Err(error) => errors.push(error),
        };
        for kind in KINDS {
            for (m, n) in [(1, 1), (5, 1), (1, 5), (40, 29), (29, 40), (90, 70)] {
                note(format!("{products} {kind} {m} x {n}"), matrix::<f32>(kind, m, n).as_ref(), &with(products));
            }
        }
        for (m, n) in [(270, 260), (70, 140)] {
            note(format!("{products} {m} x {n}"), matrix::<f32>("random", m, n).as_ref(), &with(products));
        }
        let a = matrix::<f32>("rank third", 90, 70);
        note(format!("{products} pivoted"), a.as_ref(), &with(products).pivot(true));
        note(format!("{products} positive"), a.transpose(), &with(products).positive_diagonal(true));
        println!("{products}: worst ratio {worst:.3}");
    }
    assert!(errors.is_empty(), "{} errors:\n{}", errors.len(), errors.join("\n"));
}

/// Half precision shows: its backward error is far above that of f32, and split products' is not. And it is that of each column, relative to the
/// column, over the whole range of f32.
#[test]
fn precision_is_that_of_the_products() {
    let a = Mat::from_fn(120, 100, |i, j| complex_noise(3, i, j).re as f32 * 2f32.powi([0, -30, 40, -60][j % 4]));
    let error = |products| {
        let qr = a.qr_gpu_with(&with(products)).unwrap();
        let residual = &a - qr.thin_q().unwrap() * qr.r();
        (0..100).map(|j| residual.col(j).norm_l2() / a.col(j).norm_l2()).fold(0.0f32, f32::max)
    };
    let [native, split, half] = [Products::Native, Products::Split, Products::Half].map(error);
    assert!(split <= 2.0 * native, "split {split}, native {native}");
    assert!((1e-4..=4e-3).contains(&half), "half {half}");
}

/// The report names the recursion; half types take it too; results do not depend on the number of threads.
#[test]
fn routes_and_types() {
    let a = matrix::<f32>("random", 90, 70);
    for products in [Products::Half, Products::Split] {
        let report = a.qr_gpu_report(&with(products)).unwrap();
        assert_eq!(report.route, Route::Qr(Orthogonal::Recursive(products)));
        assert_eq!(report.route.to_string(), format!("recursive Householder QR with {products} products"));
        assert_eq!(a.qr_r_gpu_with(&with(products)).unwrap(), report.values.r());
        let of_threads = [1, 2].map(|threads| a.qr_r_gpu_with(&with(products).threads(threads)).unwrap());
        assert_eq!(of_threads[0], of_threads[1]);
        let awaited = pollster::block_on(a.qr_gpu_async(&with(products))).unwrap();
        assert_eq!(awaited.r(), report.values.r());
        assert!(matrix::<f16>("random", 30, 20).qr_gpu_with(&with(products)).is_ok());
        assert!(matrix::<bf16>("random", 30, 20).qr_gpu_with(&with(products)).is_ok());
    }
}

fn refused<T>(result: Result<T, SvdError>) -> bool {
    matches!(result, Err(SvdError::InvalidOption { option: "products", .. }))
}

/// Types and options that have no such products are errors, not another precision.
#[test]
fn what_there_is_not() {
    fn of<T: Element>(options: &QrOptions) -> bool {
        let a = matrix::<T>("random", 9, 5);
        refused(a.qr_gpu_with(options).map(drop)) && refused(a.qr_r_gpu_with(options).map(drop))
    }
    for products in [Products::Half, Products::Split] {
        let options = with(products);
        assert!(of::<f64>(&options) && of::<Complex<f32>>(&options) && of::<Complex<f64>>(&options));
        assert!(of::<f16>(&options.clone().half_storage(HalfStorage::Half)));
        assert!(refused(matrix::<f32>("random", 5, 9).lstsq_gpu_with(&Mat::<f32>::zeros(5, 1), &lstsq_with(products))));
        let complex = matrix::<Complex<f64>>("random", 9, 5);
        assert!(refused(complex.lstsq_gpu_with(&Mat::<Complex<f64>>::zeros(9, 1), &lstsq_with(products))));
        let half = lstsq_with(products).preconditioner(Preconditioner::Half);
        assert!(refused(matrix::<f64>("random", 9, 5).lstsq_gpu_with(&Mat::<f64>::zeros(9, 1), &half)));
    }
    // Non-finite entries are found as everywhere.
    let mut a = matrix::<f32>("random", 9, 5);
    a[(3, 2)] = f32::NAN;
    assert!(matches!(a.qr_gpu_with(&with(Products::Half)).map(drop), Err(SvdError::NonFinite { row: 3, col: 2, .. })));
}

/// Least squares of m x n matrices with geometric singular values: with half products the iteration has the backward error of full precision at
/// condition 100, and gives up at 1e6, where a factorisation in full precision follows and the route says so. With split products it does not.
fn least_squares<T: Element>(limit: f64) {
    for (condition, products, recursive) in
        [(1e2f64, Products::Half, true), (1e2, Products::Split, true), (1e5, Products::Split, true), (1e6, Products::Half, false)]
    {
        let (m, n) = (200, 80);
        let (u, v) = (matrix::<f64>("random", m, n).qr().compute_thin_Q(), matrix::<f64>("random", n, n).qr().compute_thin_Q());
        let sigma = Mat::from_fn(n, n, |i, j| if i == j { condition.powf(-(i as f64) / (n - 1) as f64) } else { 0.0 });
        let a = &u * sigma * v.transpose();
        let a = Mat::from_fn(m, n, |i, j| T::from_complex(a[(i, j)].into()));
        let b = Mat::from_fn(m, 2, |i, j| T::from_complex(complex_noise(5, i, j).re.into()));
        let report = a.lstsq_gpu_report(&b, &lstsq_with(products)).unwrap();
        let what = format!("{} {condition:e} {products}: {}", T::NAME, report.route);
        let expected = report.route == Route::LeastSquares(Solver::Recursive(products));
        assert_eq!(expected, recursive, "{what}");
        // CGLS lowers the bound of the backward error to a quarter of eps; the solution is then rounded.
        assert!(report.values.backward_error <= limit, "{what}: {:e}", report.values.backward_error);
        // In f32 the rank of the last matrix is in doubt.
        assert!(report.values.rank == n || !recursive, "{what}");
    }
}

#[test]
fn least_squares_in_double_precision() {
    least_squares::<f64>(f64::EPSILON);
}

#[test]
fn least_squares_in_single_precision() {
    least_squares::<f32>(f64::from(f32::EPSILON));
}
