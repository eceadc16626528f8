//! Application of the block reflectors of a level to the columns right of its panel, or to any other matrix (LAPACK's `larfb`). Twin:
//! `shaders/unmqr.wgsl`.
//!
//! For every block of rows X:  X <- X - V (T^H (V^H X)),  or with T in place of T^H ([`BlockReflector`]). Real matrices with contiguous
//! rows, and stacked triangles, are updated strip by strip ([`strips`]).

use faer::{
    MatMut,
    prelude::{Reborrow, ReborrowMut},
};

use crate::cpu::{
    qr::{
        reflect::{BlockReflector, workspace},
        strips::{self, Ahead, Run},
    },
    simd::{
        aligned::LINE_BYTES,
        convert::{narrow_from_rows, narrow_into, widen_into, widen_to_rows},
    },
    storage::{Factors, Pool, with_buffer},
};
use crate::{
    base::{
        blas::Op,
        number::{Number, Scalar},
        parallel::{each, threads},
    },
    tile::panel_tree::{Level, Stack},
};

/// I - V T V^H or its adjoint, for every block of a level.
pub(crate) struct BlockReflectors<'a, T> {
    pub factors: &'a Factors<T>,
    pub level: &'a Level,
    pub adjoint: bool,
}

impl<T> Clone for BlockReflectors<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for BlockReflectors<'_, T> {}

impl<T: Scalar> BlockReflectors<'_, T> {
    /// Applies that of block `q` to X, as [`BlockReflector::apply`]. X has the rows of the matrix that was factored, or the block's alone if `stacked`.
    fn apply(self, q: usize, stacked: bool, x: MatMut<'_, T>, strip: Option<usize>, work: &mut [T]) {
        let BlockReflectors { factors, level, .. } = self;
        let (v, t) = factors.of_block(level, q);
        let begin = level.map.block(q).start;
        let below = if level.map.stack == Stack::Triangles { Some(0) } else { None };
        let mut runs = Vec::new();
        for (of_run, from) in level.map.runs(q) {
            let first = of_run.start - begin;
            runs.push(Run { v: v.subrows(first, of_run.len()), first, below, row: if stacked { first } else { from } });
        }
        BlockReflector { runs: &runs, t, op: self.op() }.apply(x, strip, Ahead::Strip, work);
    }

    fn op(self) -> Op {
        if self.adjoint { Op::ConjTrans } else { Op::NoTrans }
    }
}

/// Applies block reflectors to `trailing`. A task has at most `cols_per_block` columns.
pub(crate) fn unmqr<S, T>(mut trailing: MatMut<'_, S>, by: BlockReflectors<'_, T>, pool: &Pool<T>, cols_per_block: usize)
where
    S: Number<Scalar = T>,
    T: Scalar,
{
    let level = by.level;
    let triangles = level.map.stack == Stack::Triangles;
    let (rows, blocks) = (level.map.block_rows, 0..level.map.blocks());
    if let Some(width) = strips::registers::<T>().filter(|_| triangles && trailing.col_stride() != 1) {
        each(shares(trailing, None, cols_per_block), |mut x| {
            with_buffer(pool, rows * width + strips::workspace(width, level.width), |work| {
                for q in blocks.clone() {
                    update_by_rows(x.rb_mut(), width, by, q, work);
                }
            })
        });
        return;
    }
    match S::as_scalars(trailing.rb_mut()) {
        Some(x) => {
            let strip = strips::width::<T>().filter(|_| x.col_stride() == 1 && x.row_stride() > 1);
            each(shares(x, strip, cols_per_block), |mut x| {
                with_buffer(pool, workspace(strip, level.width, x.ncols()), |work| {
                    for q in blocks.clone() {
                        by.apply(q, false, x.rb_mut(), strip, work);
                    }
                })
            });
        }
        None => each(shares(trailing, None, cols_per_block), |mut x| {
            with_buffer(pool, workspace(None, level.width, x.ncols()) + rows * x.ncols(), |work| {
                let (wide, work) = work.split_at_mut(rows * x.ncols());
                for q in blocks.clone() {
                    update_narrow(x.rb_mut(), wide, by, q, work);
                }
            })
        }),
    }
}

