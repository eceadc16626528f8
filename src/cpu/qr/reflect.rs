//! Application of a block reflector, I - V T V^H (LAPACK's `larfb`): X <- X - V (T (V^H X)), three matrix products.

use faer::{
    Accum, Conj, MatMut, MatRef, Par,
    linalg::matmul::matmul_with_conj,
    prelude::{Reborrow, ReborrowMut},
};

use crate::{
    base::{blas::Op, number::Scalar},
    cpu::qr::strips::{self, Ahead, Run},
};

/// A block reflector, with the rows of V in `runs`.
#[derive(Clone, Copy)]
pub(crate) struct BlockReflector<'a, T> {
    pub runs: &'a [Run<'a, T>],
    /// Upper triangular.
    pub t: MatRef<'a, T>,
    /// What is applied: the block reflector, its transpose or its adjoint.
    pub op: Op,
}

/// Elements of workspace that [`BlockReflector::apply`] needs for `reflectors` columns of V and `cols` of X, of which strips have `strip`.
pub(crate) fn workspace(strip: Option<usize>, reflectors: usize, cols: usize) -> usize {
    strip.map_or(0, |width| strips::workspace(width, reflectors)).max(2 * reflectors * cols)
}

impl<T: Scalar> BlockReflector<'_, T> {
    /// Applies it to X. If `strip` is given and the rows of X are contiguous, so many columns at a time are updated in [`strips`], as far as
    /// they are whole; the transpose of complex reflectors never is. `work` has [`workspace`] elements.
    pub fn apply(self, x: MatMut<'_, T>, strip: Option<usize>, ahead: Ahead<'_, T>, work: &mut [T]) {
        let BlockReflector { runs, t, op } = self;
        let by_rows = x.col_stride() == 1 && x.row_stride() > 0 && (op != Op::Trans || !T::IS_COMPLEX);
        let inside = strip.filter(|_| by_rows).map_or(0, |width| x.ncols() - x.ncols() % width);
        let (whole, rest) = x.split_at_col_mut(inside);
        if inside > 0 {
            strips::update(whole, runs, t, op != Op::NoTrans, ahead, work);
        }
        if rest.ncols() > 0 {
            products(rest, runs, t, op, work);
        }
    }
}

/// [`BlockReflector::apply`] by matrix products.
fn products<T: Scalar>(mut x: MatMut<'_, T>, runs: &[Run<'_, T>], t: MatRef<'_, T>, op: Op, work: &mut [T]) {
    let (k, cols, one) = (t.ncols(), x.ncols(), T::one_impl());
    let (w, tw) = work[..2 * k * cols].split_at_mut(k * cols);
    let (mut w, mut tw) = (MatMut::from_column_major_slice_mut(w, k, cols), MatMut::from_column_major_slice_mut(tw, k, cols));
    // (I - V T V^H)^T = I - conj(V) T^T V^T, and its adjoint is I - V T^H V^H.
    let (conj_v, conj_of_adjoint) = if op == Op::Trans { (Conj::Yes, Conj::No) } else { (Conj::No, Conj::Yes) };
    let (t, conj_t) = match op {
        Op::NoTrans => (t, Conj::No),
        Op::Trans => (t.transpose(), Conj::No),
        Op::ConjTrans => (t.transpose(), Conj::Yes),
    };
    let mut accum = Accum::Replace;
    for &Run { v, row, .. } in runs {
        let x = x.rb().subrows(row, v.nrows());
        matmul_with_conj(w.rb_mut(), accum, v.transpose(), conj_of_adjoint, x, Conj::No, one, Par::Seq);
        accum = Accum::Add;
    }
    matmul_with_conj(tw.rb_mut(), Accum::Replace, t, conj_t, w.rb(), Conj::No, one, Par::Seq);
    for &Run { v, row, .. } in runs {
        let x = x.rb_mut().subrows_mut(row, v.nrows());
        matmul_with_conj(x, Accum::Add, v, conj_v, tw.rb(), Conj::No, -one, Par::Seq);
    }
}
