//! Least squares problems of a matrix that is on the device.

use crate::{
    api::{element::Element, gpu_matrix::GpuMatrix},
    base::error::Result,
    plan::{device::lstsq::DeviceFit, options::LstsqOptions, report::SvdReport},
};

/// A solution of least squares, the result of [`GpuMatrix::lstsq`]. A is m x n, B is m x p.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{GpuContext, GpuMatrix, LstsqOptions};
/// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
/// let context = GpuContext::global()?;
/// let a = GpuMatrix::upload(&context, &faer::mat![[1.0f32, 1.0], [1.0, 1.0], [1.0, 1.0]])?; // rank 1
/// let fit = a.lstsq(&GpuMatrix::upload(&context, &faer::mat![[1.0f32], [2.0], [3.0]])?, &LstsqOptions::default())?;
/// assert!(fit.rank == 1 && (fit.x.to_mat()? - faer::mat![[1.0], [1.0]]).norm_max() < 1e-5);
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct GpuLstsq<T: Element> {
    /// X, n x p, on the device.
    pub x: GpuMatrix<T::Scalar>,
    /// The numerical rank of A: the number of singular values above [`LstsqOptions::tolerance`] times the largest.
    pub rank: usize,
    /// ||b_j - A x_j||, one for each of the p right-hand sides. They come from the factors (with a ridge from A and X), and have the errors of a sum of squares in the
    /// element type's precision; with [`LstsqOptions::products`] or [`LstsqOptions::preconditioner`] from A, in double precision.
    pub residuals: Vec<T::Real>,
    /// The singular values of A, descending, if [`LstsqOptions::singular_values`] asked for them or the rank was in doubt.
    pub singular_values: Option<Vec<T::Real>>,
}

impl<T: Element> GpuMatrix<T> {
    /// min ||A X - B||, as [`LstsqGpu`](crate::LstsqGpu) has it: the X of least norm where there are several. A, B and X stay on the device;
    /// read back are R of up to 256 columns, for its condition number, and what is outside A's range, for the residuals. If the rank is in doubt, R is read
    /// back, and its singular values and vectors decide.
    ///
    /// With [`LstsqOptions::ridge`] the factors are those of A with the rows of sqrt(ridge) I below it (of A^T, if A is wide), and B - A X is read back for the
    /// residuals. X is that of a matrix which differs from this one by rounding errors, relative to its norm. [`LstsqOptions::singular_values`] are those of A.
    ///
    /// With [`LstsqOptions::products`] or [`LstsqOptions::preconditioner`] A and B are read back too, because the iteration in double precision runs on the
    /// host; the reason in the report says so, and [`Counts::bytes_read_back`](crate::Counts::bytes_read_back) how much it is. R of f32 matrices comes
    /// from A on the device, of others from a copy that is uploaded. If that precision does not suffice, the log says so, and the solution is that of
    /// the native factorisation ([`Solver::Qr`](crate::Solver::Qr) or [`Solver::Svd`](crate::Solver::Svd) in the report).
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, LstsqOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let context = GpuContext::global()?;
    /// let a = GpuMatrix::upload(&context, &faer::mat![[2.0f32, 0.0, 0.0], [0.0, 1.0, 1.0]])?; // wide
    /// let fit = a.lstsq(&GpuMatrix::upload(&context, &faer::mat![[2.0f32], [2.0]])?, &LstsqOptions::default())?;
    /// assert!((fit.x.to_mat()? - faer::mat![[1.0], [1.0], [1.0]]).norm_max() < 1e-5 && fit.residuals[0] < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`qr`](Self::qr). [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) also if B does not have m rows, has an entry that is NaN or infinite, or is on another
    /// device, for a ridge that is negative or not finite, or above 2^372 (10^112) where the arithmetic is f32, and, if A is wide, for [`LstsqOptions::products`] and [`LstsqOptions::preconditioner`]; [`SvdError::Overflow`](crate::SvdError::Overflow) if a result exceeds its type.
    pub fn lstsq(&self, b: &GpuMatrix<T>, options: &LstsqOptions) -> Result<GpuLstsq<T>> {
        Ok(self.solved(b, options, false)?.values)
    }

    /// Like [`lstsq`](Self::lstsq), with a report of what ran and the seconds.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, Route, Solver, LstsqOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::Mat::<f32>::identity(100, 80))?;
    /// let report = a.lstsq_report(&a, &LstsqOptions::default())?;
    /// assert_eq!(report.route, Route::LeastSquares(Solver::Qr));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`lstsq`](Self::lstsq).
    pub fn lstsq_report(&self, b: &GpuMatrix<T>, options: &LstsqOptions) -> Result<SvdReport<GpuLstsq<T>>> {
        self.solved(b, options, true)
    }

    fn solved(&self, b: &GpuMatrix<T>, options: &LstsqOptions, timed: bool) -> Result<SvdReport<GpuLstsq<T>>> {
        let report = T::device_lstsq(&self.0, &b.0, options, timed)?;
        Ok(report.map(|DeviceFit { x, rank, residuals, singular_values }| GpuLstsq {
            x: GpuMatrix::of(x),
            rank,
            residuals,
            singular_values,
        }))
    }
}
