//! The QR factorisation on the CPU.

use faer::Mat;
use half::{bf16, f16};
use num_complex::Complex;
use svdvals_gpu::{
    Backend, CancelFlag, Element, HalfStorage, Number, Orthogonal, QrGpu, QrOptions, Route, Scalar, Stage, SvdError, Tuning,
};

use crate::{
    check_qr::{check, solves},
    common::{complex_noise, problems::every_scalar, widen},
    vectors::{KINDS, matrix},
};

fn on_cpu() -> QrOptions {
    QrOptions::default().backend(Backend::Cpu)
}

every_scalar!(ratios_of_hard_matrices, conditions, options, routes, least_squares, powers_of_two);

/// Panics with all errors, if there are any.
fn none_of(errors: Vec<String>) {
    assert!(errors.is_empty(), "{} errors:\n{}", errors.len(), errors.join("\n"));
}

/// The ratios of `check_qr::check` on hard matrices of all shapes: a single row or column, square, tall, wide, several panels and leaves, and tall
/// enough for A^H A.
fn ratios_of_hard_matrices<T: Element>() {
    let (mut errors, mut worst) = (Vec::new(), 0.0f64);
    for kind in KINDS {
        for (m, n) in
            [(1, 1), (5, 1), (1, 5), (3, 2), (40, 29), (29, 40), (100, 100), (233, 140), (140, 233), (700, 24), (256, 64)]
        {
            match check(&format!("{} {kind} {m} x {n}", T::NAME), matrix::<T>(kind, m, n).as_ref(), &on_cpu()) {
                Ok(ratio) => worst = worst.max(ratio),
                Err(error) => errors.push(error),
            }
        }
    }
    println!("{}: worst ratio {worst:.3}", T::NAME);
    none_of(errors);
}

/// Kahan's matrix of order n: rows 0.958^i (0, .., 0, 1, -0.285, .., -0.285).
fn kahan<T: Element>(n: usize) -> Mat<T> {
    let (c, s) = (0.285f64, (1.0 - 0.285f64 * 0.285).sqrt());
    Mat::from_fn(n, n, |i, j| {
        let x = match i.cmp(&j) {
            std::cmp::Ordering::Equal => 1.0,
            std::cmp::Ordering::Less => -c,
            std::cmp::Ordering::Greater => 0.0,
        };
        T::from_complex((x * s.powi(i as i32)).into())
    })
}

/// The ratios of `check_qr::check`, which no condition number may enlarge: conditions 1 to 10^16, square, tall and tall enough for A^H A; and Kahan's
/// matrix.
fn conditions<T: Element>() {
    let mut errors = Vec::new();
    for (m, n) in [(40, 40), (120, 40), (700, 24)] {
        let unitary = |m, n| match <T::Scalar as Scalar>::IS_COMPLEX {
            true => matrix::<Complex<f64>>("unitary", m, n),
            false => widen(matrix::<f64>("unitary", m, n).as_ref()),
        };
        let (basis, mixed) = (unitary(m, n), unitary(n, n));
        for power in (0..=16).step_by(4) {
            let s = |j: usize| 10f64.powf(-f64::from(power) * j as f64 / (n - 1) as f64);
            let a = Mat::from_fn(m, n, |i, j| basis[(i, j)] * s(j)) * &mixed;
            let a = Mat::from_fn(m, n, |i, j| T::from_complex(a[(i, j)]));
            errors.extend(check(&format!("{} 10^{power}, {m} x {n}", T::NAME), a.as_ref(), &on_cpu()).err());
        }
    }
    errors.extend(check(&format!("{} Kahan", T::NAME), kahan::<T>(60).as_ref(), &on_cpu()).err());
    none_of(errors);
}

