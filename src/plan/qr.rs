//! The driver of the QR factorisation.
//!
//! | matrix | on the CPU | on a GPU |
//! | --- | --- | --- |
//! | tall and narrow (`plan/route.rs`) | from A^H A: Cholesky for R alone, CholeskyQR2 for R and Q, preconditioned if A is ill-conditioned | CholeskyQR2 up to 512 columns unless A is ill-conditioned (`plan/device/cholesky.rs`) |
//! | any other, or too ill-conditioned for that | Householder reflectors in panels, kept for Q | the same |
//! | any, with products by low precision | recursively (`plan/products.rs`) | the same |

use faer::{Mat, MatRef};
use pollster::block_on;

#[cfg(feature = "gpu")]
use crate::{
    algo::reflectors::form_factor,
    base::{element_kind::ElementKind, zeros::identity},
    gpu::{
        device::{context::Waits, stream::Manner},
        kernels::GpuKernels,
        storage::Dense,
    },
    plan::{
        backend::{OnGpu, or_fall_back},
        device::{
            cholesky::{Attempt, DeviceThin, ThinFactors, cholesky_qr, is_worth, report_of_cholesky},
            factors::OnDevice,
        },
        qr_report::report_of_gpu,
    },
};
use crate::{
    algo::{count::factor_flops, reflectors::keep_factor, to_band::triangular_factor},
    base::{
        clock::{Clock, StageSeconds},
        error::{Result, room_for},
        number::{HalfStorage, Number, Re, RealElement, Scalar, in_storage},
        pool::{on_pool_for, on_threads},
        stage::Stage,
        watch::Watch,
    },
    cpu::{
        kernels::CpuKernels,
        tall::{
            cholesky_qr::{accurate, triangle},
            orthogonal::{Thin, orthogonal},
            tsqr::tsqr,
        },
    },
    plan::{
        backend::Place,
        call::Call,
        choice::Reason,
        options::{QrOptions, check_tolerance},
        problem::Problem,
        products,
        qr_factors::{Explicit, Identity, QrFactors, Tree, Unitary, unscaled, upper},
        qr_report::{BoxedFactors, finished, report_of},
        report::SvdReport,
        route::{Orthogonal, pivots_at_once, squares_for_q, squares_for_r},
    },
    tile::{kernels::Transfers, products::Products, tuning::Tuning},
};

/// R, and Q in some form.
type RAndQ<S> = (Mat<S>, Box<dyn Unitary<S>>);

/// The QR factorisation, and the report; its seconds are zero unless `timed`.
pub(crate) fn qr<T: Scalar>(a: MatRef<'_, T>, options: &QrOptions, timed: bool) -> Result<SvdReport<BoxedFactors<T>>> {
    on_threads(options.run.threads, || factors_of(&Call::of(a, options, &options.run, timed)))
}

/// [`qr`] for a caller that must not block. The CPU computes in the rayon pool, from a copy of the matrix.
pub(crate) async fn qr_async<T: Scalar>(
    a: MatRef<'_, T>,
    options: &QrOptions,
    timed: bool,
) -> Result<SvdReport<BoxedFactors<T>>> {
    let call = Call::of(a, options, &options.run, timed);
    check::<T>(&call)?;
    let place = Place::of_async(options.run.half_storage.of(T::KIND), &options.run, problem_of(a.shape(), options)).await?;
    place.has_run(&options.run)?;
    let reason = match place {
        Place::Cpu(reason) => reason,
        #[cfg(feature = "gpu")]
        Place::Gpu(on) => match or_fall_back(&options.run, false, on_gpu(&call, on, Waits::Awaited).await)? {
            Ok(report) => return Ok(call.complete(report)),
            Err(reason) => reason,
        },
    };
    let options = QrOptions { run: options.run.on_cpu(), ..options.clone() };
    call.in_pool(reason, move |a| qr(a, &options, timed)).await
}

