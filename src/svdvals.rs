//! The trait that matrices get, and the driver: the algorithm, in order.

use std::time::Instant;

use faer::MatRef;
use num_traits::{Float, One};
use rayon::prelude::*;

use crate::{
    band::Band,
    band_to_bidiag::band_to_bidiag as reduce_band,
    bidiagonal::Bidiagonal,
    cpu::CpuKernels,
    error::{Result, SvdError},
    gpu::{GpuContext, GpuKernels, required_bytes},
    kernels::TileKernels,
    options::{Backend, SvdOptions, Tuning},
    report::{Counts, StageSeconds, SvdReport},
    scalar::RealElement,
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
    type Element: RealElement;
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
    /// what a device may report while it runs ([`SvdError::DeviceLost`], [`SvdError::OutOfMemory`], [`SvdError::Gpu`]).
    fn svdvals_gpu_with(&self, options: &SvdOptions) -> Result<Self::Values> {
        Ok(self.svdvals_gpu_report(options)?.values)
    }

    /// As [`svdvals_gpu_with`](Self::svdvals_gpu_with), with what ran, why, and the seconds of each stage.
    ///
    /// # Errors
    /// As [`svdvals_gpu_with`](Self::svdvals_gpu_with).
    fn svdvals_gpu_report(&self, options: &SvdOptions) -> Result<SvdReport<Self::Values>> {
        let SvdReport { values, backend, reason, adapter, tuning, seconds, counts } = svdvals(self.as_faer(), options)?;
        Ok(SvdReport { values: Self::collect(values), backend, reason, adapter, tuning, seconds, counts })
    }

    /// Stage 1: an upper band matrix of order min(m, n), with [`Tuning::tile_size`] superdiagonals, that has A's singular values.
    ///
    /// A = Q1 B P1^H with Q1 and P1 orthogonal (not kept); of a wide matrix, the band of its transpose.
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
    fn to_band(&self, options: &SvdOptions) -> Result<Band<Self::Element>> {
        to_band(self.as_faer(), options)
    }
}

pub(crate) mod sealed {
    use faer::MatRef;

    /// What a front end supplies. Nobody else can name it, so the public trait is ours to extend, and its methods are never in scope.
    pub trait Matrix<T, V> {
        /// The matrix, seen as faer sees one.
        fn as_faer(&self) -> MatRef<'_, T>;
        /// The values as the matrix's library holds a vector.
        fn collect(values: Vec<T>) -> V;
    }
}

/// Sides below which a GPU does not pay: its dispatches alone (about 3 n in stage 2) take longer than the CPU needs.
const GPU_WORTHWHILE: usize = 1024;

/// The driver.
///
/// ```text
/// 0  scale            power of two, so that max|a_ij| is near 1
/// 1  to_band          A = Q1 B P1^H
/// 2  band_to_bidiag   B = Q2 C P2^H
/// 3  svdvals          singular values of C; unscale
/// ```
fn svdvals<T: RealElement>(a: MatRef<'_, T>, options: &SvdOptions) -> Result<SvdReport<Vec<T>>> {
    let start = Instant::now();
    let scale = power_of_two_scale(a)?;
    let scan = start.elapsed().as_secs_f64();
    let a = upright(a);
    let solve = Solve { a, scale };
    let mut report = match choose::<T>(options, a.nrows(), a.ncols())? {
        Choice::Cpu(reason) => on_cpu(&solve, options, reason)?,
        Choice::Gpu(context, reason) => match on_gpu(&solve, options, &context, reason) {
            Err(error) if options.backend == Backend::Auto && error.is_of_device() => {
                on_cpu(&solve, options, fallback(&format!("the GPU failed: {error}")))?
            }
            result => result?,
        },
    };
    report.seconds.scale = scan;
    report.seconds.total = start.elapsed().as_secs_f64();
    Ok(report)
}

/// A matrix with m >= n, and the power of two that it is to be multiplied with.
struct Solve<'a, T> {
    a: MatRef<'a, T>,
    scale: T,
}

