//! What a caller may choose: the backend, the context, the hyperparameters.

use std::fmt;

#[cfg(feature = "gpu")]
use crate::gpu::device::context::GpuContext;
use crate::{
    algo::bidiagonal::Stage3,
    base::{
        number::HalfStorage,
        watch::{CancelFlag, Listen, Progress, ProgressFn},
    },
    plan::tuning_table::TuningTable,
    tile::tuning::Tuning,
};

/// Where stages 1 and 2 run.
///
/// ```
/// use svdvals_gpu::{Backend, SvdOptions};
/// assert_eq!(SvdOptions::default().backend, Backend::Auto);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Backend {
    /// A hardware GPU if it can hold the matrix in its element type and the matrix is large enough to gain from it, else the CPU. Never a
    /// software rasteriser. The log and the report say why the CPU was chosen.
    #[default]
    Auto,
    /// A GPU, a software rasteriser if there is no other, or an error.
    Gpu,
    /// The CPU, through rayon, in the thread pool of the caller.
    Cpu,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Backend::Auto => "auto",
            Backend::Gpu => "gpu",
            Backend::Cpu => "cpu",
        })
    }
}

/// Options of a call.
///
/// ```
/// use svdvals_gpu::{Backend, SvdOptions, Tuning};
/// let options = SvdOptions::default().backend(Backend::Cpu).tuning(Tuning::for_cpu::<f32>(100).tile_width(8));
/// assert_eq!(options.tuning.unwrap().tile_width, 8);
/// ```
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct SvdOptions {
    /// Where to compute.
    pub backend: Backend,
    /// The GPU context; None is [`GpuContext::global`]. Not serialized.
    #[cfg(feature = "gpu")]
    #[cfg_attr(feature = "serde", serde(skip))]
    pub context: Option<GpuContext>,
    /// The hyperparameters. None takes those of the tuning table, or the backend's defaults if the table has none.
    pub tuning: Option<Tuning>,
    /// Hyperparameters by device, type and size. None takes the file that `SVDVALS_GPU_TUNING` names, if it is set (feature `serde`).
    pub tuning_table: Option<TuningTable>,
    /// The storage type of half-precision matrices.
    pub half_storage: HalfStorage,
    /// The method of stage 3, which finds the singular values of the bidiagonal.
    pub stage3: Stage3,
    /// The number of CPU threads. None takes the rayon pool of the caller.
    pub threads: Option<usize>,
    /// Whether a GPU times each kernel, for [`SvdReport::kernel_seconds`](crate::SvdReport).
    pub time_kernels: bool,
    /// The callback for progress. Not serialized.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub progress: Option<ProgressFn>,
    /// The flag that cancels a call. Not serialized.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub cancel: Option<CancelFlag>,
}

impl SvdOptions {
    /// Chooses where to compute.
    ///
    /// ```
    /// use svdvals_gpu::{Backend, SvdOptions};
    /// assert_eq!(SvdOptions::default().backend(Backend::Cpu).backend, Backend::Cpu);
    /// ```
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Chooses the GPU.
    ///
    /// ```
    /// use svdvals_gpu::{AdapterChoice, GpuContext, SvdOptions};
    /// if let Ok(context) = GpuContext::new(&AdapterChoice::default()) {
    ///     assert!(SvdOptions::default().context(context).context.is_some());
    /// }
    /// ```
    #[cfg(feature = "gpu")]
    pub fn context(mut self, context: GpuContext) -> Self {
        self.context = Some(context);
        self
    }

