//! Least squares on the CPU.

use std::sync::{Arc, Mutex};

use faer::{Col, Mat, MatRef, mat};
use half::{bf16, f16};
use num_complex::Complex;
use svdvals_gpu::{
    Backend, CancelFlag, Element, HalfStorage, LstsqGpu, LstsqOptions, Preconditioner, RealElement, Route, Scalar, Solver, Stage,
    SvdError, SvdValsGpu, Tuning,
};

use crate::{
    check_lstsq::{check, right_sides},
    common::{complex_noise, eps, problems::every_scalar, widen},
    vectors::{KINDS, matrix},
};

fn on_cpu() -> LstsqOptions {
    LstsqOptions::default().backend(Backend::Cpu)
}

/// Panics with all errors, if there are any.
fn none_of(errors: Vec<String>) {
    assert!(errors.is_empty(), "{} errors:\n{}", errors.len(), errors.join("\n"));
}

every_scalar!(hard_matrices, with_ridge, routes, minimum_norm, powers_of_two, one_as_many, preconditioned);

/// `check_lstsq::check` on hard matrices of all shapes, for one right-hand side and for many; in any memory order and by small tiles.
fn hard_matrices<T: Element>() {
    let (mut errors, mut worst) = (Vec::new(), 0.0f64);
    let small = on_cpu().tuning(Tuning::for_cpu::<T>(50).tile_size(8).leaf(24));
    for kind in KINDS {
        for (m, n) in
            [(1, 1), (5, 1), (1, 5), (3, 2), (40, 29), (29, 40), (100, 100), (233, 140), (140, 233), (1700, 10), (10, 1700)]
        {
            let (a, turned) = (matrix::<T>(kind, m, n), matrix::<T>(kind, n, m));
            let what = format!("{} {kind} {m} x {n}", T::NAME);
            for p in [1, 3, 9] {
                let b = right_sides(a.as_ref(), p);
                match check(&format!("{what}, {p}"), a.as_ref(), b.as_ref(), &on_cpu()) {
                    Ok(ratio) => worst = worst.max(ratio),
                    Err(error) => errors.push(error),
                }
            }
            let b = right_sides(turned.transpose(), 2);
            errors.extend(check(&format!("{what}, by rows"), turned.transpose(), b.as_ref(), &on_cpu()).err());
            errors.extend(check(&format!("{what}, small tiles"), turned.transpose(), b.as_ref(), &small).err());
            let b = right_sides(a.as_ref().reverse_rows_and_cols(), 2);
            errors.extend(check(&format!("{what}, reversed"), a.as_ref().reverse_rows_and_cols(), b.as_ref(), &on_cpu()).err());
        }
    }
    println!("{}: worst ratio {worst:.3}", T::NAME);
    none_of(errors);
}

/// With a ridge the gradient is that of the penalised problem, on every route and for matrices without full rank; and the lengths are those
/// of B - A X alone.
fn with_ridge<T: Element>() {
    let mut errors = Vec::new();
    for (m, n) in [(40, 29), (29, 40), (60, 60), (1700, 10), (10, 1700)] {
        for kind in ["random", "rank third", "zero", "graded"] {
            for ridge in [1e-3, 30.0] {
                let (a, options) = (matrix::<T>(kind, m, n), on_cpu().ridge(ridge));
                let b = right_sides(a.as_ref(), 2);
                let what = format!("{} {kind} {m} x {n}, ridge {ridge}", T::NAME);
                errors.extend(check(&what, a.as_ref(), b.as_ref(), &options).err());
                let turned = matrix::<T>(kind, n, m);
                let b = right_sides(turned.transpose(), 2);
                errors.extend(check(&format!("{what}, by rows"), turned.transpose(), b.as_ref(), &options).err());
            }
        }
    }
    none_of(errors);
}