/// The first min(m, n) rows of R, and the report.
pub(crate) fn qr_r<T: Scalar>(a: MatRef<'_, T>, options: &QrOptions, timed: bool) -> Result<SvdReport<Mat<T>>> {
    on_threads(options.run.threads, || {
        let call = Call::of(a, options, &options.run, timed);
        if options.pivot || options.positive_diagonal || options.products != Products::Native || in_half::<T>(options) {
            return Ok(factors_of(&call)?.map(|factors| factors.r().to_owned()));
        }
        check::<T>(&call)?;
        let report = match place_of(&call)? {
            Place::Cpu(reason) => r_on_cpu(&call, reason)?,
            #[cfg(feature = "gpu")]
            Place::Gpu(on) => match or_fall_back(&options.run, false, block_on(r_on_gpu(&call, on, Waits::Blocking)))? {
                Ok(report) => report,
                Err(reason) => r_on_cpu(&call, reason)?,
            },
        };
        Ok(call.complete(report))
    })
}

/// Where the matrix is factored.
fn place_of<T: Scalar>(call: &Call<'_, T, QrOptions>) -> Result<Place> {
    let place = Place::of(call.run.half_storage.of(T::KIND), call.run, problem_of(call.a.shape(), call.options))?;
    place.has_run(call.run)?;
    Ok(place)
}

fn problem_of((m, n): (usize, usize), options: &QrOptions) -> Problem {
    Problem::Qr { m, n, by_products: options.products != Products::Native }
}

/// Whether Q and R are stored as f16.
fn in_half<T: Scalar>(options: &QrOptions) -> bool {
    !T::IS_DOUBLE && options.run.half_storage == HalfStorage::Half
}

/// The tolerance for the rank, where the storage type gives another than the arithmetic.
fn tolerance<T: Scalar>(call: &Call<'_, T, QrOptions>) -> Option<f64> {
    let (m, n) = call.a.shape();
    let of_half = || in_half::<T>(call.options).then(|| (m.max(n) as f64).sqrt() * f64::from(half::f16::EPSILON));
    call.options.tolerance.or_else(of_half)
}

/// Checks the options, and that there is memory for what is kept.
fn check<T: Scalar>(call: &Call<'_, T, QrOptions>) -> Result<()> {
    let (m, n) = call.a.shape();
    check_tolerance(call.options.tolerance)?;
    products::check::<T>(call.options)?;
    room_for::<T>("a QR factorisation", m, n, 2)
}

fn factors_of<T: Scalar>(call: &Call<'_, T, QrOptions>) -> Result<SvdReport<BoxedFactors<T>>> {
    check::<T>(call)?;
    let report = match place_of(call)? {
        Place::Cpu(reason) => on_cpu(call, reason)?,
        #[cfg(feature = "gpu")]
        Place::Gpu(on) => match or_fall_back(call.run, false, block_on(on_gpu(call, on, Waits::Blocking)))? {
            Ok(report) => report,
            Err(reason) => on_cpu(call, reason)?,
        },
    };
    Ok(call.complete(report))
}

/// A call on the CPU, from its start to its report.
struct Started<T: Scalar> {
    scale: Re<T>,
    scale_seconds: f64,
    tuning: Tuning,
    clock: Clock,
    watch: Watch,
}

impl<T: Scalar> Started<T> {
    /// Stage 0 and the hyperparameters, then the start of [`Stage::Qr`].
    fn new(call: &Call<'_, T, QrOptions>) -> Result<Self> {
        let shape = call.a.shape();
        let (scale, scale_seconds) = call.scale(call.run.half_storage.of(T::KIND))?;
        let tuning = call.run.tuning_for_cpu(T::KIND, shape.0.min(shape.1))?;
        let clock = Clock::new(call.timed);
        let watch = Watch::new(&call.listen, || Ok([factor_flops(T::KIND, shape, &tuning)?, 0, 0, 0]))?;
        watch.begin(Stage::Qr)?;
        Ok(Started { scale, scale_seconds, tuning, clock, watch })
    }

    /// The end of [`Stage::Qr`], and the report.
    fn end<V>(mut self, call: &Call<'_, T, QrOptions>, reason: Reason, route: Orthogonal, values: V) -> SvdReport<V> {
        self.watch.end();
        let seconds = StageSeconds { scale: self.scale_seconds, qr: self.clock.restart(), ..StageSeconds::default() };
        let report = report_of(T::KIND, call.a.shape(), reason, route, self.tuning, seconds, values);
        SvdReport { storage: if in_half::<T>(call.options) { T::Compact::NAME } else { report.storage }, ..report }
    }
}

