//! A band that stays on the device.

use num_traits::Float;
use pollster::block_on;
use wgpu::{Buffer, BufferUsages};

use crate::{
    algo::{
        bidiagonal::Bidiagonal,
        count::{stage_2_flops, stage_3_flops},
        svdvals::Driver,
    },
    api::{element::Element, gpu_matrix::check_options},
    base::{
        error::Result,
        number::{Number, Scalar, in_storage},
        pool::on_threads,
        scale::scale_for,
        watch::{Stage, Watch},
    },
    gpu::{
        device::{
            context::GpuContext,
            stream::{Manner, Stream, buffer},
        },
        kernels::GpuKernels,
        limits::{fitting_bytes, required_band_bytes},
        storage::Banded,
    },
    plan::{
        gpu::bisects,
        options::SvdOptions,
        stages::{bidiagonal_of, overflow_of_band},
    },
    tile::{band::Band, tuning::Tuning},
};

/// A [`Band`] in a GPU's memory, as stages 2 and 3 take it. It comes from stage 1
/// ([`GpuMatrix::to_gpu_band`](crate::GpuMatrix::to_gpu_band)) or from an upload.
///
/// Entries are stored in the arithmetic type (f32 for f16 and bf16), scaled by a power of two that brings them near 1.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions, Tuning};
/// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
/// let context = GpuContext::global()?;
/// let a = GpuMatrix::upload(&context, &faer::Mat::from_fn(60, 40, |i, j| ((i * j) as f32).sin()))?;
/// let narrow = SvdOptions::default().tuning(Tuning::for_adapter::<f32>(&context, 40).tile_size(8).leaf(16));
/// let band = a.to_gpu_band(&narrow)?;
/// assert_eq!((band.n(), band.bandwidth()), (40, 8));
/// // Stage 2 by two tile widths, of one band that has stayed where it is.
/// let by = |tile_width| narrow.clone().tuning(narrow.tuning.clone().unwrap_or_else(|| unreachable!()).tile_width(tile_width));
/// let (two, seven) = (band.band_to_bidiag(&by(2))?.svdvals()?, band.svdvals(&by(7))?);
/// assert!((two[0] - seven[0]).abs() < 1e-5 * two[0]);
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
pub struct GpuBand<T: Element> {
    pub(crate) context: GpuContext,
    /// `scale` times B, in the layout of [`Band::entries`].
    pub(crate) entries: Buffer,
    pub(crate) n: usize,
    pub(crate) bandwidth: usize,
    pub(crate) scale: T::Real,
}

impl<T: Element> GpuBand<T> {
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
        context.require::<T, T::Scalar>()?;
        let (n, bandwidth, from) = (band.n(), band.bandwidth(), band.entries());
        let bytes = fitting_bytes::<T::Scalar>(context, "the band", Some(from.len()))?;
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC;
        let entries = buffer(context, "the band", bytes, usage)?;
        // The scale is valid for every storage type.
        let scale = scale_for::<T::Compact>(band.largest(), n, n);
        let stream = Stream::new(context)?;
        stream.upload(&entries, from.len(), |start, piece: &mut [T::Scalar]| {
            piece.iter_mut().zip(&from[start..]).for_each(|(to, x)| *to = x.widen().times(scale));
        })?;
        Ok(GpuBand { context: context.clone(), entries, n, bandwidth, scale })
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
        self.n
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
        self.bandwidth
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
        &self.context
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
        let entries: Vec<T::Scalar> = Stream::new(&self.context)?.read_back_now(&self.entries, self.n * (self.bandwidth + 1))?;
        let unscale = Float::recip(self.scale);
        let band = Band::from_entries(self.n, self.bandwidth, &entries, |x| T::narrow(x.times(unscale)));
        band.map_err(overflow_of_band::<T::Real>)
    }

    /// Stage 2 (see [`Band::band_to_bidiag`]) on the device. The bidiagonal is read back, and the band is unchanged.
    ///
    /// ```
    /// use svdvals_gpu::{Band, GpuBand, GpuContext, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let band = GpuBand::upload(&GpuContext::global()?, &Band::from_fn(50, 6, |i, j| 1.0 / (1 + i + j) as f32)?)?;
    /// assert_eq!(band.band_to_bidiag(&SvdOptions::default())?.superdiagonal().len(), 49);
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`GpuMatrix::to_band`](crate::GpuMatrix::to_band).
    pub fn band_to_bidiag(&self, options: &SvdOptions) -> Result<Bidiagonal<T::Real>> {
        check_options(&self.context, options)?;
        in_storage!(options.half_storage, T => self.bidiagonal_in::<S>(options))
    }

    fn bidiagonal_in<S: Number<Real = T::Real, Scalar = T::Scalar>>(&self, options: &SvdOptions) -> Result<Bidiagonal<T::Real>> {
        let (kernels, band, tuning, watch) = self.prepared::<S>(options, 0)?;
        watch.begin(Stage::BandToBidiag)?;
        let bidiagonal = bidiagonal_of(&kernels, band, (self.n, self.bandwidth), self.scale, &tuning)?;
        watch.end();
        Ok(bidiagonal)
    }

    /// Stages 2 and 3: all n singular values, descending.
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
        check_options(&self.context, options)?;
        on_threads(options.threads, || in_storage!(options.half_storage, T => self.values_in::<S>(options)))
    }

    fn values_in<S: Number<Real = T::Real, Scalar = T::Scalar>>(&self, options: &SvdOptions) -> Result<Vec<T::Real>> {
        let (kernels, band, tuning, watch) = self.prepared::<S>(options, stage_3_flops(self.n))?;
        let stage3 = (!bisects(&self.context, self.n, options.stage3)).then_some(options.stage3);
        let driver =
            Driver { kernels: &kernels, tuning: &tuning, watch: &watch, one_stage: false, stage3, timed: false, left: false };
        Ok(block_on(driver.svdvals_of_band(band, (self.n, self.bandwidth), self.scale))?.0)
    }

    /// A copy of the band, stored as `S`, with room for the bulges that these options' reduction steps create. The watch is that of a call
    /// that runs stage 2 and then `of_stage_3` flops of stage 3.
    fn prepared<S>(&self, options: &SvdOptions, of_stage_3: u64) -> Result<(GpuKernels<S>, Banded<S>, Tuning, Watch)>
    where
        S: Number<Real = T::Real, Scalar = T::Scalar>,
    {
        let listen = options.listen();
        let tuning = options.tuning_for_adapter::<S>(&self.context, self.n)?;
        required_band_bytes::<S>(&self.context, self.n, self.bandwidth, &tuning)?;
        let watch = Watch::new(&listen, || Ok([0, stage_2_flops::<S>(self.n, self.bandwidth, &tuning), of_stage_3, 0]))?;
        let kernels = GpuKernels::<S>::running(&self.context, &tuning, Manner { watch: watch.clone(), ..Manner::default() })?;
        let band = kernels.adopt_band(&self.entries, self.n, self.bandwidth, tuning.tile_width)?;
        Ok((kernels, band, tuning, watch))
    }
}

impl<T: Element> std::fmt::Debug for GpuBand<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let GpuBand { n, bandwidth, .. } = self;
        write!(f, "GpuBand<{}>(order {n}, {bandwidth} superdiagonals, on {})", T::NAME, self.context.adapter_name())
    }
}
