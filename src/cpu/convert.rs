//! Between the type that a matrix is stored in and the type of the arithmetic.

use bytemuck::Pod;
use faer::{MatMut, MatRef};

use crate::scalar::{Element, Scalar};

/// Elements converted at a time where they have to be scattered.
const PIECE: usize = 64;

/// Elements of a type of few bits that are widened at a time: few are in a first-level cache, and the space for them is quickly zeroed.
const NARROW: usize = 256;
/// The same of a matrix that has no more.
const FEW: usize = 64;

/// Rows read together where rows are contiguous.
const ROWS: usize = 16;

/// `to` <- `f(from)`, widened, of one shape; `to` is column-major.
pub(crate) fn map_into<T: Element, U: Pod>(from: MatRef<'_, T>, to: MatMut<'_, U>, f: impl Fn(T::Scalar) -> U) {
    match T::as_scalars_ref(from) {
        Some(from) => map_scalars(from, to, f),
        None if from.nrows().saturating_mul(from.ncols()) <= FEW => map_narrow::<T, U, FEW>(from, to, f),
        None => map_narrow::<T, U, NARROW>(from, to, f),
    }
}

/// Rows that are read together, `most` at most: few where they are contiguous, so that a first-level cache holds what has been read of them.
fn rows_at_once<T>(from: MatRef<'_, T>, most: usize) -> usize {
    let by_columns = from.row_stride().unsigned_abs() <= from.col_stride().unsigned_abs();
    from.nrows().clamp(1, if by_columns { most.max(1) } else { ROWS })
}

/// [`map_into`] for a type of the arithmetic.
fn map_scalars<S: Scalar, U: Pod>(from: MatRef<'_, S>, mut to: MatMut<'_, U>, f: impl Fn(S) -> U) {
    let (m, n) = from.shape();
    let at_once = rows_at_once(from, m);
    for first in (0..m).step_by(at_once) {
        let rows = at_once.min(m - first);
        for j in 0..n {
            let (from, mut to) = (from.col(j).subrows(first, rows), to.as_mut().col_mut(j).subrows_mut(first, rows));
            match (from.try_as_col_major(), to.as_mut().try_as_col_major_mut()) {
                (Some(from), Some(to)) => map_slice(from.as_slice(), to.as_slice_mut(), &f),
                _ => to.iter_mut().zip(from.iter()).for_each(|(to, &x)| *to = f(x)),
            }
        }
    }
}

/// [`map_into`] for other types. Entries of several short columns are widened together, `N` at most, for which there are instructions.
fn map_narrow<T: Element, U: Pod, const N: usize>(from: MatRef<'_, T>, mut to: MatMut<'_, U>, f: impl Fn(T::Scalar) -> U) {
    let (m, n) = from.shape();
    let rows_at_once = rows_at_once(from, N);
    let cols_at_once = N / rows_at_once;
    let (mut narrow, mut wide) = ([T::zeroed(); N], [bytemuck::Zeroable::zeroed(); N]);
    for (j, i) in (0..n).step_by(cols_at_once).flat_map(|j| (0..m).step_by(rows_at_once).map(move |i| (j, i))) {
        let (rows, cols) = (rows_at_once.min(m - i), cols_at_once.min(n - j));
        let from = from.submatrix(i, j, rows, cols);
        let mut to = to.as_mut().submatrix_mut(i, j, rows, cols);
        for (from, narrow) in from.col_iter().zip(narrow.chunks_exact_mut(rows)) {
            match from.try_as_col_major() {
                Some(from) => narrow.copy_from_slice(from.as_slice()),
                None => narrow.iter_mut().zip(from.iter()).for_each(|(to, &x)| *to = x),
            }
        }
        T::widen_slice(&narrow[..rows * cols], &mut wide[..rows * cols]);
        for (to, wide) in to.as_mut().col_iter_mut().zip(wide.chunks_exact(rows)) {
            if let Some(to) = to.try_as_col_major_mut() {
                map_slice(wide, to.as_slice_mut(), &f);
            }
        }
    }
}

/// `to` <- `f(from)`, of one length.
fn map_slice<S: Scalar, U: Pod>(from: &[S], to: &mut [U], f: impl Fn(S) -> U) {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || to.iter_mut().zip(from).for_each(|(to, &x)| *to = f(x)),
    );
}

