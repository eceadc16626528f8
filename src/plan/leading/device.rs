//! Leading triples of a matrix on a GPU.

use faer::MatRef;
use num_complex::Complex;
use pollster::block_on;

use crate::{
    algo::{
        krylov::{Asked, Found, Progress, iterate, measured},
        svdvals::unscaled,
    },
    base::{
        clock::{Clock, StageSeconds},
        element_kind::ElementKind,
        error::Result,
        number::{Number, Re, RealElement, Scalar},
        watch::Watch,
    },
    cost::{counts::Counts, work::Kernel},
    cpu::krylov::scale_for_squares,
    gpu::{
        device::{context::Waits, stream::Manner},
        kernels::{GpuKernels, krylov::DeviceBlocks},
        matrix::DeviceMatrix,
        storage::Dense,
    },
    plan::{
        backend::OnGpu,
        device::{
            on_its_device,
            svd::{DeviceSvd, within},
        },
        factors::Factors,
        leading::{Plan, estimate::Guard, iteration_of, no_cost, reduction, seconds_of, small_svd, values_of},
        options::{Backend, SvdOptions, Vectors},
        report::SvdReport,
        route::Route,
        svd::read_back,
    },
    tile::kernels::{TileKernels, Transfers},
};

/// How an iteration ended, and its triples in the report, if they are accurate.
pub(crate) struct Ran<T: Scalar> {
    pub found: Found,
    pub report: SvdReport<Factors<T>>,
}

/// Kernels for the products of a call.
pub(crate) fn kernels_of(kind: ElementKind, on: &OnGpu, options: &SvdOptions, watch: Watch, waits: Waits) -> Result<GpuKernels> {
    let manner = Manner { waits, timed: options.run.time_kernels, watch, ..Manner::default() };
    GpuKernels::running(kind, &on.context, &on.tuning, manner)
}

/// Triples of a matrix: the iteration, their vectors, and the kernels that computed them.
pub(crate) struct Triples {
    pub found: Found,
    /// The left and the right ones.
    pub vectors: [Dense; 2],
    pub kernels: GpuKernels,
}

/// The iteration for a matrix on the device that is stored as this kind.
pub(crate) async fn iterated(
    kernels: GpuKernels,
    a: (DeviceMatrix, ElementKind),
    asked: Asked,
    guard: &mut Guard,
) -> Result<Triples> {
    if a.1.is_complex() { of::<Complex<f64>>(kernels, a, asked, guard).await } else { of::<f64>(kernels, a, asked, guard).await }
}

async fn of<W: Scalar<Wide = W> + Number<Real = f64>>(
    kernels: GpuKernels,
    a: (DeviceMatrix, ElementKind),
    asked: Asked,
    guard: &mut Guard,
) -> Result<Triples> {
    let mut blocks = DeviceBlocks::<W>::new(kernels, a, &asked, small_svd)?;
    let found = iterate(&mut blocks, asked, &mut |progress| guard.go_on(progress)).await?;
    let vectors = blocks.vectors(asked.count)?;
    Ok(Triples { found, vectors, kernels: blocks.kernels })
}

/// The residuals of triples of a matrix on the device, given as a matrix times these values.
pub(crate) async fn residuals(
    kernels: GpuKernels,
    a: DeviceMatrix,
    values: &[f64],
    vectors: [&DeviceMatrix; 2],
) -> Result<Vec<f64>> {
    async fn of<W: Scalar<Wide = W> + Number<Real = f64>>(
        kernels: GpuKernels,
        a: DeviceMatrix,
        values: &[f64],
        [left, right]: [&DeviceMatrix; 2],
    ) -> Result<Vec<f64>> {
        let count = values.len();
        let asked = Asked { count, block: count, most: 2 * count, accuracy: 1.0, seed: 0 };
        let kind = a.kind;
        let mut blocks = DeviceBlocks::<W>::new(kernels, (a, kind), &asked, small_svd)?;
        blocks.set_vectors(left, right)?;
        measured(&mut blocks, values).await
    }
    if a.kind.is_complex() {
        of::<Complex<f64>>(kernels, a, values, vectors).await
    } else {
        of::<f64>(kernels, a, values, vectors).await
    }
}

