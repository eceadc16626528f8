//! Views of a matrix: its transpose, its lines, its entries converted.

use bytemuck::Pod;
use faer::{MatMut, MatRef};

use crate::base::number::Number;

/// A matrix with no entries as 0 x 0, so that nobody goes through its rows or columns.
pub(crate) fn trimmed<T>(a: MatRef<'_, T>) -> MatRef<'_, T> {
    if a.nrows() == 0 || a.ncols() == 0 { a.get(..0, ..0) } else { a }
}

/// How an [`upright`] matrix was got from the caller's. None of it changes singular values; vectors have to be turned back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turned {
    /// First the matrix was transposed,
    pub transposed: bool,
    /// then the order of its rows reversed,
    pub rows_reversed: bool,
    /// and that of its columns.
    pub cols_reversed: bool,
}

/// The matrix or its transpose, whichever has m >= n, with no stride negative; and what was done.
pub(crate) fn upright<T>(a: MatRef<'_, T>) -> (MatRef<'_, T>, Turned) {
    let transposed = a.nrows() < a.ncols();
    let a = if transposed { a.transpose() } else { a };
    let turned = Turned { transposed, rows_reversed: a.row_stride() < 0, cols_reversed: a.col_stride() < 0 };
    let a = if turned.rows_reversed { a.reverse_rows() } else { a };
    (if turned.cols_reversed { a.reverse_cols() } else { a }, turned)
}

/// The matrix or its transpose, whichever has its columns contiguous, if either has.
pub(crate) fn by_lines<T>(a: MatRef<'_, T>) -> MatRef<'_, T> {
    if a.col_stride().unsigned_abs() < a.row_stride().unsigned_abs() { a.transpose() } else { a }
}

/// Rows read together where rows are contiguous.
const ROWS: usize = 16;

/// `to` <- `f(from)`, widened, of one shape; `to` is column-major.
pub(crate) fn map_into<T: Number, U: Pod>(from: MatRef<'_, T>, mut to: MatMut<'_, U>, f: impl Fn(T::Scalar) -> U) {
    let (m, n) = from.shape();
    // Few rows at a time where they are contiguous, so that a first-level cache holds what has been read of them.
    let by_columns = from.row_stride().unsigned_abs() <= from.col_stride().unsigned_abs();
    let at_once = m.clamp(1, if by_columns { m.max(1) } else { ROWS });
    for first in (0..m).step_by(at_once) {
        let rows = at_once.min(m - first);
        for j in 0..n {
            let (from, mut to) = (from.col(j).subrows(first, rows), to.as_mut().col_mut(j).subrows_mut(first, rows));
            match (from.try_as_col_major(), to.as_mut().try_as_col_major_mut()) {
                (Some(from), Some(to)) => map_slice(from.as_slice(), to.as_slice_mut(), &f),
                _ => to.iter_mut().zip(from.iter()).for_each(|(to, &x)| *to = f(x.widen())),
            }
        }
    }
}

/// [`map_into`] for a column.
fn map_slice<T: Number, U: Pod>(from: &[T], to: &mut [U], f: impl Fn(T::Scalar) -> U) {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || to.iter_mut().zip(from).for_each(|(to, &x)| *to = f(x.widen())),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::Mat;
    use half::f16;

    /// What was done to a matrix, done again, gives the upright one; it has m >= n and no negative stride.
    #[test]
    fn turns_are_recorded() {
        let a = Mat::from_fn(3, 5, |i, j| (10 * i + j) as f32);
        for view in [a.as_ref(), a.transpose(), a.as_ref().reverse_rows(), a.as_ref().reverse_rows_and_cols().transpose()] {
            let (upright, turned) = upright(view);
            assert!(upright.nrows() >= upright.ncols() && upright.row_stride() >= 0 && upright.col_stride() >= 0);
            let again = if turned.transposed { view.transpose() } else { view };
            let again = if turned.rows_reversed { again.reverse_rows() } else { again };
            assert_eq!(upright, if turned.cols_reversed { again.reverse_cols() } else { again });
        }
    }

    /// As the entries one by one, in every memory order, for a type of the arithmetic and another, in shapes with more rows and fewer than are
    /// read together.
    #[test]
    fn every_order_is_mapped() {
        let entry = |i: usize, j: usize| (i as f32 - 3.0) * 1.5 + j as f32 * 0.25;
        for (m, n) in [(1, 1), (3, 5), (64, 1), (5, 130), (130, 3), (300, 2), (600, 1), (17, 40)] {
            let want = Mat::from_fn(m, n, |i, j| 2.0 * f64::from(entry(i, j)));
            let f = |x: f32| 2.0 * f64::from(x);
            let (wide, turned) = (Mat::from_fn(m, n, entry), Mat::from_fn(n, m, |j, i| entry(i, j)));
            let narrow = Mat::from_fn(m, n, |i, j| f16::from_f32(entry(i, j)));
            let narrow_turned = Mat::from_fn(n, m, |j, i| f16::from_f32(entry(i, j)));
            let mut to = Mat::zeros(m, n);
            for view in [wide.as_ref(), turned.transpose()] {
                map_into(view, to.as_mut(), f);
                assert_eq!(to, want);
                to.fill(f64::NAN);
            }
            for view in [narrow.as_ref(), narrow_turned.transpose()] {
                map_into(view, to.as_mut(), f);
                assert_eq!(to, want);
                to.fill(f64::NAN);
            }
        }
    }
}
