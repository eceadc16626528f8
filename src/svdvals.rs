//! The trait that matrices get, and the driver: the algorithm, in order.

use std::{borrow::Cow, time::Instant};

use faer::MatRef;
use num_traits::Float;

use crate::{
    band::Band,
    band_to_bidiag::band_to_bidiag as reduce_band,
    bidiagonal::{Bidiagonal, Stage3},
    choose::{Choice, choose, choose_for_dense, fallback, too_small},
    cpu::{CpuKernels, bidiagonal_directly, tsqr},
    error::{Result, SvdError},
    gpu::{GpuContext, GpuKernels, required_band_bytes},
    kernels::{HeldBy, StageKernels, TileKernels},
    options::{Backend, HalfStorage, SvdOptions, Tuning},
    report::{Counts, StageSeconds, SvdReport},
    scalar::{Element, Re, RealElement},
    scale::{power_of_two_scale, scale_for, trimmed, upright},
    to_band::{to_band as reduce_dense, triangular_factor},
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
    /// # Errors
    /// As [`svdvals_gpu_with`](Self::svdvals_gpu_with).
    fn svdvals_gpu_report(&self, options: &SvdOptions) -> Result<SvdReport<Self::Values>> {
        Ok(Self::Element::svdvals(self.as_faer(), options, true)?.map(Self::collect))
    }

    /// Stage 1: an upper band matrix of order min(m, n), with [`Tuning::tile_size`] superdiagonals, that has A's singular values.
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
    fn to_band(&self, options: &SvdOptions) -> Result<Band<<Self::Element as Element>::Scalar>> {
        Self::Element::to_band(self.as_faer(), options)
    }
}

pub(crate) mod sealed {
    use crate::scalar::Element;
    use faer::MatRef;

    /// What a front end supplies. Nobody else can name it, so the public trait is ours to extend, and its methods are never in scope.
    pub trait Matrix<T: Element, V> {
        /// The matrix, seen as faer sees one.
        fn as_faer(&self) -> MatRef<'_, T>;
        /// The values as the matrix's library holds a vector.
        fn collect(values: Vec<T::Real>) -> V;
    }
}

/// The driver.
///
/// ```text
/// 0  scale            power of two, so that max|a_ij| is near 1
/// 1  to_band          A = Q1 B P1^H
/// 2  band_to_bidiag   B = Q2 C P2^H
/// 3  svdvals          singular values of C; unscale
/// ```
///
/// Unless `timed`, the report's seconds are zero: reading clocks takes longer than some small matrices do.
pub(crate) fn svdvals<T: Element>(a: MatRef<'_, T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<T::Real>>> {
    let a = trimmed(a);
    options.on_threads(|| match options.half_storage {
        HalfStorage::Single => svdvals_in::<T, T::Scalar>(a, options, timed),
        HalfStorage::Half => svdvals_in::<T, T::Compact>(a, options, timed),
    })
}

/// [`svdvals`] with the matrix stored as `S`.
fn svdvals_in<T, S>(a: MatRef<'_, T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<T::Real>>>
where
    T: Element,
    S: Element<Real = T::Real, Scalar = T::Scalar>,
{
    let (whole, mut clock) = (Clock::new(timed), Clock::new(timed));
    let choice = choose_for_dense::<T, S>(options, a)?;
    let device = options.stage3 == Stage3::Device;
    if let (true, Choice::Cpu(reason)) = (device, &choice) {
        return Err(SvdError::invalid("stage3", format!("Stage3::Device, but the CPU computes: {reason}")));
    }
    clock.restart();
    let solve = Solve { scale: power_of_two_scale::<T, S>(a)?, a: upright(a), options, timed };
    let (scan, shape) = (clock.seconds(), a.shape());
    let mut report = match choice {
        Choice::Cpu(reason) => on_cpu::<T, S>(&solve, reason)?,
        Choice::Gpu { context, tuning, reason } => match on_gpu::<T, S, _>(&solve, &context, tuning, reason) {
            Err(error) if options.backend == Backend::Auto && error.is_of_device() && !device => {
                on_cpu::<T, S>(&solve, fallback(&format!("the GPU failed: {error}")))?
            }
            result => result?,
        },
    };
    report.shape = shape;
    report.seconds.scale = scan;
    report.seconds.total = whole.seconds();
    Ok(report)
}

/// A matrix with m >= n, where it is before the call, for a backend to work on.
pub(crate) trait Source<K: TileKernels> {
    /// Rows and columns.
    fn shape(&self) -> (usize, usize);
    /// The matrix times a power of two, as the backend keeps one.
    fn upload(&self, kernels: &K, scale: Re<K::Storage>) -> Result<K::Dense>;
}

impl<T: HeldBy<K>, K: TileKernels> Source<K> for MatRef<'_, T> {
    fn shape(&self) -> (usize, usize) {
        MatRef::shape(self)
    }

    fn upload(&self, kernels: &K, scale: Re<T>) -> Result<K::Dense> {
        kernels.upload(*self, scale)
    }
}