/// The iteration for `scale` times a matrix of the host.
pub(crate) async fn on_device<T: Scalar>(
    a: MatRef<'_, T>,
    (scale, as_f16): (f64, bool),
    asked: Asked,
    guard: &mut Guard,
    on: OnGpu,
    (options, timed, waits): (&SvdOptions, bool, Waits),
) -> Result<Ran<T>> {
    let mut clock = Clock::new(timed);
    let kernels = kernels_of(T::KIND, &on, options, guard.quiet.clone(), waits)?;
    // What f16 holds without rounding is stored as such.
    let stored = if as_f16 { ElementKind::F16 } else { T::KIND };
    let uploads = kernels_of(stored, &on, options, Watch::default(), waits)?;
    let there = uploads.upload(a, Re::<T>::from_double(scale))?;
    uploads.finish().await?;
    let there = DeviceMatrix::from_dense(&on.context, there)?;
    let of_upload = clock.restart();
    let Triples { found, vectors: [left, right], kernels } = iterated(kernels, (there, stored), asked, guard).await?;
    let factors = if found.reached {
        let (u, v) = (read_back(&kernels, Some(left), a.nrows()).await?, read_back(&kernels, Some(right), a.ncols()).await?);
        let [s, residuals] = values_of::<T>(&found, scale)?;
        Factors { u, s, v, residuals: Some(residuals) }
    } else {
        kernels.finish().await?;
        Factors::new(faer::Mat::new(), Vec::new(), faer::Mat::new())
    };
    let seconds = seconds_of(0.0, of_upload, clock.restart());
    let mut counts = (kernels.counts(), kernels.kernel_seconds());
    counts.0.add(&uploads.counts());
    let report = report_of((T::KIND, stored.name()), a.shape(), on, (&found.progress, asked.accuracy), seconds, counts, factors);
    Ok(Ran { found, report })
}

