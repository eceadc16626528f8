//! The routes on the CPU.

use faer::{Mat, MatRef};
use pollster::block_on;

use crate::{
    algo::{
        bidiagonal::Bidiagonal,
        count::{flops_by_band, flops_directly},
        svdvals::{Driver, Source, stage_three, unscaled},
    },
    base::{
        clock::{Clock, StageSeconds},
        error::{Result, SvdError},
        number::{Number, Re, RealElement, Scalar},
        pool::on_pool,
        scale::{first_non_finite, power_of_two_scale},
        view::by_lines,
        watch::{Stage, Watch},
    },
    cost::{Cost, counts::Counts},
    cpu::{
        kernels::CpuKernels,
        small::{bidiagonal_directly, norm::norm},
        tall::{
            cholesky_qr::{SortedFactor, cholesky_qr},
            gram::gram,
            tsqr::tsqr,
        },
    },
    plan::{
        backend::Reason,
        options::Backend,
        report::SvdReport,
        route::{First, Route, tall_qr},
        svdvals::Call,
    },
    tile::{
        kernels::{HeldBy, TileKernels},
        tuning::Tuning,
    },
};

/// The result of a route: the values, the seconds of stages 1 to 3, and the route itself, part of which is decided on the way.
type Found<R> = (Vec<R>, StageSeconds, Route);

/// The call on the CPU, with the `scale` of stage 0 if it is already known.
pub(crate) fn svdvals_on_cpu<T, S>(call: &Call<'_, T>, reason: Reason, scale: Option<Re<T>>) -> Result<SvdReport<Vec<T::Real>>>
where
    T: Number,
    S: Number<Real = T::Real, Scalar = T::Scalar>,
{
    let a = call.upright();
    let tuning = call.options.tuning_for_cpu::<S>(a.ncols())?;
    tuning.check()?;
    let route = Route::on_cpu::<S>(a.shape(), &tuning);
    let compute = || {
        let (scale, of_scale) = match scale {
            Some(scale) => (scale, 0.0),
            None if route.scales_on_the_way::<S>() => (Re::<T>::from_double(1.0), 0.0),
            None => call.scale::<S>()?,
        };
        let (values, seconds, route) = match route {
            Route::Band(first) => by_band::<T, S>(call, a, scale, first, &tuning)?,
            Route::Direct(first) => directly(call, a, scale, first)?,
            Route::Norm => of_column(call, a, scale)?,
        };
        Ok((values, StageSeconds { scale: of_scale, ..seconds }, route))
    };
    let found = if route.is_short() { compute() } else { on_pool(compute) };
    let (values, seconds, route) = found.map_err(|error| match error {
        // The route found that a NaN or an infinity exists, but not where it is.
        SvdError::NonFinite { .. } if scale.is_none() && route.scales_on_the_way::<S>() => first_non_finite(call.a),
        error => error,
    })?;
    Ok(SvdReport {
        values,
        backend: Backend::Cpu,
        reason,
        route,
        adapter: None,
        storage: S::NAME,
        tuning,
        seconds,
        counts: Counts::default(),
        kernel_seconds: Vec::new(),
        shape: a.shape(),
        stage3_on_device: false,
        cost: Cost::with_stage3::<S>,
    })
}

/// A matrix that is already multiplied by a power of two. The driver knows this factor as its scale.
struct Scaled<'a, T>(MatRef<'a, T>);

impl<T: HeldBy<K>, K: TileKernels> Source<K> for Scaled<'_, T> {
    fn shape(&self) -> (usize, usize) {
        self.0.shape()
    }

    fn upload(&self, kernels: &K, _: Re<T>) -> Result<K::Dense> {
        kernels.upload(self.0, Re::<T>::from_double(1.0))
    }
}

/// Stages 1 to 3, of the Cholesky factor if there is one, else of the matrix.
fn by_band<T, S>(call: &Call<'_, T>, a: MatRef<'_, T>, scale: Re<T>, first: First, tuning: &Tuning) -> Result<Found<T::Real>>
where
    T: Number,
    S: Number<Real = T::Real, Scalar = T::Scalar>,
{
    let watch = Watch::new(&call.listen, || flops_by_band::<S>(a.shape(), tuning))?;
    let kernels = CpuKernels::<S>::watched(tuning, watch.clone())?;
    watch.begin(Stage::ToBand)?;
    let (kernels, stage3, timed) = (&kernels, Some(call.options.stage3), call.timed);
    let driver = Driver { kernels, tuning, watch: &watch, stage3, timed };

    let clock = Clock::new(call.timed);
    let factor = if first == First::Cholesky { cholesky_qr(a, &watch)? } else { None };
    let factoring = clock.seconds();
    let ((values, mut seconds), first) = match factor {
        Some(SortedFactor { r, scale, .. }) => (block_on(driver.svdvals(&Scaled(r.as_ref()), scale))?, First::Cholesky),
        None => (block_on(driver.svdvals(&a, scale))?, tall_qr(a.nrows(), a.ncols())),
    };
    seconds.to_band += factoring;
    Ok((values, seconds, Route::Band(first)))
}

