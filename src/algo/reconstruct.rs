//! LAPACK's Householder form from an explicit Q (`orhr_col`: Ballard, Demmel, Grigori, Jacquelin, Knight and Nguyen 2015).
//!
//! ```text
//! Q - [S; 0] = V U        LU without pivoting;   V: m x k unit lower trapezoidal, U: k x k upper triangular, S = diag(+-1)
//! T = -(U S) V1^-H        upper triangular;      V1: the first k rows of V
//! I - V T V^H             unitary, m x m; its first k columns are Q S
//! ```
//!
//! Each sign is chosen when its column is eliminated, so that the real part of the pivot is at least 1 in modulus. No pivot is small, whatever Q
//! is. The first k rows of Q determine all but the rows of V below them, which are those of Q times U^-1.

use faer::{
    Accum, Mat, MatMut, MatRef, Par,
    linalg::{matmul::matmul, triangular_solve::solve_unit_lower_triangular_in_place},
    prelude::{Reborrow, ReborrowMut},
};

use crate::base::{number::Scalar, pool::all_threads};

/// Columns that are eliminated one by one before the rest is updated by a product.
const PANEL: usize = 32;

/// What the first k rows of Q (k columns) determine.
pub(crate) struct Top<T> {
    /// The first k rows of V.
    pub v: Mat<T>,
    /// U, with zeros below its diagonal.
    pub upper: Mat<T>,
    /// T, whose diagonal has LAPACK's `tau`.
    pub t: Mat<T>,
    /// The diagonal of S: 1 or -1.
    pub signs: Vec<T>,
}

impl<T: Scalar> Top<T> {
    /// From the first k rows of Q, k x k.
    pub fn of(q: MatRef<'_, T>) -> Top<T> {
        let k = q.ncols();
        let mut v = q.to_owned();
        let signs = eliminate(v.as_mut());
        let upper = Mat::from_fn(k, k, |i, j| if i <= j { v[(i, j)] } else { T::zero_impl() });
        for j in 0..k {
            for i in 0..=j {
                v[(i, j)] = if i == j { T::one_impl() } else { T::zero_impl() };
            }
        }
        // T V1^H = -U S: conj(V1) T^T = -(U S)^T.
        let mut turned = Mat::from_fn(k, k, |j, i| if i <= j { -upper[(i, j)] * signs[j] } else { T::zero_impl() });
        let v1 = Mat::from_fn(k, k, |i, j| T::conj_impl(&v[(i, j)]));
        solve_unit_lower_triangular_in_place(v1.as_ref(), turned.as_mut(), Par::Seq);
        let t = Mat::from_fn(k, k, |i, j| if i <= j { turned[(j, i)] } else { T::zero_impl() });
        Top { v, upper, t, signs }
    }
}

/// L (unit lower, below the diagonal) and U (upper) of `a` - S, in its place, and the diagonal of S.
fn eliminate<T: Scalar>(mut a: MatMut<'_, T>) -> Vec<T> {
    let k = a.ncols();
    let mut signs = Vec::with_capacity(k);
    for first in (0..k).step_by(PANEL) {
        let end = k.min(first + PANEL);
        for j in first..end {
            let sign = if a[(j, j)].to_complex().re < 0.0 { T::one_impl() } else { -T::one_impl() };
            signs.push(sign);
            a[(j, j)] -= sign;
            let inverse = T::recip_impl(&a[(j, j)]);
            let (left, mut right) = a.rb_mut().get_mut(.., ..end).split_at_col_mut(j + 1);
            let Some(column) = left.col_mut(j).try_as_col_major_mut() else { continue };
            let column = column.as_slice_mut();
            column[j + 1..].iter_mut().for_each(|x| *x *= inverse);
            for l in 0..right.ncols() {
                let Some(other) = right.rb_mut().col_mut(l).try_as_col_major_mut() else { continue };
                let other = other.as_slice_mut();
                let factor = other[j];
                other[j + 1..].iter_mut().zip(&column[j + 1..]).for_each(|(x, &v)| *x -= v * factor);
            }
        }
        let (panel, right) = a.rb_mut().split_at_col_mut(end);
        let panel = panel.rb().subcols(first, end - first);
        let (mut row, below) = right.get_mut(first.., ..).split_at_row_mut(end - first);
        solve_unit_lower_triangular_in_place(panel.subrows(first, end - first), row.rb_mut(), Par::Seq);
        matmul(below, Accum::Add, panel.subrows(end, k - end), row.rb(), -T::one_impl(), all_threads());
    }
    signs
}
