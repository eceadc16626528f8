//! Stage 2 of a band in host memory.

use faer::Mat;

use crate::{
    algo::bidiagonal::Bidiagonal,
    api::element::Element,
    base::error::Result,
    plan::{
        factors::Factors,
        options::{RunOptions, SvdOptions},
    },
    tile::band::Band,
};

impl<T: Element> Band<T> {
    /// Stage 2: B = Q2 C P2^H with C real upper bidiagonal, which has B's singular values. Its entries are non-negative.
    ///
    /// Successive band reduction by bulge chasing (bulge-chasing paper, section III), [`Tuning::tile_width`](crate::Tuning)
    /// superdiagonals at a time.
    ///
    /// ```
    /// use svdvals_gpu::{Backend, Band, RunOptions, Tuning};
    /// let band = Band::from_fn(50, 6, |i, j| 1.0 / (1 + i + j) as f64)?;
    /// let two_at_a_time = RunOptions::default().backend(Backend::Cpu).tuning(Tuning::for_cpu::<f64>(50).tile_width(2));
    /// let c = band.band_to_bidiag(&two_at_a_time)?;
    /// assert_eq!((c.diagonal().len(), c.superdiagonal().len()), (50, 49));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals_gpu_with`](crate::SvdValsGpu::svdvals_gpu_with).
    pub fn band_to_bidiag(&self, options: &RunOptions) -> Result<Bidiagonal<T::Real>> {
        T::band_to_bidiag(self, options)
    }

    /// The decomposition B = U diag(s) V^H of the n x n band, with the singular values that [`SvdOptions::keep`] and
    /// [`SvdOptions::tolerance`] leave: `(u, s, v)`, U and V n x k. V is transformed back through stage 2 alone, and U comes from B V. It takes
    /// 8 n^2 k operations beside those of the values and of the left vectors' orthogonality.
    ///
    /// ```
    /// use svdvals_gpu::{Band, SvdOptions};
    /// let band = Band::from_fn(60, 4, |i, j| 1.0 / (1 + j - i) as f64)?;
    /// let (u, s, v) = band.svd(&SvdOptions::default().keep(10))?;
    /// assert_eq!((u.shape(), s.len(), v.shape()), ((60, 10), 10, (60, 10)));
    /// let first: f64 = (0..5).map(|j| band.get(0, j) * v[(j, 0)]).sum(); // row 0 of B v_0
    /// assert!((first - s[0] * u[(0, 0)]).abs() < 1e-13);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`SvdGpu::svd_gpu_with`](crate::SvdGpu::svd_gpu_with).
    #[allow(clippy::type_complexity, reason = "three factors, as of Bidiagonal::svd")]
    pub fn svd(&self, options: &SvdOptions) -> Result<(Mat<T::Scalar>, Vec<T::Real>, Mat<T::Scalar>)> {
        let Factors { u, s, v, .. } = T::svd_of_band(self, options)?;
        Ok((u, s, v))
    }
}
