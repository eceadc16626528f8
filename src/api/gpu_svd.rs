//! The singular value decomposition of a matrix that is on the device.

use crate::{
    algo::svdvals::narrowed,
    api::{element::Element, gpu_matrix::GpuMatrix},
    base::error::Result,
    plan::{device::svd::DeviceSvd, options::SvdOptions, report::SvdReport},
};

/// A = U diag(s) V^H, the result of [`GpuMatrix::svd`]. U and V stay on the device. A is m x n.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{GpuContext, GpuMatrix, GpuSvd, SvdOptions};
/// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
/// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::mat![[0.0f32, 2.0], [3.0, 0.0], [0.0, 0.0]])?;
/// let GpuSvd { u, s, v, .. } = a.svd(&SvdOptions::default())?;
/// assert_eq!((u.nrows(), u.ncols(), s.len(), v.nrows(), v.ncols()), (3, 2, 2, 2, 2));
/// let u = u.to_mat()?; // a read-back
/// assert!((s[0] - 3.0).abs() < 1e-5 && (u[(1, 0)].abs() - 1.0).abs() < 1e-5);
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
pub struct GpuSvd<T: Element> {
    /// U, m x k: the left singular vectors are its columns. m x m with [`Vectors::Full`](crate::Vectors::Full), m x 0 with
    /// [`Vectors::Right`](crate::Vectors::Right).
    pub u: GpuMatrix<T::Scalar>,
    /// The k singular values, descending, on the host.
    pub s: Vec<T::Real>,
    /// V, n x k: the right singular vectors are its columns. n x n with [`Vectors::Full`](crate::Vectors::Full), n x 0 with
    /// [`Vectors::Left`](crate::Vectors::Left).
    pub v: GpuMatrix<T::Scalar>,
    /// max(||A v - s u||, ||A^H u - s v||) of each triple, measured, on the host, with [`SvdOptions::accuracy`].
    pub residuals: Option<Vec<T::Real>>,
}

impl<T: Element> GpuMatrix<T> {
    /// The singular value decomposition A = U diag(s) V^H. Of the options, those of [`SvdGpu`](crate::SvdGpu) hold, without
    /// [`Signs::Largest`](crate::Signs). U and V stay on the device; of the matrix and of them nothing is copied to the host, only the bidiagonal.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = faer::Mat::<f32>::from_fn(50, 30, |i, j| 1.0 / (1 + i + j) as f32);
    /// let svd = GpuMatrix::upload(&GpuContext::global()?, &a)?.svd(&SvdOptions::default().keep(3))?;
    /// let (u, v) = (svd.u.to_mat()?, svd.v.to_mat()?);
    /// let rest = a - u * faer::Mat::from_fn(3, 3, |i, j| if i == j { svd.s[i] } else { 0.0 }) * v.transpose();
    /// assert!(rest.norm_max() < 0.1);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals`](Self::svdvals). [`SvdError::TooLarge`](crate::SvdError::TooLarge) also if the device cannot hold the vectors, each matrix of them in one buffer;
    /// [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) for options that [`SvdGpu::svd_gpu_with`](crate::SvdGpu::svd_gpu_with) rejects, and for
    /// [`Signs::Largest`](crate::Signs).
    pub fn svd(&self, options: &SvdOptions) -> Result<GpuSvd<T>> {
        Ok(self.svd_reported(options, false)?.values)
    }

    /// Like [`svd`](Self::svd), with a report of what ran and the seconds of each stage.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::Mat::<f32>::identity(100, 80))?;
    /// let report = a.svd_report(&SvdOptions::default())?;
    /// assert_eq!((report.shape, report.values.s[79]), ((100, 80), 1.0));
    /// assert!(report.counts.bytes_read_back < 2000); // no vectors
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svd`](Self::svd).
    pub fn svd_report(&self, options: &SvdOptions) -> Result<SvdReport<GpuSvd<T>>> {
        self.svd_reported(options, true)
    }

    fn svd_reported(&self, options: &SvdOptions, timed: bool) -> Result<SvdReport<GpuSvd<T>>> {
        let report = T::device_svd(&self.0, options, timed)?;
        Ok(report.map(|DeviceSvd { u, s, v, residuals }| GpuSvd {
            u: GpuMatrix::of(u),
            s: narrowed(&s),
            v: GpuMatrix::of(v),
            residuals: residuals.as_deref().map(narrowed),
        }))
    }
}