/// The norm of a single column, which is its only singular value.
fn of_column<T: Number>(call: &Call<'_, T>, a: MatRef<'_, T>, scale: Re<T>) -> Result<Found<T::Real>> {
    let watch = Watch::new(&call.listen, || Ok(flops_directly(a.shape(), false)))?;
    let mut clock = Clock::new(call.timed);
    watch.begin(Stage::ToBand)?;
    watch.begin(Stage::BandToBidiag)?;
    let norm = norm(a, scale);
    let seconds = StageSeconds { band_to_bidiag: clock.restart(), ..StageSeconds::default() };
    finish(seconds, clock, &watch, Route::Norm, || stage_three(vec![norm], Vec::new(), scale, call.options.stage3, &watch))
}

/// Direct reduction to bidiagonal form of the matrix, its triangular factor or A^H A.
fn directly<T: Number>(call: &Call<'_, T>, a: MatRef<'_, T>, scale: Re<T>, first: First) -> Result<Found<T::Real>> {
    let watch = Watch::new(&call.listen, || Ok(flops_directly(a.shape(), first != First::Nothing)))?;
    let mut clock = Clock::new(call.timed);
    let mut seconds = StageSeconds::default();
    let stage3 = call.options.stage3;
    watch.begin(Stage::ToBand)?;
    match first {
        First::Nothing => {
            watch.begin(Stage::BandToBidiag)?;
            // A square matrix and its transpose have the same singular values; the one with contiguous columns is faster to read. Without
            // stage 0, a NaN reaches the bidiagonal; stage 3 rejects it.
            let a = if a.nrows() == a.ncols() { by_lines(a) } else { a };
            let (diagonal, superdiagonal) = bidiagonal_directly(a, scale)?;
            seconds.band_to_bidiag = clock.restart();
            finish(seconds, clock, &watch, Route::Direct(first), || stage_three(diagonal, superdiagonal, scale, stage3, &watch))
        }
        First::Gram => {
            let (squares, _) = gram(a, &watch)?;
            seconds.to_band = clock.restart();
            watch.begin(Stage::BandToBidiag)?;
            let (diagonal, superdiagonal, scale) = of_squares::<T>(&squares)?;
            seconds.band_to_bidiag = clock.restart();
            finish(seconds, clock, &watch, Route::Direct(first), || {
                let squares = Bidiagonal::new(diagonal, superdiagonal)?.svdvals_for::<f64>(stage3, &watch)?;
                let values = unscaled(squares, scale, "eigenvalues of A^H A")?.into_iter().map(f64::sqrt).collect();
                unscaled(values, Re::<T>::from_double(1.0), "singular values")
            })
        }
        First::Cholesky | First::Qr => {
            let cholesky = if first == First::Cholesky { cholesky_qr(a, &watch)? } else { None };
            let ((r, scale), first) = match cholesky {
                Some(SortedFactor { r, scale, .. }) => ((r, scale), First::Cholesky),
                None => (tsqr(a, &watch)?, First::Qr),
            };
            seconds.to_band = clock.restart();
            watch.begin(Stage::BandToBidiag)?;
            let (diagonal, superdiagonal) = bidiagonal_directly(r.as_ref(), Re::<T>::from_double(1.0))?;
            seconds.band_to_bidiag = clock.restart();
            finish(seconds, clock, &watch, Route::Direct(first), || stage_three(diagonal, superdiagonal, scale, stage3, &watch))
        }
    }
}

/// The type of the entries of A^H A.
type Wide<T> = <<T as Number>::Scalar as Scalar>::Wide;

/// The bidiagonal form of A^H A, scaled, and the scale.
fn of_squares<T: Number>(squares: &Mat<Wide<T>>) -> Result<(Vec<f64>, Vec<f64>, f64)> {
    let scale = power_of_two_scale::<Wide<T>, Wide<T>>(squares.as_ref())?;
    let (diagonal, superdiagonal) = bidiagonal_directly(squares.as_ref(), scale)?;
    Ok((diagonal, superdiagonal, scale))
}

/// Stage 3, and the end of the call.
fn finish<R>(
    mut seconds: StageSeconds,
    mut clock: Clock,
    watch: &Watch,
    route: Route,
    stage_3: impl FnOnce() -> Result<Vec<R>>,
) -> Result<Found<R>> {
    watch.begin(Stage::Svdvals)?;
    let values = stage_3()?;
    seconds.svdvals = clock.restart();
    watch.end();
    Ok((values, seconds, route))
}
