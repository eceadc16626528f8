//! A matrix in memory as an operator. Entries of f16 and bf16 are widened some rows or columns at a time, as they are multiplied.

use faer::{Accum, Conj, Mat, MatMut, MatRef, Par, linalg::matmul::matmul_with_conj};

use crate::base::{
    number::{Number, Re, Scalar},
    operator::{LinearOperator, OperatorError},
    parallel::{each, row_chunks},
    pool::all_threads,
    view::map_into,
};

/// Rows or columns that are widened at a time.
const LINES: usize = 128;

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
        each(row_chunks(y, LINES).enumerate(), |(k, y)| {
            let rows = a.subrows(k * LINES, y.nrows());
            // In the memory order of A.
            let by_rows = rows.col_stride().unsigned_abs() < rows.row_stride().unsigned_abs();
            let lines = if by_rows { rows.transpose() } else { rows };
            let mut wide = Mat::<S>::zeros(lines.nrows(), lines.ncols());
            map_into(lines, wide.as_mut(), |x| x);
            let wide = if by_rows { wide.transpose() } else { wide.as_ref() };
            matmul_with_conj(y, accum, wide, conj, x, Conj::No, S::one_impl(), Par::Seq);
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
