//! Products of reflectors in compact WY form: H_0 H_1 .. = I - V T V^H, with V lower trapezoidal and T upper triangular (Schreiber and Van
//! Loan 1989).

use faer::{
    Accum, Mat, MatMut, Par,
    linalg::matmul::matmul,
    prelude::{Reborrow, ReborrowMut},
};

use crate::{
    base::{
        blas::Op,
        number::{Re, Scalar},
    },
    cpu::qr::{
        reflect::{BlockReflector, workspace},
        strips::{self, Ahead, Run},
    },
};

/// A product of reflectors. The memory is used again for the next product.
pub(crate) struct CompactWy<T> {
    v: Mat<T>,
    t: Mat<T>,
    rows: usize,
    width: usize,
    /// Entries of V more than this below its diagonal are zero.
    below: Option<usize>,
}

/// Workspace, for one thread: V^H V, and products with the columns that the reflectors are applied to.
pub(crate) struct Room<T> {
    gram: Mat<T>,
    work: Vec<T>,
}

impl<T: Scalar> Room<T> {
    /// Room for up to `width` reflectors, applied to up to `cols` columns.
    pub fn new(width: usize, cols: usize) -> Self {
        let work = workspace(strips::registers::<T>(), width, cols);
        Room { gram: Mat::zeros(width, width), work: vec![T::zero_impl(); work] }
    }
}

impl<T: Scalar> CompactWy<T> {
    /// Memory for up to `width` reflectors of up to `rows` entries.
    pub fn new(rows: usize, width: usize) -> Self {
        CompactWy { v: Mat::zeros(rows, width), t: Mat::zeros(width, width), rows: 0, width: 0, below: None }
    }

    /// Sets the product of `width` reflectors of `rows` entries. `reflector(j, v)` writes v_j to `v`, which is zero, and returns tau_j.
    /// Entries of V more than `below` below its diagonal, if given, are zero.
    pub fn set(
        &mut self,
        (rows, width): (usize, usize),
        below: Option<usize>,
        room: &mut Room<T>,
        mut reflector: impl FnMut(usize, &mut [T]) -> Re<T>,
    ) {
        (self.rows, self.width, self.below) = (rows, width, below);
        let mut v = self.v.as_mut().get_mut(..rows, ..width);
        let mut t = self.t.as_mut().get_mut(..width, ..width);
        for j in 0..width {
            let Some(column) = v.rb_mut().col_mut(j).try_as_col_major_mut() else { continue };
            let column = column.as_slice_mut();
            column.fill(T::zero_impl());
            t[(j, j)] = T::from_real_impl(&reflector(j, column));
        }
        let mut gram = room.gram.as_mut().get_mut(..width, ..width);
        matmul(gram.rb_mut(), Accum::Replace, v.rb().adjoint(), v.rb(), T::one_impl(), Par::Seq);
        // Column j of T above its diagonal: -tau_j T V^H v_j, with the T of the columns before.
        for j in 1..width {
            let (before, column) = t.rb_mut().split_at_col_mut(j);
            let (before, Some(column)) = (before.rb(), column.col_mut(0).try_as_col_major_mut()) else { continue };
            let column = column.as_slice_mut();
            let tau = column[j];
            column[..j].fill(T::zero_impl());
            for l in 0..j {
                let factor = -tau * gram[(l, j)];
                if let Some(before) = before.col(l).try_as_col_major() {
                    column[..=l].iter_mut().zip(before.as_slice()).for_each(|(to, &x)| *to += x * factor);
                }
            }
        }
    }

    /// The rows of V.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The memory of V and T, to be [prefetched](Ahead).
    pub fn elements(&self) -> [(*const T, usize); 2] {
        [(&self.v, self.rows), (&self.t, self.width)].map(|(a, rows)| {
            let last = self.width.saturating_sub(1) * a.col_stride().unsigned_abs();
            (a.as_ptr(), last + rows)
        })
    }

    /// X <- (I - V T V^H) X, or with T^H. Columns of X whose rows are contiguous are updated in [`strips`], as far as they are whole ones.
    pub fn apply(&self, x: MatMut<'_, T>, adjoint: bool, ahead: Ahead<'_, T>, room: &mut Room<T>) {
        let (rows, width) = (self.rows, self.width);
        let (v, t) = (self.v.as_ref().get(..rows, ..width), self.t.as_ref().get(..width, ..width));
        let runs = &[Run { v, first: 0, below: self.below, row: 0 }];
        let op = if adjoint { Op::ConjTrans } else { Op::NoTrans };
        BlockReflector { runs, t, op }.apply(x, strips::registers::<T>(), ahead, &mut room.work);
    }
}

/// The tau with which I - tau v v^H is unitary: 2 / ||v||^2. That of a reflector whose v has been rounded would be off by as much; many
/// such reflectors one after the other lose as many digits.
pub(crate) fn tau_of<T: Scalar>(v: &[T]) -> f64 {
    let squares = v.chunks(8).map(|v| v.iter().map(|x| x.to_complex().norm_sqr()).sum::<f64>());
    2.0 / squares.sum::<f64>()
}