/// The factorisation on the CPU.
pub(crate) fn on_cpu<T: Scalar>(call: &Call<'_, T, QrOptions>, reason: Reason) -> Result<SvdReport<BoxedFactors<T>>> {
    if call.options.products != Products::Native {
        return products::on_cpu(call, reason);
    }
    on_pool_for(call.a.shape(), || by_native_products(call, reason))
}

/// [`on_cpu`] in the pool.
fn by_native_products<T: Scalar>(call: &Call<'_, T, QrOptions>, reason: Reason) -> Result<SvdReport<BoxedFactors<T>>> {
    let (a, shape) = (call.a, call.a.shape());
    let started = Started::new(call)?;
    let (scale, tuning, watch) = (started.scale, &started.tuning, &started.watch);
    let half = in_half::<T>(call.options);
    let pivoted_at_once = call.options.pivot && !half && pivots_at_once(shape);
    let thin = if squares_for_q(T::KIND, shape) && !half { orthogonal(a, scale, watch)? } else { None };
    let (factors, route) = match thin {
        None if pivoted_at_once => {
            let r = Mat::from_fn(shape.0, shape.1, |i, j| a[(i, j)].widen());
            (QrFactors::new(shape, r, Box::new(Identity { order: shape.0 }), call.options.tolerance), Orthogonal::Householder)
        }
        Some(Thin { x, inverse, r, preconditioned }) => {
            let q = Box::new(Explicit::product(x, inverse));
            let route = if preconditioned { Orthogonal::Preconditioned } else { Orthogonal::Cholesky };
            (QrFactors::new(shape, unscaled(r, scale)?, q, call.options.tolerance), route)
        }
        None => {
            let (r, q) = in_storage!(call.run.half_storage, T => tree_on_cpu::<_, S>(a, scale, tuning, watch))?;
            (QrFactors::new(shape, unscaled(r, scale)?, q, tolerance(call)), Orthogonal::Householder)
        }
    };
    let factors = finished(factors, call.options)?;
    Ok(started.end(call, reason, route, factors))
}

