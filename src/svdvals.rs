//! The trait that matrices get, and the driver: the algorithm, in order.

use std::borrow::Cow;

use faer::{Mat, MatRef};
use num_traits::Float;
use pollster::block_on;
use web_time::Instant;

use crate::{
    band::Band,
    band_to_bidiag::band_to_bidiag as reduce_band,
    bidiagonal::{Bidiagonal, Stage3},
    choose::{Choice, choose_for_dense, context_of, context_of_async, fallback},
    cpu::CpuKernels,
    elsewhere::{on_pool, on_pool_async},
    error::{Result, SvdError},
    gpu::{GpuContext, GpuKernels, Manner, Waits},
    kernels::{HeldBy, StageKernels, TileKernels},
    options::{Backend, HalfStorage, SvdOptions, Tuning},
    progress::{Stage, Watch},
    report::{Clock, Counts, StageSeconds, SvdReport},
    scalar::{Element, Re, RealElement},
    scale::{first_non_finite, power_of_two_scale, trimmed, upright},
    small::{is_direct, reads_once},
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
    let (whole, start) = (Clock::new(timed), Watch::start(options));
    let choice = choose_for_dense::<T, S>(options, a, || context_of(options))?;
    choice.has_stage3(options)?;
    let (report, scan_seconds) = match choice {
        Choice::Cpu(reason) => {
            let (m, n) = (a.nrows(), a.ncols());
            let tuning = options.tuning_for_cpu::<S>(m.min(n))?;
            let (scan, small) = (!reads_once::<S>(&tuning, m, n), is_direct::<S>(&tuning, m.min(n)));
            let compute = || {
                let (solve, scan_seconds) = Solve::new::<S>(a, options, timed, start, scan)?;
                Ok((on_cpu::<T, S>(&solve, tuning, reason)?, scan_seconds))
            };
            let result = if small { compute() } else { on_pool(compute) };
            result.map_err(|error| match error {
                SvdError::NonFinite { .. } if !scan => first_non_finite(a), // where the caller has it
                error => error,
            })?
        }
        Choice::Gpu { context, tuning, reason } => {
            let (solve, scan_seconds) = Solve::new::<S>(a, options, timed, start, true)?;
            match block_on(on_gpu::<T, S, _>(&solve, &context, tuning, reason, Waits::Blocking)) {
                Err(error) if solve.falls_back(&error) => {
                    let reason = fallback(&failed(&error));
                    let tuning = options.tuning_for_cpu::<S>(solve.a.ncols())?;
                    (on_pool(|| on_cpu::<T, S>(&solve, tuning, reason))?, scan_seconds)
                }
                result => (result?, scan_seconds),
            }
        }
    };
    Ok(completed(report, a, scan_seconds, &whole))
}

/// The driver, for a caller that must not block: what the CPU computes is computed in the rayon pool, from a copy of the matrix.
pub(crate) async fn svdvals_async<T: Element>(
    a: MatRef<'_, T>,
    options: &SvdOptions,
    timed: bool,
) -> Result<SvdReport<Vec<T::Real>>> {
    options.has_threads()?;
    let a = trimmed(a);
    let context = context_of_async(options, a.nrows().min(a.ncols())).await;
    match options.half_storage {
        HalfStorage::Single => svdvals_async_in::<T, T::Scalar>(a, options, timed, context).await,
        HalfStorage::Half => svdvals_async_in::<T, T::Compact>(a, options, timed, context).await,
    }
}

async fn svdvals_async_in<T, S>(
    a: MatRef<'_, T>,
    options: &SvdOptions,
    timed: bool,
    context: Option<Result<GpuContext>>,
) -> Result<SvdReport<Vec<T::Real>>>
where
    T: Element,
    S: Element<Real = T::Real, Scalar = T::Scalar>,
{
    let (whole, start) = (Clock::new(timed), Watch::start(options));
    let choice = choose_for_dense::<T, S>(options, a, || context.unwrap_or_else(|| context_of(options)))?;
    choice.has_stage3(options)?;
    let reason = match choice {
        Choice::Cpu(reason) => reason,
        Choice::Gpu { context, tuning, reason } => {
            let (solve, scan) = Solve::new::<S>(a, options, timed, start, true)?;
            match on_gpu::<T, S, _>(&solve, &context, tuning, reason, Waits::Awaited).await {
                Err(error) if solve.falls_back(&error) => fallback(&failed(&error)),
                result => return Ok(completed(result?, a, scan, &whole)),
            }
        }
    };
    let (copy, options) = (Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)]), options.clone().backend(Backend::Cpu));
    let report = on_pool_async(move || svdvals(copy.as_ref(), &options, timed)).await??;
    let scan = report.seconds.scale;
    Ok(completed(SvdReport { reason, ..report }, a, scan, &whole))
}

