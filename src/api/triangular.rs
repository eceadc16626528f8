//! Triangular multiply and solve, in place: BLAS's `trmm` and `trsm` as one recursion over matrix products.
//!
//! | method | left | right | flops |
//! | --- | --- | --- | --- |
//! | [`trmm_gpu`](TriangularGpu::trmm_gpu) | B <- alpha op(A) B | B <- alpha B op(A) | n^2 k |
//! | [`trsm_gpu`](TriangularGpu::trsm_gpu) | B <- alpha op(A)^-1 B | B <- alpha B op(A)^-1 | n^2 k |
//!
//! A is n x n and triangular. Only the triangle that [`Uplo`] names is read; with [`Diag::Unit`] its diagonal is not read either. B is n x
//! k on the left, k x n on the right. op(A) is A, A^T or A^H.
//!
//! ```
//! # #[cfg(feature = "ndarray")] {
//! use ndarray::array;
//! use svdvals_gpu::triangular::{Diag, Op, Side, TriangularGpu, Uplo};
//!
//! let a = array![[2.0, 0.0], [1.0, 4.0]];
//! let mut b = array![[2.0, 4.0], [5.0, 6.0]];
//! b.trsm_gpu(Side::Left, Uplo::Lower, Op::NoTrans, Diag::NonUnit, 1.0, &a)?; // A X = B
//! assert_eq!(b, array![[1.0, 2.0], [1.0, 1.0]]);
//! b.trmm_gpu(Side::Left, Uplo::Lower, Op::NoTrans, Diag::NonUnit, 1.0, &a)?; // and back
//! assert_eq!(b, array![[2.0, 4.0], [5.0, 6.0]]);
//! # }
//! # Ok::<(), svdvals_gpu::SvdError>(())
//! ```
//!
//! Nearly all flops are in products of off-diagonal blocks (0.99 of them at n = 8192), which run fastest on a GPU or a CPU. Base kernels
//! handle triangles of order [`Tuning::triangle`](crate::Tuning::triangle). Transposition and conjugation are index arithmetic: no matrix
//! is transposed in memory. Source: Carrica, Onyango, Alomairy, Ringoot, Schloss and Edelman, *Toward Portable GPU Performance: Julia
//! Recursive Implementation of TRMM and TRSM* (2025).
//!
//! Half types are stored and computed with in f32, and rounded once, at the end.

pub use crate::base::blas::{Diag, Op, Side, Uplo};

use crate::{
    algo::triangular::{Call, Operation, Variant},
    api::element::Element,
    base::error::Result,
    plan::options::RunOptions,
};

/// Triangular multiply and solve, in place, on a GPU or on the CPU.
///
/// Implemented for `ndarray::ArrayBase<S, Ix2>` with `S: DataMut` (any strides, either memory order; feature `ndarray`) and for
/// `faer::{Mat, MatMut}` (feature `faer`), over the types of [`Element`]. A is any matrix that has [`SvdValsGpu`](crate::SvdValsGpu), of
/// either library. Also implemented for [`GpuMatrix`](crate::GpuMatrix) with A a `GpuMatrix`, without any transfer. Sealed.
///
/// The backend is chosen as for singular values: [`RunOptions::backend`](crate::RunOptions::backend). [`Backend::Auto`](crate::Backend)
/// takes a hardware GPU if that, with the transfers, would take less time than the CPU, else the CPU. The log says why.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::triangular::{Diag, Op, Side, TriangularGpu, Uplo};
/// let a = faer::mat![[2.0f32, 3.0], [f32::NAN, 4.0]]; // upper: what is below the diagonal is not read
/// let mut b = faer::mat![[4.0f32, 18.0]];
/// b.trsm_gpu(Side::Right, Uplo::Upper, Op::NoTrans, Diag::NonUnit, 1.0, &a)?; // X A = B
/// assert_eq!(b, faer::mat![[2.0, 3.0]]);
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
pub trait TriangularGpu: sealed::Sealed {
    /// The element type.
    type Element: Element;

    /// B <- alpha op(A) B or B <- alpha B op(A), with default options.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::triangular::{Diag, Op, Side, TriangularGpu, Uplo};
    /// let a = faer::mat![[2.0f64, 1.0], [0.0, 4.0]];
    /// let mut b = faer::mat![[3.0], [2.0]];
    /// b.trmm_gpu(Side::Left, Uplo::Upper, Op::NoTrans, Diag::NonUnit, 1.0, &a)?;
    /// assert_eq!(b, faer::mat![[8.0], [8.0]]);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`trmm_gpu_with`](Self::trmm_gpu_with).
    fn trmm_gpu<A: ?Sized>(&mut self, side: Side, uplo: Uplo, op: Op, diag: Diag, alpha: Self::Element, a: &A) -> Result<()>
    where
        Self: sealed::Operate<A, Self::Element>,
    {
        self.trmm_gpu_with(side, uplo, op, diag, alpha, a, &RunOptions::default())
    }

