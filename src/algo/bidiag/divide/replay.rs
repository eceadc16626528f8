//! The second phase: all vectors of a side, by matrix products from the leaves to the whole matrix.

use std::ops::Range;

use faer::Accum;
use faer::linalg::matmul::matmul;
use faer::prelude::{Mat, MatMut, MatRef, Par, Reborrow, ReborrowMut};
use pulp::{Arch, Simd, WithSimd};

use crate::{
    algo::bidiag::divide::node::{Merge, Node},
    base::{
        blas::Side,
        number::RealElement,
        parallel::{col_chunks, each, join},
    },
};

/// Orders from which the two parts are worth a thread each.
const WORTH_SHARING: usize = 256;

/// The columns of a product that one thread computes.
const BLOCK: usize = 128;

/// Some columns, and of these some rows, of a product's second factor. `to` has them by columns, and determines how many columns it is.
pub(crate) struct Factor<'a, T> {
    pub(crate) merge: &'a Merge,
    pub(crate) side: Side,
    /// Of all places: [`Merge::weights`].
    pub(crate) weights: &'a [f64],
    pub(crate) rows: Range<usize>,
    /// The first column.
    pub(crate) start: usize,
    pub(crate) to: &'a mut [T],
}

impl<T: RealElement> WithSimd for Factor<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Factor { merge, side, weights, rows, start, to } = self;
        let lengths = &merge.lengths[usize::from(side == Side::Right)];
        for (j, to) in to.chunks_exact_mut(rows.len()).enumerate() {
            let (pole, offset, length) = (merge.roots.poles[start + j], merge.roots.offsets[start + j], lengths[start + j]);
            for ((to, &d), &z) in to.iter_mut().zip(&merge.poles[rows.clone()]).zip(&weights[rows.clone()]) {
                *to = T::from_double(-z * length / ((pole - d + offset) * (pole + d + offset)));
            }
            if side == Side::Left && rows.contains(&merge.center()) {
                to[merge.center() - rows.start] = T::from_double(-length);
            }
        }
    }
}

/// All vectors of a side, with descending values.
pub(crate) fn vectors<T: RealElement>(root: &Node, side: Side, cancelled: &(dyn Fn() -> bool + Sync)) -> Option<Mat<T>> {
    let n = root.size(side);
    // Strides that are a multiple of a page's length put all columns in the same sets of the cache.
    let stride = if n.is_multiple_of(256) { n + 16 } else { n };
    let mut storage = vec![T::from_double(0.0); n * stride];
    let mut x = MatMut::from_column_major_slice_with_stride_mut(&mut storage, n, n, stride);
    let mut y = Mat::with_capacity(stride, n);
    y.resize_with(n, n, |_, _| T::from_double(0.0));
    replay(root, side, x.rb_mut(), y.as_mut(), cancelled)?;
    let (x, order) = (x.rb(), |i: usize| root.column(n - 1 - i));
    each(col_chunks(y.as_mut(), BLOCK).zip((0..n).step_by(BLOCK)), |(y, first)| {
        y.col_iter_mut().zip(first..).for_each(|(mut y, i)| y.copy_from(x.col(order(i))));
    });
    Some(y)
}

/// Computes the vectors of a node in `x`, with `y` for intermediate results. First come the columns of the last product, then those
/// deflated, and the null vector is the last. `None` if cancelled.
fn replay<T: RealElement>(
    node: &Node,
    side: Side,
    mut x: MatMut<T>,
    mut y: MatMut<T>,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Option<()> {
    let merge = match node {
        Node::Leaf(leaf) => {
            let from = if side == Side::Left { &leaf.left } else { &leaf.right };
            for (j, from) in from.chunks_exact(x.nrows()).enumerate() {
                slice(x.rb_mut(), j).iter_mut().zip(from).for_each(|(x, from)| *x = T::from_double(*from));
            }
            return Some(());
        }
        Node::Merge(merge) => merge,
    };
    let halves = merge.halves(side);
    let parts = [&merge.left, &merge.right];
    let [(x1, y1), (x2, y2)] = {
        let (x1, x2) = diagonal_blocks(x.rb_mut(), &halves);
        let (y1, y2) = diagonal_blocks(y.rb_mut(), &halves);
        [(x1, y1), (x2, y2)]
    };
    let left = || replay(parts[0], side, x1, y1, cancelled);
    let right = || replay(parts[1], side, x2, y2, cancelled);
    let (left, right) = if merge.order.len() >= WORTH_SHARING { join(left, right) } else { (left(), right()) };
    left?;
    right?;
    if cancelled() {
        return None;
    }
    gather(merge, side, x.rb(), y.rb_mut());
    let [top, bottom] = halves;
    let (y1, y2) = y.rb_mut().split_at_row_mut(bottom.start);
    if merge.rotations.len() >= WORTH_SHARING {
        join(|| rotate(merge, y1), || rotate(merge, y2));
    } else {
        rotate(merge, y1);
        rotate(merge, y2);
    }
    multiply(merge, side, y.rb(), x, [top, bottom], cancelled)
}

/// The blocks of `a` on the diagonal at these rows.
fn diagonal_blocks<'a, T>(a: MatMut<'a, T>, rows: &[Range<usize>; 2]) -> (MatMut<'a, T>, MatMut<'a, T>) {
    let (a1, _, _, a2) = a.split_at_mut(rows[1].start, rows[1].start);
    let (n1, n2) = (rows[0].len(), rows[1].len());
    (a1.submatrix_mut(0, 0, n1, n1), a2.submatrix_mut(0, 0, n2, n2))
}

