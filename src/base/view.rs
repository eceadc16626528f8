//! Matrix views: transposed to m >= n, with contiguous lines, or converted to another type.

use bytemuck::Pod;
use faer::{MatMut, MatRef};

use crate::base::{
    number::Number,
    parallel::{col_chunks, each, row_chunks},
};

/// Turns an empty matrix into a 0 x 0 one, so that no loop runs over its rows or columns.
pub(crate) fn trimmed<T>(a: MatRef<'_, T>) -> MatRef<'_, T> {
    if a.nrows() == 0 || a.ncols() == 0 { a.get(..0, ..0) } else { a }
}

/// The steps from the caller's matrix to an [`upright`] one. They leave the singular values unchanged; singular vectors have to be mapped
/// back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turned {
    /// The matrix was transposed first.
    pub transposed: bool,
    /// The order of its rows was then reversed.
    pub rows_reversed: bool,
    /// The order of its columns was then reversed.
    pub cols_reversed: bool,
}

impl Turned {
    /// These steps, and a transposition after them.
    pub fn then_transposed(self) -> Self {
        let Turned { transposed, rows_reversed, cols_reversed } = self;
        Turned { transposed: !transposed, rows_reversed: cols_reversed, cols_reversed: rows_reversed }
    }
}

/// The matrix or its transpose, whichever has m >= n, with nonnegative strides; and the steps taken.
pub(crate) fn upright<T>(a: MatRef<'_, T>) -> (MatRef<'_, T>, Turned) {
    let transposed = a.nrows() < a.ncols();
    let a = if transposed { a.transpose() } else { a };
    let turned = Turned { transposed, rows_reversed: a.row_stride() < 0, cols_reversed: a.col_stride() < 0 };
    let a = if turned.rows_reversed { a.reverse_rows() } else { a };
    (if turned.cols_reversed { a.reverse_cols() } else { a }, turned)
}

/// The matrix or its transpose, whichever has the smaller row stride: if either has contiguous columns, it is that one.
pub(crate) fn by_lines<T>(a: MatRef<'_, T>) -> MatRef<'_, T> {
    if a.col_stride().unsigned_abs() < a.row_stride().unsigned_abs() { a.transpose() } else { a }
}

/// Entries of a matrix that one thread copies in about the time that waking another takes; and columns of a larger one that a task copies, or
/// rows where the columns are as few.
const COPIED_BY_ONE: usize = 1 << 16;
const TASK_COLUMNS: usize = 64;
const TASK_ROWS: usize = 4096;

/// Rows of a block in [`map_into`] if `from` is row-major.
const COPIED_ROWS: usize = 16;

/// `to` <- `f(widen(from))`, entry by entry. Both have the same shape; `to` is column-major.
pub(crate) fn map_into<T: Number, U: Pod>(from: MatRef<'_, T>, mut to: MatMut<'_, U>, f: impl Fn(T::Scalar) -> U) {
    let (m, n) = from.shape();
    // A row-major source is read in blocks of a few rows, so that the cache lines of a block stay in L1.
    let by_columns = from.row_stride().unsigned_abs() <= from.col_stride().unsigned_abs();
    let at_once = m.clamp(1, if by_columns { m.max(1) } else { COPIED_ROWS });
    for first in (0..m).step_by(at_once) {
        let rows = at_once.min(m - first);
        for j in 0..n {
            let (from, mut to) = (from.col(j).subrows(first, rows), to.as_mut().col_mut(j).subrows_mut(first, rows));
            match (from.try_as_col_major(), to.as_mut().try_as_col_major_mut()) {
                (Some(from), Some(to)) => map_slice(from.as_slice(), to.as_slice_mut(), &f),
                _ => {
                    for i in 0..rows {
                        to[i] = f(from[i].widen());
                    }
                }
            }
        }
    }
}

/// [`map_into`] for a contiguous column.
fn map_slice<T: Number, U: Pod>(from: &[T], to: &mut [U], f: impl Fn(T::Scalar) -> U) {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || to.iter_mut().zip(from).for_each(|(to, &x)| *to = f(x.widen())),
    );
}

/// `to` <- the entries of a matrix of the same size, converted, by all threads if they are many.
pub(crate) fn copy_entries<T: Number, U: Pod + Send>(
    from: MatRef<'_, T>,
    to: MatMut<'_, U>,
    convert: impl Fn(T::Scalar) -> U + Sync,
) {
    if from.nrows() * from.ncols() <= COPIED_BY_ONE {
        map_into(from, to, convert);
    } else if from.ncols() <= TASK_COLUMNS {
        let chunks = row_chunks(to, TASK_ROWS).enumerate();
        each(chunks, |(k, to)| map_into(from.subrows(k * TASK_ROWS, to.nrows()), to, &convert));
    } else {
        let chunks = col_chunks(to, TASK_COLUMNS).enumerate();
        each(chunks, |(k, to)| map_into(from.subcols(k * TASK_COLUMNS, to.ncols()), to, &convert));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::Mat;
    use half::f16;

    /// Repeating the recorded steps on the original gives the upright matrix, which has m >= n and no negative stride.
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

    /// `map_into` equals the entry-by-entry map in both memory orders, for an arithmetic type and a half type, in shapes with fewer and
    /// with more rows than a block.
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