/// A matrix with m >= n, the power of two that it is to be multiplied with, and what was asked for.
pub(crate) struct Solve<'a, T: Element, A = MatRef<'a, T>> {
    pub a: A,
    pub scale: Re<T>,
    pub options: &'a SvdOptions,
    pub timed: bool,
}

impl<T: Element, A> Solve<'_, T, A> {
    /// Stages 1 to 3 on one backend.
    fn run<K: TileKernels>(&self, kernels: &K, tuning: &Tuning) -> Result<(Vec<T::Real>, StageSeconds)>
    where
        T: HeldBy<K>,
        A: Source<K>,
    {
        let mut clock = Clock::new(self.timed);
        let mut seconds = StageSeconds::default();
        let (m, n) = self.a.shape();

        let mut a = self.a.upload(kernels, self.scale)?;
        seconds.upload = clock.lap(kernels)?;

        stage_one(kernels, &mut a, m, n, tuning)?;
        let bandwidth = tuning.bandwidth(n);
        let band = kernels.pack_band(a, n, bandwidth, tuning.tile_width)?;
        seconds.to_band = clock.lap(kernels)?;
        self.run_on_band(kernels, band, (n, bandwidth), tuning, clock, seconds)
    }

    /// Stages 2 and 3 of a scaled band, of this order and bandwidth, that the backend has.
    pub(crate) fn run_on_band<K: TileKernels>(
        &self,
        kernels: &K,
        mut band: K::Banded,
        (n, bandwidth): (usize, usize),
        tuning: &Tuning,
        mut clock: Clock,
        mut seconds: StageSeconds,
    ) -> Result<(Vec<T::Real>, StageSeconds)>
    where
        T: HeldBy<K>,
    {
        reduce_band(kernels, &mut band, n, bandwidth, tuning.tile_width)?;
        if self.timed {
            seconds.band_to_bidiag = clock.lap(kernels)?;
        }
        let values = match kernels.svdvals(&band, self.options.stage3)? {
            Some(mut values) => {
                values.sort_unstable_by(|x, y| y.total_cmp(x));
                unscaled(values, self.scale, "singular values")?
            }
            None => {
                let (diagonal, superdiagonal) = kernels.bidiagonal(band)?;
                seconds.band_to_bidiag += clock.lap(kernels)?;
                self.stage_three(diagonal, superdiagonal)?
            }
        };
        seconds.svdvals = clock.lap(kernels)?;
        Ok((values, seconds))
    }

    fn stage_three(&self, diagonal: Vec<f64>, superdiagonal: Vec<f64>) -> Result<Vec<T::Real>> {
        let values = Bidiagonal::new(diagonal, superdiagonal)?.svdvals_for::<T::Real>(self.options.stage3)?;
        unscaled(values, self.scale, "singular values")
    }
}

impl<T: Element> Solve<'_, T> {
    /// All of it on the CPU, for a matrix so small that a band between would cost more than it saves.
    fn run_small<S>(&self, kernels: &CpuKernels<S>) -> Result<(Vec<T::Real>, StageSeconds)>
    where
        S: Element<Real = T::Real, Scalar = T::Scalar>,
    {
        let mut clock = Clock::new(self.timed);
        let mut seconds = StageSeconds::default();
        let (m, n) = self.a.shape();
        let (diagonal, superdiagonal) = if qr_first(m, n) {
            let r = tsqr(self.a, self.scale)?;
            seconds.to_band = clock.lap(kernels)?;
            bidiagonal_directly(r.as_ref(), Re::<T>::from_double(1.0))?
        } else {
            bidiagonal_directly(self.a, self.scale)?
        };
        seconds.band_to_bidiag = clock.lap(kernels)?;
        let values = self.stage_three(diagonal, superdiagonal)?;
        seconds.svdvals = clock.lap(kernels)?;
        Ok((values, seconds))
    }
}

/// Whether a matrix is so tall that QR first needs fewer flops (Chan 1982, from m = 5/3 n on; LAPACK's gesdd takes 11/6).
fn qr_first(m: usize, n: usize) -> bool {
    m > n && 3 * m as u128 >= 5 * n as u128
}

/// `values / scale`, rounded to `R`.
fn unscaled<R: RealElement>(values: Vec<f64>, scale: R, what: &'static str) -> Result<Vec<R>> {
    let unscale = 1.0 / scale.to_double();
    let values: Vec<R> = values.into_iter().map(|x| R::from_double(x * unscale)).collect();
    if values.iter().any(|x| !Float::is_finite(*x)) { Err(SvdError::overflow::<R>(what)) } else { Ok(values) }
}

