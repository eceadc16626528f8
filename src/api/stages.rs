//! Stage 2 of a band in host memory.

use crate::{
    algo::bidiagonal::Bidiagonal, api::element::Element, base::error::Result, plan::options::SvdOptions, tile::band::Band,
};

impl<T: Element> Band<T> {
    /// Stage 2: B = Q2 C P2^H with C real upper bidiagonal, which has B's singular values. Its entries are non-negative.
    ///
    /// Successive band reduction by bulge chasing (bulge-chasing paper, section III), [`Tuning::tile_width`](crate::Tuning)
    /// superdiagonals at a time.
    ///
    /// ```
    /// use svdvals_gpu::{Backend, Band, SvdOptions, Tuning};
    /// let band = Band::from_fn(50, 6, |i, j| 1.0 / (1 + i + j) as f64)?;
    /// let two_at_a_time = SvdOptions::default().backend(Backend::Cpu).tuning(Tuning::for_cpu::<f64>(50).tile_width(2));
    /// let c = band.band_to_bidiag(&two_at_a_time)?;
    /// assert_eq!((c.diagonal().len(), c.superdiagonal().len()), (50, 49));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals_gpu_with`](crate::SvdValsGpu::svdvals_gpu_with).
    pub fn band_to_bidiag(&self, options: &SvdOptions) -> Result<Bidiagonal<T::Real>> {
        T::band_to_bidiag(self, options)
    }
}
