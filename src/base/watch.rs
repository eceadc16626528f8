//! Progress reports and cancellation of a running call.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use web_time::Instant;

use crate::base::{
    error::{Result, SvdError},
    stage::Stage,
};

/// The progress of a call, passed to the callback of [`RunOptions::progress`](crate::RunOptions::progress).
///
/// Fractions are of the flops. A flop of stages 2 and 3 counts as four of stage 1, because it moves more data.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{Backend, SvdOptions, SvdValsGpu};
/// let tell = |now: svdvals_gpu::Progress| println!("{now}"); // to_band, 41 % of the call, 3.2 s
/// faer::Mat::<f64>::identity(300, 300).svdvals_gpu_with(&SvdOptions::default().backend(Backend::Cpu).progress(tell))?;
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// The stage that is running.
    pub stage: Stage,
    /// The completed fraction of that stage, from 0 to 1.
    pub stage_fraction: f64,
    /// The completed fraction of the whole call, from 0 to 1. It never decreases.
    pub fraction: f64,
    /// Seconds since the call began.
    pub seconds: f64,
}

/// For example `to_band, 41 % of the call, 3.2 s`.
impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {:.0} % of the call, {:.1} s", self.stage, 100.0 * self.fraction, self.seconds)
    }
}

/// A callback for [`RunOptions::progress`](crate::RunOptions::progress).
///
/// ```
/// let options = svdvals_gpu::RunOptions::default().progress(|now| println!("{now:?}"));
/// assert!(options.progress.is_some());
/// ```
#[derive(Clone)]
pub struct ProgressFn(Arc<dyn Fn(Progress) + Send + Sync>);

impl ProgressFn {
    pub(crate) fn new(callback: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        ProgressFn(Arc::new(callback))
    }

    pub(crate) fn tell(&self, now: Progress) {
        (self.0)(now);
    }
}

impl fmt::Debug for ProgressFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressFn")
    }
}

/// A flag that cancels calls. Pass a clone to [`RunOptions::cancel`](crate::RunOptions::cancel), and set it from any thread.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{CancelFlag, SvdError, SvdOptions, SvdValsGpu};
/// let stop = CancelFlag::new();
/// let options = SvdOptions::default().cancel(stop.clone());
/// let a = faer::Mat::from_fn(50, 50, |i, j| ((i * j) as f64).sin());
/// assert!(a.svdvals_gpu_with(&options).is_ok());
/// stop.cancel(); // from another thread, a signal handler or the progress callback
/// assert!(matches!(a.svdvals_gpu_with(&options), Err(SvdError::Cancelled { .. })));
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// A flag that is not set.
    ///
    /// ```
    /// let stop = svdvals_gpu::CancelFlag::new();
    /// std::thread::spawn({
    ///     let stop = stop.clone();
    ///     move || stop.cancel()
    /// });
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels all calls with this flag, including later ones.
    ///
    /// ```
    /// let stop = svdvals_gpu::CancelFlag::new();
    /// stop.clone().cancel(); // clones are one flag
    /// assert!(stop.is_cancelled());
    /// ```
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the flag is set.
    ///
    /// ```
    /// assert!(!svdvals_gpu::CancelFlag::new().is_cancelled());
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Progress is reported in steps of 1 / `STEPS` of the call.
const STEPS: u64 = 1000;
/// Cost of a flop of each stage, in flops of stage 1.
const WEIGHTS: [u64; 4] = [1, 4, 4, 1];

/// The flops of the stages of a call, by their places.
pub(crate) type StageFlops = [u64; 4];

/// The listeners of a call; with a progress callback, also its start time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listen {
    pub progress: Option<ProgressFn>,
    pub cancel: Option<CancelFlag>,
    pub start: Option<Instant>,
}

impl Listen {
    /// The listeners of a call that starts now.
    pub fn new(progress: Option<ProgressFn>, cancel: Option<CancelFlag>) -> Listen {
        let start = progress.as_ref().map(|_| Instant::now());
        Listen { progress, cancel, start }
    }
}

/// The handle through which kernels report their flops and check for cancellation. Cheap to clone; the default has no listeners.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch(Option<Arc<Listeners>>);

/// When the callback is called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// At the start of a stage, even if the stage before was reported up to its end.
    Begin,
    Within,
    /// At the end of the call.
    End,
}

#[derive(Debug)]
struct Listeners {
    progress: Option<ProgressFn>,
    cancel: Option<CancelFlag>,
    start: Option<Instant>,
    /// Total work of each stage, in weighted flops.
    all: StageFlops,
    stage: AtomicUsize,
    /// Completed work of the current stage, in weighted flops.
    done: AtomicU64,
    /// Steps reported to the callback so far.
    told: Mutex<u64>,
}

