//! The singular value decomposition with vectors, on the CPU.

use std::panic::{AssertUnwindSafe, catch_unwind};

use faer::{Col, Mat, MatRef};
use num_complex::Complex;
use svdvals_gpu::{
    Backend, Band, CancelFlag, Element, MatSvd, Number, RealElement, Reduction, Signs, Stage, SvdError, SvdGpu, SvdOptions,
    SvdValsGpu, Tuning, Vectors,
};

use crate::{
    common::{eps, problems::every_scalar},
    vectors::{KINDS, check, ends_of_range, matrix, ratios},
};

const STAGES: [Stage; 4] = [Stage::ToBand, Stage::BandToBidiag, Stage::Svdvals, Stage::Vectors];

fn on_cpu() -> SvdOptions {
    SvdOptions::default().backend(Backend::Cpu)
}

every_scalar!(ratios_of_hard_matrices, every_option, any_strides, powers_of_two, ends_of_the_range, bands);

/// Panics with all errors, if there are any.
fn none_of(errors: Vec<String>) {
    assert!(errors.is_empty(), "{} errors:\n{}", errors.len(), errors.join("\n"));
}

/// DESIGN 6's three ratios are at most 1 on hard matrices of all shapes and by all routes: one column, directly, by A^H A, Cholesky's R or QR,
/// by a band; square, tall and wide. Values are those of `svdvals_gpu`. (The bound max(m, n) eps in the Frobenius norm is a thirtieth of
/// LAPACK's own in its tests.)
fn ratios_of_hard_matrices<T: Element>() {
    let (mut errors, mut worst) = (Vec::new(), [0.0f64; 3]);
    for kind in KINDS {
        for (m, n) in [
            (1, 1),
            (5, 1),
            (1, 5),
            (3, 2),
            (17, 17),
            (40, 29),
            (29, 40),
            (128, 100),
            (400, 21),
            (5000, 12),
            (233, 231),
            (240, 300),
            (420, 230),
        ] {
            match check(&format!("{} {kind} {m} x {n}", T::NAME), matrix::<T>(kind, m, n).as_ref(), &on_cpu()) {
                Ok(ratios) => worst.iter_mut().zip(ratios).for_each(|(worst, ratio)| *worst = worst.max(ratio)),
                Err(error) => errors.push(error),
            }
        }
    }
    println!("{}: worst ratios {worst:.3?}", T::NAME);
    none_of(errors);
}

/// Every choice of vectors, of a limit and of a tolerance has its shapes, its values and orthonormal columns. One side alone is, to the last
/// bit, that of both, and the leading vectors are those of the whole.
fn every_option<T: Element>() {
    let mut errors = Vec::new();
    for (m, n) in [(60, 40), (40, 60), (50, 50), (300, 250), (250, 300), (700, 20)] {
        let a = matrix::<T>("random", m, n);
        let thin = a.svd_gpu_with(&on_cpu()).unwrap();
        let (left, right) = [Vectors::Left, Vectors::Right].map(|side| a.svd_gpu_with(&on_cpu().vectors(side)).unwrap()).into();
        if left.u != thin.u || right.v != thin.v {
            errors.push(format!("{} {m} x {n}: one side differs from that of both", T::NAME));
        }
        for vectors in [Vectors::Thin, Vectors::Full, Vectors::Left, Vectors::Right] {
            let options = on_cpu().vectors(vectors);
            let limited = [
                options.clone().keep(7),
                options.clone().tolerance(0.3),
                options.clone().keep(3).tolerance(0.5),
                options.clone().keep(0),
            ];
            let limits = if vectors == Vectors::Full { Vec::new() } else { limited.to_vec() };
            for options in [vec![options], limits].concat() {
                let what =
                    format!("{} {m} x {n}, {vectors}, keep {:?}, tolerance {:?}", T::NAME, options.keep, options.tolerance);
                errors.extend(check(&what, a.as_ref(), &options).err());
            }
        }
        // The leading vectors of well separated values are those of the whole, up to a factor of modulus 1 that the convention fixes. Their
        // error is a modest multiple of n eps over the relative gap.
        let separated = matrix::<T>("hilbert", m, n);
        let options = on_cpu().signs(Signs::Largest);
        let (all, some) = (separated.svd_gpu_with(&options).unwrap(), separated.svd_gpu_with(&options.keep(2)).unwrap());
        for j in 0..2 {
            for (x, y, side) in [(&all.u, &some.u, "U"), (&all.v, &some.v, "V")] {
                let off =
                    (0..x.nrows()).map(|i| (x[(i, j)].to_complex() - y[(i, j)].to_complex()).norm_sqr()).sum::<f64>().sqrt();
                if off > 8.0 * m.max(n) as f64 * eps::<T>() {
                    errors.push(format!("{} {m} x {n}: column {j} of {side} is off by {off:.2e} with keep(2)", T::NAME));
                }
            }
        }
    }
    none_of(errors);
}

