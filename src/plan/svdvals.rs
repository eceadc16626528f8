//! The driver: the choice of the backend and of the route, and the report.

use faer::{Mat, MatRef};

#[cfg(feature = "gpu")]
use pollster::block_on;

#[cfg(feature = "gpu")]
use crate::{
    algo::svdvals::narrowed,
    base::number::RealElement,
    gpu::device::context::{GpuContext, Waits},
    plan::{
        backend::{context_of_async, or_fall_back},
        choice::Reason,
        gpu::svdvals_on_gpu,
        problem::Problem,
    },
};
use crate::{
    base::{
        error::Result,
        number::{Re, Scalar, in_storage},
        pool::{on_pool_async, on_threads},
        view::trimmed,
    },
    plan::{
        backend::Place,
        call::{Call, Room},
        cpu::svdvals_on_cpu,
        options::SvdOptions,
        report::SvdReport,
    },
};

/// The singular values that the options keep, descending, and the report; its seconds are zero unless `timed`.
pub(crate) fn svdvals<T: Scalar>(a: MatRef<'_, T>, options: &SvdOptions, timed: bool) -> Result<SvdReport<Vec<Re<T>>>> {
    let call = Call::new(trimmed(a), options, timed);
    on_threads(options.run.threads, || svdvals_of(&call))
}

/// [`svdvals`] in the caller's pool, with workspace that is reused from call to call.
pub(crate) fn svdvals_with_room<T: Scalar>(
    a: MatRef<'_, T>,
    options: &SvdOptions,
    timed: bool,
    room: Option<&Room<T>>,
) -> Result<SvdReport<Vec<Re<T>>>> {
    svdvals_of(&Call::new(trimmed(a), options, timed).in_room(room))
}

/// The values on the backend that the options choose.
fn svdvals_of<T: Scalar>(call: &Call<'_, T>) -> Result<SvdReport<Vec<Re<T>>>> {
    let kind = call.options.run.half_storage.of(T::KIND);
    let place = Place::of_svd(kind, call.options, call.problem())?;
    let on_the_cpu = |reason, scale| in_storage!(call.options.run.half_storage, T => svdvals_on_cpu::<_, S>(call, reason, scale));
    let report = match place {
        Place::Cpu(reason) => on_the_cpu(reason, None)?,
        #[cfg(feature = "gpu")]
        Place::Gpu(on) => {
            let (scale, seconds) = call.scale(kind)?;
            let a = call.upright();
            let run = svdvals_on_gpu(kind, &a, scale.to_double(), call.asked(), on, Waits::Blocking);
            let mut report = match or_fall_back(call.run, call.bound(), block_on(run))? {
                Ok(report) => report.map(|values| narrowed(&values)),
                Err(reason) => on_the_cpu(reason, Some(scale))?,
            };
            report.seconds.scale = seconds;
            report
        }
    };
    Ok(call.complete(report))
}

/// [`svdvals`] for a caller that must not block. The CPU computes in the rayon pool, from a copy of the matrix.
pub(crate) async fn svdvals_async<T: Scalar>(
    a: MatRef<'_, T>,
    options: &SvdOptions,
    timed: bool,
) -> Result<SvdReport<Vec<Re<T>>>> {
    let a = trimmed(a);
    #[cfg(feature = "gpu")]
    let context = context_of_async(
        options.run.half_storage.of(T::KIND),
        &options.run,
        options.need_device(),
        Problem::Dense { m: a.nrows(), n: a.ncols() },
    )
    .await;
    let call = Call::new(a, options, timed);
    #[cfg(feature = "gpu")]
    let reason = match on_gpu_async(&call, context).await? {
        Ok(report) => return Ok(report),
        Err(reason) => reason,
    };
    #[cfg(not(feature = "gpu"))]
    let reason = {
        let Place::Cpu(reason) = Place::of_svd(options.run.half_storage.of(T::KIND), options, call.problem())?;
        reason
    };
    let (copy, options) =
        (Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)]), SvdOptions { run: options.run.on_cpu(), ..options.clone() });
    let report = on_pool_async(move || svdvals(copy.as_ref(), &options, timed)).await??;
    Ok(call.complete(SvdReport { reason, ..report }))
}

/// The report of a GPU, or the reason why the CPU computes.
#[cfg(feature = "gpu")]
async fn on_gpu_async<T: Scalar>(
    call: &Call<'_, T>,
    context: Option<Result<GpuContext>>,
) -> Result<std::result::Result<SvdReport<Vec<Re<T>>>, Reason>> {
    let kind = call.options.run.half_storage.of(T::KIND);
    let opened = || context.unwrap_or_else(|| crate::plan::backend::context_of(call.run));
    match Place::with_context(kind, call.run, call.bound(), call.problem(), opened)?.with(call.options)? {
        Place::Cpu(reason) => Ok(Err(reason)),
        Place::Gpu(on) => {
            let (scale, seconds) = call.scale(kind)?;
            let a = call.upright();
            let run = svdvals_on_gpu(kind, &a, scale.to_double(), call.asked(), on, Waits::Awaited);
            Ok(or_fall_back(call.run, call.bound(), run.await)?.map(|report| {
                let mut report = report.map(|values| narrowed(&values));
                report.seconds.scale = seconds;
                call.complete(report)
            }))
        }
    }
}