/// Pivoting, a positive diagonal and both, in any memory order and by small tiles; and a Kahan matrix, whose columns pivoting must not permute
/// wrongly.
fn options<T: Element>() {
    let mut errors = Vec::new();
    let small = Tuning::for_cpu::<T>(50).tile_size(8).leaf(24);
    for options in [on_cpu().pivot(true), on_cpu().positive_diagonal(true), on_cpu().pivot(true).positive_diagonal(true)] {
        for (m, n) in [(50, 30), (30, 50), (41, 41), (700, 24)] {
            for kind in ["random", "rank third", "zero", "graded"] {
                let a = matrix::<T>(kind, m, n);
                let turned = matrix::<T>(kind, n, m);
                let what = format!("{} {kind} {m} x {n}, pivot {}", T::NAME, options.pivot);
                errors.extend(check(&what, a.as_ref(), &options).err());
                errors.extend(check(&format!("{what}, by rows"), turned.transpose(), &options).err());
                errors.extend(check(&format!("{what}, small tiles"), a.as_ref(), &options.clone().tuning(small.clone())).err());
                errors.extend(check(&format!("{what}, reversed"), a.as_ref().reverse_rows(), &options).err());
            }
        }
        errors.extend(check(&format!("{} Kahan", T::NAME), kahan::<T>(40).as_ref(), &options).err());
    }
    let rank = matrix::<T>("rank third", 60, 30).qr_gpu_with(&on_cpu().pivot(true).tolerance(0.01)).unwrap().rank();
    if rank != 10 {
        errors.push(format!("{}: rank {rank}, not 10", T::NAME));
    }
    none_of(errors);
}

/// The route follows the shape and the condition number, and every route has the ratios of `check_qr::check`: Cholesky QR for well-conditioned columns
/// of any length, the preconditioned one where A^H A loses too much, reflectors where that fails too, and for other shapes.
fn routes<T: Element>() {
    let mut errors = Vec::new();
    let (m, n) = (1700, 10);
    let noise = |i: usize, j: usize| complex_noise(31, i, j) * if j.is_multiple_of(3) { 1e-3 } else { 1.0 };
    let of = |near: f64| {
        Mat::from_fn(m, n, |i, j| T::from_complex(if j == 7 { noise(i, 6) + noise(i, 7) * near } else { noise(i, j) }))
    };
    let double = <T::Scalar as Scalar>::IS_DOUBLE;
    let ill = if double { 1e-9 } else { 0.0 };
    let cases =
        [(of(0.5), Orthogonal::Cholesky), (of(ill), if double { Orthogonal::Preconditioned } else { Orthogonal::Householder })];
    for (a, route) in cases.into_iter().chain([(of(0.0), Orthogonal::Householder)]) {
        let report = a.qr_gpu_report(&on_cpu()).unwrap();
        if report.route != Route::Qr(route) {
            errors.push(format!("{}: {} in place of {route}", T::NAME, report.route));
        }
        errors.extend(check(&format!("{} {route}", T::NAME), a.as_ref(), &on_cpu()).err());
    }
    none_of(errors);
}

/// The gradient of the solution of least squares, by each route, with pivoting and without.
fn least_squares<T: Element>() {
    let mut errors = Vec::new();
    for (m, n) in [(1, 1), (30, 30), (60, 40), (700, 24), (300, 170)] {
        for options in [on_cpu(), on_cpu().pivot(true), on_cpu().positive_diagonal(true)] {
            errors.extend(solves(&format!("{} {m} x {n}", T::NAME), matrix::<T>("random", m, n).as_ref(), &options).err());
        }
    }
    none_of(errors);
    // Dependent columns have no unique solution, and say so; with pivoting the solution has a nonzero row for each that counts.
    let a = matrix::<T>("equal columns", 50, 9);
    let b = Mat::from_fn(50, 1, |i, _| <T::Scalar as Number>::from_complex(complex_noise(3, i, 0)));
    let error = a.qr_gpu_with(&on_cpu()).unwrap().solve_lstsq(&b);
    assert!(matches!(error, Err(SvdError::RankDeficient { cols: 9, .. })), "{error:?}");
    let x = a.qr_gpu_with(&on_cpu().pivot(true).tolerance(1e-4)).unwrap().solve_lstsq(&b).unwrap();
    assert_eq!((0..9).filter(|&i| x[(i, 0)].to_complex() != Complex::ZERO).count(), 3);
    // A wide matrix has none either.
    let error = matrix::<T>("random", 3, 5).qr_gpu_with(&on_cpu()).unwrap().solve_lstsq(&Mat::<T::Scalar>::zeros(3, 1));
    assert!(matches!(error, Err(SvdError::RankDeficient { .. })), "{error:?}");
}