/// The route follows the shape and the condition number, and the rank is found: full by A^H A and by QR, and deficient by the decomposition
/// of R.
fn routes<T: Element>() {
    let solver = |a: &Mat<T>| {
        let report = a.lstsq_gpu_report(&right_sides(a.as_ref(), 1), &on_cpu()).unwrap();
        assert_eq!(report.shape, a.shape());
        assert!(report.to_string().contains("qr "), "{report}");
        (report.route, report.values.rank)
    };
    let of = |solver| Route::LeastSquares(solver);
    assert_eq!(solver(&matrix::<T>("random", 1700, 10)), (of(Solver::Cholesky), 10), "{}", T::NAME);
    assert_eq!(solver(&matrix::<T>("random", 60, 40)), (of(Solver::Qr), 40));
    assert_eq!(solver(&matrix::<T>("random", 40, 60)), (of(Solver::Qr), 40));
    for (m, n) in [(1700, 12), (60, 39), (39, 60)] {
        assert_eq!(solver(&dependent::<T>(m, n)), (of(Solver::Svd), m.min(n) / 3), "{} {m} x {n}", T::NAME);
    }
    assert_eq!(solver(&matrix::<T>("zero", 30, 20)), (of(Solver::Svd), 0));
    // Columns of which one is nearly a combination of others: full rank in double precision, by QR.
    let near = |by: f64| {
        Mat::from_fn(1700, 10, |i, j| {
            T::from_complex(if j == 7 { complex_noise(31, i, 6) + complex_noise(31, i, 7) * by } else { complex_noise(31, i, j) })
        })
    };
    if <T::Scalar as Scalar>::IS_DOUBLE {
        assert_eq!(solver(&near(1e-10)), (of(Solver::Qr), 10));
    }
    assert_eq!(solver(&near(0.0)), (of(Solver::Svd), 9));
}

/// With R of lower precision the solution is as good as with one of full precision, with a ridge and without, and the report says what ran; a
/// deficient rank is found in full precision. Half precision has no complex numbers, fixed point is of f64, and no preconditioner serves wide matrices.
fn preconditioned<T: Element>() {
    let mut errors = Vec::new();
    for precision in [Preconditioner::Single, Preconditioner::Half, Preconditioner::Resident] {
        let iterated = if precision == Preconditioner::Resident { Solver::Resident } else { Solver::Preconditioned };
        let options = on_cpu().preconditioner(precision);
        let option = |a: Mat<T>| match a.lstsq_gpu_with(&right_sides(a.as_ref(), 1), &options) {
            Err(SvdError::InvalidOption { option, .. }) => option,
            other => panic!("{other:?}"),
        };
        assert_eq!(option(matrix::<T>("random", 20, 30)), "preconditioner");
        if precision == Preconditioner::Half && <T::Scalar as Scalar>::IS_COMPLEX
            || precision == Preconditioner::Resident && T::NAME != "f64"
        {
            assert_eq!(option(matrix::<T>("random", 30, 20)), "preconditioner");
            continue;
        }
        for (kind, m, n, solver) in [
            ("random", 90, 40, iterated),
            ("unitary", 60, 60, iterated),
            ("random", 1700, 10, iterated),
            ("equal columns", 60, 39, Solver::Svd),
        ] {
            let a = matrix::<T>(kind, m, n);
            let b = right_sides(a.as_ref(), 2);
            let what = format!("{} {kind} {m} x {n}, {precision}", T::NAME);
            for ridge in [0.0, 0.3] {
                errors.extend(check(&what, a.as_ref(), b.as_ref(), &options.clone().ridge(ridge)).err());
            }
            let report = a.lstsq_gpu_report(&b, &options).unwrap();
            assert_eq!(report.route, Route::LeastSquares(solver), "{what}");
            // (A call that blocks takes R alone of a tall matrix, which is another one in the last digits.)
            let awaited = pollster::block_on(a.lstsq_gpu_async(&b, &options)).unwrap();
            assert!(awaited == report.values || m == 1700, "{what}");
        }
    }
    none_of(errors);
}

/// A matrix of a third of the full rank in every type: of its columns, or of its rows if it is wide, there are three each.
fn dependent<T: Element>(m: usize, n: usize) -> Mat<T> {
    match m >= n {
        true => matrix::<T>("equal columns", m, n),
        false => {
            let turned = matrix::<T>("equal columns", n, m);
            Mat::from_fn(m, n, |i, j| turned[(j, i)])
        }
    }
}

/// X of a matrix without full rank, and of a wide one, is in the space of A's rows (LAPACK's `dqrt14`), so that no other solution is shorter.
/// The spaces are those of matrices with a gap in their singular values, known to eps times the ratio across it, at most 1e4 here.
fn minimum_norm<T: Element>() {
    for (kind, m, n) in
        [("dependent", 90, 60), ("dependent", 60, 90), ("dependent", 1700, 12), ("random", 20, 300), ("random", 5, 3000)]
    {
        let a = if kind == "random" { matrix::<T>(kind, m, n) } else { dependent::<T>(m, n) };
        let x = widen(a.lstsq_gpu_with(&right_sides(a.as_ref(), 3), &on_cpu()).unwrap().x.as_ref());
        let svd = widen(a.as_ref()).thin_svd().unwrap();
        let s = svd.S().column_vector();
        let rank = (0..s.nrows()).take_while(|&i| s[i].re > 1e-4 * s[0].re).count();
        let v = svd.V().subcols(0, rank);
        let outside = (&x - v * (v.adjoint() * &x)).norm_l2() / x.norm_l2();
        assert!(outside <= m.max(n) as f64 * eps::<T>(), "{} {kind} {m} x {n}: {outside:e}", T::NAME);
    }
}