impl<T: RealElement> Solve<'_, T> {
    /// Stages 1 to 3 on one backend.
    fn run<K: TileKernels<T>>(&self, kernels: &K, tuning: &Tuning) -> Result<(Vec<T>, StageSeconds)> {
        let mut clock = Clock(Instant::now());
        let mut seconds = StageSeconds::default();
        let n = self.a.ncols();

        let mut a = kernels.upload(self.a, self.scale)?;
        seconds.upload = clock.lap(kernels)?;

        stage_one(kernels, &mut a, self.a.nrows(), n, tuning)?;
        let bandwidth = tuning.tile_size.min(n.saturating_sub(1));
        let mut band = kernels.pack_band(a, n, bandwidth, tuning.tile_width)?;
        seconds.to_band = clock.lap(kernels)?;

        reduce_band(kernels, &mut band, n, bandwidth, tuning.tile_width)?;
        let (diagonal, superdiagonal) = kernels.bidiagonal(band)?;
        seconds.band_to_bidiag = clock.lap(kernels)?;

        let unscale = 1.0 / self.scale.to_double();
        let values = Bidiagonal::new(diagonal, superdiagonal)?.svdvals()?;
        let values = values.into_iter().map(|s| T::from_double(s * unscale)).collect();
        seconds.svdvals = clock.lap(kernels)?;
        Ok((values, seconds))
    }
}

/// Stage 1, with the QR of a tall matrix before it.
fn stage_one<T: RealElement, K: TileKernels<T>>(
    kernels: &K,
    a: &mut K::Dense,
    m: usize,
    n: usize,
    tuning: &Tuning,
) -> Result<()> {
    // From m = 5/3 n on, QR first needs fewer flops (Chan 1982; LAPACK's gesdd takes 11/6).
    if m > n && 3 * m as u128 >= 5 * n as u128 {
        triangular_factor(kernels, a, m, n, tuning)?;
        reduce_dense(kernels, a, n, n, tuning)
    } else {
        reduce_dense(kernels, a, m, n, tuning)
    }
}

/// Seconds from lap to lap, with the backend idle at each.
struct Clock(Instant);

impl Clock {
    fn lap<T: RealElement, K: TileKernels<T>>(&mut self, kernels: &K) -> Result<f64> {
        kernels.finish()?;
        let seconds = self.0.elapsed().as_secs_f64();
        self.0 = Instant::now();
        Ok(seconds)
    }
}

fn on_cpu<T: RealElement>(solve: &Solve<'_, T>, options: &SvdOptions, reason: String) -> Result<SvdReport<Vec<T>>> {
    let tuning = options.tuning.clone().unwrap_or_else(|| Tuning::for_cpu::<T>(solve.a.ncols()));
    let (values, seconds) = solve.run(&CpuKernels::new(&tuning)?, &tuning)?;
    Ok(SvdReport { values, backend: Backend::Cpu, reason, adapter: None, tuning, seconds, counts: Counts::default() })
}

fn on_gpu<T: RealElement>(
    solve: &Solve<'_, T>,
    options: &SvdOptions,
    context: &GpuContext,
    reason: String,
) -> Result<SvdReport<Vec<T>>> {
    let tuning = options.tuning.clone().unwrap_or_else(|| Tuning::for_adapter::<T>(context, solve.a.ncols()));
    let kernels = GpuKernels::<T>::new(context, &tuning)?;
    let (values, seconds) = solve.run(&kernels, &tuning)?;
    let (adapter, counts) = (Some(context.adapter_name().to_owned()), kernels.counts());
    Ok(SvdReport { values, backend: Backend::Gpu, reason, adapter, tuning, seconds, counts })
}