/// Q is the same to the last bit, and R is scaled exactly, when A is multiplied by a power of two, far up and down the type's range. (By A^H A
/// too: the scale of stage 0 is a power of two.)
fn powers_of_two<T: Element>() {
    // Down to where an entry of 2^-60 (f64: 2^-200, f16: 2^-17, which has no digits after it) is no subnormal number, up to where columns of 30 such
    // entries have lengths within the range. By A^H A in double precision the squares must be within it too; other matrices take another route.
    let ends = |m: usize| match (T::IS_HALF, <T::Scalar as Scalar>::IS_DOUBLE) {
        (true, _) => [3, 12],
        (_, false) => [-60, 120],
        (_, true) if m == 700 => [-440, 440],
        (_, true) => [-800, 1015],
    };
    let [square, tall] = [(40, 30), (700, 24)].map(|(m, n)| ends(m).map(|power| (m, n, power)));
    for (m, n, power) in square.into_iter().chain(tall).chain([(40, 30, 6), (700, 24, 6)]) {
        let a = matrix::<T>("random", m, n);
        let factor = 2f64.powi(power);
        let scaled = Mat::from_fn(m, n, |i, j| T::from_complex(a[(i, j)].to_complex() * factor));
        let [one, other] = [&a, &scaled].map(|a| a.qr_gpu_with(&on_cpu()).unwrap());
        let what = format!("{} {m} x {n}, 2^{power}", T::NAME);
        assert!(one.thin_q().unwrap() == other.thin_q().unwrap(), "{what}: Q");
        let (r, of_scaled) = (widen(one.r().as_ref()), widen(other.r().as_ref()));
        assert!(r * faer::Scale(Complex::from(factor)) == of_scaled, "{what}: R");
    }
}

/// Singular values and condition number of A from R.
#[test]
fn values_of_r() {
    let a = matrix::<f64>("two clusters", 60, 20);
    let qr = a.qr_gpu_with(&on_cpu()).unwrap();
    let s = qr.svdvals().unwrap();
    assert!(s[..10].iter().all(|s| (s - 1.0).abs() < 1e-12) && s[10..].iter().all(|s| (s - 1e-5).abs() < 1e-12));
    assert!((qr.condition().unwrap() / 1e5 - 1.0).abs() < 1e-7);
}

/// Empty matrices have empty factors; the complete Q is the identity.
#[test]
fn empty_matrices() {
    for (m, n) in [(0, 0), (0, 3), (3, 0)] {
        let qr = Mat::<f64>::zeros(m, n).qr_gpu_with(&on_cpu()).unwrap();
        assert_eq!((qr.r().shape(), qr.thin_q().unwrap().shape(), qr.rank()), ((0, n), (m, 0), 0));
        assert_eq!(qr.complete_q().unwrap(), Mat::<f64>::identity(m, m));
    }
}

/// Bad input is an error that names it, and the next call works.
#[test]
fn bad_input() {
    let mut a = matrix::<f64>("random", 50, 20);
    let qr = a.qr_gpu_with(&on_cpu()).unwrap();
    let mut c = Mat::<f64>::zeros(49, 2);
    assert!(matches!(qr.apply_q(&mut c, svdvals_gpu::triangular::Op::NoTrans), Err(SvdError::InvalidOption { option: "c", .. })));
    assert!(matches!(qr.solve_lstsq(&c), Err(SvdError::InvalidOption { option: "b", .. })));
    let mut b = Mat::<f64>::zeros(50, 2);
    b[(7, 1)] = f64::NAN;
    let error = qr.solve_lstsq(&b).unwrap_err();
    assert_eq!(error.to_string(), "invalid b: entry (7, 1) is NaN");
    a[(3, 4)] = f64::INFINITY;
    assert!(matches!(a.qr_gpu_with(&on_cpu()), Err(SvdError::NonFinite { row: 3, col: 4, .. })));
    assert!(matches!(a.qr_r_gpu_with(&on_cpu()), Err(SvdError::NonFinite { row: 3, col: 4, .. })));
    a[(3, 4)] = 1.0;
    assert!(matches!(a.qr_gpu_with(&on_cpu().tolerance(2.0)), Err(SvdError::InvalidOption { option: "tolerance", .. })));
    let large = Mat::from_fn(4, 1, |_, _| f64::MAX);
    assert!(matches!(large.qr_gpu_with(&on_cpu()), Err(SvdError::Overflow { .. })));
    // The norm of a column exceeds the type: R of the pivoted matrix itself, and of the R that is pivoted.
    for (m, n) in [(6, 5), (5, 6), (60, 5), (20_000, 4)] {
        let large = Mat::from_fn(m, n, |i, j| if i == j { 0.99 * f32::MAX } else { 0.9 * f32::MAX });
        let error = large.qr_gpu_with(&on_cpu().pivot(true)).unwrap_err();
        assert!(matches!(error, SvdError::Overflow { .. }) && error.to_string().contains("entries of R"), "{m} x {n}: {error}");
    }
    // So does the modulus of a complex entry whose parts do not.
    let large = Mat::from_fn(1, 1, |_, _| Complex::new(f32::MAX, f32::MAX));
    assert!(matches!(large.qr_gpu_with(&on_cpu().positive_diagonal(true)), Err(SvdError::Overflow { .. })));
    let stop = CancelFlag::new();
    stop.cancel();
    for (m, n) in [(50, 20), (1700, 10)] {
        let error = matrix::<f64>("random", m, n).qr_gpu_with(&on_cpu().cancel(stop.clone())).unwrap_err();
        assert!(matches!(error, SvdError::Cancelled { stage: Stage::Qr }), "{error}");
    }
    assert!(a.qr_gpu_with(&on_cpu()).is_ok());
}

