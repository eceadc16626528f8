//! The driver: the choice of the backend and of the route, and the report.

use faer::MatRef;

#[cfg(feature = "gpu")]
use pollster::block_on;

#[cfg(feature = "gpu")]
use crate::{
    algo::svdvals::narrowed,
    base::number::RealElement,
    gpu::device::context::Waits,
    plan::{
        backend::{OnGpu, or_fall_back},
        choice::Reason,
        gpu::svdvals_on_gpu,
    },
};
use crate::{
    base::{
        error::Result,
        number::{Re, Scalar, in_storage},
        pool::on_threads,
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
        Place::Gpu(on) => match block_on(on_gpu(call, on, Waits::Blocking))? {
            Ok(report) => report,
            Err(reason) => on_the_cpu(reason, None)?,
        },
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
    let call = Call::new(a, options, timed);
    let reason = match Place::of_svd_async(options.run.half_storage.of(T::KIND), options, call.problem()).await? {
        Place::Cpu(reason) => reason,
        #[cfg(feature = "gpu")]
        Place::Gpu(on) => match on_gpu(&call, on, Waits::Awaited).await? {
            Ok(report) => return Ok(call.complete(report)),
            Err(reason) => reason,
        },
    };
    let options = SvdOptions { run: options.run.on_cpu(), ..options.clone() };
    call.in_pool(reason, move |a| svdvals(a, &options, timed)).await
}

/// The report of a GPU, or the reason why the CPU computes.
#[cfg(feature = "gpu")]
async fn on_gpu<T: Scalar>(
    call: &Call<'_, T>,
    on: OnGpu,
    waits: Waits,
) -> Result<std::result::Result<SvdReport<Vec<Re<T>>>, Reason>> {
    let kind = call.options.run.half_storage.of(T::KIND);
    let (scale, seconds) = call.scale(kind)?;
    let a = call.upright();
    let run = svdvals_on_gpu(kind, &a, scale.to_double(), call.asked(), on, waits).await;
    Ok(or_fall_back(call.run, call.bound(), run)?.map(|report| {
        let mut report = report.map(|values| narrowed(&values));
        report.seconds.scale = seconds;
        report
    }))
}
