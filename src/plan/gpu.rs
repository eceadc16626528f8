//! The route on a GPU.

use std::marker::PhantomData;

use faer::Mat;

use crate::{
    algo::{
        bidiagonal::Stage3,
        count::{flops_by_band, flops_by_one_stage, vectors_flops},
        svdvals::{Driver, Found, Source, Wanted},
    },
    base::{
        error::Result,
        number::{Number, Re, in_storage},
        watch::{Listen, Stage, Watch},
    },
    cost::{
        BISECTION_WORTHWHILE, Cost,
        shape::{Bounds, Shape},
    },
    gpu::{
        device::{
            context::{GpuContext, Waits},
            stream::Manner,
        },
        kernels::{GpuKernels, one_stage::panel_bytes},
        storage::required_bytes_of,
    },
    plan::{
        backend::OnGpu,
        options::{Backend, SvdOptions},
        report::SvdReport,
        route::Route,
    },
};

/// Whether a GPU runs stage 3 of order `n`.
pub(crate) fn bisects(context: &GpuContext, n: usize, method: Stage3) -> bool {
    match method {
        Stage3::Device => true,
        Stage3::Auto => n >= BISECTION_WORTHWHILE && !context.is_software(),
        _ => false,
    }
}

/// What a GPU has found.
pub(crate) struct OnDevice<T: Number> {
    pub values: Vec<T::Real>,
    /// The right singular vectors that were wanted, n x k.
    pub right: Option<Mat<T::Scalar>>,
    /// The listeners. If vectors are wanted, the end of the call has not been reported to them.
    pub watch: Watch,
}

/// All singular values of `scale` times the m x n matrix `a`, m >= n, on a GPU. The report's shape is that of `a`. Its seconds lack those
/// of stage 0 and the total.
pub(crate) async fn svdvals_on_gpu<T, S, A>(
    a: A,
    scale: Re<T>,
    of: Asked<'_>,
    on: OnGpu,
    waits: Waits,
) -> Result<SvdReport<Vec<T::Real>>>
where
    T: Number,
    S: Number<Real = T::Real, Scalar = T::Scalar>,
    A: Source<GpuKernels<S>>,
{
    Ok(svd_on_gpu::<T, S, A>(a, scale, of, on, waits, None).await?.map(|found| found.values))
}

/// The options of a call on a GPU, its listeners, and whether the seconds of each stage are needed.
pub(crate) struct Asked<'a> {
    pub options: &'a SvdOptions,
    pub listen: Listen,
    pub timed: bool,
}

/// [`svdvals_on_gpu`], with the right singular vectors if some are `wanted`.
pub(crate) async fn svd_on_gpu<T, S, A>(
    a: A,
    scale: Re<T>,
    Asked { options, listen, timed }: Asked<'_>,
    OnGpu { context, tuning, reason }: OnGpu,
    waits: Waits,
    wanted: Option<Wanted<'_, T::Real>>,
) -> Result<SvdReport<OnDevice<T>>>
where
    T: Number,
    S: Number<Real = T::Real, Scalar = T::Scalar>,
    A: Source<GpuKernels<S>>,
{
    let shape = a.shape();
    let (route, by_model) = Route::on_gpu(shape, options.reduction, &Bounds::of(&context));
    let reason = by_model.map_or(reason.clone(), |why| format!("{reason}; {why}").into());
    let one_stage = route.is_one_stage();
    let flops = || {
        let of_route = if one_stage { flops_by_one_stage::<S> } else { flops_by_band::<S> };
        let [to_band, band_to_bidiag, svdvals, _] = of_route(shape, &tuning)?;
        Ok([to_band, band_to_bidiag, svdvals, if wanted.is_some() { vectors_flops::<S>(shape, shape.1) } else { 0 }])
    };
    let watch = Watch::new(&listen, flops)?;
    let stage3_on_device = bisects(&context, shape.1, options.stage3);
    let (timed_kernels, stage3) = (options.time_kernels, Some(stage3_on_device));
    let manner = Manner { waits, timed: timed_kernels, stage3_on_device: stage3, one_stage, watch: watch.clone() };
    let kernels = GpuKernels::<S>::running(&context, &tuning, manner)?;
    watch.begin(Stage::ToBand)?;
    let stage3 = (!stage3_on_device).then_some(options.stage3);
    let driver = Driver { kernels: &kernels, tuning: &tuning, watch: &watch, one_stage, stage3, timed };
    let Found { values, right, seconds } = driver.svd(&a, scale, wanted).await?;
    let (counts, kernel_seconds) = (kernels.counts(), kernels.kernel_seconds());
    Ok(SvdReport {
        values: OnDevice { values, right, watch },
        backend: Backend::Gpu,
        reason,
        route,
        adapter: Some(context.adapter_name().to_owned()),
        storage: S::NAME,
        tuning,
        seconds,
        counts,
        kernel_seconds,
        shape,
        stage3_on_device,
        cost: if one_stage { Cost::one_stage::<S> } else { Cost::with_stage3::<S> },
    })
}

