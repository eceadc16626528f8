//! The trait that gives matrices their singular value decomposition.

use crate::{
    api::svdvals::SvdValsGpu,
    base::error::Result,
    plan::{drivers::Drivers, options::SvdOptions, report::SvdReport},
};

/// Singular value decomposition of a matrix with its vectors, on a GPU or on the CPU.
///
/// ```text
/// A = U diag(s) V^H     A: m x n, U: m x k, s: k, V: n x k, k = min(m, n)
/// ```
///
/// The columns of U and V are orthonormal, and s is real, non-negative and descending. [`Vectors`](crate::Vectors) chooses full matrices or
/// one side alone. [`SvdOptions::keep`] and [`SvdOptions::tolerance`] make k smaller. Implemented for the matrices and the element types of
/// [`SvdValsGpu`]. U and V of `half::f16` and `half::bf16` are `f32`. Sealed.
///
/// | matrix | result | U | s | V |
/// | --- | --- | --- | --- | --- |
/// | `ndarray` | `ArraySvd` | `u`: m x k | `s` | `vt`: V^H, k x n |
/// | `faer` | `MatSvd` | `u`: m x k | `s` | `v`: V, n x k |
///
/// ```
/// # #[cfg(feature = "ndarray")] {
/// use ndarray::array;
/// use svdvals_gpu::SvdGpu;
/// let a = array![[3.0f64, 0.0], [4.0, 5.0], [0.0, 0.0]];
/// let svd = a.svd_gpu()?;
/// assert_eq!((svd.u.dim(), svd.s.len(), svd.vt.dim()), ((3, 2), 2, (2, 2)));
/// assert!((a - svd.reconstruct()?).iter().all(|x| x.abs() < 1e-13));
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
pub trait SvdGpu: SvdValsGpu + sealed::Decomposed<<Self as SvdValsGpu>::Element, <Self as SvdGpu>::Svd> {
    /// The decomposition in the matrix's library: `ArraySvd` for `ndarray`, `MatSvd` for `faer`.
    type Svd;

    /// The thin decomposition, with default options: U is m x k and V is n x k, k = min(m, n).
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::SvdGpu;
    /// let a = faer::mat![[0.0f64, 2.0, 0.0], [-3.0, 0.0, 0.0]];
    /// let svd = a.svd_gpu()?;
    /// assert_eq!((svd.u.shape(), svd.v.shape()), ((2, 2), (3, 2)));
    /// let a_v = &a * &svd.v; // the columns are s_j u_j
    /// assert!((0..2).all(|j| (a_v.col(j) - svd.s[j] * svd.u.col(j)).norm_l2() < 1e-13));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svd_gpu_with`](Self::svd_gpu_with).
    fn svd_gpu(&self) -> Result<Self::Svd> {
        self.svd_gpu_with(&SvdOptions::default())
    }

    /// The decomposition that `options` ask for ([`vectors`](SvdOptions::vectors), [`keep`](SvdOptions::keep),
    /// [`tolerance`](SvdOptions::tolerance), [`signs`](SvdOptions::signs)).
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use ndarray::Array2;
    /// use svdvals_gpu::{SvdGpu, SvdOptions, Vectors};
    /// let a = Array2::from_shape_fn((30, 20), |(i, j)| 1.0 / (1 + i + j) as f32);
    /// let svd = a.svd_gpu_with(&SvdOptions::default().keep(4))?; // the best approximation of rank 4
    /// assert_eq!((svd.u.dim(), svd.s.len(), svd.vt.dim()), ((30, 4), 4, (4, 20)));
    /// let svd = a.svd_gpu_with(&SvdOptions::default().vectors(Vectors::Full))?;
    /// assert_eq!((svd.u.dim(), svd.s.len(), svd.vt.dim()), ((30, 30), 20, (20, 20)));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`SvdValsGpu::svdvals_gpu_with`]. [`SvdError::InvalidOption`](crate::SvdError::InvalidOption) also for a tolerance outside 0 to 1,
    /// and for `keep` or `tolerance` together with [`Vectors::Full`](crate::Vectors::Full).
    fn svd_gpu_with(&self, options: &SvdOptions) -> Result<Self::Svd> {
        Ok(Self::collect_svd(Self::Element::svd(self.as_faer(), options, false)?.values))
    }