    /// B <- alpha op(A) B or B <- alpha B op(A) (BLAS: `?trmm`).
    ///
    /// A is n x n; B is n x k on the left and k x n on the right. alpha = 0 makes B zero, and A is not read.
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use ndarray::array;
    /// use svdvals_gpu::{Backend, RunOptions, triangular::{Diag, Op, Side, TriangularGpu, Uplo}};
    /// let a = array![[9.0f64, 0.0], [2.0, 9.0]]; // unit lower: 1, 0; 2, 1
    /// let mut b = array![[1.0, 2.0], [3.0, 4.0]];
    /// let options = RunOptions::default().backend(Backend::Cpu);
    /// b.trmm_gpu_with(Side::Left, Uplo::Lower, Op::Trans, Diag::Unit, 10.0, &a, &options)?; // 10 (1, 2; 0, 1) B
    /// assert_eq!(b, array![[70.0, 100.0], [30.0, 40.0]]);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::Shapes`](crate::SvdError::Shapes) if A is not square or not of B's order on that side;
    /// [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) for a hyperparameter out of range; with
    /// [`Backend::Gpu`](crate::Backend::Gpu), and for a [`GpuMatrix`](crate::GpuMatrix), the device's errors listed at
    /// [`svdvals_gpu_with`](crate::SvdValsGpu::svdvals_gpu_with). After an error B is unchanged, unless it is a
    /// [`GpuMatrix`](crate::GpuMatrix) whose device failed.
    #[allow(clippy::too_many_arguments)] // BLAS's, in BLAS's order
    fn trmm_gpu_with<A: ?Sized>(
        &mut self,
        side: Side,
        uplo: Uplo,
        op: Op,
        diag: Diag,
        alpha: Self::Element,
        a: &A,
        options: &RunOptions,
    ) -> Result<()>
    where
        Self: sealed::Operate<A, Self::Element>,
    {
        let variant = Variant { operation: Operation::Multiply, side, uplo, op, diag };
        self.operate(Call { variant, alpha }, a, options)
    }

    /// B <- alpha op(A)^-1 B or B <- alpha B op(A)^-1, with default options.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::triangular::{Diag, Op, Side, TriangularGpu, Uplo};
    /// let a = faer::mat![[2.0f64, 1.0], [0.0, 4.0]];
    /// let mut b = faer::mat![[8.0], [8.0]];
    /// b.trsm_gpu(Side::Left, Uplo::Upper, Op::NoTrans, Diag::NonUnit, 1.0, &a)?;
    /// assert_eq!(b, faer::mat![[3.0], [2.0]]);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`trsm_gpu_with`](Self::trsm_gpu_with).
    fn trsm_gpu<A: ?Sized>(&mut self, side: Side, uplo: Uplo, op: Op, diag: Diag, alpha: Self::Element, a: &A) -> Result<()>
    where
        Self: sealed::Operate<A, Self::Element>,
    {
        self.trsm_gpu_with(side, uplo, op, diag, alpha, a, &RunOptions::default())
    }

    /// B <- alpha op(A)^-1 B or B <- alpha B op(A)^-1 (BLAS: `?trsm`), by substitution. Each column is backward stable, whatever A's
    /// condition number.
    ///
    /// A is n x n; B is n x k on the left and k x n on the right. alpha = 0 makes B zero, and A is not read.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use num_complex::Complex;
    /// use svdvals_gpu::{Backend, SvdError, RunOptions, triangular::{Diag, Op, Side, TriangularGpu, Uplo}};
    /// let (one, i) = (Complex::new(1.0f32, 0.0), Complex::new(0.0, 1.0));
    /// let a = faer::mat![[i, one], [one, one]];
    /// let mut b = faer::mat![[one], [one]];
    /// let options = RunOptions::default().backend(Backend::Cpu);
    /// b.trsm_gpu_with(Side::Left, Uplo::Upper, Op::ConjTrans, Diag::NonUnit, one, &a, &options)?; // (-i, 0; 1, 1) X = B
    /// assert_eq!(b, faer::mat![[i], [one - i]]);
    ///
    /// let singular = faer::mat![[i, one], [one, one - one]];
    /// let error = b.trsm_gpu_with(Side::Left, Uplo::Upper, Op::NoTrans, Diag::NonUnit, one, &singular, &options);
    /// assert!(matches!(error, Err(SvdError::Singular { index: 1, .. })));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::Singular`](crate::SvdError::Singular) for a zero, a NaN or an infinity on the diagonal, with its index; else as
    /// [`trmm_gpu_with`](Self::trmm_gpu_with).
    #[allow(clippy::too_many_arguments)] // BLAS's, in BLAS's order
    fn trsm_gpu_with<A: ?Sized>(
        &mut self,
        side: Side,
        uplo: Uplo,
        op: Op,
        diag: Diag,
        alpha: Self::Element,
        a: &A,
        options: &RunOptions,
    ) -> Result<()>
    where
        Self: sealed::Operate<A, Self::Element>,
    {
        let variant = Variant { operation: Operation::Solve, side, uplo, op, diag };
        self.operate(Call { variant, alpha }, a, options)
    }
}

pub(crate) mod sealed {
    use super::Call;
    use crate::{
        api::{element::Element, svdvals::SvdValsGpu},
        base::error::Result,
        plan::options::RunOptions,
    };
    use faer::MatMut;

    /// Restricts the operations to this crate's types.
    pub trait Sealed {}

    /// B in host memory. Other crates cannot name it, like [`crate::api::svdvals::sealed`].
    pub trait MatrixMut<T: Element> {
        /// The matrix as a mutable faer view.
        fn as_faer_mut(&mut self) -> MatMut<'_, T>;
    }

    /// B, for an operation with the triangular matrix A.
    #[diagnostic::on_unimplemented(
        message = "`{A}` is no triangle for `{Self}`",
        note = "of an ndarray or faer matrix, A is an ndarray or faer matrix of the same element type; of a `GpuMatrix`, a `GpuMatrix`"
    )]
    pub trait Operate<A: ?Sized, T: Element> {
        /// The operation, in place.
        fn operate(&mut self, call: Call<T>, a: &A, options: &RunOptions) -> Result<()>;
    }

    impl<A, B, T> Operate<A, T> for B
    where
        T: Element,
        A: SvdValsGpu<Element = T>,
        B: MatrixMut<T>,
    {
        fn operate(&mut self, call: Call<T>, a: &A, options: &RunOptions) -> Result<()> {
            T::triangular(call, a.as_faer(), self.as_faer_mut(), options)
        }
    }
}
