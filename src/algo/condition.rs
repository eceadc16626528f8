//! An estimate of a triangle's condition number in the 2-norm.

use faer::{
    Accum, Mat, MatRef, Par,
    linalg::{
        matmul::matmul,
        triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place},
    },
};

use crate::base::{
    number::{Re, RealElement, Scalar},
    scale::scale_for,
};

/// Fewest and most steps of a power method. A random start has a part of about n^-1/2 along each singular vector: after four steps one that
/// counts has grown, unless its singular value is within a factor of two of the next.
const STEPS: std::ops::RangeInclusive<usize> = 4..=30;
/// It ends when a step changes the square of the estimate by less than this part.
const CHANGE: f64 = 0.02;

/// An estimate of the ratio of the extreme singular values of `r`, which is upper triangular with zeros below its diagonal: a lower bound up
/// to rounding, mostly above half of it. Infinite if a diagonal entry is zero; 0 for an empty triangle.
///
/// The largest singular value is found by the power method for R^H R, the smallest by inverse iteration.
pub(crate) fn condition<T: Scalar>(r: MatRef<'_, T>) -> f64 {
    estimate(r, (*STEPS.start(), CHANGE))
}

/// [`condition`] by two steps: it may be too low by n^(1/8) for each of the two values, or by more if the start has far less than n^-1/2 of its vector.
pub(crate) fn rough_condition<T: Scalar>(r: MatRef<'_, T>) -> f64 {
    estimate(r, (2, 1.0))
}

/// [`condition`] with so many steps at least, until one changes the square of an estimate by less than a part `change`.
fn estimate<T: Scalar>(r: MatRef<'_, T>, until: (usize, f64)) -> f64 {
    let n = r.ncols();
    if n == 0 {
        return 0.0;
    }
    if (0..n).any(|j| r[(j, j)] == T::zero_impl()) {
        return f64::INFINITY;
    }
    // Neither the range of the type nor the matrix's scale matters.
    let scale = scale_for::<T>(r.norm_max(), n, n);
    let scaled;
    let r = if (1e-6..=1e6).contains(&scale.to_double()) {
        r
    } else {
        scaled = Mat::from_fn(n, n, |i, j| r[(i, j)].times(scale));
        scaled.as_ref()
    };
    let by_square = |x: &mut Mat<T>| {
        multiply_upper(r, x);
        let length = normalize(x);
        multiply_adjoint(r, x);
        length
    };
    let by_inverse = |x: &mut Mat<T>| {
        solve_lower_triangular_in_place(r.adjoint(), x.as_mut(), Par::Seq);
        let length = normalize(x);
        solve_upper_triangular_in_place(r, x.as_mut(), Par::Seq);
        length
    };
    growth(n, until, by_square) * growth(n, until, by_inverse)
}

/// Columns of R that are multiplied at a time, without the zeros below them.
const COLUMNS: usize = 64;

/// x <- R x
fn multiply_upper<T: Scalar>(r: MatRef<'_, T>, x: &mut Mat<T>) {
    let copy = std::mem::replace(x, Mat::zeros(r.nrows(), 1));
    for first in (0..r.ncols()).step_by(COLUMNS) {
        let end = r.ncols().min(first + COLUMNS);
        let (r, from) = (r.get(..end, first..end), copy.as_ref().subrows(first, end - first));
        matmul(x.as_mut().subrows_mut(0, end), Accum::Add, r, from, T::one_impl(), Par::Seq);
    }
}

/// x <- R^H x
fn multiply_adjoint<T: Scalar>(r: MatRef<'_, T>, x: &mut Mat<T>) {
    let copy = x.clone();
    for first in (0..r.ncols()).step_by(COLUMNS) {
        let end = r.ncols().min(first + COLUMNS);
        let to = x.as_mut().subrows_mut(first, end - first);
        let r = r.get(..end, first..end);
        matmul(to, Accum::Replace, r.adjoint(), copy.as_ref().subrows(0, end), T::one_impl(), Par::Seq);
    }
}

/// The square root of the largest growth of a column that the power method finds, where `multiply` returns a factor that it has taken out; infinite if a
/// norm is not finite.
fn growth<T: Scalar>(n: usize, (least, enough): (usize, f64), mut multiply: impl FnMut(&mut Mat<T>) -> f64) -> f64 {
    // The low bits of the multiples of an irrational number, the golden ratio's: entries from -1 to 1 with no order that a matrix has.
    let entry = |i: usize| f64::from((i as u32 + 1).wrapping_mul(0x9E37_79B9)) / f64::from(1u32 << 31) - 1.0;
    let mut x = Mat::from_fn(n, 1, |i, _| T::from_complex(entry(i).into()));
    let mut square = 0.0;
    normalize(&mut x);
    for step in 1..=*STEPS.end() {
        let first = multiply(&mut x);
        let now = first * normalize(&mut x);
        if !now.is_finite() {
            return f64::INFINITY;
        }
        let change = now - square;
        square = now.max(square);
        if step >= least && change <= enough * square {
            break;
        }
    }
    square.sqrt()
}

