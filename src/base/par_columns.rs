//! Parallel iterators over the columns and rows of a matrix, for wasm32. They have the names that faer's feature `rayon` gives them. That feature is
//! off on wasm32, because faer blocks on threads in a way that this platform does not support.

use faer::{ColMut, MatMut};
use rayon::{prelude::*, vec::IntoIter};

/// The widths of `count` blocks of `cols` columns. The first `cols % count` blocks are wider by one.
fn widths(cols: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |k| cols / count + usize::from(k < cols % count))
}

pub(crate) trait ColumnsMut<'a, T> {
    fn par_col_partition_mut(self, count: usize) -> IntoIter<MatMut<'a, T>>;
    fn par_col_iter_mut(self) -> IntoIter<ColMut<'a, T>>;
    fn par_col_chunks_mut(self, cols: usize) -> IntoIter<MatMut<'a, T>>;
    fn par_row_chunks_mut(self, rows: usize) -> IntoIter<MatMut<'a, T>>;
}

impl<'a, T: Send> ColumnsMut<'a, T> for MatMut<'a, T> {
    fn par_col_partition_mut(self, count: usize) -> IntoIter<MatMut<'a, T>> {
        let cols = self.ncols();
        let blocks = widths(cols, count).scan(Some(self), |rest, width| {
            let (block, others) = rest.take()?.split_at_col_mut(width);
            *rest = Some(others);
            Some(block)
        });
        blocks.collect::<Vec<_>>().into_par_iter()
    }

    fn par_col_iter_mut(self) -> IntoIter<ColMut<'a, T>> {
        self.col_iter_mut().collect::<Vec<_>>().into_par_iter()
    }

    fn par_col_chunks_mut(self, cols: usize) -> IntoIter<MatMut<'a, T>> {
        let (mut chunks, mut rest) = (Vec::new(), self);
        while rest.ncols() > 0 {
            let next = cols.min(rest.ncols());
            let (chunk, others) = rest.split_at_col_mut(next);
            chunks.push(chunk);
            rest = others;
        }
        chunks.into_par_iter()
    }

    fn par_row_chunks_mut(self, rows: usize) -> IntoIter<MatMut<'a, T>> {
        self.transpose_mut().par_col_chunks_mut(rows).map(MatMut::transpose_mut).collect::<Vec<_>>().into_par_iter()
    }
}
