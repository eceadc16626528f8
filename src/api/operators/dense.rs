//! Dense matrices. Those of f16 and bf16 are multiplied as they lie, in f32.

#[cfg(feature = "faer")]
use faer::Mat;
use faer::{MatMut, MatRef};
#[cfg(feature = "ndarray")]
use ndarray::{ArrayBase, Data, Ix2};

use crate::{
    api::{element::Element, operators::check},
    base::{
        number::Scalar,
        operator::{LinearOperator, OperatorError},
    },
};

/// Y <- op(A) X, A or A^H.
fn multiply<S: Scalar, T: Element<Arithmetic = S>>(
    a: MatRef<'_, T>,
    adjoint: bool,
    columns: usize,
    x: &[S],
    y: &mut [S],
) -> Result<(), OperatorError> {
    let (of_x, of_y) = if adjoint { (a.nrows(), a.ncols()) } else { (a.ncols(), a.nrows()) };
    check(columns, (x, of_x), (y, of_y))?;
    let (x, y) = (MatRef::from_column_major_slice(x, of_x, columns), MatMut::from_column_major_slice_mut(y, of_y, columns));
    T::multiply(a, adjoint, x, y, false);
    Ok(())
}

macro_rules! operator {
    ($(#[$cfg:meta])? [$($generics:tt)*] $matrix:ty, $self:ident => $view:expr) => {
        $(#[$cfg])?
        impl<S: Scalar, T: Element<Arithmetic = S>, $($generics)*> LinearOperator<S> for $matrix {
            fn shape(&$self) -> (usize, usize) {
                let view: MatRef<'_, T> = $view;
                view.shape()
            }

            fn apply(&$self, columns: usize, x: &[S], y: &mut [S]) -> Result<(), OperatorError> {
                multiply::<S, T>($view, false, columns, x, y)
            }

            fn apply_adjoint(&$self, columns: usize, x: &[S], y: &mut [S]) -> Result<(), OperatorError> {
                multiply::<S, T>($view, true, columns, x, y)
            }
        }
    };
}

operator!(#[cfg(feature = "faer")] [] Mat<T>, self => self.as_ref());
operator!(#[cfg(feature = "faer")] [] MatRef<'_, T>, self => *self);
operator!(#[cfg(feature = "ndarray")] [D: Data<Elem = T> + Sync] ArrayBase<D, Ix2>, self => crate::api::ndarray::view(self.view()));