/// `to` <- `from`, of one shape; `to` is column-major.
pub(super) fn widen_into<S: Element>(from: MatRef<'_, S>, mut to: MatMut<'_, S::Scalar>) {
    if from.row_stride() == 1 {
        for j in 0..from.ncols() {
            let (x, y) = (from.col(j).try_as_col_major(), to.as_mut().col_mut(j).try_as_col_major_mut());
            if let (Some(x), Some(y)) = (x, y) {
                S::widen_slice(x.as_slice(), y.as_slice_mut());
            }
        }
        return;
    }
    // Some rows are read, piece by piece, and then written column by column: where columns lie a multiple of a page apart, a first-level cache
    // holds the lines of few of them.
    let mut pieces = [[bytemuck::Zeroable::zeroed(); PIECE]; ROWS];
    for first in (0..from.nrows()).step_by(ROWS) {
        let rows = ROWS.min(from.nrows() - first);
        for start in (0..from.ncols()).step_by(PIECE) {
            let end = (start + PIECE).min(from.ncols());
            for (k, piece) in pieces[..rows].iter_mut().enumerate() {
                let i = first + k;
                match from.row(i).transpose().subrows(start, end - start).try_as_col_major() {
                    Some(x) => S::widen_slice(x.as_slice(), &mut piece[..end - start]),
                    None => (start..end).zip(piece.iter_mut()).for_each(|(j, to)| *to = from[(i, j)].widen()),
                }
            }
            for j in start..end {
                if let Some(to) = to.as_mut().col_mut(j).subrows_mut(first, rows).try_as_col_major_mut() {
                    to.as_slice_mut().iter_mut().zip(&pieces).for_each(|(to, piece)| *to = piece[j - start]);
                }
            }
        }
    }
}

/// `to` <- `from`, of one shape, rounded to nearest; `from` is column-major.
pub(super) fn narrow_into<S: Element>(from: MatRef<'_, S::Scalar>, mut to: MatMut<'_, S>) {
    if to.row_stride() == 1 {
        for j in 0..from.ncols() {
            let (x, y) = (from.col(j).try_as_col_major(), to.as_mut().col_mut(j).try_as_col_major_mut());
            if let (Some(x), Some(y)) = (x, y) {
                S::narrow_slice(x.as_slice(), y.as_slice_mut());
            }
        }
        return;
    }
    let mut piece = [bytemuck::Zeroable::zeroed(); PIECE];
    for i in 0..from.nrows() {
        for start in (0..from.ncols()).step_by(PIECE) {
            let end = (start + PIECE).min(from.ncols());
            let piece = &mut piece[..end - start];
            (start..end).zip(piece.iter_mut()).for_each(|(j, to)| *to = from[(i, j)]);
            match to.as_mut().row_mut(i).transpose_mut().subrows_mut(start, end - start).try_as_col_major_mut() {
                Some(y) => S::narrow_slice(piece, y.as_slice_mut()),
                None => (start..end).zip(piece.iter()).for_each(|(j, &x)| to[(i, j)] = S::narrow(x)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::Mat;
    use half::f16;

    /// As the entries one by one, in every memory order, for a type of the arithmetic and another, with columns that are widened together and
    /// columns that are widened in pieces, of which the last are shorter.
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

    /// Both ways, in every memory order, past a whole piece and past the rows read together: f16 to f32 is exact, and f32 back
    /// rounds each entry to nearest.
    #[test]
    fn every_order_converts() {
        let entry = |i: usize, j: usize| (i as f32 - 3.0) * 1.0009 + j as f32 * 0.37;
        for (m, n) in [(5, 7), (3, 130), (130, 3), (40, 130), (1, 64), (65, 1)] {
            let wide = Mat::from_fn(m, n, entry);
            let narrow = Mat::from_fn(m, n, |i, j| f16::from_f32(entry(i, j)));
            let swapped = Mat::from_fn(n, m, |j, i| f16::from_f32(entry(i, j)));
            for view in [narrow.as_ref(), swapped.transpose(), narrow.as_ref().reverse_rows()] {
                let mut to = Mat::zeros(m, n);
                widen_into(view, to.as_mut());
                assert_eq!(to, Mat::from_fn(m, n, |i, j| view[(i, j)].to_f32()));
            }
            let (mut by_columns, mut by_rows) = (Mat::from_fn(m, n, |_, _| f16::ZERO), Mat::from_fn(n, m, |_, _| f16::ZERO));
            narrow_into(wide.as_ref(), by_columns.as_mut());
            narrow_into(wide.as_ref(), by_rows.as_mut().transpose_mut());
            assert_eq!((by_columns, by_rows), (narrow, swapped));
        }
    }
}
