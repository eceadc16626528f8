//! What leading triples to an accuracy are on every backend.

use std::sync::{Arc, Mutex};

use faer::{Mat, MatRef};
use num_complex::Complex;
use svdvals_gpu::{Element, Iteration, MatSvd, Number, RealElement, Route, SvdGpu, SvdOptions, SvdReport, Vectors};

use crate::{
    common::{complex_noise, eps, reference, widen},
    vectors::matrix,
};

/// The k-th value of a spectrum of n.
type Value = fn(usize) -> f64;

/// Spectra: those of the prototype, whose values decrease fast or slowly or not at all; and equal values, of which a cut leaves a part.
pub const SPECTRA: [(&str, Value); 8] = [
    ("0.9^i", |i| 0.9f64.powi(i as i32)),
    ("0.5^i", |i| 0.5f64.powi(i as i32)),
    ("1/i", |i| 1.0 / (i + 1) as f64),
    ("1/sqrt i", |i| 1.0 / ((i + 1) as f64).sqrt()),
    ("step", |i| if i < 8 { 1.0 } else { 1e-3 }),
    ("noise", |i| if i < 8 { 4.0 / (i + 1) as f64 } else { 0.1 + 0.01 * ((7 * i) % 13) as f64 / 13.0 }),
    ("flat", |i| 1.0 - 1e-6 * i as f64),
    ("equal across the cut", |i| if i < 11 { 1.0 } else { 0.5 }),
];

/// An m x n matrix with these singular values.
pub fn with_spectrum<T: Element>(m: usize, n: usize, value: Value) -> Mat<T> {
    let k = m.min(n);
    let mut a = Mat::<Complex<f64>>::from_fn(m, n, |i, j| Complex::from(if i == j && i < k { value(i) } else { 0.0 }));
    let part = |x: Complex<f64>| T::from_complex(x).to_complex();
    for seed in 0..4 {
        let v = Mat::from_fn(m, 1, |i, _| part(complex_noise(40 + seed, i, 0)));
        let w = Mat::from_fn(n, 1, |j, _| part(complex_noise(50 + seed, j, 1)));
        let (v2, w2) = (v.squared_norm_l2(), w.squared_norm_l2());
        a = &a - &v * (v.adjoint() * &a) * faer::Scale(Complex::from(2.0 / v2));
        a = &a - (&a * &w) * w.adjoint() * faer::Scale(Complex::from(2.0 / w2));
    }
    Mat::from_fn(m, n, |i, j| T::from_complex(a[(i, j)]))
}

/// max(||A v - s u||, ||A^H u - s v||) of each triple, in double precision.
fn residuals<S: Number>(a: MatRef<'_, Complex<f64>>, u: MatRef<'_, S>, s: &[f64], v: MatRef<'_, S>) -> Vec<f64> {
    let (u, v) = (widen(u), widen(v));
    let (av, au) = (a * &v, a.adjoint() * &u);
    let of = |x: &Mat<Complex<f64>>, y: &Mat<Complex<f64>>, j: usize| {
        (0..x.nrows()).map(|i| (x[(i, j)] - y[(i, j)] * s[j]).norm_sqr()).sum::<f64>().sqrt()
    };
    (0..s.len()).map(|j| of(&av, &u, j).max(of(&au, &v, j))).collect()
}