impl GpuContext {
    /// Bytes of device memory that the singular values of an m x n matrix of `T` need: matrix, reflectors and band. Of the two
    /// memory orders, it is the one that needs more (lines are padded to multiples of four). Besides these, a call has at most
    /// one more copy of the matrix, during the upload or in a [`GpuMatrix`](crate::GpuMatrix), and some MiB of parameters. Of the
    /// options, only storage, reduction and tuning matter. Nothing is allocated.
    ///
    /// ```
    /// use svdvals_gpu::{GpuContext, SvdOptions};
    /// if let Ok(context) = GpuContext::global() {
    ///     let bytes = context.required_bytes::<f32>(4096, 4096, &SvdOptions::default())?;
    ///     assert!(bytes > 4 * 4096 * 4096 && bytes < 5 * 4096 * 4096);
    /// }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// Those of a call before it allocates: [`SvdError::TooLarge`](crate::SvdError::TooLarge), [`SvdError::UnsupportedElement`](crate::SvdError::UnsupportedElement), [`SvdError::InvalidOption`](crate::SvdError::InvalidOption), or
    /// [`SvdError::TuningFile`](crate::SvdError::TuningFile) if the environment names a file that cannot be read.
    pub fn required_bytes<T: Number>(&self, m: usize, n: usize, options: &SvdOptions) -> Result<u64> {
        in_storage!(options.half_storage, T => bytes_stored_as::<_, S>(PhantomData::<T>, self, m, n, options))
    }
}

/// [`GpuContext::required_bytes`] of a matrix of `T` stored as `S`.
fn bytes_stored_as<T: Number, S: Number>(
    _: PhantomData<T>,
    context: &GpuContext,
    m: usize,
    n: usize,
    options: &SvdOptions,
) -> Result<u64> {
    context.require::<T, S>()?;
    let tuning = options.tuning_for_adapter::<S>(context, m.min(n))?;
    let shape = (m.max(n), m.min(n));
    let bounds = Bounds::of(context);
    let panels: u64 = match Route::on_gpu(shape, options.reduction, &bounds).0.is_one_stage() {
        true => panel_bytes::<S>(context, shape, &Shape::new::<S>(&bounds, &tuning)?)?.into_iter().sum(),
        false => 0,
    };
    let required = |by_rows| Ok(required_bytes_of::<S>(context, shape, by_rows, &tuning)?.saturating_add(panels));
    match [false, true].map(required) {
        [Ok(by_columns), Ok(by_rows)] => Ok(by_columns.max(by_rows)),
        // It fits in one of the two orders only.
        [Ok(bytes), Err(_)] | [Err(_), Ok(bytes)] => Ok(bytes),
        [Err(error), Err(_)] => Err(error),
    }
}