fn report_of<V>(
    (kind, storage): (ElementKind, &'static str),
    shape: (usize, usize),
    on: OnGpu,
    (progress, accuracy): (&Progress, f64),
    seconds: StageSeconds,
    (counts, kernel_seconds): (Counts, Vec<(Kernel, f64)>),
    values: V,
) -> SvdReport<V> {
    SvdReport {
        values,
        backend: Backend::Gpu,
        reason: on.reason,
        route: Route::Krylov,
        adapter: Some(on.context.adapter_name().to_owned()),
        storage,
        tuning: on.tuning,
        seconds,
        counts,
        kernel_seconds,
        iteration: Some(iteration_of(progress, accuracy, false)),
        shape,
        stage3_on_device: false,
        options: String::new(),
        cost: (kind, no_cost),
    }
}

/// A matrix on the device with the power of two by which it is multiplied; a copy only if that is not 1.
fn scaled(kernels: &GpuKernels, a: &DeviceMatrix, scale: f64) -> Result<DeviceMatrix> {
    if scale != 1.0 {
        return DeviceMatrix::from_dense(&a.context, kernels.adopt(&a.lines(), scale)?);
    }
    let (context, entries) = (a.context.clone(), a.entries.clone());
    Ok(DeviceMatrix { kind: a.kind, context, entries, size: a.size, strides: a.strides })
}

/// The decomposition of a matrix on the device to an accuracy.
pub(crate) fn svd_there(a: &DeviceMatrix, options: &SvdOptions, timed: bool) -> Result<SvdReport<DeviceSvd>> {
    let (clock, shape) = (Clock::new(timed), a.size);
    let epsilon = if a.kind.is_double() { f64::EPSILON } else { f32::EPSILON.into() };
    let plan = Plan::new(shape, epsilon, options);
    a.context.require(a.kind)?;
    let tuning = options.run.tuning_for_adapter(a.kind, &a.context, shape.0.min(shape.1))?;
    plan.problem().required_bytes(a.kind, &a.context, &tuning)?;
    let scale = scale_for_squares(a.largest()?);
    let of_scale = clock.seconds();
    let on = on_its_device(a, tuning);
    let (mut progress, mut told) = (Progress::default(), 0);
    if let Some(asked) = plan.asked {
        let mut guard = plan.guard(&options.run.listen())?;
        let mut clock = Clock::new(timed);
        let kernels = kernels_of(a.kind, &on, options, guard.quiet.clone(), Waits::Blocking)?;
        let there = scaled(&kernels, a, scale)?;
        let Triples { found, vectors, kernels } = block_on(iterated(kernels, (there, a.kind), asked, &mut guard))?;
        if found.reached {
            let of = |values: &[f64], what| unscaled(a.kind, values.to_vec(), scale, what);
            let (s, residuals) = (of(&found.values, "singular values")?, of(&found.residuals, "residuals")?);
            let [u, v] = vectors.map(|x| DeviceMatrix::from_dense(&a.context, x));
            let svd = DeviceSvd { u: u?, s, v: v?, residuals: Some(residuals) };
            block_on(kernels.finish())?;
            guard.watch.end();
            let counts = (kernels.counts(), kernels.kernel_seconds());
            let seconds = seconds_of(of_scale, 0.0, clock.restart());
            let mut report =
                report_of((a.kind, a.kind.name()), shape, on, (&found.progress, plan.accuracy), seconds, counts, svd);
            report.values = asked_for_there(report.values, &kernels, options)?;
            report.seconds.total = clock.seconds() + of_scale + seconds.iteration;
            return Ok(report);
        }
        (progress, told) = (found.progress, guard.told);
    }
    let reduced = reduction(options, told);
    let mut report = within(a, &reduced, timed)?;
    let kernels = kernels_of(a.kind, &on, options, Watch::default(), Waits::Blocking)?;
    let svd = &mut report.values;
    progress.products += 2;
    progress.columns += 2 * svd.s.len();
    progress.residual = 0.0;
    let mut found = Vec::new();
    if let Some(&largest) = svd.s.first() {
        let values: Vec<f64> = svd.s.iter().map(|s| s * scale).collect();
        let there = scaled(&kernels, a, scale)?;
        let measured = block_on(residuals(
            kernels_of(a.kind, &on, options, Watch::default(), Waits::Blocking)?,
            there,
            &values,
            [&svd.u, &svd.v],
        ))?;
        found = unscaled(a.kind, measured, scale, "residuals")?;
        let most = found.iter().copied().fold(0.0, f64::max);
        progress.residual = if most == 0.0 { 0.0 } else { most / largest };
    }
    svd.residuals = Some(found);
    report = report.try_map(|svd| asked_for_there(svd, &kernels, options))?;
    report.iteration = Some(iteration_of(&progress, plan.accuracy, true));
    report.seconds.total = clock.seconds();
    Ok(report)
}

/// The triples that the tolerance leaves, and the vectors that the options ask for, in the same buffers.
fn asked_for_there(svd: DeviceSvd, kernels: &GpuKernels, options: &SvdOptions) -> Result<DeviceSvd> {
    let DeviceSvd { u, mut s, v, mut residuals } = svd;
    let kept = options.kept(&s);
    let cut = |x: DeviceMatrix, wanted: bool| match wanted {
        true => Ok(DeviceMatrix { size: (x.size.0, kept.min(x.size.1)), ..x }),
        false => DeviceMatrix::from_dense(&x.context, kernels.room(x.size.0, 0)?),
    };
    let (u, v) = (cut(u, options.vectors != Vectors::Right)?, cut(v, options.vectors != Vectors::Left)?);
    s.truncate(kept);
    residuals.iter_mut().for_each(|residuals| residuals.truncate(kept));
    Ok(DeviceSvd { u, s, v, residuals })
}
