//! A single stage, from host memory to host memory.

use faer::MatRef;
use num_traits::Float;
use pollster::block_on;

use crate::{
    algo::{
        band_to_bidiag::band_to_bidiag as reduce_band,
        bidiagonal::Bidiagonal,
        count::{stage_1_flops, stage_2_flops},
        deferred::Deferral,
        svdvals::{narrowed, stage_one, unscaled},
    },
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::{Number, Re, RealElement, Scalar, in_storage},
        pool::{on_pool_for, on_threads},
        scale::{power_of_two_scale, scale_for},
        stage::Stage,
        view::{trimmed, upright},
        watch::{Listen, StageFlops, Watch},
    },
    cost::deferred::deferral,
    cpu::kernels::CpuKernels,
    plan::{backend::Place, options::RunOptions, problem::Problem},
    tile::{
        band::Band,
        kernels::{TileKernels, Transfers},
        tuning::Tuning,
    },
};
#[cfg(feature = "gpu")]
use crate::{
    gpu::{device::stream::Manner, kernels::GpuKernels},
    plan::backend::or_fall_back,
};

/// A stage, on kernels of either backend that can hold `T`.
trait OneStage<T: Scalar> {
    const STAGE: Stage;
    /// The result of the stage.
    type Output: Send;

    /// Its flops; on a GPU updates may be deferred.
    fn flops(&self, kind: ElementKind, tuning: &Tuning, on_gpu: bool) -> Result<StageFlops>;
    fn run<K: Transfers<T>>(&self, kernels: &K, tuning: &Tuning) -> Result<Self::Output>;
}

/// Runs one stage on the chosen backend, with `T` stored as `S`.
fn on_chosen<T, S, O>(stage: &O, run: &RunOptions, listen: &Listen, place: Place, order: usize) -> Result<O::Output>
where
    T: Scalar,
    S: Number<Real = Re<T>, Scalar = T>,
    O: OneStage<T> + Sync,
{
    #[cfg(feature = "gpu")]
    if let Place::Gpu(on) = place {
        let on_gpu = || -> Result<O::Output> {
            let watch = Watch::new(listen, || stage.flops(S::KIND, &on.tuning, true))?;
            watch.begin(O::STAGE)?;
            let manner = Manner { watch: watch.clone(), deferred: true, ..Manner::default() };
            let output = stage.run(&GpuKernels::running(S::KIND, &on.context, &on.tuning, manner)?, &on.tuning)?;
            watch.end();
            Ok(output)
        };
        if let Ok(output) = or_fall_back(run, false, on_gpu())? {
            return Ok(output);
        }
    }
    #[cfg(not(feature = "gpu"))]
    let _ = place;
    let tuning = run.tuning_for_cpu(S::KIND, order)?;
    let watch = Watch::new(listen, || stage.flops(S::KIND, &tuning, false))?;
    watch.begin(O::STAGE)?;
    let kernels = CpuKernels::<S>::watched(&tuning, watch.clone())?;
    let output = on_pool_for((order, order), || stage.run(&kernels, &tuning))?;
    watch.end();
    Ok(output)
}

/// Stage 1 of an m x n matrix, m >= n, and its scale.
struct ToBand<'a, T: Scalar> {
    a: MatRef<'a, T>,
    scale: Re<T>,
}

impl<T: Scalar> OneStage<T> for ToBand<'_, T> {
    const STAGE: Stage = Stage::ToBand;
    type Output = Band<T>;

    fn flops(&self, kind: ElementKind, tuning: &Tuning, on_gpu: bool) -> Result<StageFlops> {
        let deferred = if on_gpu { deferral(kind, self.a.shape(), tuning) } else { Deferral::default() };
        Ok([stage_1_flops(kind, self.a.shape(), tuning, deferred)?, 0, 0, 0])
    }

    fn run<K: Transfers<T>>(&self, kernels: &K, tuning: &Tuning) -> Result<Band<T>> {
        let (a, bandwidth) = (kernels.upload(self.a, self.scale)?, tuning.bandwidth(self.a.ncols()));
        let band = packed_band(kernels, a, self.a.shape(), tuning)?;
        kernels.download_band(band, bandwidth, Float::recip(self.scale)).map_err(overflow_of_band::<Re<T>>)
    }
}