/// X is multiplied by 2^(j - k) exactly when B is by 2^j and A by 2^k, on every route.
fn powers_of_two<T: Element>() {
    for (kind, m, n) in [("random", 40, 30), ("random", 30, 40), ("random", 1700, 10), ("rank third", 40, 30)] {
        let a = matrix::<T>(kind, m, n);
        let b = right_sides(a.as_ref(), 2);
        let times = |a: &Mat<T>, by: i32| {
            Mat::from_fn(a.nrows(), a.ncols(), |i, j| T::from_complex(a[(i, j)].to_complex() * 2f64.powi(by)))
        };
        let [one, other] = [(&a, &b), (&times(&a, 4), &times(&b, 3))].map(|(a, b)| a.lstsq_gpu_with(b, &on_cpu()).unwrap());
        assert_eq!(
            widen(one.x.as_ref()) * faer::Scale(Complex::from(2f64.powi(-1))),
            widen(other.x.as_ref()),
            "{} {kind}",
            T::NAME
        );
        let lengths = one.residuals.iter().map(|length| length.to_double() * 8.0);
        assert!(lengths.eq(other.residuals.iter().map(|length| length.to_double())));
    }
}

/// Each of many right-hand sides has the solution that it has alone, to the accuracy of both: 8 n eps of its length, for a well-conditioned
/// matrix.
fn one_as_many<T: Element>() {
    for (m, n) in [(90, 60), (1700, 10)] {
        let a = matrix::<T>("unitary", m, n);
        let b = right_sides(a.as_ref(), 12);
        let all = widen(a.lstsq_gpu_with(&b, &on_cpu()).unwrap().x.as_ref());
        for j in [0, 7] {
            let one = widen(a.lstsq_gpu_with(&b.as_ref().subcols(j, 1), &on_cpu()).unwrap().x.as_ref());
            let off = (&one - all.subcols(j, 1)).norm_l2() / one.norm_l2();
            assert!(off <= 8.0 * n as f64 * eps::<T>(), "{} {m} x {n}: {off:e}", T::NAME);
        }
    }
}

/// The values on request are those of `svdvals_gpu`, to max(m, n) eps of the largest, on every route and with a ridge; those of a matrix
/// without full rank come unasked.
#[test]
fn singular_values() {
    for (kind, m, n, ridge) in [
        ("random", 90, 60, 0.0),
        ("random", 60, 90, 0.0),
        ("random", 1700, 10, 0.0),
        ("random", 90, 60, 0.5),
        ("rank third", 90, 60, 0.0),
    ] {
        let a = matrix::<f64>(kind, m, n);
        let b = right_sides(a.as_ref(), 1);
        let want = a.svdvals_gpu_with(&on_cpu().run.clone().into()).unwrap();
        let found = a.lstsq_gpu_with(&b, &on_cpu().singular_values(true).ridge(ridge)).unwrap().singular_values.unwrap();
        assert_eq!(found.len(), want.nrows());
        assert!(
            (0..found.len()).all(|i| (found[i] - want[i]).abs() <= m.max(n) as f64 * f64::EPSILON * want[0]),
            "{kind} {m} x {n}"
        );
        assert_eq!(a.lstsq_gpu_with(&b, &on_cpu()).unwrap().singular_values.is_some(), kind == "rank third");
    }
}

/// The problems of `check_lstsq::known_problems`.
#[test]
fn known_problems() {
    crate::check_lstsq::known_problems(&on_cpu(), true).unwrap();
}

