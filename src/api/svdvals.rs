//! The trait that gives matrices their singular values.

use crate::{
    api::element::Element,
    base::{error::Result, number::Number},
    plan::{
        drivers::Drivers,
        options::{RunOptions, SvdOptions},
        report::SvdReport,
    },
    tile::band::Band,
};

/// Singular values of a matrix, on a GPU or on the CPU.
///
/// Implemented for `ndarray::ArrayBase<S, Ix2>` (owned, view, shared; any strides, either memory order; feature `ndarray`) and for
/// `faer::{Mat, MatRef, MatMut}` (feature `faer`), over the types of [`Element`](crate::Element). Sealed.
///
/// ```
/// # #[cfg(feature = "ndarray")] {
/// use ndarray::array;
/// use svdvals_gpu::SvdValsGpu;
/// let a = array![[3.0f64, 0.0], [4.0, 5.0]];
/// let s = a.svdvals_gpu()?;
/// assert!((s[0] - 45f64.sqrt()).abs() < 1e-14 && (s[1] - 5f64.sqrt()).abs() < 1e-14);
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
pub trait SvdValsGpu: sealed::Matrix<<Self as SvdValsGpu>::Element, <Self as SvdValsGpu>::Values> {
    /// The element type.
    type Element: Element;
    /// The vector of real numbers in the matrix's library: `ndarray::Array1` or `faer::Col`.
    type Values;

    /// All min(m, n) singular values, descending, with default options.
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use svdvals_gpu::SvdValsGpu;
    /// let a = ndarray::array![[3.0, 0.0, 0.0], [0.0, -4.0, 0.0]];
    /// assert_eq!(a.svdvals_gpu()?, ndarray::array![4.0, 3.0]);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals_gpu_with`](Self::svdvals_gpu_with).
    fn svdvals_gpu(&self) -> Result<Self::Values> {
        self.svdvals_gpu_with(&SvdOptions::default())
    }

    /// The min(m, n) singular values, descending, or the first of them that [`keep`](SvdOptions::keep) and
    /// [`tolerance`](SvdOptions::tolerance) leave.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{Backend, SvdOptions, SvdValsGpu};
    /// let a = faer::mat![[1.0f32, 2.0], [2.0, 4.0], [3.0, 6.0]]; // rank one
    /// let s = a.svdvals_gpu_with(&SvdOptions::default().backend(Backend::Cpu))?;
    /// assert!((s[0] - 70f32.sqrt()).abs() < 1e-5 && s[1] < 1e-6);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::NonFinite`](crate::SvdError::NonFinite) for a NaN or an infinity, with its row and column; [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) for a hyperparameter or a tolerance out of
    /// range; [`SvdError::Overflow`](crate::SvdError::Overflow) if entries are so large that a singular value is beyond the type's range. With [`Backend::Gpu`](crate::Backend::Gpu) also
    /// [`SvdError::NoAdapter`](crate::SvdError::NoAdapter), [`SvdError::UnsupportedElement`](crate::SvdError::UnsupportedElement), [`SvdError::TooLarge`](crate::SvdError::TooLarge), and the errors that a device reports while it
    /// runs ([`SvdError::DeviceLost`](crate::SvdError::DeviceLost), [`SvdError::OutOfMemory`](crate::SvdError::OutOfMemory), [`SvdError::Gpu`](crate::SvdError::Gpu)).
    fn svdvals_gpu_with(&self, options: &SvdOptions) -> Result<Self::Values> {
        Ok(Self::collect(Self::Element::svdvals(self.as_faer(), options, false)?.values))
    }

