//! The `ndarray` front end.

use bytemuck::Pod;
use faer::{Conj, Mat, MatMut, MatRef};
use ndarray::{Array1, Array2, ArrayBase, ArrayView2, Data, DataMut, Ix1, Ix2, ShapeBuilder};

use crate::{
    api::{
        element::Element,
        lstsq::LstsqGpu,
        qr::{self, QrGpu},
        svd::{self, SvdGpu},
        svdvals::{SvdValsGpu, sealed},
        triangular::{self, TriangularGpu},
    },
    base::{error::Result, number::Scalar, zeros::columns},
    plan::factors::{Factors, FactorsRef},
};

/// A = U diag(s) V^H, the result of [`SvdGpu`] for arrays. A is m x n.
///
/// `u` is in Fortran order and `vt` in C order, so that each singular vector is contiguous.
///
/// ```
/// use svdvals_gpu::{ArraySvd, SvdGpu};
/// let a = ndarray::Array2::from_shape_fn((5, 3), |(i, j)| if i == j { 3.0 - j as f64 } else { 0.0 });
/// let ArraySvd { u, s, vt, .. } = a.svd_gpu()?;
/// assert_eq!((u.dim(), s.len(), vt.dim()), ((5, 3), 3, (3, 3)));
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ArraySvd<T: Element> {
    /// U, m x k: the left singular vectors are its columns. m x m with [`Vectors::Full`](crate::Vectors::Full), m x 0 with
    /// [`Vectors::Right`](crate::Vectors::Right).
    pub u: Array2<T::Scalar>,
    /// The k singular values, descending.
    pub s: Array1<T::Real>,
    /// V^H, k x n: its rows are the conjugates of the right singular vectors. n x n with [`Vectors::Full`](crate::Vectors::Full), 0 x n with
    /// [`Vectors::Left`](crate::Vectors::Left).
    pub vt: Array2<T::Scalar>,
    /// max(||A v - s u||, ||A^H u - s v||) of each triple, measured, with [`SvdOptions::accuracy`](crate::SvdOptions::accuracy).
    pub residuals: Option<Array1<T::Real>>,
}

impl<T: Element> ArraySvd<T> {
    fn factors(&self) -> FactorsRef<'_, T::Scalar> {
        let conjugate_of_v = view_of(&self.vt).transpose();
        FactorsRef { u: view_of(&self.u), s: self.s.to_vec(), v: conjugate_of_v, conj_v: Conj::Yes }
    }

    /// The numerical rank: the number of values above `tolerance`, which is absolute. None is max(m, n) eps s_1, with the eps of the values'
    /// type. A negative tolerance or NaN counts as 0.
    ///
    /// ```
    /// use svdvals_gpu::SvdGpu;
    /// let svd = ndarray::array![[1.0f64, 2.0], [2.0, 4.0], [3.0, 6.0]].svd_gpu()?;
    /// assert_eq!((svd.rank(None), svd.rank(Some(100.0))), (1, 0));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn rank(&self, tolerance: Option<T::Real>) -> usize {
        self.factors().rank(tolerance)
    }

    /// The Moore-Penrose pseudoinverse V S^+ U^H, n x m. S^+ inverts the values that [`rank`](Self::rank) counts, and is zero for the others.
    ///
    /// ```
    /// use svdvals_gpu::SvdGpu;
    /// let a = ndarray::array![[1.0f64, 0.0], [0.0, 2.0], [0.0, 0.0]];
    /// let x = a.svd_gpu()?.pinv(None)?;
    /// assert!((x - ndarray::array![[1.0, 0.0, 0.0], [0.0, 0.5, 0.0]]).iter().all(|x| x.abs() < 1e-13));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) if U or V was not computed.
    pub fn pinv(&self, tolerance: Option<T::Real>) -> Result<Array2<T::Scalar>> {
        Ok(array(&self.factors().pinv(tolerance)?))
    }

    /// U diag(s) V^H, m x n: A, or its best approximation of rank k if fewer than min(m, n) values were kept.
    ///
    /// ```
    /// use svdvals_gpu::{SvdGpu, SvdOptions};
    /// let a = ndarray::array![[3.0f64, 0.0], [0.0, 2.0]];
    /// let first = a.svd_gpu_with(&SvdOptions::default().keep(1))?.reconstruct()?;
    /// assert!((first - ndarray::array![[3.0, 0.0], [0.0, 0.0]]).iter().all(|x| x.abs() < 1e-13));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) if U or V was not computed.
    pub fn reconstruct(&self) -> Result<Array2<T::Scalar>> {
        Ok(array(&self.factors().reconstruct()?))
    }
}

