//! The singular value decomposition of a matrix that is on the device.

use pollster::block_on;

use crate::{
    api::{
        element::Element,
        gpu_matrix::{GpuMatrix, check_options},
    },
    base::{
        clock::Clock,
        error::{Result, SvdError},
        number::{HalfStorage, RealElement, Scalar},
        pool::on_threads,
    },
    gpu::{device::context::Waits, matrix::DeviceMatrix, storage::Dense},
    plan::{
        backend::OnGpu,
        gpu::{Asked, Needed, OnDevice, svd_on_gpu},
        options::{Signs, SvdOptions, Vectors},
        report::SvdReport,
        svd::needed,
    },
    tile::kernels::TileKernels,
};

/// A = U diag(s) V^H, the result of [`GpuMatrix::svd`]. U and V stay on the device. A is m x n.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{GpuContext, GpuMatrix, GpuSvd, SvdOptions};
/// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
/// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::mat![[0.0f32, 2.0], [3.0, 0.0], [0.0, 0.0]])?;
/// let GpuSvd { u, s, v } = a.svd(&SvdOptions::default())?;
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
    /// As [`svdvals`](Self::svdvals). [`SvdError::TooLarge`] also if the device cannot hold the vectors, each matrix of them in one buffer;
    /// [`SvdError::InvalidOption`] for options that [`SvdGpu::svd_gpu_with`](crate::SvdGpu::svd_gpu_with) rejects, and for
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
        check_options(self.context(), options)?;
        options.check_svd()?;
        if options.signs == Signs::Largest {
            return Err(SvdError::invalid("signs", "Signs::Largest, but the vectors stay on the device"));
        }
        if options.half_storage == HalfStorage::Half {
            return Err(SvdError::invalid("half_storage", "singular vectors need HalfStorage::Single"));
        }
        on_threads(options.threads, || self.svd_in(options, timed))
    }

    /// [`svd`](Self::svd) with the matrix stored in its arithmetic type.
    fn svd_in(&self, options: &SvdOptions, timed: bool) -> Result<SvdReport<GpuSvd<T>>> {
        let (clock, listen) = (Clock::new(timed), options.listen());
        let (a, tuning) = self.prepared::<T::Scalar>(options)?;
        let (m, n) = (self.nrows(), self.ncols());
        let full = options.vectors == Vectors::Full;
        let transposed = m < n;
        let scale = self.0.scale::<T::Scalar>()?;
        let seconds = clock.seconds();
        let context = self.context().clone();
        let on = OnGpu { context: context.clone(), tuning, reason: "the matrix is on this GPU".into() };
        let count = |values: &[T::Real]| options.kept(values);
        let (left_is_needed, right_is_needed) = needed(options.vectors, transposed);
        let of = Needed { count: &count, left: left_is_needed, full };
        let mut ran = Default::default();
        let asked = Asked { options, listen, timed };
        let run = svd_on_gpu::<T, T::Scalar, _>(a, scale, asked, on, Waits::Blocking, Some(of));
        let mut report = block_on(run)?.try_map(|OnDevice { mut values, right, left, kernels, watch }| {
            values.truncate(right.as_ref().map_or(0, |right| right.size.1));
            if left_is_needed && left.is_none() {
                return Err(SvdError::invalid("matrix", format!("{m} x {n}: the left vectors do not fit one buffer")));
            }
            // Those of the transpose are the conjugates of the other side's.
            let side = |of: Option<Dense<T::Scalar>>, is_needed: bool, rows: usize| {
                let of = match of.filter(|_| is_needed && m.min(n) > 0) {
                    Some(of) if transposed && T::Scalar::IS_COMPLEX => kernels.conjugated(&of)?,
                    Some(of) => of,
                    None if full && m.min(n) == 0 => {
                        kernels.upload(faer::Mat::<T::Scalar>::identity(rows, rows).as_ref(), one::<T>())?
                    }
                    None => kernels.room(rows, 0)?,
                };
                Ok(GpuMatrix(DeviceMatrix::from_dense(&context, of)?))
            };
            let (of_left, of_right) = if transposed { (n, m) } else { (m, n) };
            let (left, right) = (side(left, left_is_needed, of_left)?, side(right, right_is_needed, of_right)?);
            block_on(kernels.finish())?;
            watch.end();
            ran = (kernels.counts(), kernels.kernel_seconds());
            let (u, v) = if transposed { (right, left) } else { (left, right) };
            Ok(GpuSvd { u, s: values, v })
        })?;
        (report.counts, report.kernel_seconds) = ran;
        report.shape = (m, n);
        report.seconds.scale = seconds;
        report.seconds.total = clock.seconds();
        Ok(report)
    }
}

/// The scale of a matrix that is copied as it is.
fn one<T: Element>() -> T::Real {
    RealElement::from_double(1.0)
}
