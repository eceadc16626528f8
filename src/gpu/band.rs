//! The stages of what is on the device: from a [`GpuMatrix`] to its singular values, and by way of a band that stays there.

use num_traits::Float;
use pollster::block_on;
use wgpu::{Buffer, BufferUsages};

use super::{
    context::{GpuContext, Waits},
    kernels::GpuKernels,
    matrix::{GpuMatrix, check_options},
    storage::{Banded, fitting_bytes, required_band_bytes},
    stream::{Manner, Stream, buffer},
};
use crate::{
    band::Band,
    bidiagonal::Bidiagonal,
    error::Result,
    options::{HalfStorage, SvdOptions, Tuning},
    progress::{Stage, Watch},
    report::{Clock, SvdReport},
    scalar::{Element, Scalar},
    scale::scale_for,
    solve::{Solve, on_gpu},
    stages::{bidiagonal_of, overflow_of_band, packed_band_of},
};

/// A [`Band`] in a GPU's memory: what stage 1 leaves there ([`GpuMatrix::to_gpu_band`]), or one that was uploaded, as stages 2 and 3 take it.
///
/// Entries are held in the type that arithmetic is done in (f16 and bf16 in f32), times a power of two that brings them near 1.
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
    context: GpuContext,
    /// `scale` times B in the places of [`Band::entries`].
    entries: Buffer,
    n: usize,
    bandwidth: usize,
    scale: T::Real,
}