/// Stage 1 alone: see [`SvdValsGpu::to_band`].
fn to_band<T: RealElement>(a: MatRef<'_, T>, options: &SvdOptions) -> Result<Band<T>> {
    fn run<T: RealElement, K: TileKernels<T>>(kernels: &K, solve: &Solve<'_, T>, tuning: &Tuning) -> Result<Band<T>> {
        let (m, n) = solve.a.shape();
        let mut a = kernels.upload(solve.a, solve.scale)?;
        stage_one(kernels, &mut a, m, n, tuning)?;
        let bandwidth = tuning.tile_size.min(n.saturating_sub(1));
        let band = kernels.pack_band(a, n, bandwidth, 1)?;
        kernels.download_band(band, bandwidth, Float::recip(solve.scale))
    }
    let solve = Solve { scale: power_of_two_scale(a)?, a: upright(a) };
    let (m, n) = solve.a.shape();
    on_chosen(
        options,
        choose::<T>(options, m, n)?,
        n,
        |kernels, tuning| run(kernels, &solve, tuning),
        |kernels, tuning| run(kernels, &solve, tuning),
    )
}

/// Stage 2 alone: see [`Band::band_to_bidiag`].
pub(crate) fn band_to_bidiag<T: RealElement>(band: &Band<T>, options: &SvdOptions) -> Result<Bidiagonal<T>> {
    fn run<T: RealElement, K: TileKernels<T>>(kernels: &K, band: &Band<T>, scale: T, tuning: &Tuning) -> Result<Bidiagonal<T>> {
        let (n, bandwidth) = (band.n(), band.bandwidth());
        let mut device = kernels.upload_band(band, scale, tuning.tile_width)?;
        reduce_band(kernels, &mut device, n, bandwidth, tuning.tile_width)?;
        let (diagonal, superdiagonal) = kernels.bidiagonal(device)?;
        let unscale = |values: Vec<f64>| values.into_iter().map(|x| T::from_double(x / scale.to_double())).collect();
        Bidiagonal::new(unscale(diagonal), unscale(superdiagonal))
    }
    let largest =
        (0..band.n()).flat_map(|j| band.column(j).1.iter().copied()).fold(T::zero_impl(), |m, x| Float::max(m, Float::abs(x)));
    let scale = scale_for(largest);
    on_chosen(
        options,
        choose::<T>(options, band.n(), band.n())?,
        band.n(),
        |kernels, tuning| run(kernels, band, scale, tuning),
        |kernels, tuning| run(kernels, band, scale, tuning),
    )
}

/// Runs one stage on the backend chosen, and on the CPU where [`Backend::Auto`]'s GPU fails.
fn on_chosen<T: RealElement, R>(
    options: &SvdOptions,
    choice: Choice,
    n: usize,
    cpu: impl Fn(&CpuKernels, &Tuning) -> Result<R>,
    gpu: impl Fn(&GpuKernels<T>, &Tuning) -> Result<R>,
) -> Result<R> {
    let on_cpu = || {
        let tuning = options.tuning.clone().unwrap_or_else(|| Tuning::for_cpu::<T>(n));
        cpu(&CpuKernels::new(&tuning)?, &tuning)
    };
    let Choice::Gpu(context, _) = choice else { return on_cpu() };
    let tuning = options.tuning.clone().unwrap_or_else(|| Tuning::for_adapter::<T>(&context, n));
    match GpuKernels::new(&context, &tuning).and_then(|kernels| gpu(&kernels, &tuning)) {
        Err(error) if options.backend == Backend::Auto && error.is_of_device() => {
            fallback(&format!("the GPU failed: {error}"));
            on_cpu()
        }
        result => result,
    }
}

enum Choice {
    Cpu(String),
    Gpu(GpuContext, String),
}

