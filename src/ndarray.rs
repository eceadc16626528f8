//! The `ndarray` front end.

use faer::MatRef;
use ndarray::{Array1, ArrayBase, Data, Ix2};

use crate::{
    scalar::Element,
    svdvals::{SvdValsGpu, sealed},
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
        // and j < cols; the borrow of `self` lives as long as the result.
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
