//! The `ndarray` front end.

use faer::{MatMut, MatRef};
use ndarray::{Array1, ArrayBase, Data, DataMut, Ix2};

use crate::api::{
    element::Element,
    svdvals::{SvdValsGpu, sealed},
    triangular::{self, TriangularGpu},
};

impl<S, T> sealed::Matrix<T, Array1<T::Real>> for ArrayBase<S, Ix2>
where
    S: Data<Elem = T>,
    T: Element,
{
    fn as_faer(&self) -> MatRef<'_, T> {
        let (rows, cols) = self.dim();
        let strides = self.strides();
        // SAFETY: `as_ptr` points to entry (0, 0), and entry (i, j) is `i * strides[0] + j * strides[1]` elements from it, for all i < rows
        // and j < cols. The borrow of `self` lives as long as the result.
        unsafe { MatRef::from_raw_parts(self.as_ptr(), rows, cols, strides[0], strides[1]) }
    }

    fn collect(values: Vec<T::Real>) -> Array1<T::Real> {
        Array1::from_vec(values)
    }
}

impl<S, T> SvdValsGpu for ArrayBase<S, Ix2>
where
    S: Data<Elem = T>,
    T: Element,
{
    type Element = T;
    type Values = Array1<T::Real>;
}

impl<S, T> triangular::sealed::Sealed for ArrayBase<S, Ix2>
where
    S: DataMut<Elem = T>,
    T: Element,
{
}

impl<S, T> triangular::sealed::MatrixMut<T> for ArrayBase<S, Ix2>
where
    S: DataMut<Elem = T>,
    T: Element,
{
    fn as_faer_mut(&mut self) -> MatMut<'_, T> {
        let (rows, cols) = self.dim();
        // This comes first because it copies shared data, which may change the strides.
        let first = self.as_mut_ptr();
        let strides = self.strides();
        // SAFETY: `first` points to entry (0, 0), and entry (i, j) is `i * strides[0] + j * strides[1]` elements from it, for all i < rows
        // and j < cols. No two entries of a mutable array alias. The exclusive borrow of `self` lives as long as the result.
        unsafe { MatMut::from_raw_parts_mut(first, rows, cols, strides[0], strides[1]) }
    }
}

impl<S, T> TriangularGpu for ArrayBase<S, Ix2>
where
    S: DataMut<Elem = T>,
    T: Element,
{
    type Element = T;
}