    /// Like [`svdvals_gpu_with`](Self::svdvals_gpu_with), with a report: what ran, why, and the seconds of each stage.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{Backend, SvdOptions, SvdValsGpu};
    /// let a = faer::Mat::from_fn(200, 100, |i, j| 1.0 / (1 + i + j) as f64);
    /// let report = a.svdvals_gpu_report(&SvdOptions::default())?;
    /// assert_eq!((report.values.nrows(), report.backend), (100, Backend::Cpu));
    /// println!("{report}"); // "200 x 100, held as f64, on the CPU (...)", and the seconds
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals_gpu_with`](Self::svdvals_gpu_with).
    fn svdvals_gpu_report(&self, options: &SvdOptions) -> Result<SvdReport<Self::Values>> {
        Ok(Self::Element::svdvals(self.as_faer(), options, true)?.map(Self::collect))
    }

    /// [`svdvals_gpu_with`](Self::svdvals_gpu_with) for a task that must not block. The task is not polled while a GPU computes. The CPU
    /// computes in the rayon pool, from a copy of the matrix. (The polling thread does, or waits for, that copy, the search for NaN, the
    /// compilation of the shaders on a first call, and stage 3 after a GPU if the host runs it.) The future may be sent to another thread,
    /// and does nothing before it is polled. If it is dropped, a GPU finishes the submitted work, and the CPU its call, unless a
    /// [`CancelFlag`](crate::CancelFlag) stops it.
    ///
    /// In a browser this is the only way to use the GPU. There are no threads, so a computation on the CPU blocks: call it from a worker.
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use svdvals_gpu::{SvdError, SvdOptions, SvdValsGpu};
    /// async fn norm(a: &ndarray::Array2<f32>) -> Result<f32, SvdError> {
    ///     Ok(a.svdvals_gpu_async(&SvdOptions::default()).await?[0])
    /// }
    /// let a = ndarray::array![[3.0f32, 0.0], [0.0, 4.0]];
    /// assert_eq!(pollster::block_on(norm(&a))?, 4.0); // or whatever runs your tasks
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals_gpu_with`](Self::svdvals_gpu_with).
    fn svdvals_gpu_async<'a>(&'a self, options: &'a SvdOptions) -> impl Future<Output = Result<Self::Values>> + Send + 'a {
        let values = Self::Element::svdvals_async(self.as_faer(), options, false);
        async { Ok(Self::collect(values.await?.values)) }
    }

    /// [`svdvals_gpu_report`](Self::svdvals_gpu_report) for a task that must not block; see
    /// [`svdvals_gpu_async`](Self::svdvals_gpu_async).
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{SvdError, SvdOptions, SvdValsGpu};
    /// async fn seconds(a: &faer::Mat<f32>) -> Result<f64, SvdError> {
    ///     Ok(a.svdvals_gpu_report_async(&SvdOptions::default()).await?.seconds.total)
    /// }
    /// println!("{} s", pollster::block_on(seconds(&faer::Mat::identity(20, 20)))?);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals_gpu_with`](Self::svdvals_gpu_with).
    fn svdvals_gpu_report_async<'a>(
        &'a self,
        options: &'a SvdOptions,
    ) -> impl Future<Output = Result<SvdReport<Self::Values>>> + Send + 'a {
        let report = Self::Element::svdvals_async(self.as_faer(), options, true);
        async { Ok(report.await?.map(Self::collect)) }
    }

    /// Stage 1: an upper band matrix of order min(m, n) that has A's singular values. It has
    /// [`Tuning::tile_size`](crate::Tuning::tile_size) superdiagonals.
    ///
    /// A = Q1 B P1^H with Q1 and P1 unitary (not kept). For a wide matrix, B is the band of its transpose. The band of a half-precision
    /// matrix is f32, so that it loses no accuracy. (Unified-kernels paper, section 3.)
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use ndarray::Array2;
    /// use svdvals_gpu::{RunOptions, SvdValsGpu, Tuning};
    /// let a = Array2::from_shape_fn((60, 40), |(i, j)| ((i * j) as f64).sin());
    /// let options = RunOptions::default().tuning(Tuning::for_cpu::<f64>(40).tile_size(8).leaf(16));
    /// let band = a.to_band(&options)?;
    /// assert_eq!((band.n(), band.bandwidth()), (40, 8));
    /// let s = band.band_to_bidiag(&options)?.svdvals()?;
    /// assert!((s[0] - a.svdvals_gpu()?[0]).abs() < 1e-12);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals_gpu_with`](Self::svdvals_gpu_with).
    fn to_band(&self, options: &RunOptions) -> Result<Band<<Self::Element as Number>::Scalar>> {
        Self::Element::to_band(self.as_faer(), options)
    }
}

pub(crate) mod sealed {
    use crate::api::element::Element;
    use faer::MatRef;

    /// What a front end implements. Other crates cannot name it, so the public trait can be extended, and its methods are never in scope.
    pub trait Matrix<T: Element, V> {
        /// The matrix as a faer view.
        fn as_faer(&self) -> MatRef<'_, T>;
        /// The values as a vector of the matrix's library.
        fn collect(values: Vec<T::Real>) -> V;
    }
}