/// A column as a slice.
fn slice<T>(a: MatMut<'_, T>, j: usize) -> &mut [T] {
    a.col_mut(j).try_as_col_major_mut().expect("columns are contiguous").as_slice_mut()
}

/// The sources from the parts' vectors in `x` to their places in `y`. Zeros are written where they will be read.
fn gather<T: RealElement>(merge: &Merge, side: Side, x: MatRef<T>, y: MatMut<T>) {
    let [nl, nr] = merge.rows;
    let (c, s) = (T::from_double(merge.cs.0), T::from_double(merge.cs.1));
    let [top, bottom] = merge.halves(side);
    let mut is_full: Vec<bool> = (0..y.ncols()).map(|place| place >= merge.poles.len()).collect();
    for rotation in &merge.rotations {
        is_full[rotation.kept] = true;
    }
    let column = |j: usize, rows: &Range<usize>| {
        x.col(j).try_as_col_major().expect("columns are contiguous").as_slice()[rows.clone()].iter().copied()
    };
    let fill = |to: &mut [T], from: &mut dyn Iterator<Item = T>| to.iter_mut().zip(from).for_each(|(to, from)| *to = from);
    let write = |place: usize, to: &mut [T]| {
        let (upper, lower) = to.split_at_mut(bottom.start);
        let source = merge.sources.get(place).copied();
        match source {
            Some(0) if side == Side::Left => to.fill(T::from_double(0.0)),
            Some(0) | None => {
                let (c, s) = if source.is_some() { (c, s) } else { (T::from_double(0.0) - s, c) };
                upper.iter_mut().zip(column(nl, &top)).for_each(|(to, x)| *to = c * x);
                lower.fill(T::from_double(0.0));
                if merge.extra {
                    lower.iter_mut().zip(column(nl + 1 + nr, &bottom)).for_each(|(to, x)| *to = s * x);
                }
            }
            Some(source) if source <= nl => {
                fill(
                    upper,
                    &mut column(merge.left.column(source - 1), &top).chain((side == Side::Left).then_some(T::from_double(0.0))),
                );
                if is_full[place] {
                    lower.fill(T::from_double(0.0));
                }
            }
            Some(source) => {
                fill(lower, &mut column(nl + 1 + merge.right.column(source - nl - 1), &bottom));
                if is_full[place] {
                    upper.fill(T::from_double(0.0));
                }
            }
        }
    };
    let cols = y.ncols();
    each(col_chunks(y, BLOCK).zip((0..cols).step_by(BLOCK)), |(y, first)| {
        for (y, place) in y.col_iter_mut().zip(first..) {
            write(place, y.try_as_col_major_mut().expect("columns are contiguous").as_slice_mut());
        }
    });
}

/// Applies the rotations to some rows.
fn rotate<T: RealElement>(merge: &Merge, mut y: MatMut<T>) {
    for rotation in &merge.rotations {
        let (c, s) = (T::from_double(rotation.c), T::from_double(rotation.s));
        let (deflated, kept) = y.rb_mut().two_cols_mut(rotation.deflated, rotation.kept);
        let [deflated, kept] =
            [deflated, kept].map(|column| column.try_as_col_major_mut().expect("columns are contiguous").as_slice_mut());
        for (x, y) in deflated.iter_mut().zip(kept) {
            (*x, *y) = (c * *x - s * *y, c * *y + s * *x);
        }
    }
}

/// The product of the kept columns of `y` with the second factor, and the deflated columns, in `x`.
fn multiply<T: RealElement>(
    merge: &Merge,
    side: Side,
    y: MatRef<T>,
    x: MatMut<T>,
    halves: [Range<usize>; 2],
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Option<()> {
    let k = merge.poles.len();
    let (products, mut deflated) = x.split_at_col_mut(k);
    let mut deflated = move || deflated.copy_from(y.get(.., k..));
    // The same blocks whatever the number of threads, and so the same results.
    let pieces = k.div_ceil(BLOCK).next_multiple_of(2);
    let block = if k <= BLOCK { k } else { k.div_ceil(pieces).next_multiple_of(8) };
    let weights = merge.weights(side);
    let arch = Arch::new();
    let multiply = |(piece, mut x): (usize, MatMut<T>)| {
        if cancelled() {
            return;
        }
        let columns = x.ncols();
        let mut w = vec![T::from_double(0.0); k * columns];
        arch.dispatch(Factor { merge, side, weights: &weights, rows: 0..k, start: piece * block, to: &mut w });
        let w = MatRef::from_column_major_slice(&w, k, columns);
        for (rows, places) in halves.iter().zip(merge.places()) {
            let (x, y) = (x.rb_mut().subrows_mut(rows.start, rows.len()), y.get(rows.clone(), places.clone()));
            matmul(x, Accum::Replace, y, w.get(places, ..), T::from_double(1.0), Par::Seq);
        }
        if side == Side::Left {
            x.row_mut(merge.rows[0]).copy_from(w.row(merge.center()));
        }
    };
    if k <= BLOCK {
        multiply((0, products));
        deflated();
    } else {
        join(|| each(col_chunks(products, block).enumerate(), multiply), deflated);
    }
    (!cancelled()).then_some(())
}
