//! The one-stage reduction on the CPU: blocks of columns and rows straight to bidiagonal form.

use std::sync::{Arc, Mutex};

use faer::{Mat, MatRef};
use num_complex::Complex;
use svdvals_gpu::{
    Backend, CancelFlag, Element, HalfStorage, RealElement, Reduction, Route, Stage, SvdError, SvdGpu, SvdOptions, SvdValsGpu,
    TallReduction, Tuning,
};

use crate::{
    common::{
        Spectrum, complex_with_singular_values, eps, error, furthest, problems::every_scalar, rounded, row_major,
        with_singular_values,
    },
    vectors::{KINDS, check, matrix},
};

fn on_cpu() -> SvdOptions {
    SvdOptions::default().backend(Backend::Cpu).reduction(Reduction::OneStage)
}

every_scalar!(ratios_of_hard_matrices, values_of_two_stages, powers_of_two);

/// DESIGN 6's three ratios are at most 1 on hard matrices of all shapes: smaller and larger than a panel, with an incomplete last
/// panel, square, wide, and tall with and without a QR factorisation first. Values are, to the last bit, those without vectors.
fn ratios_of_hard_matrices<T: Element>() {
    let (mut errors, mut worst) = (Vec::new(), [0.0f64; 3]);
    for kind in KINDS {
        for (m, n) in [(1, 1), (5, 1), (1, 5), (3, 2), (17, 17), (40, 29), (29, 40), (65, 64), (70, 33), (200, 21), (140, 150)] {
            match check(&format!("{} {kind} {m} x {n}", T::NAME), matrix::<T>(kind, m, n).as_ref(), &on_cpu()) {
                Ok(ratios) => worst.iter_mut().zip(ratios).for_each(|(worst, ratio)| *worst = worst.max(ratio)),
                Err(error) => errors.push(error),
            }
        }
    }
    println!("{}: worst ratios {worst:.3?}", T::NAME);
    assert!(errors.is_empty(), "{} errors:\n{}", errors.len(), errors.join("\n"));
}

/// The values are those of two stages, for all memory orders and panels of several widths, and the report names the route.
///
/// Bound: 4 max(m, n) eps times the largest value: twice the backward error of a two-sided reduction.
fn values_of_two_stages<T: Element>() {
    for (m, n) in [(1, 1), (2, 2), (33, 33), (90, 61), (61, 90), (120, 40), (260, 250)] {
        let a = matrix::<T>("random", m, n);
        let swapped = row_major(&a);
        let views = [a.as_ref(), swapped.as_ref().transpose(), a.as_ref().reverse_rows_and_cols()];
        for (k, view) in views.into_iter().enumerate() {
            let want = view.svdvals_gpu_with(&on_cpu().reduction(Reduction::TwoStage)).unwrap();
            for width in [1, 7, 32, 300] {
                let tuning = Tuning::for_cpu::<T>(n).tile_size(width).leaf(1024);
                let report = view.svdvals_gpu_report(&on_cpu().tuning(tuning)).unwrap();
                let first = if 3 * m.max(n) >= 5 * m.min(n) && m != n { TallReduction::Qr } else { TallReduction::Nothing };
                assert_eq!(report.route, Route::OneStage(first));
                let off = furthest(want.iter().zip(report.values.iter()).map(|(x, y)| x.to_double() - y.to_double()));
                let bound = 4.0 * m.max(n) as f64 * eps::<T>() * want[0].to_double();
                assert!(off <= bound, "{} {m} x {n}, view {k}, panels of {width}: {off:.1e}, bound {bound:.1e}", T::NAME);
            }
        }
    }
}

/// Powers of two anywhere in the type's range change nothing but the values, by that factor.
fn powers_of_two<T: Element>() {
    let exponents: &[i32] = match T::NAME {
        "f16" => &[4],
        "f64" | "c64" => &[-900, 900],
        _ => &[-100, 100],
    };
    for (m, n) in [(20, 20), (90, 80)] {
        let a = matrix::<T>("random", m, n);
        let svd = a.svd_gpu_with(&on_cpu()).unwrap();
        for &k in exponents {
            let scaled = Mat::from_fn(m, n, |i, j| T::from_complex(a[(i, j)].to_complex() * 2f64.powi(k)));
            let other = scaled.svd_gpu_with(&on_cpu()).unwrap();
            assert!(svd.u == other.u && svd.v == other.v, "{} {m} x {n} times 2^{k}", T::NAME);
            assert!((0..n).all(|j| other.s[j].to_double() == svd.s[j].to_double() * 2f64.powi(k)), "{} times 2^{k}", T::NAME);
        }
    }
}

/// The largest error over three matrices of each spectrum.
fn worst<T: Element>(n: usize, half: HalfStorage) -> f64 {
    let mut worst = 0f64;
    for spectrum in Spectrum::ALL {
        let mut sigma = spectrum.values(n);
        for seed in 0..3 {
            let a: Mat<T> = if T::NAME.starts_with('c') {
                rounded(complex_with_singular_values(&mut sigma, seed).as_ref())
            } else {
                rounded(with_singular_values(&mut sigma, seed).as_ref())
            };
            worst = worst.max(error(a.svdvals_gpu_with(&on_cpu().half_storage(half)).unwrap().iter().copied(), &sigma));
        }
    }
    println!("{} {half:?} n = {n}: {worst:.2e}", T::NAME);
    worst
}