/// Checks triples and what is said of them:
///
/// * Residuals are those of the triples, computed again in double precision, up to the rounding of a product, max(m, n) eps s_1.
/// * They are at most the accuracy times s_1, or, after a reduction, at most max(m, n) eps s_1 if that is more.
/// * The columns are orthonormal up to max(m, n) eps.
/// * Each value differs from the one of all values by at most the accuracy times s_1: there is a value within the residual of each (Weyl), and a
///   block has more columns than a value occurs.
pub fn verify<T: Element>(a: MatRef<'_, T>, svd: &MatSvd<T>, iteration: Iteration, accuracy: f64) -> Result<(), String> {
    let (wide, exact, s): (_, _, Vec<f64>) = (widen(a), reference(a), svd.s.iter().map(|s| s.to_double()).collect());
    let rounding = a.nrows().max(a.ncols()) as f64 * eps::<T::Scalar>();
    let largest = exact.first().copied().unwrap_or(0.0);
    let said: Vec<f64> = svd.residuals.as_ref().ok_or("no residuals")?.iter().map(|r| r.to_double()).collect();
    if said.len() != s.len() || svd.u.ncols() != s.len() || svd.v.ncols() != s.len() {
        return Err(format!("{} values, {} residuals", s.len(), said.len()));
    }
    let found = residuals(wide.as_ref(), svd.u.as_ref(), &s, svd.v.as_ref());
    let allowed = accuracy.max(if iteration.reduced { rounding } else { 0.0 }) * largest;
    for (j, (found, said)) in found.iter().zip(&said).enumerate() {
        if (found - said).abs() > rounding * largest || *said > allowed {
            return Err(format!("residual {j} is {found:.3e}, said {said:.3e}, allowed {allowed:.3e}"));
        }
    }
    let most = said.iter().copied().fold(0.0, f64::max);
    if (most - iteration.residual * largest).abs() > 1e-3 * most + rounding * largest {
        return Err(format!("largest residual {most:e}, said {:e} of {largest}", iteration.residual));
    }
    for x in [widen(svd.u.as_ref()), widen(svd.v.as_ref())] {
        let off = (x.adjoint() * &x - Mat::<Complex<f64>>::identity(x.ncols(), x.ncols())).norm_max();
        if off > rounding {
            return Err(format!("columns are off by {off:.1e}, allowed {rounding:.1e}"));
        }
    }
    for (j, (s, exact)) in s.iter().zip(&exact).enumerate() {
        if (s - exact).abs() > (accuracy + rounding) * largest {
            return Err(format!("value {j} is {s}, not {exact}"));
        }
    }
    Ok(())
}

/// [`verify`] of a call with a report, which says whether it has iterated.
pub fn check<T: Element>(what: &str, a: MatRef<'_, T>, options: &SvdOptions) -> Result<Iteration, String> {
    let report: SvdReport<MatSvd<T>> = a.svd_gpu_report(options).map_err(|error| format!("{what}: {error}"))?;
    let iteration = report.iteration.ok_or("no iteration in the report")?;
    if (report.route == Route::Krylov) == iteration.reduced {
        return Err(format!("{what}: {} and {iteration}", report.route));
    }
    let count = options.keep.unwrap_or(0).min(a.nrows().min(a.ncols()));
    if report.values.s.nrows() != count {
        return Err(format!("{what}: {} values, not {count}", report.values.s.nrows()));
    }
    let checked = verify(a, &report.values, iteration, options.accuracy.unwrap_or(0.0));
    checked.map_err(|error| format!("{what}, {} {} x {}: {error} ({iteration})", T::NAME, a.nrows(), a.ncols()))?;
    Ok(iteration)
}

/// All spectra, hard matrices and shapes on a backend, with sizes of about n. At least a third of the calls iterate, and some reduce.
pub fn check_all<T: Element>(base: &SvdOptions, n: usize) -> Result<(), String> {
    let digits: &[f64] = if eps::<T::Scalar>() > 1e-10 { &[1e-2, 2e-4] } else { &[1e-3, 1e-7] };
    let (mut iterated, mut calls) = (0, 0);
    let mut run = |what: &str, a: MatRef<'_, T>, keep: usize, accuracy: f64| {
        let iteration = check(what, a, &base.clone().keep(keep).accuracy(accuracy))?;
        (iterated, calls) = (iterated + usize::from(!iteration.reduced), calls + 1);
        Ok::<_, String>(())
    };
    for (what, value) in SPECTRA {
        let a = with_spectrum::<T>(n + 20, n, value);
        for &accuracy in digits {
            run(what, a.as_ref(), 8, accuracy)?;
        }
    }
    // Hard ones, wide and by rows; more than the rank, and a single one.
    for what in ["zero", "rank third", "unitary", "two clusters", "graded", "graded rows", "one entry", "zero border", "diagonal"]
    {
        let a = matrix::<T>(what, n + 30, n);
        run(what, a.transpose(), 5, digits[0])?;
    }
    let low = Mat::<T>::from_fn(n, n, |i, j| T::from_complex((if i == j && i < 3 { 1.0 / (1 + i) as f64 } else { 0.0 }).into()));
    run("beyond the rank", low.as_ref(), 7, digits[1])?;
    run("one", with_spectrum::<T>(n, n, |i| 1.0 / (1 + i) as f64).as_ref(), 1, digits[1])?;
    for (what, m, n, keep) in [("all", 30, 20, 20), ("one row", 1, 50, 1), ("one column", 50, 1, 3), ("one entry", 1, 1, 1)] {
        run(what, matrix::<T>("random", m, n).as_ref(), keep, digits[0])?;
    }
    if 3 * iterated < calls || iterated == calls {
        return Err(format!("{iterated} of {calls} calls have iterated"));
    }
    Ok(())
}

