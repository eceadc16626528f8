//! The vectors of the largest values only, by products from the whole matrix to the leaves.

use faer::Accum;
use faer::linalg::matmul::matmul;
use faer::prelude::{Mat, MatMut, MatRef, Par, ReborrowMut};
use pulp::Arch;

use crate::{
    algo::bidiag::divide::{
        node::{Merge, Node},
        replay::Factor,
    },
    base::{
        blas::Side,
        number::RealElement,
        parallel::{col_chunks, each, join, row_chunks},
    },
};

/// Orders from which the two parts are worth a thread each.
const WORTH_SHARING: usize = 256;

/// Columns of eigenvectors that are a task.
const COLUMNS: usize = 8;

/// The rows of a product that one thread computes.
const BLOCK: usize = 128;

/// The vectors of a side for the `k` largest values, in descending order.
pub(crate) fn vectors<T: RealElement>(root: &Node, side: Side, k: usize) -> Mat<T> {
    let n = root.size(side);
    let mut out = Mat::zeros(n, k);
    match root {
        Node::Leaf(leaf) => {
            let from = if side == Side::Left { &leaf.left } else { &leaf.right };
            let from = MatRef::from_column_major_slice(from, n, n);
            return Mat::from_fn(n, k, |i, j| T::from_double(from[(i, n - 1 - j)]));
        }
        Node::Merge(merge) => {
            let kept = merge.poles.len();
            let weights = merge.weights(side);
            let arch = Arch::new();
            let mut z = Mat::zeros(n, k);
            each(col_chunks(z.as_mut(), COLUMNS).enumerate(), |(chunk, mut z)| {
                for j in 0..z.ncols() {
                    let z = z.rb_mut().col_mut(j).try_as_col_major_mut().expect("columns are contiguous").as_slice_mut();
                    match merge.order[n - 1 - chunk * COLUMNS - j] {
                        i if i < kept => {
                            arch.dispatch(Factor { merge, side, weights: &weights, rows: 0..kept, start: i, to: &mut z[..kept] });
                        }
                        i => z[i] = T::from_double(1.0),
                    }
                }
            });
            divide(merge, side, z, None, out.as_mut());
        }
    }
    out
}

/// The product of the vectors of a node, with ascending values and the null vector last, and `x`.
fn descend<T: RealElement>(node: &Node, side: Side, x: MatRef<T>, out: MatMut<T>) {
    let merge = match node {
        Node::Leaf(leaf) => {
            let (from, n) = if side == Side::Left { (&leaf.left, leaf.n) } else { (&leaf.right, leaf.m) };
            let from = from.iter().map(|&x| T::from_double(x)).collect::<Vec<_>>();
            return matmul(out, Accum::Replace, MatRef::from_column_major_slice(&from, n, n), x, T::from_double(1.0), Par::Seq);
        }
        Node::Merge(merge) => merge,
    };
    let (n, kept) = (merge.order.len(), merge.poles.len());
    let mut y = Mat::zeros(n, x.ncols());
    let mut z = Mat::zeros(n, x.ncols());
    for j in 0..x.ncols() {
        for (a, &i) in merge.order.iter().enumerate() {
            y[(i, j)] = x[(a, j)];
        }
    }
    let (z1, z2) = z.as_mut().split_at_row_mut(kept);
    { z2 }.copy_from(y.get(kept.., ..));
    let y = y.get(..kept, ..);
    let weights = merge.weights(side);
    let arch = Arch::new();
    // The same blocks whatever the number of threads, and so the same results.
    each(row_chunks(z1, BLOCK).enumerate(), |(piece, z)| {
        let rows = piece * BLOCK..piece * BLOCK + z.nrows();
        let mut w = vec![T::from_double(0.0); rows.len() * kept];
        arch.dispatch(Factor { merge, side, weights: &weights, rows: rows.clone(), start: 0, to: &mut w });
        matmul(z, Accum::Replace, MatRef::from_column_major_slice(&w, rows.len(), kept), y, T::from_double(1.0), Par::Seq);
    });
    divide(merge, side, z, (side == Side::Right && merge.extra).then(|| x.get(n..n + 1, ..)), out);
}

/// The product of the sources of a merge, in their places, and `z`, plus that of the null vector and the row `null`.
fn divide<T: RealElement>(merge: &Merge, side: Side, mut z: Mat<T>, null: Option<MatRef<T>>, mut out: MatMut<T>) {
    let [nl, nr] = merge.rows;
    let k = z.ncols();
    let [top, bottom] = merge.halves(side);
    let (c, s) = (T::from_double(merge.cs.0), T::from_double(merge.cs.1));
    let mut left = Mat::zeros(top.len(), k);
    let mut right = Mat::zeros(bottom.len(), k);
    for j in 0..k {
        let z = z.col_as_slice_mut(j);
        for rotation in merge.rotations.iter().rev() {
            let (c, s) = (T::from_double(rotation.c), T::from_double(rotation.s));
            let (x, y) = (z[rotation.deflated], z[rotation.kept]);
            (z[rotation.deflated], z[rotation.kept]) = (c * x + s * y, c * y - s * x);
        }
        for (&source, &z) in merge.sources.iter().zip(&*z) {
            if source > nl {
                right[(source - nl - 1, j)] = z;
            } else if source > 0 {
                left[(source - 1, j)] = z;
            }
        }
        if side == Side::Right {
            let (center, null) = (z[merge.center()], null.map_or(T::from_double(0.0), |null| null[(0, j)]));
            left[(nl, j)] = c * center - s * null;
            if merge.extra {
                right[(nr, j)] = s * center + c * null;
            }
        }
    }
    let (out1, mut out2) = out.rb_mut().split_at_row_mut(top.len());
    if side == Side::Left {
        out2.rb_mut().row_mut(0).copy_from(z.row(merge.center()));
    }
    let out2 = out2.subrows_mut(bottom.start - top.len(), bottom.len());
    let left = || descend(&merge.left, side, left.as_ref(), out1);
    let right = || descend(&merge.right, side, right.as_ref(), out2);
    if merge.order.len() >= WORTH_SHARING {
        join(left, right);
    } else {
        left();
        right();
    }
}