/// Where an m x n matrix of `T` is computed, and why.
fn choose<T: RealElement>(options: &SvdOptions, m: usize, n: usize) -> Result<Choice> {
    let context = || options.context.clone().map_or_else(GpuContext::global, Ok);
    match options.backend {
        Backend::Cpu => Ok(Choice::Cpu("Backend::Cpu was asked for".into())),
        Backend::Gpu => Ok(Choice::Gpu(context()?, "Backend::Gpu was asked for".into())),
        Backend::Auto if n < GPU_WORTHWHILE => {
            let reason = format!("a smaller side of {n} gains nothing on a GPU (from {GPU_WORTHWHILE} on it does)");
            log::debug!("svdvals-gpu computes on the CPU: {reason}");
            Ok(Choice::Cpu(reason))
        }
        Backend::Auto => {
            let context = match context() {
                Ok(context) => context,
                Err(error) => return Ok(Choice::Cpu(fallback(&error.to_string()))),
            };
            let name = context.adapter_name();
            let tuning = options.tuning.clone().unwrap_or_else(|| Tuning::for_adapter::<T>(&context, n));
            let refusal = if context.is_software() {
                Some(format!("{name} is a software rasteriser"))
            } else if !context.supports::<T>() {
                Some(format!("{name} has no {} arithmetic", T::NAME))
            } else {
                required_bytes::<T>(&context, m, n, &tuning).err().map(|error| error.to_string())
            };
            Ok(match refusal {
                Some(reason) => Choice::Cpu(fallback(&reason)),
                None => Choice::Gpu(context.clone(), "a hardware GPU that can hold the matrix".into()),
            })
        }
    }
}

/// Logs why the CPU computes what a GPU might have.
fn fallback(reason: &str) -> String {
    log::warn!("svdvals-gpu computes on the CPU: {reason}");
    reason.to_owned()
}

impl SvdError {
    /// Whether the device is to blame, and not the input or the options.
    fn is_of_device(&self) -> bool {
        matches!(
            self,
            SvdError::DeviceLost { .. } | SvdError::OutOfMemory { .. } | SvdError::Gpu { .. } | SvdError::TooLarge { .. }
        )
    }
}

/// The matrix or its transpose, whichever has m >= n, with reversed axes set right: none of it changes singular values.
fn upright<T>(a: MatRef<'_, T>) -> MatRef<'_, T> {
    let a = if a.nrows() < a.ncols() { a.transpose() } else { a };
    let a = if a.row_stride() < 0 { a.reverse_rows() } else { a };
    if a.col_stride() < 0 { a.reverse_cols() } else { a }
}

/// Stage 0: the power of two that brings the largest entry into [1/2, 1), or the first entry (in memory's order) that is not finite.
fn power_of_two_scale<T: RealElement>(a: MatRef<'_, T>) -> Result<T> {
    let by_rows = a.col_stride().unsigned_abs() < a.row_stride().unsigned_abs();
    let lines = if by_rows { a.transpose() } else { a };
    let largest = (0..lines.ncols()).into_par_iter().with_min_len(64).try_fold(T::zero_impl, |largest, j| {
        let line = lines.col(j);
        let of_line = match line.try_as_col_major() {
            Some(line) => largest_of(line.as_slice().iter().copied()),
            None => largest_of(line.iter().copied()),
        };
        of_line.map(|x| Float::max(largest, x)).ok_or(j)
    });
    let largest = largest.try_reduce(T::zero_impl, |x, y| Ok(Float::max(x, y)));
    largest.map(scale_for).map_err(|j| {
        let i = lines.col(j).iter().position(|x| x.magnitude().is_none()).unwrap_or_default();
        let (row, col) = if by_rows { (j, i) } else { (i, j) };
        SvdError::NonFinite { row, col, value: format!("{:?}", a[(row, col)]) }
    })
}

/// The largest magnitude, or None where an entry is not finite.
fn largest_of<T: RealElement>(line: impl Iterator<Item = T>) -> Option<T> {
    // 0 x is 0 for finite x and NaN otherwise; sums of it stay so, and the loop has no branch.
    let zero = T::zero_impl();
    let (largest, check) = line.fold((zero, zero), |(largest, check), x| {
        (if Float::abs(x) > largest { Float::abs(x) } else { largest }, check + zero * x)
    });
    (check == zero).then_some(largest)
}

/// 2^-e for `largest` in [2^(e-1), 2^e); 1 for zero. Clamped so that it and its reciprocal are normal numbers.
fn scale_for<T: RealElement>(largest: T) -> T {
    if largest == T::zero_impl() {
        return <T as One>::one();
    }
    let (mantissa, exponent, _) = Float::integer_decode(largest);
    let e = i32::from(exponent) + 64 - mantissa.leading_zeros() as i32;
    T::from_double(2f64.powi((-e).clamp(-T::exponent_limit(), T::exponent_limit())))
}