/// Stage 1, with the QR of a tall matrix before it.
pub(crate) fn stage_one<K: StageKernels>(kernels: &K, a: &mut K::Dense, m: usize, n: usize, tuning: &Tuning) -> Result<()> {
    if qr_first(m, n) {
        triangular_factor(kernels, a, m, n, tuning)?;
        reduce_dense(kernels, a, n, n, tuning)
    } else {
        reduce_dense(kernels, a, m, n, tuning)
    }
}

/// Seconds from lap to lap, with the backend idle at each; or zeros, and no clock is read.
pub(crate) struct Clock(Option<Instant>);

impl Clock {
    pub(crate) fn new(timed: bool) -> Clock {
        Clock(timed.then(Instant::now))
    }

    fn restart(&mut self) {
        *self = Clock::new(self.0.is_some());
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.0.map_or(0.0, |start| start.elapsed().as_secs_f64())
    }

    fn lap<K: TileKernels>(&mut self, kernels: &K) -> Result<f64> {
        kernels.finish()?;
        let seconds = self.seconds();
        self.restart();
        Ok(seconds)
    }
}

fn on_cpu<T, S>(solve: &Solve<'_, T>, reason: Cow<'static, str>) -> Result<SvdReport<Vec<T::Real>>>
where
    T: Element,
    S: Element<Real = T::Real, Scalar = T::Scalar>,
{
    let tuning = solve.options.tuning_for_cpu::<S>(solve.a.ncols())?;
    let kernels = CpuKernels::<S>::new(&tuning)?;
    let direct = solve.a.ncols() <= tuning.direct && !S::IS_HALF;
    let (values, seconds) = if direct { solve.run_small(&kernels)? } else { solve.run(&kernels, &tuning)? };
    let (backend, adapter, storage, counts) = (Backend::Cpu, None, S::NAME, Counts::default());
    let (kernel_seconds, shape) = (Vec::new(), solve.a.shape());
    Ok(SvdReport { values, backend, reason, adapter, storage, tuning, seconds, counts, kernel_seconds, shape })
}

/// The call on a GPU; the report's shape is that of the upright matrix, and `scale` and `total` are not in its seconds.
pub(crate) fn on_gpu<T, S, A>(
    solve: &Solve<'_, T, A>,
    context: &GpuContext,
    tuning: Tuning,
    reason: Cow<'static, str>,
) -> Result<SvdReport<Vec<T::Real>>>
where
    T: Element,
    S: Element<Real = T::Real, Scalar = T::Scalar>,
    A: Source<GpuKernels<S>>,
{
    let kernels = GpuKernels::<S>::timed(context, &tuning, solve.options.time_kernels)?;
    let (values, seconds) = solve.run(&kernels, &tuning)?;
    let (backend, adapter, storage) = (Backend::Gpu, Some(context.adapter_name().to_owned()), S::NAME);
    let (counts, kernel_seconds, shape) = (kernels.counts(), kernels.kernel_seconds(), solve.a.shape());
    Ok(SvdReport { values, backend, reason, adapter, storage, tuning, seconds, counts, kernel_seconds, shape })
}