/// Table 1 of the unified-kernels paper: its figures are the bounds, doubled for complex numbers.
#[test]
fn table_1() {
    for (n, f32_bound, f64_bound, f16_bound) in [(64, 9.6e-8, 5.8e-16, 4.3e-3), (256, 8.1e-8, 8.3e-16, 3.3e-3)] {
        assert!(worst::<f32>(n, HalfStorage::Single) <= f32_bound);
        assert!(worst::<f64>(n, HalfStorage::Single) <= f64_bound);
        assert!(worst::<Complex<f32>>(n, HalfStorage::Single) <= 2.0 * f32_bound);
        assert!(worst::<Complex<f64>>(n, HalfStorage::Single) <= 2.0 * f64_bound);
        assert!(worst::<half::f16>(n, HalfStorage::Half) <= f16_bound);
        assert!(worst::<half::f16>(n, HalfStorage::Single) <= f16_bound / 20.0);
    }
}

/// The same bits whatever the number of threads, in both memory orders, for sizes with one task and with many.
#[test]
fn threads_do_not_matter() {
    fn check(a: MatRef<'_, f32>) {
        let one = a.svd_gpu_with(&on_cpu().threads(1)).unwrap();
        for threads in [2, 3, 8] {
            let other = a.svd_gpu_with(&on_cpu().threads(threads)).unwrap();
            assert!(one.s == other.s && one.v == other.v, "{:?} on {threads} threads", a.shape());
        }
    }
    for (m, n) in [(50, 50), (620, 600)] {
        let a = matrix::<f32>("random", m, n);
        check(a.as_ref());
        check(row_major(&a).as_ref().transpose());
    }
}

/// A NaN is an error that names its entry, and an empty matrix has no values.
#[test]
fn edges() {
    for (m, n) in [(1, 1), (6, 4), (4, 6), (90, 80), (300, 20)] {
        let mut a = matrix::<f64>("random", m, n);
        a[(m / 2, n / 2)] = f64::NAN;
        match a.svd_gpu_with(&on_cpu()).map(|svd| svd.s) {
            Err(SvdError::NonFinite { row, col, .. }) => assert_eq!((row, col), (m / 2, n / 2)),
            other => panic!("{m} x {n}: {other:?}"),
        }
    }
    for (m, n) in [(0, 0), (0, 4), (4, 0)] {
        let svd = Mat::<f32>::zeros(m, n).svd_gpu_with(&on_cpu()).unwrap();
        assert_eq!((svd.u.shape(), svd.s.nrows(), svd.v.shape()), ((m, 0), 0, (n, 0)));
    }
}

/// Progress reaches the end of the reduction, in many steps, and a call ends with an error soon after it is cancelled, in every
/// stage.
#[test]
fn progress_and_cancellation() {
    for (m, n) in [(300, 300), (700, 200)] {
        let a = matrix::<f32>("random", m, n);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = seen.clone();
        a.svd_gpu_with(&on_cpu().progress(move |p| told.lock().unwrap().push((p.stage, p.fraction, p.stage_fraction)))).unwrap();
        let seen = seen.lock().unwrap();
        assert!(seen.is_sorted_by(|x, y| x.0 <= y.0 && x.1 <= y.1) && seen.last() == Some(&(Stage::Vectors, 1.0, 1.0)));
        let of_reduction: Vec<f64> = seen.iter().filter(|p| p.0 == Stage::BandToBidiag).map(|p| p.2).collect();
        assert!(of_reduction.len() > 50 && of_reduction.last().is_some_and(|last| *last > 0.99), "{of_reduction:?}");
        for stage in [Stage::ToBand, Stage::BandToBidiag, Stage::Svdvals, Stage::Vectors] {
            let stop = CancelFlag::new();
            let flag = stop.clone();
            let options = on_cpu().cancel(stop).progress(move |p| {
                if p.stage == stage {
                    flag.cancel()
                }
            });
            assert_eq!(a.svd_gpu_with(&options).err(), Some(SvdError::Cancelled { stage }), "{m} x {n}");
        }
    }
}

/// The seconds of the reduction count as those of stage 2, and those of a tall matrix's QR factorisation as stage 1.
#[test]
fn reports() {
    for (m, n) in [(200, 200), (700, 200)] {
        let report = matrix::<f64>("random", m, n).svd_gpu_report(&on_cpu()).unwrap();
        let s = &report.seconds;
        assert!(s.band_to_bidiag > 0.0 && s.back_transformation > 0.0 && s.band_to_bidiag > s.upload, "{report}");
        assert!(report.to_string().contains("in one stage"), "{report}");
        let qr = if m == n { TallReduction::Nothing } else { TallReduction::Qr };
        assert_eq!((report.route, s.to_band > 1e-4), (Route::OneStage(qr), qr == TallReduction::Qr), "{report}");
    }
}