impl<T: Element> GpuMatrix<T> {
    /// All min(m, n) singular values, descending: every stage where the matrix is, so that only the bidiagonal, or its values, are read back.
    ///
    /// The values are, to the last bit, those of [`svdvals_gpu_with`](crate::SvdValsGpu::svdvals_gpu_with) for the same matrix in the same
    /// memory order, with the same options and [`Backend::Gpu`](crate::Backend::Gpu).
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::mat![[3.0f32, 0.0], [4.0, 5.0]])?;
    /// let s = a.svdvals(&SvdOptions::default())?;
    /// assert!((s[0] - 45f32.sqrt()).abs() < 1e-5 && (s[1] - 5f32.sqrt()).abs() < 1e-5);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`to_band`](Self::to_band), and [`SvdError::Overflow`](crate::SvdError::Overflow).
    pub fn svdvals(&self, options: &SvdOptions) -> Result<Vec<T::Real>> {
        Ok(self.report(options, false)?.values)
    }

    /// As [`svdvals`](Self::svdvals), with what ran and the seconds of each stage; those of `upload` are of the scaled copy that the
    /// stages work on.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::Mat::<f32>::identity(100, 80))?;
    /// let report = a.svdvals_report(&SvdOptions::default())?;
    /// assert_eq!((report.shape, report.values[79]), ((100, 80), 1.0));
    /// assert!(report.counts.bytes_uploaded < 100); // no matrix
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`svdvals`](Self::svdvals).
    pub fn svdvals_report(&self, options: &SvdOptions) -> Result<SvdReport<Vec<T::Real>>> {
        self.report(options, true)
    }

    fn report(&self, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<T::Real>>> {
        check_options(self.context(), options)?;
        options.on_threads(|| match options.half_storage {
            HalfStorage::Single => self.report_in::<T::Scalar>(options, timed),
            HalfStorage::Half => self.report_in::<T::Compact>(options, timed),
        })
    }

    fn report_in<S>(&self, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<T::Real>>>
    where
        S: Element<Real = T::Real, Scalar = T::Scalar>,
    {
        let (clock, start) = (Clock::new(timed), Watch::start(options));
        let (a, tuning) = self.prepared::<S>(options)?;
        let scale = self.scale::<S>()?;
        let seconds = clock.seconds();
        let solve = Solve::<T, _> { a, scale, options, timed, start };
        let run = on_gpu::<T, S, _>(&solve, self.context(), tuning, "the matrix is on this GPU".into(), Waits::Blocking);
        let mut report = block_on(run)?;
        report.shape = (self.nrows(), self.ncols());
        report.seconds.scale = seconds;
        report.seconds.total = clock.seconds();
        Ok(report)
    }

    /// Stage 1 as by [`to_band`](Self::to_band), of which the band stays on the device.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{GpuContext, GpuMatrix, SvdOptions};
    /// # let Ok(_) = GpuContext::global() else { return Ok::<(), svdvals_gpu::SvdError>(()) };
    /// let a = GpuMatrix::upload(&GpuContext::global()?, &faer::Mat::from_fn(60, 40, |i, j| ((i * j) as f32).sin()))?;
    /// let options = SvdOptions::default();
    /// assert_eq!(a.to_gpu_band(&options)?.download()?, a.to_band(&options)?);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`to_band`](Self::to_band).
    pub fn to_gpu_band(&self, options: &SvdOptions) -> Result<GpuBand<T::Scalar>> {
        check_options(self.context(), options)?;
        match options.half_storage {
            HalfStorage::Single => self.gpu_band_in::<T::Scalar>(options),
            HalfStorage::Half => self.gpu_band_in::<T::Compact>(options),
        }
    }

    fn gpu_band_in<S: Element<Real = T::Real, Scalar = T::Scalar>>(&self, options: &SvdOptions) -> Result<GpuBand<T::Scalar>> {
        let start = Watch::start(options);
        let (lines, tuning) = self.prepared::<S>(options)?;
        let scale = self.scale::<S>()?;
        let watch = Watch::of_stage_1::<S>(options, start, lines.size(), &tuning)?;
        let kernels = GpuKernels::<S>::running(self.context(), &tuning, Manner { watch: watch.clone(), ..Manner::default() })?;
        let bandwidth = tuning.bandwidth(lines.size().1);
        watch.begin(Stage::ToBand)?;
        let packed = packed_band_of(&kernels, kernels.adopt(&lines, scale)?, lines.size(), &tuning)?;
        let entries = kernels.unpacked(&packed, bandwidth)?;
        block_on(kernels.stream.finish())?;
        watch.end();
        Ok(GpuBand { context: self.context().clone(), entries, n: lines.size().1, bandwidth, scale })
    }
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
    /// As [`GpuMatrix::upload`].
    pub fn upload(context: &GpuContext, band: &Band<T>) -> Result<Self> {
        context.require::<T, T::Scalar>()?;
        let (n, bandwidth, from) = (band.n(), band.bandwidth(), band.entries());
        let bytes = fitting_bytes::<T::Scalar>(context, "the band", Some(from.len()))?;
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC;
        let entries = buffer(context, "the band", bytes, usage)?;
        // Whatever it will be stored as.
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

    /// Reads the band back; half types are rounded to nearest.
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
    /// [`SvdError::Overflow`](crate::SvdError::Overflow) where an entry is beyond the type's range; else as [`GpuMatrix::to_mat`].
    pub fn download(&self) -> Result<Band<T>> {
        let entries: Vec<T::Scalar> = Stream::new(&self.context)?.read_back_now(&self.entries, self.n * (self.bandwidth + 1))?;
        let unscale = Float::recip(self.scale);
        let band = Band::from_entries(self.n, self.bandwidth, &entries, |x| T::narrow(x.times(unscale)));
        band.map_err(overflow_of_band::<T::Real>)
    }

    /// Stage 2 (see [`Band::band_to_bidiag`]) on the device; the bidiagonal comes back, and the band stays as it is.
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
    /// As [`GpuMatrix::to_band`].
    pub fn band_to_bidiag(&self, options: &SvdOptions) -> Result<Bidiagonal<T::Real>> {
        check_options(&self.context, options)?;
        match options.half_storage {
            HalfStorage::Single => self.bidiagonal_in::<T::Scalar>(options),
            HalfStorage::Half => self.bidiagonal_in::<T::Compact>(options),
        }
    }

    fn bidiagonal_in<S: Element<Real = T::Real, Scalar = T::Scalar>>(&self, options: &SvdOptions) -> Result<Bidiagonal<T::Real>> {
        let (size, start) = ((self.n, self.bandwidth), Watch::start(options));
        let watched = |tuning: &Tuning| Watch::of_band::<S>(options, start, size, tuning, false);
        let (kernels, band, tuning, watch) = self.prepared::<S>(options, watched)?;
        watch.begin(Stage::BandToBidiag)?;
        let bidiagonal = bidiagonal_of(&kernels, band, size, self.scale, &tuning)?;
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
    /// As [`GpuMatrix::svdvals`].
    pub fn svdvals(&self, options: &SvdOptions) -> Result<Vec<T::Real>> {
        check_options(&self.context, options)?;
        options.on_threads(|| match options.half_storage {
            HalfStorage::Single => self.values_in::<T::Scalar>(options),
            HalfStorage::Half => self.values_in::<T::Compact>(options),
        })
    }

    fn values_in<S: Element<Real = T::Real, Scalar = T::Scalar>>(&self, options: &SvdOptions) -> Result<Vec<T::Real>> {
        let (size, start) = ((self.n, self.bandwidth), Watch::start(options));
        let watched = |tuning: &Tuning| Watch::of_band::<S>(options, start, size, tuning, true);
        let (kernels, band, tuning, watch) = self.prepared::<S>(options, watched)?;
        let solve = Solve::<T, _> { a: (), scale: self.scale, options, timed: false, start };
        Ok(block_on(solve.run_on_band(&kernels, band, size, &tuning, &watch))?.0)
    }

    /// A copy of the band, stored as `S`, with room for the bulges of these options' reduction steps.
    fn prepared<S>(
        &self,
        options: &SvdOptions,
        watch: impl FnOnce(&Tuning) -> Result<Watch>,
    ) -> Result<(GpuKernels<S>, Banded<S>, Tuning, Watch)>
    where
        S: Element<Real = T::Real, Scalar = T::Scalar>,
    {
        let tuning = options.tuning_for_adapter::<S>(&self.context, self.n)?;
        required_band_bytes::<S>(&self.context, self.n, self.bandwidth, &tuning)?;
        let watch = watch(&tuning)?;
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
