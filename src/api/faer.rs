//! The `faer` front end.

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Col, ColRef, Conj, Mat, MatMut, MatRef};

use crate::{
    api::{
        element::Element,
        lstsq::LstsqGpu,
        qr::{self, QrGpu},
        svd::{self, SvdGpu},
        svdvals::{SvdValsGpu, sealed},
        triangular::{self, TriangularGpu},
    },
    base::{error::Result, number::Scalar},
    plan::factors::{Factors, FactorsRef},
};

/// A = U diag(s) V^H, the result of [`SvdGpu`] for faer's matrices. A is m x n.
///
/// ```
/// use svdvals_gpu::{MatSvd, SvdGpu};
/// let a = faer::Mat::from_fn(5, 3, |i, j| if i == j { 3.0 - j as f64 } else { 0.0 });
/// let MatSvd { u, s, v, .. } = a.svd_gpu()?;
/// assert_eq!((u.shape(), s.nrows(), v.shape()), ((5, 3), 3, (3, 3)));
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MatSvd<T: Element> {
    /// U, m x k: the left singular vectors are its columns. m x m with [`Vectors::Full`](crate::Vectors::Full), m x 0 with
    /// [`Vectors::Right`](crate::Vectors::Right).
    pub u: Mat<T::Scalar>,
    /// The k singular values, descending.
    pub s: Col<T::Real>,
    /// V, n x k: the right singular vectors are its columns. n x n with [`Vectors::Full`](crate::Vectors::Full), n x 0 with
    /// [`Vectors::Left`](crate::Vectors::Left).
    pub v: Mat<T::Scalar>,
    /// max(||A v - s u||, ||A^H u - s v||) of each triple, measured, with [`SvdOptions::accuracy`](crate::SvdOptions::accuracy).
    pub residuals: Option<Col<T::Real>>,
}

impl<T: Element> MatSvd<T> {
    fn factors(&self) -> FactorsRef<'_, T::Scalar> {
        FactorsRef { u: self.u.as_ref(), s: self.s.iter().copied().collect(), v: self.v.as_ref(), conj_v: Conj::No }
    }

    /// The numerical rank: the number of values above `tolerance`, which is absolute. None is max(m, n) eps s_1, with the eps of the values'
    /// type. A negative tolerance or NaN counts as 0.
    ///
    /// ```
    /// use svdvals_gpu::SvdGpu;
    /// let svd = faer::mat![[1.0f64, 2.0], [2.0, 4.0], [3.0, 6.0]].svd_gpu()?;
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
    /// let a = faer::mat![[1.0f64, 0.0], [0.0, 2.0], [0.0, 0.0]];
    /// let x = a.svd_gpu()?.pinv(None)?;
    /// assert!((x - faer::mat![[1.0, 0.0, 0.0], [0.0, 0.5, 0.0]]).norm_l2() < 1e-13);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) if U or V was not computed.
    pub fn pinv(&self, tolerance: Option<T::Real>) -> Result<Mat<T::Scalar>> {
        self.factors().pinv(tolerance)
    }

    /// U diag(s) V^H, m x n: A, or its best approximation of rank k if fewer than min(m, n) values were kept.
    ///
    /// ```
    /// use svdvals_gpu::{SvdGpu, SvdOptions};
    /// let a = faer::mat![[3.0f64, 0.0], [0.0, 2.0]];
    /// let first = a.svd_gpu_with(&SvdOptions::default().keep(1))?.reconstruct()?;
    /// assert!((first - faer::mat![[3.0, 0.0], [0.0, 0.0]]).norm_l2() < 1e-13);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) if U or V was not computed.
    pub fn reconstruct(&self) -> Result<Mat<T::Scalar>> {
        self.factors().reconstruct()
    }
}

/// The numbers as a column.
pub(crate) fn col<R: Copy>(values: Vec<R>) -> Col<R> {
    Col::from_fn(values.len(), |i| values[i])
}

/// The factors in faer's matrices.
pub(crate) fn mat_svd<T: Element>(Factors { u, s, v, residuals }: Factors<T::Scalar>) -> MatSvd<T> {
    MatSvd { u, s: col(s), v, residuals: residuals.map(col) }
}

macro_rules! front_end {
    ($matrix:ty, $self:ident => $view:expr) => {
        impl<T: Element> sealed::Matrix<T, Col<T::Real>> for $matrix {
            fn as_faer(&$self) -> MatRef<'_, T> {
                $view
            }

            fn collect(values: Vec<T::Real>) -> Col<T::Real> {
                col(values)
            }
        }

        impl<T: Element> SvdValsGpu for $matrix {
            type Element = T;
            type Values = Col<T::Real>;
        }

        impl<T: Element> svd::sealed::Decomposed<T, MatSvd<T>> for $matrix {
            fn collect_svd(factors: Factors<T::Scalar>) -> MatSvd<T> {
                mat_svd(factors)
            }
        }

        impl<T: Element> SvdGpu for $matrix {
            type Svd = MatSvd<T>;
        }

        impl<T: Element> QrGpu for $matrix {
            type Matrix = Mat<T::Arithmetic>;
        }

        impl<T: Element> LstsqGpu for $matrix {}

        impl<T: Element> qr::sealed::RightSide<T> for $matrix {
            type Solution = Mat<T::Scalar>;

            fn as_columns(&$self) -> MatRef<'_, T> {
                $view
            }

            fn collect(x: Mat<T::Scalar>) -> Mat<T::Scalar> {
                x
            }
        }
    };
}

impl<T: Scalar> qr::sealed::Dense<T> for Mat<T> {
    fn from_mat(a: Mat<T>) -> Mat<T> {
        a
    }
}

macro_rules! right_side {
    ($vector:ty) => {
        impl<T: Element> qr::sealed::RightSide<T> for $vector {
            type Solution = Col<T::Scalar>;

            fn as_columns(&self) -> MatRef<'_, T> {
                self.as_mat()
            }

            fn collect(x: Mat<T::Scalar>) -> Col<T::Scalar> {
                Col::from_fn(x.nrows(), |i| x[(i, 0)])
            }
        }
    };
}

right_side!(Col<T>);
right_side!(ColRef<'_, T>);

front_end!(Mat<T>, self => self.as_ref());
front_end!(MatRef<'_, T>, self => *self);
front_end!(MatMut<'_, T>, self => self.rb());

macro_rules! front_end_mut {
    ($matrix:ty, $self:ident => $view:expr) => {
        impl<T: Element> triangular::sealed::Sealed for $matrix {}

        impl<T: Element> triangular::sealed::MatrixMut<T> for $matrix {
            fn as_faer_mut(&mut $self) -> MatMut<'_, T> {
                $view
            }
        }

        impl<T: Element> TriangularGpu for $matrix {
            type Element = T;
        }
    };
}

front_end_mut!(Mat<T>, self => self.as_mut());
front_end_mut!(MatMut<'_, T>, self => self.rb_mut());