/// Row-major, reversed and strided views have the ratios of others: U and V are those of the view, not of its memory.
fn any_strides<T: Element>() {
    let mut errors = Vec::new();
    for (m, n) in [(30, 20), (20, 30), (24, 24), (300, 240), (240, 300), (260, 260)] {
        let whole = matrix::<T>("random", 2 * m, n);
        let by_rows = matrix::<T>("random", n, m);
        let views = [
            ("by rows", by_rows.transpose()),
            ("rows reversed", whole.as_ref().get(..m, ..).reverse_rows()),
            ("columns reversed", whole.as_ref().get(..m, ..).reverse_cols()),
            ("both, by rows", by_rows.transpose().reverse_rows_and_cols()),
        ];
        for (name, a) in views {
            errors.extend(check(&format!("{} {m} x {n}, {name}", T::NAME), a, &on_cpu()).err());
            errors.extend(check(&format!("{} {m} x {n}, {name}, full", T::NAME), a, &on_cpu().vectors(Vectors::Full)).err());
        }
    }
    none_of(errors);
}

/// Powers of two anywhere in the type's range change no vector.
fn powers_of_two<T: Element>() {
    let exponents: &[i32] = match T::NAME {
        "f16" => &[-8, 8],
        "f64" | "c64" => &[-900, 900],
        _ => &[-100, 100],
    };
    for (m, n) in [(20, 20), (200, 12), (260, 240)] {
        let a = matrix::<T>("random", m, n);
        let svd = a.svd_gpu_with(&on_cpu()).unwrap();
        for &k in exponents {
            let scaled = Mat::from_fn(m, n, |i, j| T::from_complex(a[(i, j)].to_complex() * 2f64.powi(k)));
            // f16 rounds small entries, so that only the ratios remain.
            if T::NAME == "f16" && k < 0 {
                check("2^-8", scaled.as_ref(), &on_cpu()).unwrap();
                continue;
            }
            let other = scaled.svd_gpu_with(&on_cpu()).unwrap();
            assert!(svd.u == other.u && svd.v == other.v, "{} {m} x {n} times 2^{k}", T::NAME);
            assert!(
                (0..n).all(|j| other.s[j].to_double() == svd.s[j].to_double() * 2f64.powi(k)),
                "{} {m} x {n} times 2^{k}",
                T::NAME
            );
        }
    }
}

/// Entries near the largest number of the type, subnormal ones, and blocks of both have the three ratios of others, by every route.
fn ends_of_the_range<T: Element>() {
    let mut errors = Vec::new();
    for (m, n) in [(1, 1), (30, 1), (19, 23), (27, 23), (400, 21), (2500, 12), (245, 240)] {
        for (name, a) in ends_of_range::<T>(m, n) {
            errors.extend(check(&format!("{} {name}, {m} x {n}", T::NAME), a.as_ref(), &on_cpu()).err());
        }
    }
    none_of(errors);
}

/// A band's decomposition has the three ratios, the options' shapes, and the values of `band_to_bidiag`.
fn bands<T: Element>() {
    let mut errors = Vec::new();
    for (n, bandwidth) in [(1, 0), (2, 1), (30, 1), (40, 39), (150, 6), (400, 20)] {
        for kind in ["random", "zero", "graded rows"] {
            let what = format!("{} {kind} {n}, {bandwidth} superdiagonals", T::NAME);
            let a = matrix::<T>(kind, n, n);
            let band = Band::from_fn(n, bandwidth, |i, j| a[(i, j)]).unwrap();
            let (u, s, v) = band.svd(&on_cpu()).unwrap();
            let values = band.band_to_bidiag(&on_cpu().run).unwrap().svdvals().unwrap();
            let largest = values[0].to_double();
            if s.iter().zip(&values).any(|(s, value)| (s.to_double() - value.to_double()).abs() > 4.0 * eps::<T>() * largest) {
                errors.push(format!("{what}: values"));
            }
            let svd = MatSvd { u, s: Col::from_fn(n, |j| s[j]), v, residuals: None };
            let found = ratios(band.to_mat().as_ref(), &svd);
            // Of a few entries, each may be rounded by as much as n eps.
            if found.iter().any(|ratio| *ratio > if n <= 2 { 2.0 } else { 1.0 }) {
                errors.push(format!("{what}: {found:.3?}"));
            }
            let (u, s, v) = band.svd(&on_cpu().keep(1).vectors(Vectors::Left)).unwrap();
            assert_eq!((u.shape(), s.len(), v.shape()), ((n, 1), 1, (n, 0)), "{what}");
            let (u, _, v) = band.svd(&on_cpu().vectors(Vectors::Full)).unwrap();
            assert_eq!((u.shape(), v.shape()), ((n, n), (n, n)), "{what}");
        }
    }
    none_of(errors);
    let (u, s, v) = Band::from_fn(0, 3, |_, _| T::from_complex(Complex::ZERO)).unwrap().svd(&on_cpu()).unwrap();
    assert_eq!((u.ncols(), s.len(), v.ncols()), (0, 0, 0));
}