/// The array as a faer view.
fn view_of<S: Data>(a: &ArrayBase<S, Ix2>) -> MatRef<'_, S::Elem> {
    view(a.view())
}

/// The same, of a view.
pub(crate) fn view<T>(a: ArrayView2<'_, T>) -> MatRef<'_, T> {
    let (rows, cols) = a.dim();
    let strides = a.strides();
    // SAFETY: `as_ptr` points to entry (0, 0), and entry (i, j) is `i * strides[0] + j * strides[1]` elements from it, for all i < rows
    // and j < cols. What `a` borrows lives as long as the result.
    unsafe { MatRef::from_raw_parts(a.as_ptr(), rows, cols, strides[0], strides[1]) }
}

/// The matrix as an array in Fortran order. It is a copy, because faer pads columns.
pub(crate) fn array<T: Pod + Send + Sync>(a: &Mat<T>) -> Array2<T> {
    let entries = columns(a, |x| x);
    Array2::from_shape_vec(a.shape().f(), entries).expect("an entry for each place")
}

/// Appends the entries, converted by `f`, column after column.
pub(crate) fn extend_by_columns<T: Copy>(entries: &mut Vec<T>, a: &Mat<T>, f: impl Fn(T) -> T) {
    (0..a.ncols()).for_each(|j| entries.extend(a.col_as_slice(j).iter().map(|&x| f(x))));
}

/// The factors as arrays.
pub(crate) fn array_svd<T: Element>(Factors { u, s, v, residuals }: Factors<T::Scalar>) -> ArraySvd<T> {
    ArraySvd { u: array(&u), s: Array1::from_vec(s), vt: conjugate_transpose(&v), residuals: residuals.map(Array1::from_vec) }
}

/// V^H in C order: the columns of V, conjugated, are its rows.
pub(crate) fn conjugate_transpose<S: Scalar>(v: &Mat<S>) -> Array2<S> {
    let rows = columns(v, |x| S::conj_impl(&x));
    Array2::from_shape_vec((v.ncols(), v.nrows()), rows).expect("an entry for each place")
}

impl<S, T> sealed::Matrix<T, Array1<T::Real>> for ArrayBase<S, Ix2>
where
    S: Data<Elem = T>,
    T: Element,
{
    fn as_faer(&self) -> MatRef<'_, T> {
        view_of(self)
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

impl<S, T> svd::sealed::Decomposed<T, ArraySvd<T>> for ArrayBase<S, Ix2>
where
    S: Data<Elem = T>,
    T: Element,
{
    fn collect_svd(factors: Factors<T::Scalar>) -> ArraySvd<T> {
        array_svd(factors)
    }
}

impl<S, T> SvdGpu for ArrayBase<S, Ix2>
where
    S: Data<Elem = T>,
    T: Element,
{
    type Svd = ArraySvd<T>;
}

impl<T: Scalar> qr::sealed::Dense<T> for Array2<T> {
    fn from_mat(a: Mat<T>) -> Array2<T> {
        array(&a)
    }
}

impl<S, T> QrGpu for ArrayBase<S, Ix2>
where
    S: Data<Elem = T>,
    T: Element,
{
    type Matrix = Array2<T::Arithmetic>;
}

impl<S, T> LstsqGpu for ArrayBase<S, Ix2>
where
    S: Data<Elem = T>,
    T: Element,
{
}

impl<S, T> qr::sealed::RightSide<T> for ArrayBase<S, Ix2>
where
    S: Data<Elem = T>,
    T: Element,
{
    type Solution = Array2<T::Scalar>;

    fn as_columns(&self) -> MatRef<'_, T> {
        view_of(self)
    }

    fn collect(x: Mat<T::Scalar>) -> Array2<T::Scalar> {
        array(&x)
    }
}

impl<S, T> qr::sealed::RightSide<T> for ArrayBase<S, Ix1>
where
    S: Data<Elem = T>,
    T: Element,
{
    type Solution = Array1<T::Scalar>;

    fn as_columns(&self) -> MatRef<'_, T> {
        let stride = self.strides()[0];
        // SAFETY: `as_ptr` points to entry 0, and entry i is `i * stride` elements from it, for all i < len. There is one column, so its
        // stride is never used. The borrow of `self` lives as long as the result.
        unsafe { MatRef::from_raw_parts(self.as_ptr(), self.len(), 1, stride, 0) }
    }

    fn collect(x: Mat<T::Scalar>) -> Array1<T::Scalar> {
        Array1::from_vec(columns(&x, |x| x))
    }
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
