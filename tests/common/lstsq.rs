//! What every least squares solution promises.

use faer::{Mat, MatRef, mat};
use num_complex::Complex;
use svdvals_gpu::{Element, LstsqGpu, LstsqOptions, RealElement};

use crate::common::{complex_noise, eps, widen};

type Wide = Mat<Complex<f64>>;

/// m x p right-hand sides of a type: noise, of which the first column is in the range of `a` up to rounding.
pub fn right_sides<T: Element>(a: MatRef<'_, T>, p: usize) -> Mat<T> {
    let (m, n) = a.shape();
    let x = Wide::from_fn(n, 1, |i, _| complex_noise(41, i, 0) / (n as f64).sqrt());
    let inside = widen(a) * x;
    Mat::from_fn(m, p, |i, j| T::from_complex(if j == 0 { inside[(i, 0)] } else { complex_noise(42, i, j) }))
}

/// Checks the solution of `a` X ~ `b`, and returns the ratio of `dqrt17` in units of max(m, n) eps. A is what X belongs to: with a ridge
/// A has the rows sqrt(ridge) I, and R the rows -sqrt(ridge) X.
///
/// * ||A^H R|| / (||A|| (||B|| + ||A|| ||X||)) is at most 1 (LAPACK's `dqrt17`, whose tests allow 30, with the errors of a long X). What a
///   rank below n leaves out changes A by the tolerance at most, which is less than max(m, n) eps.
/// * The residual of a column in the range of A, of full rank and without a ridge, is at most max(m, n) eps ||A|| ||X|| (LAPACK's `dqrt16`, whose
///   tests allow 30), and what rounding B to its type has moved it out of the range: the first of [`right_sides`], and all if A is not tall.
/// * The lengths of the residuals are those of the X that was returned: they are summed in double precision, but of an X that is rounded
///   once more for f64, hence max(m, n) eps (||B|| + ||A|| ||X||).
/// * The bound on the backward error is at most 16 eps, for a matrix of full rank. (Householder's algorithm promises a multiple of n eps, and
///   mostly has fewer.) Not of a wide matrix with a ridge, where the bound is a weak one.
pub fn check<T: Element>(what: &str, a: MatRef<'_, T>, b: MatRef<'_, T>, options: &LstsqOptions) -> Result<f64, String> {
    let ((m, n), p) = (a.shape(), b.ncols());
    let fit = a.lstsq_gpu_with(&b, options).map_err(|e| format!("{what}: {e}"))?;
    if (fit.x.shape(), fit.residuals.len()) != ((n, p), p) || fit.rank > m.min(n) {
        return Err(format!("{what}: X {:?}, {} residuals, rank {}", fit.x.shape(), fit.residuals.len(), fit.rank));
    }
    let unit = m.max(n).max(4) as f64 * eps::<T>();
    let (a, b, x) = (widen(a), widen(b), widen(fit.x.as_ref()));
    let rest = &b - &a * &x;
    let norm = (a.squared_norm_l2() + options.ridge * n as f64).sqrt();
    let sizes = b.norm_l2() + norm * x.norm_l2();
    let gradient = (a.adjoint() * &rest - faer::Scale(Complex::from(options.ridge)) * &x).norm_l2();
    let ratio = |x: f64, y: f64| if x == 0.0 { 0.0 } else { x / y };
    let dqrt17 = ratio(gradient, norm * sizes * unit);
    if dqrt17.is_nan() || dqrt17 > 1.0 {
        return Err(format!("{what}: gradient {dqrt17:.3}"));
    }
    let in_range = if fit.rank < m.min(n) || options.ridge > 0.0 {
        0
    } else if m > n {
        p.min(1)
    } else {
        p
    };
    let above_1 = |e: &f64| widen(Mat::from_fn(1, 1, |_, _| T::from_complex((1.0 + e).into())).as_ref())[(0, 0)].re > 1.0;
    let rounding = (1..64).map(|k| 2f64.powi(-k)).take_while(above_1).last().unwrap_or(1.0);
    for j in 0..in_range {
        let dqrt16 = ratio(rest.col(j).norm_l2(), norm * x.col(j).norm_l2() * unit + rounding * b.col(j).norm_l2());
        if dqrt16.is_nan() || dqrt16 > 1.0 {
            return Err(format!("{what}: residual {j} of a column in the range, {dqrt16:.3}"));
        }
    }
    for (j, length) in fit.residuals.iter().enumerate() {
        let off = ratio((length.to_double() - rest.col(j).norm_l2()).abs(), sizes * unit);
        if off.is_nan() || off > 1.0 {
            return Err(format!("{what}: residual {j} is off by {off:.3}"));
        }
    }
    let is_sharp = fit.rank == m.min(n) && (m >= n || options.ridge == 0.0);
    if is_sharp && (fit.backward_error.is_nan() || fit.backward_error > 16.0 * eps::<T>()) {
        return Err(format!("{what}: backward error {:.2} eps", fit.backward_error / eps::<T>()));
    }
    if let Some(s) = &fit.singular_values
        && (s.len() != m.min(n) || !s.is_sorted_by(|x, y| x >= y))
    {
        return Err(format!("{what}: values {s:?}"));
    }
    Ok(dqrt17)
}

/// pytorch issue 180157: columns that are dependent up to rounding, where a solver without rank gives another answer; and faer issue 265, a
/// system whose solution is zero, if the backend has f64.
pub fn known_problems(options: &LstsqOptions, double: bool) -> Result<(), String> {
    let of = |e: svdvals_gpu::SvdError| e.to_string();
    let a = mat![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]];
    let fit = a.lstsq_gpu_with(&a, options).map_err(of)?;
    let want = mat![[5.0, 2.0, -1.0], [2.0, 2.0, 2.0], [-1.0, 2.0, 5.0]];
    let off = (widen(fit.x.as_ref()) - widen(want.as_ref()) * faer::Scale(Complex::from(1.0 / 6.0))).norm_max();
    // The condition number on the range is 16.
    if off >= 16.0 * 3.0 * 1.2e-7 || fit.rank != 2 {
        return Err(format!("dependent columns: {off:.1e} off, rank {}", fit.rank));
    }
    if !double {
        return Ok(());
    }
    let a = mat![[1e16, -1e15, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let x = a.lstsq_gpu_with(&Mat::<f64>::zeros(3, 1), options).map_err(of)?.x;
    if x != Mat::<f64>::zeros(3, 1) {
        return Err(format!("the solution of zero is {x:?}"));
    }
    // Without a tolerance all of it counts.
    let x = a.lstsq_gpu_with(&mat![[9e15], [1.0], [2.0]], &options.clone().tolerance(0.0)).map_err(of)?.x;
    if (&x - mat![[1.0], [1.0], [2.0]]).norm_max() >= 1e-14 { Err(format!("{x:?}")) } else { Ok(()) }
}
