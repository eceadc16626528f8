//! The trait that solves least squares problems, and the solution.

use crate::{
    api::{element::Element, qr::sealed::RightSide, svdvals::SvdValsGpu},
    base::error::Result,
    plan::{drivers::Drivers, lstsq::Fit, options::LstsqOptions, report::SvdReport},
};

/// The solution of a least squares problem, the result of [`LstsqGpu`]. `X` is a matrix or a vector of the caller's library, as B is, and `R`
/// the real type of the elements.
///
/// ```
/// # #[cfg(feature = "ndarray")] {
/// use ndarray::array;
/// use svdvals_gpu::{Lstsq, LstsqGpu};
/// let a = array![[1.0f64, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 3.0]]; // a line through four points
/// let Lstsq { x, rank, residuals, .. } = a.lstsq_gpu(&array![0.0, 2.0, 3.0, 5.0])?;
/// assert!((x - array![0.1, 1.6]).iter().all(|x| x.abs() < 1e-14));
/// assert!(rank == 2 && (residuals[0] - 0.2f64.sqrt()).abs() < 1e-14);
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Lstsq<X, R> {
    /// X, n x p, or a vector of n entries.
    pub x: X,
    /// The numerical rank of A: the number of singular values above [`LstsqOptions::tolerance`] times the largest. With a
    /// [`ridge`](LstsqOptions::ridge) it is that of A with the rows of sqrt(ridge) I.
    pub rank: usize,
    /// ||b_j - A x_j||, one for each of the p right-hand sides, whatever the rank and the shape.
    pub residuals: Vec<R>,
    /// The singular values of A, descending, if [`LstsqOptions::singular_values`] asked for them or the rank was in doubt.
    pub singular_values: Option<Vec<R>>,
    /// Iterations of conjugate gradients, each a product with A and one with A^H. Zero for other [routes](crate::Solver).
    pub iterations: usize,
    /// A bound on the normwise backward error: X is the exact solution for a matrix that differs from A by at most this part of ||A||_F. If the
    /// rank is less than min(m, n), it includes what was left out. For a wide matrix with a ridge it may be far above the error.
    pub backward_error: f64,
}

/// What a matrix `M` gives for right-hand sides `B`.
type SolutionOf<M, B> =
    Lstsq<<B as RightSide<<M as SvdValsGpu>::Element>>::Solution, <<M as SvdValsGpu>::Element as Element>::Value>;

/// Least squares problems of a matrix, on a GPU or on the CPU.
///
/// ```text
/// min ||A X - B||   A: m x n, B: m x p or a vector of m entries, X: n x p or a vector of n entries
/// ```
///
/// If the solution is not unique, because A is wide or its rank is less than n, X is the one with the least ||X||, as LAPACK's `gelsd` and
/// NumPy's `lstsq` have it, and [`Lstsq::rank`] says so. Implemented for the matrices and the element types of [`SvdValsGpu`]. The solutions
/// of `half::f16` and `half::bf16` are `f32`. Sealed.
///
/// For many right-hand sides that come one after the other, [`QrGpu`](crate::QrGpu) keeps the factors.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use faer::mat;
/// use svdvals_gpu::LstsqGpu;
/// let a = mat![[1.0f32, 1.0], [1.0, 1.0], [1.0, 1.0]]; // rank 1
/// let fit = a.lstsq_gpu(&mat![[1.0f32], [2.0], [3.0]])?;
/// assert!(fit.rank == 1 && (fit.x - mat![[1.0], [1.0]]).norm_max() < 1e-6);
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// On the CPU a tall, narrow matrix (of half or single precision 32 times as tall as wide) is solved by A^H A with iterations that restore the digits, others by Householder's QR factorisation:
/// see [`Solver`](crate::Solver).
pub trait LstsqGpu: SvdValsGpu {
    /// The solution, with default options.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::LstsqGpu;
    /// let a = faer::mat![[2.0f64, 0.0, 0.0], [0.0, 1.0, 1.0]]; // wide
    /// let fit = a.lstsq_gpu(&faer::col![2.0, 2.0])?;
    /// assert!((fit.x - faer::col![1.0, 1.0, 1.0]).norm_max() < 1e-14 && fit.residuals[0] < 1e-14);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`lstsq_gpu_with`](Self::lstsq_gpu_with).
    fn lstsq_gpu<B: RightSide<Self::Element>>(&self, b: &B) -> Result<SolutionOf<Self, B>> {
        self.lstsq_gpu_with(b, &LstsqOptions::default())
    }

