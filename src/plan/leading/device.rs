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
    cpu::krylov::scale_for_squares,
    gpu::{
        device::{context::Waits, stream::Manner},
        kernels::{GpuKernels, krylov::DeviceBlocks, products::Stored},
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
        leading::{
            Left, Plan, estimate::Guard, for_residuals, iteration_of, no_cost, seconds_of, small_svd, together, values_of,
        },
        options::{Backend, SvdOptions, Vectors},
        report::{Ran, SvdReport},
        route::Route,
        svd::read_back,
    },
    tile::kernels::{TileKernels, Transfers},
};

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
pub(crate) async fn iterated(kernels: GpuKernels, a: (DeviceMatrix, Stored), asked: Asked, guard: &mut Guard) -> Result<Triples> {
    if kernels.kind.is_complex() {
        of::<Complex<f64>>(kernels, a, asked, guard).await
    } else {
        of::<f64>(kernels, a, asked, guard).await
    }
}

async fn of<W: Scalar<Wide = W> + Number<Real = f64>>(
    kernels: GpuKernels,
    a: (DeviceMatrix, Stored),
    asked: Asked,
    guard: &mut Guard,
) -> Result<Triples> {
    let mut blocks = DeviceBlocks::<W>::new(kernels, a, &asked, small_svd)?;
    let found = iterate(&mut blocks, asked, &mut |progress| guard.go_on(progress)).await?;
    let vectors = blocks.vectors(asked.count)?;
    Ok(Triples { found, vectors, kernels: blocks.kernels })
}

/// The residuals of triples of a matrix on the device, given as a matrix times these values; some at a time.
async fn residuals(
    kernels: GpuKernels,
    a: DeviceMatrix,
    values: &[f64],
    vectors: [&DeviceMatrix; 2],
    watch: &Watch,
) -> Result<(Vec<f64>, GpuKernels)> {
    async fn of<W: Scalar<Wide = W> + Number<Real = f64>>(
        kernels: GpuKernels,
        a: DeviceMatrix,
        values: &[f64],
        [left, right]: [&DeviceMatrix; 2],
        watch: &Watch,
    ) -> Result<(Vec<f64>, GpuKernels)> {
        let (kind, count) = (a.kind, values.len());
        let mut blocks = DeviceBlocks::<W>::new(kernels, (a, Stored::As(kind)), &for_residuals(count), small_svd)?;
        let mut all = Vec::with_capacity(count);
        for some in together(count) {
            blocks.set_vectors(left, right, some.clone())?;
            all.extend(measured(&mut blocks, &values[some.clone()]).await?);
            watch.did(some.len() as u64)?;
        }
        Ok((all, blocks.kernels))
    }
    match a.kind.is_complex() {
        true => of::<Complex<f64>>(kernels, a, values, vectors, watch).await,
        false => of::<f64>(kernels, a, values, vectors, watch).await,
    }
}

/// The iteration for `scale` times a matrix of the host, and its triples in the report, if they are accurate.
pub(crate) async fn on_device<T: Scalar>(
    a: MatRef<'_, T>,
    (scale, stored): (f64, Stored),
    asked: Asked,
    guard: &mut Guard,
    on: OnGpu,
    (options, timed, waits): (&SvdOptions, bool, Waits),
) -> Result<(Found, SvdReport<Factors<T>>)> {
    let mut clock = Clock::new(timed);
    let kernels = kernels_of(T::KIND, &on, options, guard.quiet.clone(), waits)?;
    let of_uploads = if let Stored::As(kind) = stored { kind } else { T::KIND };
    let uploads = kernels_of(of_uploads, &on, options, Watch::default(), waits)?;
    let there = match stored {
        Stored::As(_) => DeviceMatrix::from_dense(&on.context, uploads.upload(a, Re::<T>::from_double(scale))?)?,
        Stored::Bf16 => uploads.upload_as_bf16(a)?,
    };
    uploads.finish().await?;
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
    let mut report = report_of((T::KIND, stored.name()), a.shape(), on, seconds, &kernels, factors);
    Ran::of(&uploads, StageSeconds::default()).add_to(&mut report);
    Ok((found, report))
}

fn report_of<V>(
    (kind, storage): (ElementKind, &'static str),
    shape: (usize, usize),
    on: OnGpu,
    seconds: StageSeconds,
    kernels: &GpuKernels,
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
        counts: kernels.counts(),
        kernel_seconds: kernels.kernel_seconds(),
        iteration: None,
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
    let (listen, mut left) = (options.run.listen(), Left::default());
    let told = |mut report: SvdReport<DeviceSvd>, kernels: &GpuKernels, progress: &Progress, reduced| {
        report = report.try_map(|svd| asked_for_there(svd, kernels, options))?;
        let DeviceSvd { s, residuals, .. } = &report.values;
        report.iteration = Some(iteration_of(progress, (s, residuals.as_deref()), plan.accuracy, reduced));
        report.seconds.total = clock.seconds();
        Ok(report)
    };
    if let Some(asked) = plan.asked {
        let mut guard = plan.guard(&listen)?;
        let mut clock = Clock::new(timed);
        let kernels = kernels_of(a.kind, &on, options, guard.quiet.clone(), Waits::Blocking)?;
        let there = scaled(&kernels, a, scale)?;
        let Triples { found, vectors, kernels } = block_on(iterated(kernels, (there, Stored::As(a.kind)), asked, &mut guard))?;
        block_on(kernels.finish())?;
        let seconds = seconds_of(of_scale, 0.0, clock.restart());
        if found.reached {
            let of = |values: &[f64], what| unscaled(a.kind, values.to_vec(), scale, what);
            let (s, residuals) = (of(&found.values, "singular values")?, of(&found.residuals, "residuals")?);
            let [u, v] = vectors.map(|x| DeviceMatrix::from_dense(&a.context, x));
            let svd = DeviceSvd { u: u?, s, v: v?, residuals: Some(residuals) };
            guard.watch.end();
            let report = report_of((a.kind, a.kind.name()), shape, on, seconds, &kernels, svd);
            return told(report, &kernels, &found.progress, false);
        }
        left = Left::new(found.progress, &guard, Ran::of(&kernels, seconds));
    }
    let mut report = within(a, &left.reduction(options, &listen), timed)?;
    let svd = &mut report.values;
    let mut clock = Clock::new(timed);
    let watch = left.measuring(&listen, svd.s.len())?;
    let mut kernels = kernels_of(a.kind, &on, options, Watch::default(), Waits::Blocking)?;
    left.count_residuals(svd.s.len());
    let mut measured = Vec::new();
    if !svd.s.is_empty() {
        let values: Vec<f64> = svd.s.iter().map(|s| s * scale).collect();
        let there = scaled(&kernels, a, scale)?;
        (measured, kernels) = block_on(residuals(kernels, there, &values, [&svd.u, &svd.v], &watch))?;
    }
    svd.residuals = Some(unscaled(a.kind, measured, scale, "residuals")?);
    watch.end();
    let seconds = seconds_of(0.0, 0.0, clock.restart());
    Ran::of(&kernels, seconds).add_to(&mut report);
    left.ran.add_to(&mut report);
    told(report, &kernels, &left.progress, true)
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