/// The same matrix, options and seed give the same bits; other seeds others of the same accuracy; values alone, one side, and a tolerance are parts
/// of the same triples.
pub fn check_options<T: Element>(base: &SvdOptions, n: usize) -> Result<(), String> {
    use svdvals_gpu::SvdValsGpu;
    let a = with_spectrum::<T>(n + 10, n, |i| 1.0 / (1 + i) as f64);
    let options = base.clone().keep(6).accuracy(1e-2);
    let svd = |options: &SvdOptions| a.as_ref().svd_gpu_with(options).map_err(|error| error.to_string());
    let first = svd(&options)?;
    let same = |x: &MatSvd<T>, y: &MatSvd<T>| x.u == y.u && x.s == y.s && x.v == y.v && x.residuals == y.residuals;
    if !same(&first, &svd(&options)?) || same(&first, &svd(&options.clone().seed(1))?) {
        return Err("the same seed gives other bits, or another the same".into());
    }
    check("another seed", a.as_ref(), &options.clone().seed(u64::MAX))?;
    let values = a.as_ref().svdvals_gpu_report(&options).map_err(|error| error.to_string())?;
    if values.values != first.s || values.route != Route::Krylov {
        return Err(format!("values alone are {:?}, not {:?}", values.values, first.s));
    }
    for (vectors, shapes) in [(Vectors::Left, (6, 0)), (Vectors::Right, (0, 6))] {
        let side = svd(&options.clone().vectors(vectors))?;
        let kept = if vectors == Vectors::Left { side.u == first.u } else { side.v == first.v };
        if (side.u.ncols(), side.v.ncols()) != shapes || !kept || side.residuals != first.residuals {
            return Err(format!("{vectors} are other vectors"));
        }
    }
    // A step tells how many digits are there: more than at its begin, and not all.
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    svd(&options.clone().accuracy(1e-3).progress(move |now| told.lock().unwrap().push(now.fraction)))?;
    let seen = seen.lock().unwrap();
    let between = seen.iter().filter(|&&fraction| fraction > 0.0 && fraction < 1.0).count();
    if !seen.is_sorted() || seen.first() != Some(&0.0) || seen.last() != Some(&1.0) || between == 0 {
        return Err(format!("progress {seen:?}"));
    }
    // The report's residual is that of the triples that are left.
    let cut = a.as_ref().svd_gpu_report(&options.clone().tolerance(0.3)).map_err(|error| error.to_string())?;
    verify(a.as_ref(), &cut.values, cut.iteration.ok_or("no iteration")?, 1e-2)?;
    let cut = cut.values;
    let of_awaited = pollster::block_on(a.as_ref().svd_gpu_async(&options)).map_err(|error| error.to_string())?;
    if cut.s.nrows() != 3 || cut.u.ncols() != 3 || cut.residuals.is_none_or(|r| r.nrows() != 3) || !same(&of_awaited, &first) {
        return Err("a tolerance cuts nothing, or awaited ones differ".into());
    }
    Ok(())
}
