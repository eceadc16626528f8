//! The trait that matrices get.

use crate::{
    api::element::Element,
    base::{error::Result, number::Number},
    plan::{options::SvdOptions, report::SvdReport},
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
    /// A vector of real numbers of the matrix's library: `ndarray::Array1` or `faer::Col`.
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

    /// All min(m, n) singular values, descending.
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
    /// [`SvdError::NonFinite`] for a NaN or an infinity, with its row and column; [`SvdError::InvalidOption`] for a hyperparameter
    /// outside its range; with [`Backend::Gpu`] [`SvdError::NoAdapter`], [`SvdError::UnsupportedElement`], [`SvdError::TooLarge`], and
    /// what a device may report while it runs ([`SvdError::DeviceLost`], [`SvdError::OutOfMemory`], [`SvdError::Gpu`]);
    /// [`SvdError::Overflow`] where entries are so near the end of their type's range that singular values are beyond it.
    fn svdvals_gpu_with(&self, options: &SvdOptions) -> Result<Self::Values> {
        Ok(Self::collect(Self::Element::svdvals(self.as_faer(), options, false)?.values))
    }

    /// As [`svdvals_gpu_with`](Self::svdvals_gpu_with), with what ran, why, and the seconds of each stage.
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

    /// [`svdvals_gpu_with`](Self::svdvals_gpu_with) for a task that must not block: while a GPU computes it is not polled, and what the CPU
    /// computes is computed in the rayon pool, from a copy of the matrix. (That copy, the search for NaN, the compilation of the shaders of
    /// a first call, and after a GPU stage 3 where the host does it, are the polling thread's, or it waits for them.) The future may be sent to
    /// another thread, and does nothing before it is polled. Where it is dropped, a GPU ends what was sent to it, and the CPU its work: a
    /// [`CancelFlag`](crate::CancelFlag) stops that.
    ///
    /// A browser's GPU can be reached by this alone. There are no threads in it, so that what the CPU computes blocks: call from a worker.
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

    /// Stage 1: an upper band matrix of order min(m, n), with [`Tuning::tile_size`](crate::Tuning::tile_size) superdiagonals, that has A's singular values.
    ///
    /// A = Q1 B P1^H with Q1 and P1 unitary (not kept); of a wide matrix, the band of its transpose. The band of a half-precision matrix
    /// is f32, so that nothing is lost in handing it over.
    /// (Unified-kernels paper, section 3.)
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use ndarray::Array2;
    /// use svdvals_gpu::{SvdOptions, SvdValsGpu, Tuning};
    /// let a = Array2::from_shape_fn((60, 40), |(i, j)| ((i * j) as f64).sin());
    /// let options = SvdOptions::default().tuning(Tuning::for_cpu::<f64>(40).tile_size(8).leaf(16));
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
    fn to_band(&self, options: &SvdOptions) -> Result<Band<<Self::Element as Number>::Scalar>> {
        Self::Element::to_band(self.as_faer(), options)
    }
}

pub(crate) mod sealed {
    use crate::api::element::Element;
    use faer::MatRef;

    /// What a front end supplies. Nobody else can name it, so the public trait is ours to extend, and its methods are never in scope.
    pub trait Matrix<T: Element, V> {
        /// The matrix, seen as faer sees one.
        fn as_faer(&self) -> MatRef<'_, T>;
        /// The values as the matrix's library holds a vector.
        fn collect(values: Vec<T::Real>) -> V;
    }
}
