//! Singular vectors from what one-sided Jacobi rotations leave (`shaders/jacobi.wgsl`).
//!
//! ```text
//! W = [U diag(s); V]    m + n rows, n columns in no order; the first m rows are orthogonal, the others orthonormal to first order
//! ```

use faer::{Mat, MatRef};

use crate::{
    base::{
        number::{Number, Re, RealElement, Scalar},
        zeros::zeros,
    },
    cpu::vectors::left::complete,
};

/// The first k columns of U (m x k) and of V (n x k), by descending lengths of W's first m rows. Columns whose squares underflow have no direction
/// that can be trusted: those of U complete the others. Every product is in double precision.
pub(crate) fn vectors_of<T: Scalar>(w: MatRef<'_, T>, m: usize, k: usize) -> (Mat<T>, Mat<T>) {
    let length = |rows: MatRef<'_, T>, j: usize| rows.col(j).iter().map(|x| x.to_complex().norm_sqr()).sum::<f64>();
    let (left, right) = w.split_at_row(m);
    let squares: Vec<f64> = (0..w.ncols()).map(|j| length(left, j)).collect();
    let mut order: Vec<usize> = (0..w.ncols()).collect();
    order.sort_by(|&i, &j| squares[j].total_cmp(&squares[i]));

    // The device does not rotate columns below the floor.
    let floor = 2.0 * Re::<T>::norm_floor().to_double();
    let large = order.iter().take_while(|&&j| squares[j] > floor).count();
    // A second division removes the rounding errors of the first one's factor, which all entries share.
    let unit = |rows: MatRef<'_, T>, j: usize, square: f64, column: &mut [T]| {
        let inverse = 1.0 / square.sqrt();
        let scaled = |i: usize| rows[(i, j)].to_wide().times(inverse);
        let again = 1.0 - 0.5 * ((0..rows.nrows()).map(|i| scaled(i).to_complex().norm_sqr()).sum::<f64>() - 1.0);
        column.iter_mut().enumerate().for_each(|(i, to)| *to = T::from_wide(scaled(i).times(again)));
    };
    let (mut u, mut v) = (zeros::<T>(m, k), zeros::<T>(right.nrows(), k));
    for (to, &j) in order.iter().take(k).enumerate() {
        if to < large {
            unit(left, j, squares[j], u.col_as_slice_mut(to));
        }
        unit(right, j, length(right, j), v.col_as_slice_mut(to));
    }
    if large < k {
        complete(u.as_mut(), large);
    }
    (u, v)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of columns of different lengths in no order, one of them zero: unit columns in descending order, and an orthonormal one in its place.
    #[test]
    fn columns_are_sorted_and_completed() {
        // Columns of lengths 2, 0 and 3; V is a permutation with lengths near 1.
        let w = Mat::from_fn(7, 3, |i, j| match (i, j) {
            (1, 0) => 2.0,
            (3, 2) => -3.0,
            (4, 1) | (5, 2) => 1.0 + 1e-9,
            (6, 0) => 1.0 - 1e-9,
            _ => 0.0,
        });
        let (u, v) = vectors_of::<f64>(w.as_ref(), 4, 3);
        assert_eq!((u[(3, 0)], u[(1, 1)]), (-1.0, 1.0));
        assert!([v[(1, 0)], v[(2, 1)], v[(0, 2)]].iter().all(|x| (x - 1.0).abs() < 1e-15), "{v:?}");
        let gram = u.adjoint() * &u - Mat::<f64>::identity(3, 3);
        assert!(gram.norm_max() < 1e-15, "{gram:?}");
        let (u, v) = vectors_of::<f64>(w.as_ref(), 4, 1);
        assert_eq!((u.shape(), v.shape(), u[(3, 0)].to_complex().re), ((4, 1), (3, 1), -1.0));
    }
}