    /// Like [`svd_gpu_with`](Self::svd_gpu_with), with a report: what ran, why, and the seconds of each stage. The decomposition is
    /// [`SvdReport::values`].
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{SvdGpu, SvdOptions};
    /// let a = faer::Mat::from_fn(60, 40, |i, j| 1.0 / (1 + i + j) as f64);
    /// let report = a.svd_gpu_report(&SvdOptions::default())?;
    /// println!("{report}");
    /// assert_eq!((report.shape, report.values.u.shape()), ((60, 40), (60, 40)));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svd_gpu_with`](Self::svd_gpu_with).
    fn svd_gpu_report(&self, options: &SvdOptions) -> Result<SvdReport<Self::Svd>> {
        Ok(Self::Element::svd(self.as_faer(), options, true)?.map(Self::collect_svd))
    }

    /// [`svd_gpu_with`](Self::svd_gpu_with) for a task that must not block. What it does and where is described at
    /// [`SvdValsGpu::svdvals_gpu_async`]. After a GPU's reduction, rayon's global pool makes the plan of divide and conquer, whatever
    /// [`RunOptions::threads`](crate::RunOptions::threads) says.
    ///
    /// ```
    /// # #[cfg(feature = "ndarray")] {
    /// use ndarray::{Array2, array};
    /// use svdvals_gpu::{SvdError, SvdGpu, SvdOptions};
    /// async fn inverse(a: &Array2<f32>) -> Result<Array2<f32>, SvdError> {
    ///     a.svd_gpu_async(&SvdOptions::default()).await?.pinv(None)
    /// }
    /// let x = pollster::block_on(inverse(&array![[0.0f32, 2.0], [4.0, 0.0]]))?; // or whatever runs your tasks
    /// assert!((x - array![[0.0, 0.25], [0.5, 0.0]]).iter().all(|x| x.abs() < 1e-6));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svd_gpu_with`](Self::svd_gpu_with).
    fn svd_gpu_async<'a>(&'a self, options: &'a SvdOptions) -> impl Future<Output = Result<Self::Svd>> + Send + 'a {
        let factors = Self::Element::svd_async(self.as_faer(), options, false);
        async { Ok(Self::collect_svd(factors.await?.values)) }
    }

    /// [`svd_gpu_report`](Self::svd_gpu_report) for a task that must not block; see [`svd_gpu_async`](Self::svd_gpu_async).
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{SvdError, SvdGpu, SvdOptions};
    /// async fn seconds(a: &faer::Mat<f32>) -> Result<f64, SvdError> {
    ///     Ok(a.svd_gpu_report_async(&SvdOptions::default()).await?.seconds.total)
    /// }
    /// println!("{} s", pollster::block_on(seconds(&faer::Mat::identity(20, 20)))?);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svd_gpu_with`](Self::svd_gpu_with).
    fn svd_gpu_report_async<'a>(
        &'a self,
        options: &'a SvdOptions,
    ) -> impl Future<Output = Result<SvdReport<Self::Svd>>> + Send + 'a {
        let report = Self::Element::svd_async(self.as_faer(), options, true);
        async { Ok(report.await?.map(Self::collect_svd)) }
    }
}

pub(crate) mod sealed {
    use crate::{api::element::Element, plan::factors::Factors};

    /// What a front end implements, besides [`crate::api::svdvals::sealed::Matrix`].
    pub trait Decomposed<T: Element, D> {
        /// The factors as matrices of the matrix's library.
        fn collect_svd(factors: Factors<T::Scalar>) -> D;
    }
}
