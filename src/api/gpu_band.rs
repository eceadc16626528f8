//! A band that stays on the device.

use std::marker::PhantomData;

use crate::{
    algo::bidiagonal::Bidiagonal,
    api::element::Element,
    base::error::Result,
    gpu::device::context::GpuContext,
    plan::{
        device::band::DeviceBand,
        options::{RunOptions, SvdOptions},
    },
    tile::band::Band,
};

/// A [`Band`] in a GPU's memory, as stages 2 and 3 take it. It comes from stage 1
/// ([`GpuMatrix::to_gpu_band`](crate::GpuMatrix::to_gpu_band)) or from an upload.
///
/// Entries are stored in the arithmetic type (f32 for f16 and bf16), scaled by a power of two that brings them near 1.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{GpuContext, GpuMatrix, RunOptions, Tuning};
/// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
/// let context = GpuContext::global()?;
/// let a = GpuMatrix::upload(&context, &faer::Mat::from_fn(60, 40, |i, j| ((i * j) as f32).sin()))?;
/// let narrow = Tuning::for_adapter::<f32>(&context, 40).tile_size(8).leaf(16);
/// let band = a.to_gpu_band(&RunOptions::default().tuning(narrow.clone()))?;
/// assert_eq!((band.n(), band.bandwidth()), (40, 8));
/// // Stage 2 by two tile widths, of one band that has stayed where it is.
/// let by = |tile_width| RunOptions::default().tuning(narrow.clone().tile_width(tile_width));
/// let (two, seven) = (band.band_to_bidiag(&by(2))?.svdvals()?, band.svdvals(&by(7).into())?);
/// assert!((two[0] - seven[0]).abs() < 1e-5 * two[0]);
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
pub struct GpuBand<T: Element>(pub(crate) DeviceBand, PhantomData<T>);

impl<T: Element> GpuBand<T> {
    /// The typed wrapper.
    pub(crate) fn of(band: DeviceBand) -> Self {
        GpuBand(band, PhantomData)
    }

    /// Copies a band to the device.
    ///
    /// ```
    /// use svdvals_gpu::{Band, GpuBand, GpuContext};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let band = Band::from_fn(100, 2, |i, j| (i + j) as f32)?;
    /// assert_eq!(GpuBand::upload(&GpuContext::global()?, &band)?.download()?, band);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`GpuMatrix::upload`](crate::GpuMatrix::upload).
    pub fn upload(context: &GpuContext, band: &Band<T>) -> Result<Self> {
        Ok(GpuBand::of(T::upload_band(context, band)?))
    }

    /// Order n.
    ///
    /// ```
    /// use svdvals_gpu::{Band, GpuBand, GpuContext};
    /// if let Ok(context) = GpuContext::global() {
    ///     let band = GpuBand::upload(&context, &Band::from_fn(50, 4, |_, _| 1.0f32)?)?;
    ///     assert_eq!(band.n(), 50);
    /// }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn n(&self) -> usize {
        self.0.n
    }

    /// Number of superdiagonals; at most n - 1.
    ///
    /// ```
    /// use svdvals_gpu::{Band, GpuBand, GpuContext};
    /// if let Ok(context) = GpuContext::global() {
    ///     let band = GpuBand::upload(&context, &Band::from_fn(50, 4, |_, _| 1.0f32)?)?;
    ///     assert_eq!(band.bandwidth(), 4);
    /// }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn bandwidth(&self) -> usize {
        self.0.bandwidth
    }

    /// The device that the band is on.
    ///
    /// ```
    /// use svdvals_gpu::{Band, GpuBand, GpuContext};
    /// if let Ok(context) = GpuContext::global() {
    ///     let band = GpuBand::upload(&context, &Band::from_fn(50, 4, |_, _| 1.0f32)?)?;
    ///     println!("on {}", band.context().adapter_name());
    /// }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn context(&self) -> &GpuContext {
        &self.0.context
    }

    /// Reads the band back. Half types are rounded to nearest.
    ///
    /// ```
    /// use svdvals_gpu::{Band, GpuBand, GpuContext};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let band = GpuBand::upload(&GpuContext::global()?, &Band::from_fn(9, 1, |i, _| i as f32)?)?;
    /// assert_eq!((band.n(), band.bandwidth(), band.download()?.get(7, 8)), (9, 1, 7.0));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::Overflow`](crate::SvdError::Overflow) if an entry is beyond the type's range; else as
    /// [`GpuMatrix::to_mat`](crate::GpuMatrix::to_mat).
    pub fn download(&self) -> Result<Band<T>> {
        T::download_band(&self.0)
    }

    /// Stage 2 (see [`Band::band_to_bidiag`]) on the device. The bidiagonal is read back, and the band is unchanged.
    ///
    /// ```
    /// use svdvals_gpu::{Band, GpuBand, GpuContext, RunOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let band = GpuBand::upload(&GpuContext::global()?, &Band::from_fn(50, 6, |i, j| 1.0 / (1 + i + j) as f32)?)?;
    /// assert_eq!(band.band_to_bidiag(&RunOptions::default())?.superdiagonal().len(), 49);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`GpuMatrix::to_band`](crate::GpuMatrix::to_band).
    pub fn band_to_bidiag(&self, options: &RunOptions) -> Result<Bidiagonal<T::Real>> {
        T::device_band_to_bidiag(&self.0, options)
    }

    /// Stages 2 and 3: the n singular values, descending, or the first of them that [`keep`](SvdOptions::keep) and
    /// [`tolerance`](SvdOptions::tolerance) leave.
    ///
    /// ```
    /// use svdvals_gpu::{Band, GpuBand, GpuContext, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let band = GpuBand::upload(&GpuContext::global()?, &Band::from_fn(3, 2, |i, j| if i == j { (1 + i) as f32 } else { 0.0 })?)?;
    /// assert_eq!(band.svdvals(&SvdOptions::default())?, [3.0, 2.0, 1.0]);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`GpuMatrix::svdvals`](crate::GpuMatrix::svdvals).
    pub fn svdvals(&self, options: &SvdOptions) -> Result<Vec<T::Real>> {
        T::svdvals_of_device_band(&self.0, options)
    }
}

impl<T: Element> std::fmt::Debug for GpuBand<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let DeviceBand { n, bandwidth, context, .. } = &self.0;
        write!(f, "GpuBand<{}>(order {n}, {bandwidth} superdiagonals, on {})", T::NAME, context.adapter_name())
    }
}
