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
struct OfSprs<'a, T, I: SpIndex, P: SpIndex, IP, IS, DS>(&'a CsMatBase<T, I, IP, IS, DS, P>)
where
    IP: Deref<Target = [P]>,
    IS: Deref<Target = [I]>,
    DS: Deref<Target = [T]>;

impl<T, I, P, IP, IS, DS> Columns<T> for OfSprs<'_, T, I, P, IP, IS, DS>
where
    T: Scalar,
    I: SpIndex + Sync,
    P: SpIndex + Sync,
    IP: Deref<Target = [P]> + Sync,
    IS: Deref<Target = [I]> + Sync,
    DS: Deref<Target = [T]> + Sync,
{
    fn shape(&self) -> (usize, usize) {
        (self.0.inner_dims(), self.0.outer_dims())
    }

    fn each_entry(&self, column: usize, mut entry: impl FnMut(usize, T)) {
        if let Some(column) = self.0.outer_view(column) {
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
        let a = OfSprs(self);
        if self.is_csr() {
            apply_adjoint(&a, false, columns, x, y)
        } else {
            apply(&a, false, columns, x, y)
        }
        Ok(())
    }

    fn apply_adjoint(&self, columns: usize, x: &[T], y: &mut [T]) -> Result<(), OperatorError> {
        check(columns, (x, self.rows()), (y, self.cols()))?;
        let a = OfSprs(self);
        if self.is_csr() {
            apply(&a, true, columns, x, y)
        } else {
            apply_adjoint(&a, true, columns, x, y)
        }
        Ok(())
    }
}
