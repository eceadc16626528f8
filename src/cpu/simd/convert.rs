//! Conversions between the storage type of a matrix and the type of the arithmetic.

use faer::{Mat, MatMut, MatRef, traits::ComplexField};

use crate::base::{
    number::{Number, Re, Scalar},
    view::map_into,
};

/// Elements converted at a time if they have to be gathered or scattered.
const PIECE: usize = 64;

/// Rows read together if rows are contiguous.
const COPIED_ROWS: usize = 16;

/// The m x n matrix with entries f(i, j). What `Mat::from_fn` is made of would be compiled for each `f`; this is one function for each.
pub(crate) fn from_entries<T: ComplexField + Copy>(m: usize, n: usize, mut f: impl FnMut(usize, usize) -> T) -> Mat<T> {
    let mut a = Mat::zeros(m, n);
    for j in 0..n {
        let column = a.col_as_slice_mut(j);
        for (i, to) in column.iter_mut().enumerate() {
            *to = f(i, j);
        }
    }
    a
}

/// `to` <- `scale` times `from`. Both have the same shape, and `to` is column-major.
pub(crate) fn scaled_into<S: Number>(from: MatRef<'_, S>, to: MatMut<'_, S::Scalar>, scale: Re<S>) {
    map_into(from, to, |x| x.times(scale));
}

/// `to` <- `from` in double precision, as [`scaled_into`].
pub(crate) fn to_wide<S: Number>(from: MatRef<'_, S>, to: MatMut<'_, <S::Scalar as Scalar>::Wide>) {
    map_into(from, to, |x| x.to_wide());
}

/// `to` <- `scale` times `from` in double precision, as [`scaled_into`].
pub(crate) fn scaled_to_wide<S: Number>(from: MatRef<'_, S>, to: MatMut<'_, <S::Scalar as Scalar>::Wide>, scale: f64) {
    map_into(from, to, |x| x.to_wide().times(scale));
}

/// `to` <- `from`. Both have the same shape, and `to` is column-major.
pub(crate) fn widen_into<S: Number>(from: MatRef<'_, S>, mut to: MatMut<'_, S::Scalar>) {
    if from.row_stride() == 1 {
        for j in 0..from.ncols() {
            let (x, y) = (from.col(j).try_as_col_major(), to.as_mut().col_mut(j).try_as_col_major_mut());
            if let (Some(x), Some(y)) = (x, y) {
                S::widen_slice(x.as_slice(), y.as_slice_mut());
            }
        }
        return;
    }
    // A block of rows is read, piece by piece, and written column by column. If the column stride is a multiple of the page size, the L1
    // cache holds lines of only a few columns.
    let mut pieces = [[bytemuck::Zeroable::zeroed(); PIECE]; COPIED_ROWS];
    for first in (0..from.nrows()).step_by(COPIED_ROWS) {
        let rows = COPIED_ROWS.min(from.nrows() - first);
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
                    for (to, piece) in to.as_slice_mut().iter_mut().zip(&pieces) {
                        *to = piece[j - start];
                    }
                }
            }
        }
    }
}

/// `to` <- `from`, rounded to nearest. Both have the same shape, and `from` is column-major.
pub(crate) fn narrow_into<S: Number>(from: MatRef<'_, S::Scalar>, mut to: MatMut<'_, S>) {
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

/// Row-major `to` (leading dimension `ld`) <- `from`, in either memory order.
pub(crate) fn widen_to_rows<S: Number>(from: MatRef<'_, S>, to: &mut [S::Scalar], ld: usize) {
    if from.col_stride() == 1 {
        for (x, y) in (0..from.nrows()).zip(to.chunks_mut(ld)) {
            if let Some(x) = from.row(x).transpose().try_as_col_major() {
                S::widen_slice(x.as_slice(), &mut y[..from.ncols()]);
            }
        }
        return;
    }
    let mut piece = [bytemuck::Zeroable::zeroed(); PIECE];
    for j in 0..from.ncols() {
        let Some(x) = from.col(j).try_as_col_major() else {
            to[j..].iter_mut().step_by(ld).zip(from.col(j).iter()).for_each(|(to, x)| *to = x.widen());
            continue;
        };
        for (x, to) in x.as_slice().chunks(PIECE).zip(to.chunks_mut(PIECE * ld)) {
            S::widen_slice(x, &mut piece[..x.len()]);
            to[j..].iter_mut().step_by(ld).zip(&piece[..x.len()]).for_each(|(to, x)| *to = *x);
        }
    }
}

/// The inverse of [`widen_to_rows`], rounded to nearest.
pub(crate) fn narrow_from_rows<S: Number>(from: &[S::Scalar], ld: usize, mut to: MatMut<'_, S>) {
    let cols = to.ncols();
    if to.col_stride() == 1 {
        for (i, x) in (0..to.nrows()).zip(from.chunks(ld)) {
            if let Some(y) = to.as_mut().row_mut(i).transpose_mut().try_as_col_major_mut() {
                S::narrow_slice(&x[..cols], y.as_slice_mut());
            }
        }
        return;
    }
    let mut piece = [bytemuck::Zeroable::zeroed(); PIECE];
    for j in 0..cols {
        let column = to.as_mut().col_mut(j);
        let Some(y) = column.try_as_col_major_mut() else {
            from[j..].iter().step_by(ld).zip(to.as_mut().col_mut(j).iter_mut()).for_each(|(x, to)| *to = S::narrow(*x));
            continue;
        };
        for (from, y) in from.chunks(PIECE * ld).zip(y.as_slice_mut().chunks_mut(PIECE)) {
            from[j..].iter().step_by(ld).zip(&mut piece[..y.len()]).for_each(|(x, piece)| *piece = *x);
            S::narrow_slice(&piece[..y.len()], y);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    /// f16 to f32 is exact, and f32 to f16 rounds each entry to nearest, in every memory order. Some shapes exceed `PIECE` and `COPIED_ROWS`.
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

    /// The round trip through rows is exact in every memory order, for sizes below and above `PIECE`. Gaps between rows stay unchanged.
    #[test]
    fn rows_go_there_and_back() {
        for (m, n) in [(5, 7), (3, 32), (64, 16), (65, 3), (130, 1), (1, 9)] {
            let ld = n + 3;
            let narrow = Mat::from_fn(m, n, |i, j| f16::from_f32((i as f32 - 3.0) * 1.25 + j as f32 * 0.5));
            let swapped = narrow.transpose().to_owned();
            for view in [narrow.as_ref(), swapped.transpose(), narrow.as_ref().reverse_rows()] {
                let mut rows = vec![-1f32; m * ld];
                widen_to_rows(view, &mut rows, ld);
                let want = |i: usize, j: usize| if j < n { view[(i, j)].to_f32() } else { -1.0 };
                (0..m * ld).for_each(|k| assert_eq!(rows[k], want(k / ld, k % ld)));
                let (mut by_columns, mut by_rows) = (Mat::from_fn(m, n, |_, _| f16::ZERO), Mat::from_fn(n, m, |_, _| f16::ZERO));
                narrow_from_rows(&rows, ld, by_columns.as_mut());
                narrow_from_rows(&rows, ld, by_rows.as_mut().transpose_mut());
                assert_eq!((by_columns.as_ref(), by_rows.transpose()), (view, view));
                narrow_from_rows(&rows, ld, by_columns.as_mut().reverse_rows_mut());
                assert_eq!(by_columns.as_ref().reverse_rows(), view);
            }
        }
    }
}