/// Kahan's matrix, whose smallest singular value no diagonal entry of R shows, and matrices of condition 10^2 to 10^16: the rank is that of the
/// singular values, and the solution is checked whatever it is.
#[test]
fn ill_conditioned() {
    let n = 60;
    let s = |i: usize| 0.8f64.powi(i as i32);
    let kahan = Mat::from_fn(n, n, |i, j| {
        if i == j {
            s(i)
        } else if i < j {
            -0.6 * s(i)
        } else {
            0.0
        }
    });
    let values = kahan.svdvals_gpu_with(&on_cpu().run.clone().into()).unwrap();
    let rank = (0..n).filter(|&i| values[i] > (n as f64).sqrt() * f64::EPSILON * values[0]).count();
    let b = right_sides(kahan.as_ref(), 2);
    assert_eq!(kahan.lstsq_gpu_with(&b, &on_cpu()).unwrap().rank, rank);
    assert!(rank < n);
    let mut errors: Vec<String> = check("Kahan", kahan.as_ref(), b.as_ref(), &on_cpu()).err().into_iter().collect();
    for power in (2..=16).step_by(2) {
        for (m, n) in [(120, 40), (3000, 12)] {
            let basis = matrix::<f64>("unitary", m, n);
            let mixed = matrix::<f64>("unitary", n, n);
            let spectrum = |i: usize| 10f64.powf(-(power as f64) * i as f64 / (n - 1) as f64);
            let a = Mat::from_fn(m, n, |i, j| basis[(i, j)] * spectrum(j)) * &mixed;
            errors.extend(
                check(&format!("10^{power}, {m} x {n}"), a.as_ref(), right_sides(a.as_ref(), 2).as_ref(), &on_cpu()).err(),
            );
        }
    }
    none_of(errors);
}

/// Bad input is an error that names it, and the next call works.
#[test]
fn bad_input() {
    let mut a = matrix::<f64>("random", 50, 20);
    let mut b = Mat::<f64>::zeros(50, 2);
    let option = |a: &Mat<f64>, b: MatRef<'_, f64>, options: LstsqOptions| match a.lstsq_gpu_with(&b, &options) {
        Err(SvdError::InvalidOption { option, reason }) => (option, reason),
        other => panic!("{other:?}"),
    };
    assert_eq!(option(&a, b.as_ref().subrows(0, 49), on_cpu()), ("b", "49 rows, but A is 50 x 20".into()));
    for ridge in [-1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(option(&a, b.as_ref(), on_cpu().ridge(ridge)).0, "ridge");
    }
    assert_eq!(option(&a, b.as_ref(), on_cpu().tolerance(2.0)).0, "tolerance");
    assert_eq!(option(&a, b.as_ref(), on_cpu().threads(0)).0, "threads");
    for value in [f64::NAN, f64::INFINITY] {
        b[(7, 1)] = value;
        assert_eq!(option(&a, b.as_ref(), on_cpu()), ("b", format!("entry (7, 1) is {value}")));
        assert!(pollster::block_on(a.lstsq_gpu_async(&b, &on_cpu())).is_err());
    }
    b[(7, 1)] = 0.5;
    a[(3, 4)] = f64::NAN;
    assert!(matches!(a.lstsq_gpu_with(&b, &on_cpu()), Err(SvdError::NonFinite { row: 3, col: 4, .. })));
    a[(3, 4)] = 1.0;
    let tiny = mat![[1e-300f64]];
    assert!(matches!(tiny.lstsq_gpu_with(&mat![[1e300]], &on_cpu()), Err(SvdError::Overflow { .. })));
    half_storage::<f16>();
    half_storage::<bf16>();
    let stop = CancelFlag::new();
    stop.cancel();
    for (m, n) in [(50, 20), (1700, 10), (20, 50)] {
        let a = matrix::<f64>("random", m, n);
        let error = a.lstsq_gpu_with(&right_sides(a.as_ref(), 1), &on_cpu().cancel(stop.clone())).unwrap_err();
        assert!(matches!(error, SvdError::Cancelled { stage: Stage::Qr }), "{error}");
    }
    assert!(a.lstsq_gpu_with(&b, &on_cpu()).is_ok());
}

fn half_storage<T: Element>() {
    let a = matrix::<T>("random", 20, 10);
    let error = a.lstsq_gpu_with(&a, &on_cpu().half_storage(HalfStorage::Half)).err();
    assert!(matches!(error, Some(SvdError::InvalidOption { option: "half_storage", .. })), "{}", T::NAME);
}