/// [`tree`] on the CPU, of a matrix that is stored as `S`.
fn tree_on_cpu<T, S>(a: MatRef<'_, T>, scale: Re<T>, tuning: &Tuning, watch: &Watch) -> Result<RAndQ<T>>
where
    T: Scalar,
    S: Number<Real = Re<T>, Scalar = T>,
{
    let kernels = CpuKernels::<S>::watched(tuning, watch.clone())?;
    let (r, tree) = block_on(tree(kernels, |kernels| kernels.upload(a, scale), a.shape(), tuning))?;
    // Without the call's listeners.
    Ok((r, Box::new(Tree { kernels: CpuKernels::<S>::new(tuning)?, ..tree })))
}

/// Householder's factorisation by `kernels`: R of the uploaded matrix, and Q's reflectors.
pub(crate) async fn tree<S: Scalar, K: Transfers<S>>(
    kernels: K,
    upload: impl FnOnce(&K) -> Result<K::Dense>,
    shape: (usize, usize),
    tuning: &Tuning,
) -> Result<(Mat<S>, Tree<K>)> {
    let mut a = upload(&kernels)?;
    keep_factor(&kernels, &mut a, shape, tuning)?;
    triangular_factor(&kernels, &mut a, shape.0, shape.1, tuning)?;
    let r = kernels.download_rows(&a, shape.0.min(shape.1)).await?;
    Ok((upper(r), Tree { kernels, a, shape, tuning: tuning.clone() }))
}

/// R alone on the CPU.
fn r_on_cpu<T: Scalar>(call: &Call<'_, T, QrOptions>, reason: Reason) -> Result<SvdReport<Mat<T>>> {
    on_pool_for(call.a.shape(), || {
        let started = Started::new(call)?;
        let (r, route) = triangular(call.a, started.scale, &started.tuning, &started.watch)?;
        Ok(started.end(call, reason, route, r))
    })
}

/// R of `a` on the CPU. `scale` brings its entries near 1.
pub(crate) fn triangular<T: Scalar>(
    a: MatRef<'_, T>,
    scale: Re<T>,
    tuning: &Tuning,
    watch: &Watch,
) -> Result<(Mat<T>, Orthogonal)> {
    let (m, n) = a.shape();
    if squares_for_r(T::KIND, (m, n)) {
        if let Some(r) = triangle(a, accurate::<T>(n), watch)? {
            let r = Mat::from_fn(n, n, |i, j| T::from_wide(r[(i, j)]));
            return Ok((unscaled(r, Re::<T>::from_double(1.0))?, Orthogonal::Cholesky));
        }
        if n <= tuning.cpu.direct_up_to {
            let (r, scale) = tsqr(a, watch)?;
            return Ok((unscaled(upper(r), scale)?, Orthogonal::Householder));
        }
    }
    let kernels = CpuKernels::<T>::watched(tuning, watch.clone())?;
    let mut dense = kernels.upload(a, scale)?;
    triangular_factor(&kernels, &mut dense, m, n, tuning)?;
    let r = block_on(kernels.download_rows(&dense, m.min(n)))?;
    Ok((unscaled(upper(r), scale)?, Orthogonal::Householder))
}

/// The kernels of a call on a GPU, which keeps reflectors or not, and its watch.
#[cfg(feature = "gpu")]
fn gpu_kernels<T: Scalar>(
    kind: ElementKind,
    call: &Call<'_, T, QrOptions>,
    on: &OnGpu,
    waits: Waits,
    kept: bool,
) -> Result<(GpuKernels, Watch)> {
    let shape = call.a.shape();
    let watch = Watch::new(&call.listen, || Ok([factor_flops(kind, shape, &on.tuning)?, 0, 0, 0]))?;
    let manner = Manner { waits, timed: call.run.time_kernels, watch: watch.clone(), kept, ..Manner::default() };
    let kernels = GpuKernels::running(kind, &on.context, &on.tuning, manner)?;
    watch.begin(Stage::Qr)?;
    Ok((kernels, watch))
}

/// The factorisation on a GPU. The reflectors stay there; R is read back.
#[cfg(feature = "gpu")]
pub(crate) async fn on_gpu<T: Scalar>(
    call: &Call<'_, T, QrOptions>,
    on: OnGpu,
    waits: Waits,
) -> Result<SvdReport<BoxedFactors<T>>> {
    if call.options.products != Products::Native {
        return products::on_gpu(call, on, waits).await;
    }
    if is_worth(call.a.shape()) && !in_half::<T>(call.options) {
        return narrow_on_gpu(call, on, waits).await;
    }
    let kind = call.run.half_storage.of(T::KIND);
    let scaled = call.scale(kind)?;
    on_gpu_in(kind, call, on, waits, scaled, None).await
}

/// [`on_gpu`] of a narrow matrix, by CholeskyQR2 unless it is too ill-conditioned.
#[cfg(feature = "gpu")]
async fn narrow_on_gpu<T: Scalar>(call: &Call<'_, T, QrOptions>, on: OnGpu, waits: Waits) -> Result<SvdReport<BoxedFactors<T>>> {
    let (shape, scaled) = (call.a.shape(), call.scale(T::KIND)?);
    let mut clock = Clock::new(call.timed);
    let upload = |kernels: &GpuKernels| kernels.upload(call.a, scaled.0);
    let DeviceThin { q, r, kernels, watch, ran } = match cholesky_qr::<T>(upload, &on, call.options, waits, &call.listen).await? {
        Attempt::Factored(thin) => *thin,
        Attempt::Declined(a, ran) => {
            let mut report = on_gpu_in(T::KIND, call, on, waits, scaled, a.map(|a| *a)).await?;
            ran.add_to(&mut report);
            report.seconds.qr = clock.restart();
            return Ok(report);
        }
    };
    let r_on_host = upper::<T>(kernels.download_rows(&r, shape.1).await?);
    let q: Box<dyn Unitary<T>> = match GpuKernels::running(T::KIND, &on.context, &on.tuning, Manner::default()) {
        Ok(later) => Box::new(OnDevice::new(Box::new(ThinFactors::new((q, r), later, &on)))),
        // Where nothing may block (a browser), the host needs Q now.
        Err(_) => Box::new(Explicit::new(kernels.download_awaited(&q).await?)),
    };
    let factors = finished(QrFactors::new(shape, unscaled(r_on_host, scaled.0)?, q, tolerance(call)), call.options)?;
    watch.end();
    let seconds = StageSeconds { scale: scaled.1, qr: clock.restart(), ..StageSeconds::default() };
    Ok(report_of_cholesky(shape, on, (&kernels, ran), seconds, factors))
}

/// [`on_gpu`] of a matrix that is stored as `kind`, with its scale and the seconds that finding it took; of `uploaded`, if it is on the device
/// already.
#[cfg(feature = "gpu")]
async fn on_gpu_in<T: Scalar>(
    kind: ElementKind,
    call: &Call<'_, T, QrOptions>,
    on: OnGpu,
    waits: Waits,
    (scale, seconds): (Re<T>, f64),
    uploaded: Option<Dense>,
) -> Result<SvdReport<BoxedFactors<T>>> {
    let (a, shape) = (call.a, call.a.shape());
    let mut clock = Clock::new(call.timed);
    let (kernels, watch) = gpu_kernels(kind, call, &on, waits, true)?;
    let upload = |kernels: &GpuKernels| uploaded.map_or_else(|| kernels.upload(a, scale), Ok);
    let (r, tree) = tree(kernels, upload, shape, &on.tuning).await?;
    let Tree { kernels, a, tuning, .. } = tree;
    let q: Box<dyn Unitary<T>> = match GpuKernels::running(kind, &on.context, &on.tuning, Manner::default()) {
        // Without the call's listeners.
        Ok(later) => Box::new(Tree { kernels: later, a, shape, tuning }),
        // Where nothing may block (a browser), the host needs all of Q now.
        Err(_) => {
            let identity = identity::<T>(shape.0, shape.0.min(shape.1));
            let mut q = kernels.upload(identity.as_ref(), Re::<T>::from_double(1.0))?;
            form_factor(&kernels, &a, shape, &tuning, &mut q)?;
            Box::new(Explicit::new(kernels.download_awaited(&q).await?))
        }
    };
    let factors = finished(QrFactors::new(shape, unscaled(r, scale)?, q, tolerance(call)), call.options)?;
    watch.end();
    let seconds = StageSeconds { scale: seconds, qr: clock.restart(), ..StageSeconds::default() };
    Ok(report_of_gpu(shape, on, &kernels, seconds, factors))
}

/// R alone on a GPU.
#[cfg(feature = "gpu")]
async fn r_on_gpu<T: Scalar>(call: &Call<'_, T, QrOptions>, on: OnGpu, waits: Waits) -> Result<SvdReport<Mat<T>>> {
    let (m, n) = call.a.shape();
    let (scale, seconds) = call.scale(T::KIND)?;
    let mut clock = Clock::new(call.timed);
    let upload = |kernels: &GpuKernels| kernels.upload(call.a, scale);
    let (mut uploaded, mut tried) = (None, None);
    if is_worth((m, n)) {
        match cholesky_qr::<T>(upload, &on, call.options, waits, &call.listen).await? {
            Attempt::Factored(thin) => {
                let DeviceThin { r, kernels, watch, ran, .. } = *thin;
                let r: Mat<T> = kernels.download_rows(&r, n).await?;
                watch.end();
                let seconds = StageSeconds { scale: seconds, qr: clock.restart(), ..StageSeconds::default() };
                let r = unscaled(upper(r), scale)?;
                return Ok(report_of_cholesky((m, n), on, (&kernels, ran), seconds, r));
            }
            Attempt::Declined(a, ran) => (uploaded, tried) = (a, Some(ran)),
        }
    }
    let (kernels, watch) = gpu_kernels(T::KIND, call, &on, waits, false)?;
    let mut dense = uploaded.map_or_else(|| upload(&kernels), |a| Ok(*a))?;
    triangular_factor(&kernels, &mut dense, m, n, &on.tuning)?;
    let r: Mat<T> = kernels.download_rows(&dense, m.min(n)).await?;
    watch.end();
    let seconds = StageSeconds { scale: seconds, qr: clock.restart(), ..StageSeconds::default() };
    let mut report = report_of_gpu((m, n), on, &kernels, seconds, unscaled(upper(r), scale)?);
    tried.into_iter().for_each(|ran| ran.add_to(&mut report));
    Ok(report)
}