/// The same bits in every run, whatever the number of threads: also where QR makes the columns of tiny values orthogonal, in one panel (of
/// random matrices) and in several (of low rank), and where it completes a unitary U.
#[test]
fn threads_do_not_matter() {
    for (kind, m, n, vectors) in [
        ("random", 100, 100, Vectors::Thin),
        ("random", 300, 300, Vectors::Thin),
        ("random", 520, 500, Vectors::Thin),
        ("random", 20_000, 30, Vectors::Thin),
        ("rank third", 600, 480, Vectors::Thin),
        ("random", 600, 240, Vectors::Full),
    ] {
        let a = matrix::<f32>(kind, m, n);
        let by = |threads| a.svd_gpu_with(&on_cpu().vectors(vectors).threads(threads)).unwrap();
        let one = by(1);
        for threads in [1, 2, 3, 8] {
            let other = by(threads);
            assert!(one.u == other.u && one.s == other.s && one.v == other.v, "{kind} {m} x {n} on {threads} threads");
        }
    }
}

/// Several reduction steps, flat trees and narrow tiles have the same ratios.
#[test]
fn any_tuning() {
    let mut errors = Vec::new();
    let tuning = Tuning::for_cpu::<f64>(260);
    let tunings = [
        tuning.clone().tile_size(16).tile_width(5),
        tuning.clone().tile_size(8).leaf(16).tile_width(8),
        tuning.clone().tile_size(24).leaf(48).tree(svdvals_gpu::PanelTree::Flat).tile_width(10),
        tuning.direct_up_to(400),
    ];
    for tuning in tunings {
        for (m, n) in [(260, 260), (500, 240)] {
            let options = on_cpu().tuning(tuning.clone());
            errors.extend(check(&format!("{m} x {n}, {tuning}"), matrix::<f64>("random", m, n).as_ref(), &options).err());
            errors
                .extend(check(&format!("{m} x {n}, {tuning}"), matrix::<Complex<f32>>("graded", m, n).as_ref(), &options).err());
        }
    }
    none_of(errors);
}

/// Empty matrices have empty or unitary sides.
#[test]
fn empty_matrices() {
    for (m, n) in [(0, 0), (0, 4), (4, 0)] {
        let a = Mat::<f64>::zeros(m, n);
        let thin = a.svd_gpu_with(&on_cpu()).unwrap();
        assert_eq!((thin.u.shape(), thin.s.nrows(), thin.v.shape()), ((m, 0), 0, (n, 0)));
        let full = a.svd_gpu_with(&on_cpu().vectors(Vectors::Full)).unwrap();
        assert!(full.u == Mat::<f64>::identity(m, m) && full.v == Mat::<f64>::identity(n, n));
    }
}

/// A NaN is an error that names its entry, by every route, and the next call works.
#[test]
fn bad_entries_are_named() {
    for (m, n) in [(1, 1), (6, 4), (4, 6), (600, 20), (5000, 12), (300, 260)] {
        let mut a = matrix::<f64>("random", m, n);
        a[(m / 2, n / 2)] = f64::NAN;
        match a.svd_gpu_with(&on_cpu()) {
            Err(SvdError::NonFinite { row, col, .. }) => assert_eq!((row, col), (m / 2, n / 2)),
            other => panic!("{m} x {n}: {:?}", other.map(|svd| svd.s)),
        }
        a[(m / 2, n / 2)] = 1.0;
        assert!(a.svd_gpu_with(&on_cpu()).is_ok());
    }
}