/// Stage 1 alone.
pub(crate) fn to_band<T: Scalar>(a: MatRef<'_, T>, run: &RunOptions) -> Result<Band<T>> {
    fn within<T, S>(a: MatRef<'_, T>, run: &RunOptions) -> Result<Band<T>>
    where
        T: Scalar,
        S: Number<Real = Re<T>, Scalar = T>,
    {
        let (listen, order) = (run.listen(), a.nrows().min(a.ncols()));
        let place = Place::of(S::KIND, run, Problem::Dense { m: a.nrows(), n: a.ncols() })?;
        let stage = ToBand { a: upright(a).0, scale: power_of_two_scale(S::KIND, a)? };
        on_chosen::<T, S, _>(&stage, run, &listen, place, order)
    }
    let a = trimmed(a);
    on_threads(run.threads, || in_storage!(run.half_storage, T => within::<_, S>(a, run)))
}

/// Stage 1 of a scaled m x n matrix, m >= n, on the backend: its band, without room for bulges.
pub(crate) fn packed_band<K: TileKernels>(
    kernels: &K,
    mut a: K::Dense,
    (m, n): (usize, usize),
    tuning: &Tuning,
) -> Result<K::Banded> {
    stage_one(kernels, &mut a, m, n, tuning)?;
    kernels.pack_band(&a, n, tuning.bandwidth(n), 1)
}

/// Stage 1 of finite entries gives finite entries; only scaling them back can overflow.
pub(crate) fn overflow_of_band<R: RealElement>(error: SvdError) -> SvdError {
    match error {
        SvdError::NonFinite { .. } => SvdError::overflow(R::KIND, "entries of the band"),
        error => error,
    }
}

/// Stage 2 of a band, and its scale.
struct BandToBidiag<'a, T: Scalar> {
    band: &'a Band<T>,
    scale: Re<T>,
}

impl<T: Scalar> OneStage<T> for BandToBidiag<'_, T> {
    const STAGE: Stage = Stage::BandToBidiag;
    type Output = Bidiagonal<Re<T>>;

    fn flops(&self, kind: ElementKind, tuning: &Tuning, _: bool) -> Result<StageFlops> {
        Ok([0, stage_2_flops(kind, self.band.n(), self.band.bandwidth(), tuning), 0, 0])
    }

    fn run<K: Transfers<T>>(&self, kernels: &K, tuning: &Tuning) -> Result<Bidiagonal<Re<T>>> {
        let band = kernels.upload_band(self.band, self.scale, tuning.tile_width)?;
        bidiagonal_of(kernels, band, (self.band.n(), self.band.bandwidth()), self.scale.to_double(), tuning)
    }
}

/// Stage 2 alone.
pub(crate) fn band_to_bidiag<T: Scalar>(band: &Band<T>, run: &RunOptions) -> Result<Bidiagonal<Re<T>>> {
    fn within<T, S>(band: &Band<T>, run: &RunOptions) -> Result<Bidiagonal<Re<T>>>
    where
        T: Scalar,
        S: Number<Real = Re<T>, Scalar = T>,
    {
        let (listen, n) = (run.listen(), band.n());
        let place = Place::of(S::KIND, run, Problem::Band { n, bandwidth: band.bandwidth() })?;
        let stage = BandToBidiag { band, scale: scale_for::<S>(band.largest(), n, n) };
        on_chosen::<T, S, _>(&stage, run, &listen, place, n)
    }
    on_threads(run.threads, || in_storage!(run.half_storage, T => within::<_, S>(band, run)))
}

/// Stage 2 of a scaled band of this order and bandwidth on the backend.
pub(crate) fn bidiagonal_of<R: RealElement, K: TileKernels>(
    kernels: &K,
    mut band: K::Banded,
    (n, bandwidth): (usize, usize),
    scale: f64,
    tuning: &Tuning,
) -> Result<Bidiagonal<R>> {
    reduce_band(kernels, &mut band, n, bandwidth, tuning.tile_width)?;
    unscaled_bidiagonal(kernels, &band, scale)
}

/// Reads back a scaled band that is reduced to a bidiagonal, and undoes the scaling.
pub(crate) fn unscaled_bidiagonal<R: RealElement, K: TileKernels>(
    kernels: &K,
    band: &K::Banded,
    scale: f64,
) -> Result<Bidiagonal<R>> {
    let (diagonal, superdiagonal) = block_on(kernels.bidiagonal(band))?.moduli();
    let unscale = |values| Ok(narrowed(&unscaled(R::KIND, values, scale, "entries of the bidiagonal")?));
    Bidiagonal::new(unscale(diagonal)?, unscale(superdiagonal)?)
}
