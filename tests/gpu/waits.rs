//! Calls that do not block, that tell how far they are, and that are stopped.

use std::{
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Instant,
};

use faer::Mat;
use svdvals_gpu::{Backend, CancelFlag, GpuContext, HalfStorage, Stage, Stage3, SvdError, SvdOptions, SvdValsGpu};

use crate::{Elements, Outcome, check, tuning};

/// A waker that unparks a thread, and the time that each poll took.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs two tasks by turns on this thread, whichever is woken; how often either was polled.
fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B, usize) {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut a, mut b, mut context) = (pin!(a), pin!(b), Context::from_waker(&waker));
    let (mut of_a, mut of_b, mut polls) = (None, None, 0);
    loop {
        if of_a.is_none()
            && let Poll::Ready(value) = a.as_mut().poll(&mut context)
        {
            of_a = Some(value);
        }
        if of_b.is_none()
            && let Poll::Ready(value) = b.as_mut().poll(&mut context)
        {
            of_b = Some(value);
        }
        polls += 1;
        match (of_a.take(), of_b.take()) {
            (Some(a), Some(b)) => return (a, b, polls),
            other => (of_a, of_b) = other,
        }
        thread::park();
    }
}

/// The future gives what the blocking call gives, to the last bit, with stage 3 on the host and on the device; two of them on one thread
/// run side by side, because neither blocks it; errors come as they do; and a future that is dropped half way leaves the context usable.
pub fn futures_give_the_same_values<T: Elements>(context: &GpuContext) -> Outcome {
    let options =
        SvdOptions::default().context(context.clone()).backend(Backend::Gpu).half_storage(HalfStorage::Half.for_element::<T>());
    let options = options.tuning(tuning(8, 16));
    let (a, b) = (Mat::<T>::from_fn(90, 70, |i, j| T::noise(50, i, j)), Mat::<T>::from_fn(40, 100, |i, j| T::noise(51, i, j)));
    for stage3 in [Stage3::Newton, Stage3::Device] {
        let options = options.clone().stage3(stage3);
        let want = (a.svdvals_gpu_report(&options)?, b.svdvals_gpu_with(&options)?);
        let (first, second, polls) = both(a.svdvals_gpu_report_async(&options), b.svdvals_gpu_async(&options));
        let first = first?;
        check!(first.values == want.0.values, "{stage3:?}: {:?}, not {:?}", first.values, want.0.values);
        check!(second? == want.1, "{stage3:?}: the second differs");
        check!(polls > 2, "{polls} polls: one of them blocked");
        let (got, want) = (first.counts, want.0.counts);
        check!(got == want, "{stage3:?}: {got:?}, not {want:?}");
    }
    let mut bad = b.clone();
    bad[(3, 90)] = T::real(f64::INFINITY);
    let error = pollster::block_on(bad.svdvals_gpu_async(&options)).err();
    check!(matches!(error, Some(SvdError::NonFinite { row: 3, col: 90, .. })), "{error:?}");
    let error = pollster::block_on(b.svdvals_gpu_async(&options.clone().threads(0))).err();
    check!(matches!(error, Some(SvdError::InvalidOption { option: "threads", .. })), "{error:?}");
    {
        let mut task = pin!(a.svdvals_gpu_async(&options));
        let polled = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        check!(polled.is_pending(), "nothing to wait for");
    }
    check!(b.svdvals_gpu_with(&options)? == pollster::block_on(b.svdvals_gpu_async(&options))?, "after a dropped future");
    Ok(())
}

/// The options of a call that is stopped as soon as it is in `stage`.
pub fn stopped_in(stage: Stage, options: &SvdOptions) -> SvdOptions {
    let flag = CancelFlag::new();
    let set = flag.clone();
    options.clone().cancel(flag).progress(move |p| {
        if p.stage == stage {
            set.cancel();
        }
    })
}

/// Fractions never fall, stages come in order, the last is 1; a call that is stopped in a stage says so, whether it blocks or not, and the
/// next one works. Progress is that of submissions: of 200 columns stage 2 has more than one.
pub fn progress_and_cancellation<T: Elements>(context: &GpuContext) -> Outcome {
    let options =
        SvdOptions::default().context(context.clone()).backend(Backend::Gpu).half_storage(HalfStorage::Half.for_element::<T>());
    let a = Mat::<T>::from_fn(200, 200, |i, j| T::noise(52, i, j));
    let options = options.tuning(tuning(8, 64));
    let want = a.svdvals_gpu_with(&options)?;
    for awaited in [false, true] {
        let run = |options: &SvdOptions| {
            if awaited { pollster::block_on(a.svdvals_gpu_async(options)) } else { a.svdvals_gpu_with(options) }
        };
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = seen.clone();
        let values = run(&options.clone().progress(move |p| told.lock().unwrap().push((p.stage, p.fraction, p.stage_fraction))))?;
        check!(values == want, "who is told changes values");
        let seen = seen.lock().unwrap().clone();
        check!(seen.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1), "{seen:?}");
        check!(seen.last().is_some_and(|last| *last == (Stage::Svdvals, 1.0, 1.0)), "{:?}", seen.last());
        for stage in [Stage::ToBand, Stage::BandToBidiag] {
            let most = seen.iter().filter(|p| p.0 == stage).map(|p| p.2).fold(0.0, f64::max);
            check!(most > 0.99, "{stage}: up to {most}");
        }
        let parts = seen.iter().filter(|p| p.0 == Stage::BandToBidiag && p.2 > 0.0).count();
        check!(parts > 1, "stage 2 in {parts} parts");

        for stage in [Stage::ToBand, Stage::BandToBidiag] {
            let start = Instant::now();
            let error = run(&stopped_in(stage, &options)).err();
            check!(error == Some(SvdError::Cancelled { stage }), "{error:?}, not cancelled in {stage}");
            check!(start.elapsed().as_secs() < 60, "stopped after {:?}", start.elapsed());
        }
    }
    check!(a.svdvals_gpu_with(&options)? == want, "after calls that were stopped");
    Ok(())
}