    /// Chooses the storage type of half-precision matrices.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use half::f16;
    /// use svdvals_gpu::{Backend, HalfStorage, SvdOptions, SvdValsGpu};
    /// let a = faer::Mat::from_fn(40, 30, |i, j| f16::from_f32(((3 * i + 7 * j) % 11) as f32));
    /// let options = SvdOptions::default().backend(Backend::Cpu);
    /// let (single, half) = (a.svdvals_gpu_with(&options)?, a.svdvals_gpu_with(&options.half_storage(HalfStorage::Half))?);
    /// assert!((single[0] - half[0]).abs() < 4e-3 * single[0]);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn half_storage(mut self, half_storage: HalfStorage) -> Self {
        self.half_storage = half_storage;
        self
    }

    /// Chooses the method of stage 3.
    ///
    /// ```
    /// use svdvals_gpu::{Stage3, SvdOptions};
    /// assert_eq!(SvdOptions::default().stage3(Stage3::Bisection).stage3, Stage3::Bisection);
    /// ```
    pub fn stage3(mut self, stage3: Stage3) -> Self {
        self.stage3 = stage3;
        self
    }

    /// Sets the number of CPU threads, at least 1. The call has a rayon pool of its own, which is kept for the next call with the same
    /// number. Without this option it uses the pool of the caller, by default rayon's global one. (A browser has a single thread, which
    /// computes; there this option is [`SvdError::InvalidOption`](crate::SvdError::InvalidOption).)
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{Backend, SvdOptions, SvdValsGpu};
    /// let a = faer::Mat::from_fn(300, 300, |i, j| ((i * j) as f64).sin());
    /// let options = SvdOptions::default().backend(Backend::Cpu);
    /// assert_eq!(a.svdvals_gpu_with(&options.clone().threads(1))?, a.svdvals_gpu_with(&options.threads(2))?);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Makes a GPU time each kernel by its own clock (`TIMESTAMP_QUERY`), for [`SvdReport::kernel_seconds`](crate::SvdReport). The host
    /// then waits for each submission, so the call takes longer.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{Backend, GpuContext, SvdOptions, SvdValsGpu};
    /// if let Ok(context) = GpuContext::global() {
    ///     let a = faer::Mat::from_fn(60, 60, |i, j| ((i * j) as f32).sin());
    ///     let report = a.svdvals_gpu_report(&SvdOptions::default().context(context).backend(Backend::Gpu).time_kernels(true))?;
    ///     println!("{:?}, counted {}", report.kernel_seconds, report.cost()?);
    /// }
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn time_kernels(mut self, time_kernels: bool) -> Self {
        self.time_kernels = time_kernels;
        self
    }

    /// Calls `callback` with the progress of the call: at the beginning of each stage, after every thousandth of the work, and at the end.
    /// The thread that has done the work makes the call, one call at a time. It waits for the callback, which should therefore return soon.
    /// On a GPU the progress is that of the device, not of the submissions. The [triangular operations](crate::triangular) do not call it.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use std::sync::{Arc, Mutex};
    /// use svdvals_gpu::{SvdOptions, SvdValsGpu};
    /// let seen = Arc::new(Mutex::new(Vec::new()));
    /// let told = seen.clone();
    /// let options = SvdOptions::default().progress(move |p| told.lock().unwrap().push((p.stage, p.fraction)));
    /// faer::Mat::from_fn(300, 300, |i, j| ((i * j) as f64).sin()).svdvals_gpu_with(&options)?;
    /// let seen = seen.lock().unwrap();
    /// assert!(seen.is_sorted() && seen.last().unwrap().1 == 1.0);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn progress(mut self, callback: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.progress = Some(ProgressFn::new(callback));
        self
    }

    /// Stops the call with [`SvdError::Cancelled`](crate::SvdError::Cancelled) soon after `flag` is set. A CPU stops at the end of a kernel, of a few cycles of stage
    /// 2, or of a round of stage 3. A GPU stops when the submissions in flight are done, each of which takes at most a few tenths of a
    /// second. Only LAPACK's stage 3 (feature `lapack`) runs to its end. The memory of the call is freed. The [triangular
    /// operations](crate::triangular) work in place and are not stopped.
    ///
    /// ```
    /// use svdvals_gpu::{CancelFlag, SvdOptions};
    /// let stop = CancelFlag::new();
    /// let _options = SvdOptions::default().cancel(stop.clone()); // and `stop.cancel()` from elsewhere
    /// ```
    pub fn cancel(mut self, flag: CancelFlag) -> Self {
        self.cancel = Some(flag);
        self
    }

    /// The listeners of a call that begins now.
    pub(crate) fn listen(&self) -> Listen {
        Listen::new(self.progress.clone(), self.cancel.clone())
    }

    /// Sets the hyperparameters.
    ///
    /// ```
    /// use svdvals_gpu::{SvdOptions, Tuning};
    /// let options = SvdOptions::default().tuning(Tuning::for_cpu::<f64>(500).leaf(512));
    /// assert_eq!(options.tuning.unwrap().leaf, 512);
    /// ```
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = Some(tuning);
        self
    }
}