/// Stage 1 alone: see [`SvdValsGpu::to_band`].
pub(crate) fn to_band<T: Element>(a: MatRef<'_, T>, options: &SvdOptions) -> Result<Band<T::Scalar>> {
    fn run<T: HeldBy<K>, K: TileKernels>(kernels: &K, solve: &Solve<'_, T>, tuning: &Tuning) -> Result<Band<T::Scalar>> {
        band_of(kernels, kernels.upload(solve.a, solve.scale)?, solve.a.shape(), solve.scale, tuning)
    }
    fn within<T, S>(a: MatRef<'_, T>, options: &SvdOptions) -> Result<Band<T::Scalar>>
    where
        T: Element,
        S: Element<Real = T::Real, Scalar = T::Scalar>,
    {
        let choice = choose_for_dense::<T, S>(options, a)?;
        let solve = Solve { scale: power_of_two_scale::<T, S>(a)?, a: upright(a), options, timed: false };
        on_chosen::<T, S, _>(
            options,
            choice,
            solve.a.ncols(),
            |kernels, tuning| run(kernels, &solve, tuning),
            |kernels, tuning| run(kernels, &solve, tuning),
        )
    }
    let a = trimmed(a);
    options.on_threads(|| match options.half_storage {
        HalfStorage::Single => within::<T, T::Scalar>(a, options),
        HalfStorage::Half => within::<T, T::Compact>(a, options),
    })
}

/// Stage 1 of a scaled m x n matrix, m >= n, that the backend has, and its band, with no room for bulges.
pub(crate) fn packed_band_of<K: TileKernels>(
    kernels: &K,
    mut a: K::Dense,
    (m, n): (usize, usize),
    tuning: &Tuning,
) -> Result<K::Banded> {
    stage_one(kernels, &mut a, m, n, tuning)?;
    kernels.pack_band(a, n, tuning.bandwidth(n), 1)
}

/// As [`packed_band_of`], read back and scaled back.
pub(crate) fn band_of<K: TileKernels>(
    kernels: &K,
    a: K::Dense,
    (m, n): (usize, usize),
    scale: Re<K::Storage>,
    tuning: &Tuning,
) -> Result<Band<<K::Storage as Element>::Scalar>> {
    let band = packed_band_of(kernels, a, (m, n), tuning)?;
    kernels.download_band(band, tuning.bandwidth(n), Float::recip(scale)).map_err(overflow_of_band::<Re<K::Storage>>)
}

/// What stage 1 makes of finite entries is finite, until it is scaled back.
pub(crate) fn overflow_of_band<R: RealElement>(error: SvdError) -> SvdError {
    match error {
        SvdError::NonFinite { .. } => SvdError::overflow::<R>("entries of the band"),
        error => error,
    }
}

/// Stage 2 alone: see [`Band::band_to_bidiag`].
pub(crate) fn band_to_bidiag<T: Element>(band: &Band<T>, options: &SvdOptions) -> Result<Bidiagonal<T::Real>> {
    fn run<T: HeldBy<K>, K: TileKernels>(
        kernels: &K,
        band: &Band<T>,
        scale: Re<T>,
        tuning: &Tuning,
    ) -> Result<Bidiagonal<Re<T>>> {
        let (n, bandwidth) = (band.n(), band.bandwidth());
        bidiagonal_of(kernels, kernels.upload_band(band, scale, tuning.tile_width)?, (n, bandwidth), scale, tuning)
    }
    fn within<T, S>(band: &Band<T>, options: &SvdOptions) -> Result<Bidiagonal<T::Real>>
    where
        T: Element,
        S: Element<Real = T::Real, Scalar = T::Scalar>,
    {
        let n = band.n();
        let scale = scale_for::<S>(band.largest(), n, n);
        let fits = |context: &GpuContext, tuning: &Tuning| required_band_bytes::<S>(context, n, band.bandwidth(), tuning);
        on_chosen::<T, S, _>(
            options,
            choose::<T, S>(options, n, || too_small(n), fits)?,
            n,
            |kernels, tuning| run(kernels, band, scale, tuning),
            |kernels, tuning| run(kernels, band, scale, tuning),
        )
    }
    options.on_threads(|| match options.half_storage {
        HalfStorage::Single => within::<T, T::Scalar>(band, options),
        HalfStorage::Half => within::<T, T::Compact>(band, options),
    })
}

/// Stage 2 of a scaled band, of this order and bandwidth, that the backend has.
pub(crate) fn bidiagonal_of<K: TileKernels>(
    kernels: &K,
    mut band: K::Banded,
    (n, bandwidth): (usize, usize),
    scale: Re<K::Storage>,
    tuning: &Tuning,
) -> Result<Bidiagonal<Re<K::Storage>>> {
    reduce_band(kernels, &mut band, n, bandwidth, tuning.tile_width)?;
    unscaled_bidiagonal(kernels, band, scale)
}

/// A scaled band that is reduced to a bidiagonal, read back and scaled back.
pub(crate) fn unscaled_bidiagonal<K: TileKernels>(
    kernels: &K,
    band: K::Banded,
    scale: Re<K::Storage>,
) -> Result<Bidiagonal<Re<K::Storage>>> {
    let (diagonal, superdiagonal) = kernels.bidiagonal(band)?;
    let unscale = |values| unscaled(values, scale, "entries of the bidiagonal");
    Bidiagonal::new(unscale(diagonal)?, unscale(superdiagonal)?)
}

/// Runs one stage on the backend chosen, and on the CPU where [`Backend::Auto`]'s GPU fails.
fn on_chosen<T, S, R>(
    options: &SvdOptions,
    choice: Choice,
    n: usize,
    cpu: impl Fn(&CpuKernels<S>, &Tuning) -> Result<R>,
    gpu: impl Fn(&GpuKernels<S>, &Tuning) -> Result<R>,
) -> Result<R>
where
    T: Element,
    S: Element<Real = T::Real, Scalar = T::Scalar>,
{
    let on_cpu = || {
        let tuning = options.tuning_for_cpu::<S>(n)?;
        cpu(&CpuKernels::new(&tuning)?, &tuning)
    };
    let Choice::Gpu { context, tuning, .. } = choice else { return on_cpu() };
    match GpuKernels::new(&context, &tuning).and_then(|kernels| gpu(&kernels, &tuning)) {
        Err(error) if options.backend == Backend::Auto && error.is_of_device() => {
            fallback(&format!("the GPU failed: {error}"));
            on_cpu()
        }
        result => result,
    }
}
