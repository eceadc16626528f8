//! An estimate of a triangle's condition number (LAPACK's `trcon`, by Hager 1984 and Higham 1988).

use faer::{
    Mat, MatRef, Par,
    linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place},
    traits::ComplexField,
};

use crate::base::number::{Number, Scalar};

/// Most steps of the search for a column of R^-1 with a large norm. It mostly ends after two.
const STEPS: usize = 5;

/// An estimate of ||R||_1 ||R^-1||_1 for the upper triangular `r`: a lower bound, mostly within a factor of 3. Infinite if a diagonal entry is
/// zero; 0 for an empty triangle.
pub(crate) fn condition<T: Scalar>(r: MatRef<'_, T>) -> f64 {
    let n = r.ncols();
    if n == 0 {
        return 0.0;
    }
    if (0..n).any(|j| r[(j, j)].to_complex().norm() == 0.0) {
        return f64::INFINITY;
    }
    // In double precision, and with a scale that neither overflows nor depends on the matrix's.
    let largest = (0..n).flat_map(|j| (0..=j).map(move |i| r[(i, j)].to_complex().norm())).fold(0.0, f64::max);
    let upper = Mat::<T::Wide>::from_fn(n, n, |i, j| match i <= j {
        true => T::Wide::from_complex(r[(i, j)].to_complex() / largest),
        false => T::Wide::zero_impl(),
    });
    let sum = |x: &Mat<T::Wide>| (0..n).map(|i| x[(i, 0)].to_complex().norm()).sum::<f64>();
    let norm = (0..n).map(|j| (0..=j).map(|i| upper[(i, j)].to_complex().norm()).sum::<f64>()).fold(0.0, f64::max);
    let one = T::Wide::one_impl();
    let mut x = Mat::<T::Wide>::from_fn(n, 1, |_, _| T::Wide::from_complex((1.0 / n as f64).into()));
    let mut inverse = 0.0f64;
    for _ in 0..STEPS {
        solve_upper_triangular_in_place(upper.as_ref(), x.as_mut(), Par::Seq);
        let now = sum(&x);
        if !now.is_finite() {
            return f64::INFINITY;
        }
        if now <= inverse {
            break;
        }
        inverse = now;
        // The gradient: R^-H of the phases of R^-1 x.
        let phases = (0..n).map(|i| x[(i, 0)].to_complex()).map(|x| if x.norm() > 0.0 { x / x.norm() } else { 1.0.into() });
        let phases: Vec<T::Wide> = phases.map(T::Wide::from_complex).collect();
        let mut gradient = Mat::<T::Wide>::from_fn(n, 1, |i, _| phases[i]);
        solve_lower_triangular_in_place(upper.adjoint(), gradient.as_mut(), Par::Seq);
        let size = |i: usize| gradient[(i, 0)].to_complex().norm();
        let steepest = (0..n).fold(0, |best, i| if size(i) > size(best) { i } else { best });
        x = Mat::from_fn(n, 1, |i, _| if i == steepest { one } else { T::Wide::zero_impl() });
    }
    // Higham's vector of alternating signs, for matrices on which the search stops too early.
    let slope = |i: usize| 1.0 + i as f64 / (n.max(2) - 1) as f64;
    let sign = |i: usize| if i.is_multiple_of(2) { 1.0 } else { -1.0 };
    let mut x = Mat::<T::Wide>::from_fn(n, 1, |i, _| T::Wide::from_complex((sign(i) * slope(i)).into()));
    solve_upper_triangular_in_place(upper.as_ref(), x.as_mut(), Par::Seq);
    let other = 2.0 * sum(&x) / (3.0 * n as f64);
    norm * if other.is_finite() { inverse.max(other) } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use faer::Mat;
    use num_complex::Complex;

    use super::*;

    /// The estimate is between a tenth of the condition number in the 1-norm and that number, computed from the inverse, for triangles from
    /// well-conditioned to nearly singular; and it is the same for a multiple of the triangle near the ends of the range.
    fn within<T: Scalar>(n: usize, decay: f64) {
        let entry = |i: usize, j: usize| Complex::new(((3 * i + 5 * j * j) as f64).sin(), ((i * j + 1) as f64).cos());
        let r = Mat::<T>::from_fn(n, n, |i, j| match i <= j {
            true => T::from_complex(entry(i, j) * decay.powi(i as i32) + if i == j { 2.0 * decay.powi(i as i32) } else { 0.0 }),
            false => T::zero_impl(),
        });
        let mut inverse = Mat::<T>::identity(n, n);
        solve_upper_triangular_in_place(r.as_ref(), inverse.as_mut(), Par::Seq);
        let norm = |a: &Mat<T>| (0..n).map(|j| (0..n).map(|i| a[(i, j)].to_complex().norm()).sum::<f64>()).fold(0.0, f64::max);
        let (exact, found) = (norm(&r) * norm(&inverse), condition(r.as_ref()));
        assert!((0.1 * exact..=1.001 * exact).contains(&found), "{n} {decay}: {found:e} for {exact:e}");
        let tiny = Mat::from_fn(n, n, |i, j| T::from_complex(r[(i, j)].to_complex() * 2f64.powi(-900)));
        assert!((condition(tiny.as_ref()) / found - 1.0).abs() < 1e-12);
    }

    #[test]
    fn estimates_are_near() {
        for n in [1, 2, 17, 60] {
            for decay in [1.0, 0.9, 0.6] {
                within::<f64>(n, decay);
                within::<Complex<f64>>(n, decay);
            }
        }
        assert_eq!(condition(Mat::<f32>::zeros(3, 3).as_ref()), f64::INFINITY);
        assert_eq!(condition(Mat::<f32>::zeros(0, 0).as_ref()), 0.0);
    }
}
