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

struct OfFaer<'a, I, T>(SparseColMatRef<'a, I, T>);

impl<I: Index, T: Scalar> Columns<T> for OfFaer<'_, I, T> {
    fn shape(&self) -> (usize, usize) {
        self.0.shape()
    }

    fn each_entry(&self, column: usize, mut entry: impl FnMut(usize, T)) {
        let rows = self.0.symbolic().row_idx_of_col_raw(column);
        rows.iter().zip(self.0.val_of_col(column)).for_each(|(row, &value)| entry(row.zx(), value));
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
                let a = OfFaer($columns);
                if $transposed { apply_adjoint(&a, false, columns, x, y) } else { apply(&a, false, columns, x, y) }
                Ok(())
            }

            fn apply_adjoint(&$self, columns: usize, x: &[T], y: &mut [T]) -> Result<(), OperatorError> {
                check(columns, (x, $self.nrows()), (y, $self.ncols()))?;
                let a = OfFaer($columns);
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
