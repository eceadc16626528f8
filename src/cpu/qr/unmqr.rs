//! Application of the block reflectors of a level to the columns right of its panel, or to any other matrix (LAPACK's `larfb`). Twin:
//! `shaders/unmqr.wgsl`.
//!
//! For every block of rows X:  X <- X - V (T^H (V^H X)),  or with T in place of T^H:  three matrix products. Real matrices with contiguous
//! rows, and stacked triangles, are updated strip by strip ([`strips`]).

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Accum, MatMut, Par, linalg::matmul::matmul};

use crate::cpu::{
    qr::strips::{self, Ahead},
    simd::{
        aligned::LINE_BYTES,
        convert::{narrow_from_rows, narrow_into, widen_into, widen_to_rows},
    },
    storage::{Factors, Pool, with_buffer},
};
use crate::{
    base::{
        number::{Number, Scalar},
        parallel::each,
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

/// Applies block reflectors to `trailing`. A task has at most `cols_per_block` columns.
pub(crate) fn unmqr<S, T>(mut trailing: MatMut<'_, S>, by: BlockReflectors<'_, T>, pool: &Pool<T>, cols_per_block: usize)
where
    S: Number<Scalar = T>,
    T: Scalar,
{
    let BlockReflectors { factors, level, adjoint } = by;
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
            let update_columns = |mut x: MatMut<'_, T>| match strip.filter(|&width| x.ncols().is_multiple_of(width)) {
                Some(width) => with_buffer(pool, strips::workspace(width, level.width), |work| {
                    for q in blocks.clone() {
                        let (v, t) = factors.of_block(level, q);
                        let first = level.map.block(q).start;
                        let runs = level.map.runs(q).map(|(stacked, row)| {
                            let first = stacked.start - first;
                            strips::Run { v: v.subrows(first, stacked.len()), first, below: triangles.then_some(0), row }
                        });
                        strips::update(x.rb_mut(), runs, t, adjoint, Ahead::Strip, work);
                    }
                }),
                None => with_products(pool, level.width, x.ncols(), |mut w, mut tw| {
                    for q in blocks.clone() {
                        let runs = level.map.runs(q).map(|(stacked, row)| (stacked.start, row, stacked.len()));
                        update(x.rb_mut(), runs, by, q, w.rb_mut(), tw.rb_mut());
                    }
                }),
            };
            each(shares(x, strip, cols_per_block), update_columns);
        }
        None => each(shares(trailing, None, cols_per_block), |mut x| {
            with_products(pool, level.width, x.ncols(), |mut w, mut tw| {
                with_buffer(pool, rows * x.ncols(), |wide| {
                    for q in blocks.clone() {
                        update_narrow(x.rb_mut(), wide, by, q, w.rb_mut(), tw.rb_mut());
                    }
                })
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

/// Runs `body` with workspace for W and T^H W, of `cols` columns each.
fn with_products<T: Scalar, R>(
    pool: &Pool<T>,
    width: usize,
    cols: usize,
    body: impl FnOnce(MatMut<'_, T>, MatMut<'_, T>) -> R,
) -> R {
    with_buffer(pool, 2 * width * cols, |work| {
        let (w, tw) = work.split_at_mut(width * cols);
        let [w, tw] = [w, tw].map(|work| MatMut::from_column_major_slice_mut(work, width, cols));
        body(w, tw)
    })
}

/// The number of tasks among which `cols` columns are distributed evenly, at most `cols_per_block` each. It is a multiple of the thread
/// count, and at least twice that, for load balance. But tasks are not made narrower than 16 columns for that: narrower products are summed
/// in another order, and values would depend on the thread count.
fn tasks(cols: usize, cols_per_block: usize) -> usize {
    let threads = rayon::current_num_threads();
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
    let BlockReflectors { factors, level, adjoint } = by;
    let (v, t) = factors.of_block(level, q);
    let (strip, work) = work.split_at_mut(v.nrows() * width);
    let begin = level.map.block(q).start;
    let runs = level.map.runs(q).map(|(stacked, row)| (stacked.start - begin, row, stacked.len()));
    for first in (0..x.ncols()).step_by(width) {
        let cols = width.min(x.ncols() - first);
        for (stacked, row, rows) in runs.clone() {
            widen_to_rows(x.rb().submatrix(row, first, rows, cols), &mut strip[stacked * width..], width);
        }
        let of_v = runs.clone().map(|(first, _, rows)| strips::Run {
            v: v.subrows(first, rows),
            first,
            below: (level.map.stack == Stack::Triangles).then_some(0),
            row: first,
        });
        strips::update(MatMut::from_row_major_slice_mut(strip, v.nrows(), width), of_v, t, adjoint, Ahead::Strip, work);
        for (stacked, row, rows) in runs.clone() {
            narrow_from_rows(&strip[stacked * width..], width, x.rb_mut().submatrix_mut(row, first, rows, cols));
        }
    }
}

/// [`update`] for rows stored in a narrower type, through a copy in `wide`.
fn update_narrow<S, T>(
    mut x: MatMut<'_, S>,
    wide: &mut [T],
    by: BlockReflectors<'_, T>,
    q: usize,
    w: MatMut<'_, T>,
    tw: MatMut<'_, T>,
) where
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
    update(copy.rb_mut(), std::iter::once((block.start, 0, block.len())), by, q, w, tw);
    for (stacked, row) in level.map.runs(q) {
        let from = copy.rb().subrows(stacked.start - block.start, stacked.len());
        narrow_into(from, x.rb_mut().subrows_mut(row, stacked.len()));
    }
}

/// Block q: W = V^H X, W <- T^H W or T W, X <- X - V W. `runs`: (first stacked row, first row of X, number of rows) of the block's rows in
/// X.
fn update<T: Scalar>(
    mut x: MatMut<'_, T>,
    runs: impl Iterator<Item = (usize, usize, usize)> + Clone,
    BlockReflectors { factors, level, adjoint }: BlockReflectors<'_, T>,
    q: usize,
    mut w: MatMut<'_, T>,
    mut tw: MatMut<'_, T>,
) {
    let block = level.map.block(q);
    let (v, t) = factors.of_block(level, q);
    let of_run = |(stacked, _, rows)| v.subrows(stacked - block.start, rows);
    let one = T::one_impl();
    let mut accum = Accum::Replace;
    for run in runs.clone() {
        matmul(w.rb_mut(), accum, of_run(run).adjoint(), x.rb().subrows(run.1, run.2), one, Par::Seq);
        accum = Accum::Add;
    }
    if adjoint {
        matmul(tw.rb_mut(), Accum::Replace, t.adjoint(), w.rb(), one, Par::Seq);
    } else {
        matmul(tw.rb_mut(), Accum::Replace, t, w.rb(), one, Par::Seq);
    }
    for run in runs {
        matmul(x.rb_mut().subrows_mut(run.1, run.2), Accum::Add, of_run(run), tw.rb(), -one, Par::Seq);
    }
}