/// At the ends of the range the solution is that of the scaled problem; subnormal entries are scaled up first.
#[test]
fn ends_of_the_range() {
    for (a, b) in [(1e300, 1e300), (1e-310, 1e-310), (1e150, 1e-150), (1e-200, 1e100)] {
        for (m, n) in [(40, 20), (20, 40), (1700, 10)] {
            let one = matrix::<f64>("random", m, n);
            let by = |x: f64| x.log2().floor().exp2();
            let times = |of: &Mat<f64>, x: f64| Mat::from_fn(of.nrows(), of.ncols(), |i, j| of[(i, j)] * by(x));
            let (large, right) = (times(&one, a), right_sides(one.as_ref(), 1));
            let x = large.lstsq_gpu_with(&times(&right, b), &on_cpu()).unwrap().x;
            let want = one.lstsq_gpu_with(&right, &on_cpu()).unwrap().x;
            let factor = by(b).log2() - by(a).log2();
            let (some, others) = ((factor / 2.0).floor(), factor - (factor / 2.0).floor());
            let back = Mat::from_fn(n, 1, |i, _| x[(i, 0)] * (-some).exp2() * (-others).exp2());
            // Subnormal entries have a few digits only.
            let bound = if a < 1e-300 { 1e-2 } else { 1e-13 };
            assert!((&back - &want).norm_l2() <= bound * want.norm_l2(), "{a:e} {b:e} {m} x {n}");
        }
    }
}

/// No rows, no columns or no right-hand sides: the solution has the shape of any other.
#[test]
fn empty_problems() {
    for (m, n, p) in [(0, 0, 1), (0, 3, 2), (3, 0, 2), (5, 3, 0), (3, 5, 0), (1700, 10, 0)] {
        let (a, b) = (Mat::<f64>::from_fn(m, n, |i, j| ((i + 2 * j) as f64).cos()), Mat::from_fn(m, p, |i, _| i as f64 + 1.0));
        let fit = a.lstsq_gpu_with(&b, &on_cpu()).unwrap();
        assert_eq!((fit.x.shape(), fit.residuals.len()), ((n, p), p));
        let lengths = fit.residuals.iter().enumerate().all(|(j, length)| (length - b.col(j).norm_l2()).abs() < 1e-14);
        assert!(n > 0 && m > 0 || lengths && fit.rank == 0);
    }
}

/// The solution does not depend on the number of threads, on any route.
#[test]
fn threads_do_not_matter() {
    for (kind, m, n) in [("random", 600, 300), ("random", 50_000, 20), ("random", 200, 500), ("rank third", 300, 120)] {
        let a = matrix::<f64>(kind, m, n);
        let b = right_sides(a.as_ref(), 2);
        let one = a.lstsq_gpu_with(&b, &on_cpu().threads(1)).unwrap();
        assert!([2, 3].into_iter().all(|threads| a.lstsq_gpu_with(&b, &on_cpu().threads(threads)).unwrap() == one), "{m} x {n}");
    }
}

/// Progress passes through both stages, and never falls; and a future gives what a call that blocks does.
#[test]
fn progress_and_futures() {
    for (m, n) in [(300, 200), (9000, 10), (200, 300)] {
        let a = matrix::<f64>("random", m, n);
        let b = right_sides(a.as_ref(), 1);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = seen.clone();
        let options = on_cpu().progress(move |now| told.lock().unwrap().push((now.stage, now.fraction)));
        let now = a.lstsq_gpu_with(&b, &options).unwrap();
        let seen = seen.lock().unwrap();
        assert!([Stage::Qr, Stage::Solve].into_iter().all(|stage| seen.iter().any(|(of, _)| *of == stage)), "{seen:?}");
        assert!(seen.is_sorted_by(|x, y| x.1 <= y.1) && seen.last().unwrap().1 == 1.0);
        assert_eq!(pollster::block_on(a.lstsq_gpu_async(&b, &on_cpu())).unwrap(), now);
    }
}

/// A vector as right-hand side has a vector as solution, in both libraries, with the same entries.
#[test]
fn front_ends() {
    let a = matrix::<f32>("random", 30, 7);
    let b = Col::from_fn(30, |i| complex_noise(9, i, 0).re as f32);
    let fit = a.lstsq_gpu_with(&b, &on_cpu()).unwrap();
    let as_matrix = a.lstsq_gpu_with(&b.as_mat(), &on_cpu()).unwrap();
    assert_eq!(fit.x.as_mat(), as_matrix.x);
    let array = ndarray::Array2::from_shape_fn((30, 7), |(i, j)| a[(i, j)]);
    let of_array = array.lstsq_gpu_with(&ndarray::Array1::from_iter(b.iter().copied()), &on_cpu()).unwrap();
    // The array is in C order, so its sums may have another order.
    assert!((0..7).all(|i| (of_array.x[i] - fit.x[i]).abs() <= 30.0 * f32::EPSILON));
    assert_eq!((of_array.rank, of_array.residuals.len()), (7, 1));
    let strided = array.slice(ndarray::s![..;2, ..]);
    assert_eq!(strided.lstsq_gpu_with(&strided.slice(ndarray::s![.., ..2]), &on_cpu()).unwrap().x.dim(), (7, 2));
}
