//! The algorithm, in order, on one backend or the other.
//!
//! ```text
//! 0  scale            power of two, so that max|a_ij| is near 1
//! 1  to_band          A = Q1 B P1^H, of a tall matrix's triangular factor
//! 2  band_to_bidiag   B = Q2 C P2^H
//! 3  svdvals          singular values of C; unscale
//! ```

use std::borrow::Cow;

use faer::MatRef;
use num_traits::Float;
use pollster::block_on;
use web_time::Instant;

use crate::{
    band_to_bidiag::band_to_bidiag as reduce_band,
    bidiagonal::{Bidiagonal, Stage3},
    cpu::CpuKernels,
    error::{Result, SvdError},
    gpu::{GpuContext, GpuKernels, Manner, Waits},
    kernels::{HeldBy, StageKernels, TileKernels},
    options::{Backend, SvdOptions, Tuning},
    progress::{Stage, Watch},
    report::{Clock, Counts, StageSeconds, SvdReport},
    scalar::{Element, Re, RealElement},
    scale::{power_of_two_scale, upright},
    small::is_direct,
    to_band::{to_band as reduce_dense, triangular_factor},
};

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
    pub(crate) fn falls_back(&self, error: &SvdError) -> bool {
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

/// The call on the CPU; `scale` and `total` are not in the report's seconds.
pub(crate) fn on_cpu<T, S>(solve: &Solve<'_, T>, tuning: Tuning, reason: Cow<'static, str>) -> Result<SvdReport<Vec<T::Real>>>
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
