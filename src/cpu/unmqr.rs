//! Application of a panel's block reflectors to the columns right of it.
//!
//! For every block of rows X of the trailing columns:  X <- X - V (T^T (V^T X)),  three matrix products (LAPACK's `larfb`).

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Accum, MatMut, MatRef, Par, linalg::matmul::matmul};
use rayon::prelude::*;

use super::{Factors, Pool, with_buffer};
use crate::{kernels::Level, scalar::RealElement};

/// Updates `a[.., col + width..]`, at most `cols_per_block` columns a task.
pub(super) fn unmqr<T: RealElement>(
    a: MatMut<'_, T>,
    factors: &Factors<T>,
    pool: &Pool<T>,
    level: &Level,
    cols_per_block: usize,
) {
    let trailing = a.get_mut(.., level.col + level.width..);
    let cols = trailing.ncols();
    if cols == 0 {
        return;
    }
    // Fewer columns a task near the end, so that all threads have work.
    let share = cols.div_ceil(2 * rayon::current_num_threads()).next_multiple_of(16);
    trailing.par_col_chunks_mut(cols_per_block.min(share)).for_each(|mut x| {
        with_buffer(pool, |work| {
            let size = level.width * x.ncols();
            work.resize(work.len().max(2 * size), T::zero_impl());
            let (w, tw) = work.split_at_mut(size);
            let mut w = MatMut::from_column_major_slice_mut(w, level.width, x.ncols());
            let mut tw = MatMut::from_column_major_slice_mut(&mut tw[..size], level.width, x.ncols());
            for q in 0..level.map.blocks() {
                update(x.rb_mut(), factors, level, q, w.rb_mut(), tw.rb_mut());
            }
        })
    });
}

/// Block q: W = V^T X, W <- T^T W, X <- X - V W.
fn update<T: RealElement>(
    mut x: MatMut<'_, T>,
    factors: &Factors<T>,
    level: &Level,
    q: usize,
    mut w: MatMut<'_, T>,
    mut tw: MatMut<'_, T>,
) {
    let &Level { width, map, .. } = level;
    let block = map.block(q);
    let (one, minus) = (T::one_impl(), -T::one_impl());
    let v = &factors.v[q * map.block_rows * width..][..map.block_rows * width];
    let v = MatRef::from_column_major_slice_with_stride(v, block.len(), width, map.block_rows);
    let t = MatRef::from_column_major_slice(&factors.t[q * width * width..(q + 1) * width * width], width, width);

    let mut accum = Accum::Replace;
    for (stacked, row) in map.runs(q) {
        let v = v.subrows(stacked.start - block.start, stacked.len());
        matmul(w.rb_mut(), accum, v.transpose(), x.rb().subrows(row, stacked.len()), one, Par::Seq);
        accum = Accum::Add;
    }
    matmul(tw.rb_mut(), Accum::Replace, t.transpose(), w.rb(), one, Par::Seq);
    for (stacked, row) in map.runs(q) {
        let v = v.subrows(stacked.start - block.start, stacked.len());
        matmul(x.rb_mut().subrows_mut(row, stacked.len()), Accum::Add, v, tw.rb(), minus, Par::Seq);
    }
}