/// A call ends with an error soon after it is cancelled, in every stage and in two stages or one, and reports its progress in order up to the
/// end. The next call has the bits of one that was not cancelled.
#[test]
fn progress_and_cancellation() {
    use std::sync::{Arc, Mutex};
    let a = matrix::<f32>("random", 400, 400);
    for reduction in [Reduction::TwoStage, Reduction::OneStage] {
        let options = on_cpu().reduction(reduction);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = seen.clone();
        let want = a.svd_gpu_with(&options.clone().progress(move |p| told.lock().unwrap().push((p.stage, p.fraction)))).unwrap();
        let seen = seen.lock().unwrap();
        assert!(seen.is_sorted() && seen.last() == Some(&(Stage::Vectors, 1.0)), "{:?}", seen.last());
        for stage in STAGES {
            assert!(seen.iter().any(|(s, _)| *s == stage), "{stage} was not reported");
            let stop = CancelFlag::new();
            let flag = stop.clone();
            let stopping = options.clone().cancel(stop).progress(move |p| {
                if p.stage == stage {
                    flag.cancel()
                }
            });
            assert_eq!(a.svd_gpu_with(&stopping).err(), Some(SvdError::Cancelled { stage }));
            let next = a.svd_gpu_with(&options).unwrap();
            assert!(next.u == want.u && next.s == want.s && next.v == want.v, "other bits after a call cancelled in {stage}");
        }
    }
    // Set before: nothing is computed, on any route.
    let stop = CancelFlag::new();
    stop.cancel();
    for (m, n) in [(7, 1), (50, 50), (900, 20), (5000, 12), (300, 300), (700, 300)] {
        let result = matrix::<f64>("random", m, n).svd_gpu_with(&on_cpu().cancel(stop.clone()));
        assert!(matches!(result, Err(SvdError::Cancelled { .. })), "{m} x {n}: {:?}", result.map(|svd| svd.s));
    }
}

/// A callback that panics takes its call with it, in every stage, and the next call has the bits of an undisturbed one.
#[test]
fn a_panic_in_the_callback_ends_the_call() {
    let a = matrix::<f64>("random", 300, 280);
    let want = a.svd_gpu_with(&on_cpu()).unwrap();
    for (stage, options) in STAGES.into_iter().flat_map(|stage| [(stage, on_cpu().threads(3)), (stage, on_cpu())]) {
        let panicking = options.clone().progress(move |p| assert!(p.stage != stage, "the callback's own"));
        let result = catch_unwind(AssertUnwindSafe(|| a.svd_gpu_with(&panicking).map(|svd| svd.s)));
        assert!(result.is_err(), "{stage}: {result:?}");
        let next = a.svd_gpu_with(&options).unwrap();
        assert!(next.u == want.u && next.s == want.s && next.v == want.v, "other bits after a panic in {stage}");
    }
}

/// Vectors that no address space holds are an error before an entry is read, whichever are asked for, and the next call works.
#[test]
fn vectors_without_room() {
    let entry = 1.0f32;
    // SAFETY: every entry of this matrix of 2^24 x 2^24 is the one number behind the pointer.
    let huge = unsafe { MatRef::from_raw_parts(&raw const entry, 1 << 24, 1 << 24, 0, 0) };
    for options in [
        on_cpu(),
        on_cpu().vectors(Vectors::Full),
        on_cpu().vectors(Vectors::Left),
        on_cpu().vectors(Vectors::Right),
        on_cpu().keep(1),
    ] {
        let error = huge.svd_gpu_with(&options).err();
        assert!(matches!(error, Some(SvdError::OutOfMemory { .. })), "{}: {error:?}", options.vectors);
        check("the next call", matrix::<f32>("random", 20, 12).as_ref(), &options).unwrap();
    }
}

/// The report has the seconds of every stage, and the route of the values.
#[test]
fn reports() {
    for (m, n) in [(50, 50), (900, 20), (5000, 12), (300, 300), (700, 300)] {
        let a = matrix::<f64>("random", m, n);
        let (svd, values) = (a.svd_gpu_report(&on_cpu()).unwrap(), a.svdvals_gpu_report(&on_cpu()).unwrap());
        assert_eq!((svd.route, svd.backend), (values.route, values.backend));
        let s = &svd.seconds;
        assert!(s.bidiagonal_vectors > 0.0 && s.back_transformation > 0.0 && s.left_vectors > 0.0, "{svd}");
        assert!(svd.to_string().contains("left_vectors"));
    }
}

/// What is computed from the factors: rank, pseudo-inverse and the matrix itself, for both front ends.
#[test]
fn uses_of_the_factors() {
    let a = matrix::<f64>("rank third", 60, 45);
    let svd = a.svd_gpu_with(&on_cpu()).unwrap();
    assert_eq!(svd.rank(None), 15);
    let (back, inverse) = (svd.reconstruct().unwrap(), svd.pinv(None).unwrap());
    let near = |x: &Mat<f64>, y: &Mat<f64>| (x - y).norm_l2() <= 60.0 * f64::EPSILON * y.norm_l2();
    assert!(near(&back, &a));
    // The four conditions of Moore and Penrose; the values that count are 1.
    assert!(near(&(&a * &inverse * &a), &a) && near(&(&inverse * &a * &inverse), &inverse));
    for product in [&a * &inverse, &inverse * &a] {
        assert!(near(&product, &product.transpose().to_owned()));
    }
}