/// The report with what only the driver knows.
fn completed<T: Element, V>(mut report: SvdReport<V>, a: MatRef<'_, T>, scan: f64, whole: &Clock) -> SvdReport<V> {
    report.shape = a.shape();
    report.seconds.scale = scan;
    report.seconds.total = whole.seconds();
    report
}

pub(crate) fn failed(error: &SvdError) -> String {
    format!("the GPU failed: {error}")
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
    /// When the call began, where that is to be told.
    pub start: Option<Instant>,
}

impl<'a, T: Element> Solve<'a, T> {
    /// Stage 0, and its seconds; unless `scan`, the scale is left to be found.
    pub(crate) fn new<S: Element<Real = T::Real, Scalar = T::Scalar>>(
        a: MatRef<'a, T>,
        options: &'a SvdOptions,
        timed: bool,
        start: Option<Instant>,
        scan: bool,
    ) -> Result<(Self, f64)> {
        let clock = Clock::new(timed && scan);
        let scale = if scan { power_of_two_scale::<T, S>(a)? } else { Re::<T>::from_double(1.0) };
        let solve = Solve { scale, a: upright(a), options, timed, start };
        Ok((solve, clock.seconds()))
    }

    /// Whether the CPU is to compute what a GPU could not because of `error`.
    fn falls_back(&self, error: &SvdError) -> bool {
        self.options.backend == Backend::Auto && error.is_of_device() && self.options.stage3 != Stage3::Device
    }
}

impl<T: Element, A> Solve<'_, T, A> {
    /// Stages 1 to 3 on one backend; stage 1 has begun.
    pub(crate) async fn run<K: TileKernels>(
        &self,
        kernels: &K,
        tuning: &Tuning,
        watch: &Watch,
    ) -> Result<(Vec<T::Real>, StageSeconds)>
    where
        T: HeldBy<K>,
        A: Source<K>,
    {
        let mut clock = Clock::new(self.timed);
        let mut seconds = StageSeconds::default();
        let (m, n) = self.a.shape();

        let mut a = self.a.upload(kernels, self.scale)?;
        seconds.upload = clock.lap(kernels).await?;

        stage_one(kernels, &mut a, m, n, tuning)?;
        let bandwidth = tuning.bandwidth(n);
        let band = kernels.pack_band(a, n, bandwidth, tuning.tile_width)?;
        seconds.to_band = clock.lap(kernels).await?;

        let (values, of_band) = self.run_on_band(kernels, band, (n, bandwidth), tuning, watch).await?;
        Ok((values, StageSeconds { upload: seconds.upload, to_band: seconds.to_band, ..of_band }))
    }

    /// Stages 2 and 3 of a scaled band, of this order and bandwidth, that the backend has.
    pub(crate) async fn run_on_band<K: TileKernels>(
        &self,
        kernels: &K,
        mut band: K::Banded,
        (n, bandwidth): (usize, usize),
        tuning: &Tuning,
        watch: &Watch,
    ) -> Result<(Vec<T::Real>, StageSeconds)>
    where
        T: HeldBy<K>,
    {
        let mut clock = Clock::new(self.timed);
        let mut seconds = StageSeconds::default();

        watch.begin(Stage::BandToBidiag)?;
        reduce_band(kernels, &mut band, n, bandwidth, tuning.tile_width)?;
        if self.timed || watch.is_on() {
            seconds.band_to_bidiag = clock.lap(kernels).await?;
        }

        watch.begin(Stage::Svdvals)?;
        let values = match kernels.svdvals(&band, self.options.stage3).await? {
            Some(mut values) => {
                values.sort_unstable_by(|x, y| y.total_cmp(x));
                unscaled(values, self.scale, "singular values")?
            }
            None => {
                let (diagonal, superdiagonal) = kernels.bidiagonal(band).await?;
                seconds.band_to_bidiag += clock.lap(kernels).await?;
                self.stage_three(diagonal, superdiagonal, self.scale, watch)?
            }
        };
        seconds.svdvals = clock.lap(kernels).await?;
        watch.end();
        Ok((values, seconds))
    }

    pub(crate) fn stage_three(
        &self,
        diagonal: Vec<f64>,
        superdiagonal: Vec<f64>,
        scale: Re<T>,
        watch: &Watch,
    ) -> Result<Vec<T::Real>> {
        let values = Bidiagonal::new(diagonal, superdiagonal)?.svdvals_for::<T::Real>(self.options.stage3, watch)?;
        unscaled(values, scale, "singular values")
    }
}