/// With Q and R stored as f16 the ratios of `check_qr::check` hold in units of f16's eps, for matrices of any scale; the report names the type, R alone
/// and the awaited factors are the same, and every digit but three is lost: the error exceeds that of storage in f32.
fn half_storage<T: Element>() {
    let options = on_cpu().half_storage(HalfStorage::Half);
    let mut errors = Vec::new();
    for (m, n) in [(1, 1), (20, 10), (70, 70), (41, 90), (2000, 9)] {
        for kind in ["random", "graded", "rank third", "zero"] {
            let what = format!("{} {kind} {m} x {n}", T::NAME);
            errors.extend(check(&what, matrix::<T>(kind, m, n).as_ref(), &options).err());
            errors
                .extend(check(&format!("{what}, pivoted"), matrix::<T>(kind, m, n).as_ref(), &options.clone().pivot(true)).err());
        }
    }
    let a = matrix::<T>("random", 2000, 9);
    let report = a.qr_gpu_report(&options).unwrap();
    assert_eq!((report.storage, report.route), ("f16", Route::Qr(Orthogonal::Householder)));
    let r = report.values.r();
    assert_eq!(a.qr_r_gpu_with(&options).unwrap(), r);
    assert_eq!(pollster::block_on(a.qr_gpu_async(&options)).unwrap().r(), r);
    let q = widen(report.values.thin_q().unwrap().as_ref());
    let off = (q.adjoint() * &q - Mat::<Complex<f64>>::identity(9, 9)).norm_l2();
    assert!(off > 100.0 * f64::from(f32::EPSILON), "{off:e}");
    none_of(errors);
}

#[test]
fn stored_as_f16() {
    half_storage::<f16>();
    half_storage::<bf16>();
}

/// The factors do not depend on the number of threads, on any route.
#[test]
fn threads_do_not_matter() {
    for (m, n) in [(600, 300), (9000, 20), (200, 500)] {
        let a = matrix::<f64>("random", m, n);
        let by = |threads| {
            let qr = a.qr_gpu_with(&on_cpu().threads(threads)).unwrap();
            (qr.r(), a.qr_r_gpu_with(&on_cpu().threads(threads)).unwrap())
        };
        let one = by(1);
        assert!([2, 3].into_iter().all(|threads| by(threads) == one), "{m} x {n}");
    }
}

/// pytorch issue 180157: columns that are dependent up to rounding. LAPACK's `gels` gives values near 1e16 without a word; here it is an error.
#[test]
fn nearly_dependent_columns() {
    let a = Mat::from_fn(3, 3, |i, j| (3 * i + j + 1) as f64);
    let error = a.qr_gpu_with(&on_cpu()).unwrap().solve_lstsq(&Mat::from_fn(3, 1, |i, _| i as f64));
    assert!(matches!(error, Err(SvdError::RankDeficient { .. })), "{error:?}");
    let qr = a.qr_gpu_with(&on_cpu().pivot(true)).unwrap();
    assert_eq!(qr.rank(), 2);
    let x = qr.solve_lstsq(&Mat::from_fn(3, 1, |i, _| i as f64)).unwrap();
    assert!((&a * x - Mat::from_fn(3, 1, |i, _| i as f64)).norm_max() < 64.0 * f64::EPSILON);
}