impl Watch {
    /// The watch of a call with these listeners. `flops` returns the flops of each stage; it is called only with a progress callback.
    pub fn new(listen: &Listen, flops: impl FnOnce() -> Result<StageFlops>) -> Result<Watch> {
        let Listen { progress, cancel, start } = listen.clone();
        if progress.is_none() && cancel.is_none() {
            return Ok(Watch(None));
        }
        let mut all = if progress.is_some() { flops()? } else { [0; 4] };
        // Clamped so that the sum does not overflow.
        all.iter_mut().zip(WEIGHTS).for_each(|(flops, weight)| *flops = flops.saturating_mul(weight).min(u64::MAX / 8));
        let (stage, done, told) = Default::default();
        Ok(Watch(Some(Arc::new(Listeners { progress, cancel, start, all, stage, done, told }))))
    }

    /// Whether there is a listener.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// [`SvdError::Cancelled`] if the call is cancelled.
    pub fn check(&self) -> Result<()> {
        match &self.0 {
            Some(listeners) if listeners.is_cancelled() => Err(SvdError::Cancelled { stage: listeners.stage() }),
            _ => Ok(()),
        }
    }

    /// Whether the call is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_some_and(|listeners| listeners.is_cancelled())
    }

    /// Reports the start of `stage`; the stages before it are complete.
    pub fn begin(&self, stage: Stage) -> Result<()> {
        if let Some(listeners) = &self.0 {
            listeners.stage.store(stage as usize, Ordering::Relaxed);
            listeners.done.store(0, Ordering::Relaxed);
            listeners.tell(Moment::Begin);
        }
        self.check()
    }

    /// Reports `flops` more of the current stage.
    pub fn did(&self, flops: u64) -> Result<()> {
        if let Some(listeners) = &self.0 {
            let weight = WEIGHTS[listeners.stage().place()];
            listeners.done.fetch_add(flops.saturating_mul(weight), Ordering::Relaxed);
            listeners.tell(Moment::Within);
        }
        self.check()
    }

    /// Completed work of the current stage, for tests.
    #[cfg(test)]
    pub fn done(&self) -> u64 {
        self.0.as_ref().map_or(0, |listeners| listeners.done.load(Ordering::Relaxed))
    }

    /// Total work of a stage, for tests.
    #[cfg(test)]
    pub fn announced(&self, stage: Stage) -> u64 {
        self.0.as_ref().map_or(0, |listeners| listeners.all[stage.place()])
    }

    /// Reports the end of the call.
    pub fn end(&self) {
        if let Some(listeners) = &self.0 {
            listeners.done.store(listeners.all[listeners.stage().place()], Ordering::Relaxed);
            listeners.tell(Moment::End);
        }
    }
}

impl Listeners {
    fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(CancelFlag::is_cancelled)
    }

    fn stage(&self) -> Stage {
        Stage::ALL[self.stage.load(Ordering::Relaxed)]
    }

    /// Calls the callback if a new step is complete or a stage starts, unless another thread is in the callback. At the end it is always called.
    /// The call at the start of a stage counts as the next step, so it does not add to their number.
    fn tell(&self, moment: Moment) {
        let end = moment == Moment::End;
        let Some(ProgressFn(callback)) = &self.progress else { return };
        let stage = self.stage();
        let (of_stage, before) = (self.all[stage.place()], self.all[..stage.place()].iter().sum::<u64>());
        let (done, all) = (self.done.load(Ordering::Relaxed).min(of_stage), self.all.iter().sum::<u64>().max(1));
        let fraction = if end { 1.0 } else { (before + done) as f64 / all as f64 };
        let step = (fraction * STEPS as f64) as u64 + 1;
        let mut told = match self.told.try_lock() {
            Ok(told) => told,
            Err(TryLockError::Poisoned(told)) => told.into_inner(),
            Err(TryLockError::WouldBlock) if end => self.told.lock().unwrap_or_else(PoisonError::into_inner),
            // Another thread is in the callback.
            Err(TryLockError::WouldBlock) => return,
        };
        if step > *told || moment != Moment::Within {
            *told = if moment == Moment::Begin { step.max(*told + 1) } else { step.max(*told) };
            let stage_fraction = if of_stage == 0 { 0.0 } else { done as f64 / of_stage as f64 };
            let stage_fraction = if end { 1.0 } else { stage_fraction };
            let seconds = self.start.map_or(0.0, |start| start.elapsed().as_secs_f64());
            callback(Progress { stage, stage_fraction, fraction, seconds });
        }
    }
}
