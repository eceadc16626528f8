//! Sparse matrices of the crate `sprs`.

use std::ops::Deref;

use sprs::{CsMatBase, SpIndex};

use crate::{
    api::operators::{
        check,
        compressed::{Columns, apply, apply_adjoint},
    },
    base::{
        number::Scalar,
        operator::{LinearOperator, OperatorError},
    },
};

/// The outer dimension is that of the columns; of compressed rows these are those of the transpose.
impl<T, I, P, IP, IS, DS> Columns<T> for CsMatBase<T, I, IP, IS, DS, P>
where
    T: Scalar,
    I: SpIndex + Sync,
    P: SpIndex + Sync,
    IP: Deref<Target = [P]> + Sync,
    IS: Deref<Target = [I]> + Sync,
    DS: Deref<Target = [T]> + Sync,
{
    fn shape(&self) -> (usize, usize) {
        (self.inner_dims(), self.outer_dims())
    }

    fn each_entry(&self, column: usize, mut entry: impl FnMut(usize, T)) {
        if let Some(column) = self.outer_view(column) {
            column.iter().for_each(|(row, &value)| entry(row, value));
        }
    }
}

impl<T, I, P, IP, IS, DS> LinearOperator<T> for CsMatBase<T, I, IP, IS, DS, P>
where
    T: Scalar,
    I: SpIndex + Sync,
    P: SpIndex + Sync,
    IP: Deref<Target = [P]> + Sync,
    IS: Deref<Target = [I]> + Sync,
    DS: Deref<Target = [T]> + Sync,
{
    fn shape(&self) -> (usize, usize) {
        self.shape()
    }

    fn apply(&self, columns: usize, x: &[T], y: &mut [T]) -> Result<(), OperatorError> {
        check(columns, (x, self.cols()), (y, self.rows()))?;
        if self.is_csr() {
            apply_adjoint(self, false, columns, x, y)
        } else {
            apply(self, false, columns, x, y)
        }
        Ok(())
    }

    fn apply_adjoint(&self, columns: usize, x: &[T], y: &mut [T]) -> Result<(), OperatorError> {
        check(columns, (x, self.rows()), (y, self.cols()))?;
        if self.is_csr() {
            apply(self, true, columns, x, y)
        } else {
            apply_adjoint(self, true, columns, x, y)
        }
        Ok(())
    }
}