    /// The solution, with options: [`ridge`](LstsqOptions::ridge), [`tolerance`](LstsqOptions::tolerance),
    /// [`singular_values`](LstsqOptions::singular_values), [`preconditioner`](LstsqOptions::preconditioner).
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use ndarray::array;
    /// use svdvals_gpu::{LstsqGpu, LstsqOptions};
    /// let a = array![[1.0f64, 0.0], [0.0, 1e-9]];
    /// let fit = a.lstsq_gpu_with(&array![1.0, 1.0], &LstsqOptions::default().tolerance(1e-6))?;
    /// assert!(fit.rank == 1 && fit.x[1] == 0.0 && fit.residuals[0] == 1.0);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`SvdValsGpu::svdvals_gpu_with`]. [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) if B has not m rows, or an entry of B
    /// is NaN or infinite, for a negative ridge, for a half-precision matrix with [`HalfStorage::Half`](crate::HalfStorage::Half), and for a
    /// [`Preconditioner`](crate::Preconditioner) of a wide matrix, or one that the element type has not.
    /// [`SvdError::Overflow`](crate::SvdError::Overflow) if a result exceeds its type.
    fn lstsq_gpu_with<B: RightSide<Self::Element>>(&self, b: &B, options: &LstsqOptions) -> Result<SolutionOf<Self, B>> {
        Ok(solution::<_, B>(Self::Element::lstsq(self.as_faer(), b.as_columns(), options, false)?.values))
    }

    /// Like [`lstsq_gpu_with`](Self::lstsq_gpu_with), with a report: what ran, why, and the seconds.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{LstsqGpu, LstsqOptions};
    /// let a = faer::Mat::from_fn(9000, 20, |i, j| ((i * j) as f64).sin());
    /// let b = faer::Col::from_fn(9000, |i| (i as f64).sqrt());
    /// let report = a.lstsq_gpu_report(&b, &LstsqOptions::default())?;
    /// println!("{report}, {} iterations", report.values.iterations);
    /// assert!(report.values.backward_error < 1e-15);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`lstsq_gpu_with`](Self::lstsq_gpu_with).
    fn lstsq_gpu_report<B: RightSide<Self::Element>>(
        &self,
        b: &B,
        options: &LstsqOptions,
    ) -> Result<SvdReport<SolutionOf<Self, B>>> {
        Ok(Self::Element::lstsq(self.as_faer(), b.as_columns(), options, true)?.map(solution::<_, B>))
    }

    /// [`lstsq_gpu_with`](Self::lstsq_gpu_with) for a task that must not block. What it does and where is described at
    /// [`SvdValsGpu::svdvals_gpu_async`].
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use svdvals_gpu::{LstsqGpu, LstsqOptions};
    /// let (a, b) = (ndarray::array![[0.0f32, 2.0], [4.0, 0.0]], ndarray::array![2.0, 4.0]);
    /// let fit = pollster::block_on(a.lstsq_gpu_async(&b, &LstsqOptions::default()))?; // or whatever runs your tasks
    /// assert!((fit.x - ndarray::array![1.0, 1.0]).iter().all(|x| x.abs() < 1e-6));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`lstsq_gpu_with`](Self::lstsq_gpu_with).
    fn lstsq_gpu_async<'a, B: RightSide<Self::Element>>(
        &'a self,
        b: &'a B,
        options: &'a LstsqOptions,
    ) -> impl Future<Output = Result<SolutionOf<Self, B>>> + Send + 'a {
        let fit = Self::Element::lstsq_async(self.as_faer(), b.as_columns(), options, false);
        async { Ok(solution::<_, B>(fit.await?.values)) }
    }
}

/// The solution in the caller's library.
fn solution<T: Element, B: RightSide<T>>(fit: Fit<T::Scalar>) -> Lstsq<B::Solution, T::Value> {
    let Fit { x, rank, residuals, singular_values, iterations, backward_error } = fit;
    Lstsq { x: B::collect(x), rank, residuals, singular_values, iterations, backward_error }
}
