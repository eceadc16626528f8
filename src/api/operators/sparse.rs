//! faer's sparse matrices.

use faer::{
    sparse::{SparseColMat, SparseColMatRef, SparseRowMat, SparseRowMatRef},
    traits::Index,
};

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

impl<I: Index, T: Scalar> Columns<T> for SparseColMatRef<'_, I, T> {
    fn shape(&self) -> (usize, usize) {
        (self.nrows(), self.ncols())
    }

    fn each_entry(&self, column: usize, mut entry: impl FnMut(usize, T)) {
        let rows = self.symbolic().row_idx_of_col_raw(column);
        rows.iter().zip(self.val_of_col(column)).for_each(|(row, &value)| entry(row.zx(), value));
    }
}

macro_rules! operator {
    ($matrix:ty, $self:ident => $columns:expr, $transposed:literal) => {
        impl<I: Index, T: Scalar> LinearOperator<T> for $matrix {
            fn shape(&$self) -> (usize, usize) {
                ($self.nrows(), $self.ncols())
            }

            fn apply(&$self, columns: usize, x: &[T], y: &mut [T]) -> Result<(), OperatorError> {
                check(columns, (x, $self.ncols()), (y, $self.nrows()))?;
                let a = $columns;
                if $transposed { apply_adjoint(&a, false, columns, x, y) } else { apply(&a, false, columns, x, y) }
                Ok(())
            }

            fn apply_adjoint(&$self, columns: usize, x: &[T], y: &mut [T]) -> Result<(), OperatorError> {
                check(columns, (x, $self.nrows()), (y, $self.ncols()))?;
                let a = $columns;
                if $transposed { apply(&a, true, columns, x, y) } else { apply_adjoint(&a, true, columns, x, y) }
                Ok(())
            }
        }
    };
}

operator!(SparseColMat<I, T>, self => self.as_ref(), false);
operator!(SparseColMatRef<'_, I, T>, self => *self, false);
operator!(SparseRowMat<I, T>, self => self.as_ref().transpose(), true);
operator!(SparseRowMatRef<'_, I, T>, self => self.transpose(), true);