/// Whether a matrix is so tall that QR first needs fewer flops (Chan 1982, from m = 5/3 n on; LAPACK's gesdd takes 11/6).
pub(crate) fn qr_first(m: usize, n: usize) -> bool {
    m > n && 3 * m as u128 >= 5 * n as u128
}

/// `values / scale`, rounded to `R`.
pub(crate) fn unscaled<R: RealElement>(values: Vec<f64>, scale: R, what: &'static str) -> Result<Vec<R>> {
    let unscale = 1.0 / scale.to_double();
    let values: Vec<R> = values.into_iter().map(|x| R::from_double(x * unscale)).collect();
    if values.iter().any(|x| !Float::is_finite(*x)) { Err(SvdError::overflow::<R>(what)) } else { Ok(values) }
}

/// Stage 1, with the QR of a tall matrix before it.
pub(crate) fn stage_one<K: StageKernels>(kernels: &K, a: &mut K::Dense, m: usize, n: usize, tuning: &Tuning) -> Result<()> {
    if qr_first(m, n) {
        triangular_factor(kernels, a, m, n, tuning)?;
        kernels.keep_rows(a, n);
        reduce_dense(kernels, a, n, n, tuning)
    } else {
        reduce_dense(kernels, a, m, n, tuning)
    }
}

fn on_cpu<T, S>(solve: &Solve<'_, T>, tuning: Tuning, reason: Cow<'static, str>) -> Result<SvdReport<Vec<T::Real>>>
where
    T: Element,
    S: Element<Real = T::Real, Scalar = T::Scalar>,
{
    let (values, seconds) = if is_direct::<S>(&tuning, solve.a.ncols()) {
        tuning.check()?;
        solve.run_small()?
    } else {
        let watch = Watch::of_call::<S>(solve.options, solve.start, solve.a.shape(), &tuning)?;
        let kernels = CpuKernels::<S>::watched(&tuning, watch.clone())?;
        watch.begin(Stage::ToBand)?;
        block_on(solve.run_on_cpu(&kernels, &tuning, &watch))?
    };
    let (backend, adapter, storage, counts) = (Backend::Cpu, None, S::NAME, Counts::default());
    let (kernel_seconds, shape, stage3_on_device) = (Vec::new(), solve.a.shape(), false);
    Ok(SvdReport { values, backend, reason, adapter, storage, tuning, seconds, counts, kernel_seconds, shape, stage3_on_device })
}

/// The call on a GPU; the report's shape is that of the upright matrix, and `scale` and `total` are not in its seconds.
pub(crate) async fn on_gpu<T, S, A>(
    solve: &Solve<'_, T, A>,
    context: &GpuContext,
    tuning: Tuning,
    reason: Cow<'static, str>,
    waits: Waits,
) -> Result<SvdReport<Vec<T::Real>>>
where
    T: Element,
    S: Element<Real = T::Real, Scalar = T::Scalar>,
    A: Source<GpuKernels<S>>,
{
    let SvdOptions { time_kernels, stage3, .. } = *solve.options;
    let watch = Watch::of_call::<S>(solve.options, solve.start, solve.a.shape(), &tuning)?;
    let manner = Manner { waits, timed: time_kernels, stage3: Some(stage3), watch: watch.clone() };
    let kernels = GpuKernels::<S>::running(context, &tuning, manner)?;
    watch.begin(Stage::ToBand)?;
    let (values, seconds) = solve.run(&kernels, &tuning, &watch).await?;
    let (backend, adapter, storage) = (Backend::Gpu, Some(context.adapter_name().to_owned()), S::NAME);
    let (counts, kernel_seconds, shape) = (kernels.counts(), kernels.kernel_seconds(), solve.a.shape());
    let stage3_on_device = kernels.bisects(shape.1, solve.options.stage3);
    Ok(SvdReport { values, backend, reason, adapter, storage, tuning, seconds, counts, kernel_seconds, shape, stage3_on_device })
}
