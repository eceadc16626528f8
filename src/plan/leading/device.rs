//! Leading triples of a matrix on a GPU.

use faer::MatRef;
use num_complex::Complex;

use crate::{
    algo::krylov::{Asked, Found, iterate, measured},
    base::{
        clock::Clock,
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::{Number, Re, RealElement, Scalar},
        watch::Watch,
    },
    gpu::{
        device::{context::Waits, stream::Manner},
        kernels::{GpuKernels, krylov::DeviceBlocks},
        matrix::DeviceMatrix,
        storage::Dense,
    },
    plan::{
        backend::OnGpu,
        factors::Factors,
        leading::{estimate::Guard, iteration_of, no_cost, seconds_of, small_svd, values_of},
        options::{Backend, SvdOptions},
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

/// The iteration for a matrix on the device.
pub(crate) async fn iterated(kernels: GpuKernels, a: DeviceMatrix, asked: Asked, guard: &mut Guard) -> Result<Triples> {
    if a.kind.is_complex() { of::<Complex<f64>>(kernels, a, asked, guard).await } else { of::<f64>(kernels, a, asked, guard).await }
}

async fn of<W: Scalar<Wide = W> + Number<Real = f64>>(
    kernels: GpuKernels,
    a: DeviceMatrix,
    asked: Asked,
    guard: &mut Guard,
) -> Result<Triples> {
    let mut blocks = DeviceBlocks::<W>::new(kernels, a, &asked, small_svd)?;
    let found = iterate(&mut blocks, asked, &mut |progress| guard.go_on(progress)).await?;
    let vectors = blocks.vectors(asked.count)?;
    Ok(Triples { found, vectors, kernels: blocks.kernels })
}

/// The residuals of triples of a matrix on the device, given as a matrix times these values.
pub(crate) async fn residuals(kernels: GpuKernels, a: DeviceMatrix, values: &[f64], vectors: [&Dense; 2]) -> Result<Vec<f64>> {
    async fn of<W: Scalar<Wide = W> + Number<Real = f64>>(
        kernels: GpuKernels,
        a: DeviceMatrix,
        values: &[f64],
        [left, right]: [&Dense; 2],
    ) -> Result<Vec<f64>> {
        let count = values.len();
        let asked = Asked { count, block: count, most: 2 * count, accuracy: 1.0, seed: 0 };
        let mut blocks = DeviceBlocks::<W>::new(kernels, a, &asked, small_svd)?;
        blocks.set_vectors(left, right)?;
        measured(&mut blocks, values).await
    }
    if a.kind.is_complex() { of::<Complex<f64>>(kernels, a, values, vectors).await } else { of::<f64>(kernels, a, values, vectors).await }
}

/// The iteration for `scale` times a matrix of the host.
pub(crate) async fn on_device<T: Scalar>(
    a: MatRef<'_, T>,
    scale: f64,
    asked: Asked,
    guard: &mut Guard,
    on: OnGpu,
    (options, timed, waits): (&SvdOptions, bool, Waits),
) -> Result<Ran<T>> {
    let mut clock = Clock::new(timed);
    let kernels = kernels_of(T::KIND, &on, options, guard.watch.clone(), waits)?;
    let there = kernels.upload(a, Re::<T>::from_double(scale))?;
    let there = DeviceMatrix::from_dense(&on.context, there)?;
    let of_upload = clock.restart();
    let Triples { found, vectors: [left, right], kernels } = iterated(kernels, there, asked, guard).await?;
    let factors = if found.reached {
        let (u, v) = (read_back(&kernels, Some(left), a.nrows()).await?, read_back(&kernels, Some(right), a.ncols()).await?);
        let [s, residuals] = values_of::<T>(&found, scale)?;
        Factors { u, s, v, residuals: Some(residuals) }
    } else {
        kernels.finish().await?;
        Factors::new(faer::Mat::new(), Vec::new(), faer::Mat::new())
    };
    let report = SvdReport {
        values: factors,
        backend: Backend::Gpu,
        reason: on.reason,
        route: Route::Krylov,
        adapter: Some(on.context.adapter_name().to_owned()),
        storage: T::NAME,
        tuning: on.tuning,
        seconds: seconds_of(0.0, of_upload, clock.restart()),
        counts: kernels.counts(),
        kernel_seconds: kernels.kernel_seconds(),
        iteration: Some(iteration_of(&found.progress, false)),
        shape: a.shape(),
        stage3_on_device: false,
        options: String::new(),
        cost: (T::KIND, no_cost),
    };
    Ok(Ran { found, report })
}

