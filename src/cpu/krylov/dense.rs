//! A matrix in memory as an operator. Entries of f16 and bf16 are widened a tile at a time, as they are multiplied.

use faer::{Accum, Conj, Mat, MatMut, MatRef, Par, linalg::matmul::matmul_with_conj, prelude::ReborrowMut};

use crate::base::{
    number::{Number, Re, Scalar},
    operator::{LinearOperator, OperatorError},
    parallel::{each, row_chunks},
    pool::all_threads,
    view::map_into,
};

/// Rows of a product that a task computes, and entries of each that are widened at a time.
const LINES: usize = 128;
const DEPTH: usize = 4096;

/// A matrix in memory.
pub(crate) struct Dense<'a, T: Number>(pub MatRef<'a, T>);

impl<S: Scalar, T: Number<Scalar = S, Real = Re<S>>> Dense<'_, T> {
    /// Y <- op(A) X, or Y + op(A) X, where op(A) is A or A^H.
    pub fn multiply(&self, adjoint: bool, x: MatRef<'_, S>, y: MatMut<'_, S>, add: bool) {
        let accum = if add { Accum::Add } else { Accum::Replace };
        let (a, conj) = if adjoint { (self.0.transpose(), Conj::Yes) } else { (self.0, Conj::No) };
        if let Some(a) = T::as_scalars_ref(a) {
            return matmul_with_conj(y, accum, a, conj, x, Conj::No, S::one_impl(), all_threads());
        }
        let inner = a.ncols();
        each(row_chunks(y, LINES).enumerate(), |(k, mut y)| {
            let rows = a.subrows(k * LINES, y.nrows());
            let mut wide = Mat::<S>::zeros(0, 0);
            for first in (0..inner.max(1)).step_by(DEPTH) {
                let depth = DEPTH.min(inner - first);
                let part = rows.subcols(first, depth);
                // In the memory order of A.
                let by_rows = part.col_stride().unsigned_abs() < part.row_stride().unsigned_abs();
                let lines = if by_rows { part.transpose() } else { part };
                wide.resize_with(lines.nrows(), lines.ncols(), |_, _| S::zero_impl());
                map_into(lines, wide.as_mut(), |x| x);
                let wide = if by_rows { wide.transpose() } else { wide.as_ref() };
                let accum = if first == 0 { accum } else { Accum::Add };
                matmul_with_conj(y.rb_mut(), accum, wide, conj, x.subrows(first, depth), Conj::No, S::one_impl(), Par::Seq);
            }
        });
    }
}

impl<S: Scalar, T: Number<Scalar = S, Real = Re<S>>> LinearOperator<S> for Dense<'_, T> {
    fn shape(&self) -> (usize, usize) {
        self.0.shape()
    }

    fn apply(&self, columns: usize, x: &[S], y: &mut [S]) -> Result<(), OperatorError> {
        let (m, n) = self.shape();
        let y = MatMut::from_column_major_slice_mut(y, m, columns);
        self.multiply(false, MatRef::from_column_major_slice(x, n, columns), y, false);
        Ok(())
    }

    fn apply_adjoint(&self, columns: usize, x: &[S], y: &mut [S]) -> Result<(), OperatorError> {
        let (m, n) = self.shape();
        let y = MatMut::from_column_major_slice_mut(y, n, columns);
        self.multiply(true, MatRef::from_column_major_slice(x, m, columns), y, false);
        Ok(())
    }
}