/// Divides x by its norm, which is returned.
fn normalize<T: Scalar>(x: &mut Mat<T>) -> f64 {
    let norm = x.col_as_slice(0).iter().map(|x| x.to_complex().norm_sqr()).sum::<f64>().sqrt();
    if norm > 0.0 && norm.is_finite() {
        x.col_as_slice_mut(0).iter_mut().for_each(|x| *x = x.times(Re::<T>::from_double(1.0 / norm)));
    }
    norm
}

#[cfg(test)]
mod tests {
    use faer::{Mat, Side, linalg::solvers::Llt};
    use num_complex::Complex;

    use super::*;

    /// A triangle with noise above its diagonal.
    fn graded<T: Scalar>(n: usize, decay: f64) -> Mat<T> {
        let entry = |i: usize, j: usize| Complex::new(((3 * i + 5 * j * j) as f64).sin(), ((i * j + 1) as f64).cos());
        Mat::<T>::from_fn(n, n, |i, j| match i <= j {
            true => T::from_complex(entry(i, j) * decay.powi(i as i32) + if i == j { 2.0 * decay.powi(i as i32) } else { 0.0 }),
            false => T::zero_impl(),
        })
    }

    /// The R of a random matrix: its smallest singular values are far apart.
    fn random<T: Scalar>(n: usize) -> Mat<T> {
        let mut state = 7u64;
        let a = Mat::<Complex<f64>>::from_fn(n, n, |_, _| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            Complex::from((state >> 33) as f64 / f64::from(1u32 << 30) - 1.0)
        });
        let squares = a.adjoint() * &a;
        let l = Llt::new(squares.as_ref(), Side::Lower).unwrap().L().to_owned();
        Mat::from_fn(n, n, |i, j| T::from_complex(l[(j, i)].conj()))
    }

    /// The estimate is between half of the condition number and that number, computed from all singular values, for triangles from
    /// well-conditioned to nearly singular. In single precision an upper bound is 1 + n eps times the number. It is the same for a multiple of
    /// the triangle near the ends of the range.
    fn within<T: Scalar>(what: &str, r: &Mat<T>) {
        let n = r.ncols();
        let s = Mat::from_fn(n, n, |i, j| r[(i, j)].to_complex()).singular_values().unwrap();
        let (exact, found) = (s[0] / s[n - 1], condition(r.as_ref()));
        let eps = if T::IS_DOUBLE { f64::EPSILON } else { f64::from(f32::EPSILON) };
        let most = 1.0 + n as f64 * eps * if T::IS_DOUBLE { 1.0 } else { exact.max(1.0) };
        assert!((0.5 * exact..=most * exact).contains(&found), "{what} {n}: {found:e} for {exact:e}");
        for by in [-1.0, 1.0] {
            let power: f64 = by * if T::IS_DOUBLE { 900.0 } else { 60.0 };
            let other = Mat::from_fn(n, n, |i, j| T::from_complex(r[(i, j)].to_complex() * power.exp2()));
            assert!((condition(other.as_ref()) / found - 1.0).abs() < 1e-3, "{what} {n}, by 2^{power}");
        }
    }

    fn of_type<T: Scalar>() {
        for n in [1, 2, 17, 60] {
            for decay in [1.0, 0.9] {
                within::<T>(&format!("decay {decay}"), &graded(n, decay));
            }
            within::<T>("random", &random(n));
        }
        within::<T>("random", &random(300));
        within::<T>("identity", &Mat::identity(40, 40));
    }

    #[test]
    fn estimates_are_near() {
        of_type::<f64>();
        of_type::<f32>();
        of_type::<Complex<f64>>();
        of_type::<Complex<f32>>();
        within::<f64>("decay", &graded(60, 0.6));
    }

    #[test]
    fn singular_and_empty() {
        assert_eq!(condition(Mat::<f32>::zeros(3, 3).as_ref()), f64::INFINITY);
        assert_eq!(condition(Mat::<f32>::zeros(0, 0).as_ref()), 0.0);
        // An inverse beyond the type's range.
        let tiny = Mat::from_fn(2, 2, |i, j| if i == j { [1.0, f64::MIN_POSITIVE][i] } else { 0.0 });
        assert!(condition(tiny.as_ref()) > 1e300);
    }
}
