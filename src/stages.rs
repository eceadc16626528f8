//! The stages one at a time: see [`SvdValsGpu::to_band`](crate::SvdValsGpu::to_band) and [`Band::band_to_bidiag`].

use faer::MatRef;
use num_traits::Float;
use pollster::block_on;

use crate::{
    band::Band,
    band_to_bidiag::band_to_bidiag as reduce_band,
    bidiagonal::Bidiagonal,
    choose::{Choice, choose, choose_for_dense, context_of, fallback, too_small},
    cpu::CpuKernels,
    elsewhere::on_pool,
    error::{Result, SvdError},
    gpu::{GpuContext, GpuKernels, Manner, required_band_bytes},
    kernels::{HeldBy, TileKernels},
    options::{Backend, HalfStorage, SvdOptions, Tuning},
    progress::{Stage, Watch},
    scalar::{Element, Re, RealElement},
    scale::{scale_for, trimmed},
    solve::{Solve, stage_one, unscaled},
    svdvals::failed,
};

/// Stage 1 alone.
pub(crate) fn to_band<T: Element>(a: MatRef<'_, T>, options: &SvdOptions) -> Result<Band<T::Scalar>> {
    fn run<T: HeldBy<K>, K: TileKernels>(kernels: &K, solve: &Solve<'_, T>, tuning: &Tuning) -> Result<Band<T::Scalar>> {
        band_of(kernels, kernels.upload(solve.a, solve.scale)?, solve.a.shape(), solve.scale, tuning)
    }
    fn within<T, S>(a: MatRef<'_, T>, options: &SvdOptions) -> Result<Band<T::Scalar>>
    where
        T: Element,
        S: Element<Real = T::Real, Scalar = T::Scalar>,
    {
        let start = Watch::start(options);
        let choice = choose_for_dense::<T, S>(options, a, || context_of(options))?;
        let (solve, _) = Solve::new::<S>(a, options, false, start, true)?;
        let (m, n) = solve.a.shape();
        on_chosen::<T, S, _>(
            options,
            choice,
            n,
            Stage::ToBand,
            |tuning| Watch::of_stage_1::<S>(options, start, (m, n), tuning),
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

/// Stage 2 alone.
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
        let (n, start) = (band.n(), Watch::start(options));
        let scale = scale_for::<S>(band.largest(), n, n);
        let fits = |context: &GpuContext, tuning: &Tuning| required_band_bytes::<S>(context, n, band.bandwidth(), tuning);
        on_chosen::<T, S, _>(
            options,
            choose::<T, S>(options, || context_of(options), n, || too_small(n), fits)?,
            n,
            Stage::BandToBidiag,
            |tuning| Watch::of_band::<S>(options, start, (n, band.bandwidth()), tuning, false),
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
    let (diagonal, superdiagonal) = block_on(kernels.bidiagonal(band))?;
    let unscale = |values| unscaled(values, scale, "entries of the bidiagonal");
    Bidiagonal::new(unscale(diagonal)?, unscale(superdiagonal)?)
}

/// Runs one stage on the backend chosen, and on the CPU where [`Backend::Auto`]'s GPU fails.
fn on_chosen<T, S, R>(
    options: &SvdOptions,
    choice: Choice,
    n: usize,
    stage: Stage,
    watch: impl Fn(&Tuning) -> Result<Watch>,
    cpu: impl Fn(&CpuKernels<S>, &Tuning) -> Result<R> + Sync,
    gpu: impl Fn(&GpuKernels<S>, &Tuning) -> Result<R>,
) -> Result<R>
where
    T: Element,
    S: Element<Real = T::Real, Scalar = T::Scalar>,
    R: Send,
{
    let on_cpu = || {
        let tuning = options.tuning_for_cpu::<S>(n)?;
        let watch = watch(&tuning)?;
        watch.begin(stage)?;
        let kernels = CpuKernels::watched(&tuning, watch.clone())?;
        let result = on_pool(|| cpu(&kernels, &tuning))?;
        watch.end();
        Ok(result)
    };
    let on_gpu = |context: &GpuContext, tuning: &Tuning| -> Result<R> {
        let watch = watch(tuning)?;
        watch.begin(stage)?;
        let manner = Manner { watch: watch.clone(), ..Manner::default() };
        let result = gpu(&GpuKernels::running(context, tuning, manner)?, tuning)?;
        watch.end();
        Ok(result)
    };
    let Choice::Gpu { context, tuning, .. } = choice else { return on_cpu() };
    match on_gpu(&context, &tuning) {
        Err(error) if options.backend == Backend::Auto && error.is_of_device() => {
            fallback(&failed(&error));
            on_cpu()
        }
        result => result,
    }
}