/// The columns of `x` in shares, one for each task. If `strip` is given, a share is a number of strips of that many columns, which start
/// at a cache line, or the columns left over at either end. The arithmetic on a column depends on its position, not on the number of
/// threads.
fn shares<T>(x: MatMut<'_, T>, strip: Option<usize>, cols_per_block: usize) -> Vec<MatMut<'_, T>> {
    let cols = x.ncols();
    let first = strip.map_or(0, |_| x.as_ptr().align_offset(LINE_BYTES).min(cols));
    let width = strip.unwrap_or(1);
    let strips = (cols - first) / width;
    let tasks = tasks(strips * width, cols_per_block).min(strips);
    let shares = (0..tasks).map(|k| (strips / tasks + usize::from(k < strips % tasks)) * width);
    let last = cols - first - strips * width;
    let (mut parts, mut rest) = (Vec::with_capacity(tasks + 2), x);
    for share in std::iter::once(first).chain(shares).chain([last]).filter(|&share| share > 0) {
        let (part, others) = rest.split_at_col_mut(share);
        parts.push(part);
        rest = others;
    }
    parts
}

/// The number of tasks among which `cols` columns are distributed evenly, at most `cols_per_block` each. It is a multiple of the thread
/// count, and at least twice that, for load balance. But tasks are not made narrower than 16 columns for that: narrower products are summed
/// in another order, and values would depend on the thread count.
fn tasks(cols: usize, cols_per_block: usize) -> usize {
    let threads = threads();
    let least = cols.div_ceil(cols_per_block).max(1);
    least.max(2 * threads).next_multiple_of(threads).min(cols / 16).max(least)
}

/// Updates block q of a level that stacks triangles, in strips of `width` columns. Each strip is copied to row-major workspace. In strips
/// most products with the zeros of the triangles are skipped, and these are more than the entries copied.
fn update_by_rows<S, T>(mut x: MatMut<'_, S>, width: usize, by: BlockReflectors<'_, T>, q: usize, work: &mut [T])
where
    S: Number<Scalar = T>,
    T: Scalar,
{
    let level = by.level;
    let block = level.map.block(q);
    let (begin, rows) = (block.start, block.len());
    let (strip, work) = work.split_at_mut(rows * width);
    let runs = level.map.runs(q).map(|(stacked, row)| (stacked.start - begin, row, stacked.len()));
    for first in (0..x.ncols()).step_by(width) {
        let cols = width.min(x.ncols() - first);
        for (stacked, row, rows) in runs.clone() {
            widen_to_rows(x.rb().submatrix(row, first, rows, cols), &mut strip[stacked * width..], width);
        }
        let copy = MatMut::from_row_major_slice_mut(strip, rows, width);
        by.apply(q, true, copy, Some(width), work);
        for (stacked, row, rows) in runs.clone() {
            narrow_from_rows(&strip[stacked * width..], width, x.rb_mut().submatrix_mut(row, first, rows, cols));
        }
    }
}

/// Updates block q of rows stored in a narrower type, through a copy in `wide`.
fn update_narrow<S, T>(mut x: MatMut<'_, S>, wide: &mut [T], by: BlockReflectors<'_, T>, q: usize, work: &mut [T])
where
    S: Number<Scalar = T>,
    T: Scalar,
{
    let level = by.level;
    let block = level.map.block(q);
    let size = block.len() * x.ncols();
    let mut copy = MatMut::from_column_major_slice_mut(&mut wide[..size], block.len(), x.ncols());
    for (stacked, row) in level.map.runs(q) {
        let to = copy.rb_mut().subrows_mut(stacked.start - block.start, stacked.len());
        widen_into(x.rb().subrows(row, stacked.len()), to);
    }
    // As one run: the sums have one order, whatever the level.
    let (v, t) = by.factors.of_block(level, q);
    let runs = &[Run { v, first: 0, below: None, row: 0 }];
    BlockReflector { runs, t, op: by.op() }.apply(copy.rb_mut(), None, Ahead::Strip, work);
    for (stacked, row) in level.map.runs(q) {
        let from = copy.rb().subrows(stacked.start - block.start, stacked.len());
        narrow_into(from, x.rb_mut().subrows_mut(row, stacked.len()));
    }
}
