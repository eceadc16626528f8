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
    /// A hardware GPU if there is one that can hold the matrix in its element type and the matrix is large enough to gain from it, else
    /// the CPU. Never a software rasteriser. Why the CPU was taken is logged and stands in the report.
    #[default]
    Auto,
    /// A GPU, a software rasteriser if that is all there is, or an error.
    Gpu,
    /// The CPU, through rayon, in the thread pool that the call is made in.
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
    /// The hyperparameters; None takes those of the tuning table, and where it has none the backend's defaults.
    pub tuning: Option<Tuning>,
    /// Hyperparameters by device, type and size; None is the file that `SVDVALS_GPU_TUNING` names, if it is set (feature `serde`).
    pub tuning_table: Option<TuningTable>,
    /// What half-precision matrices are held in.
    pub half_storage: HalfStorage,
    /// How the singular values of the bidiagonal are found.
    pub stage3: Stage3,
    /// The number of CPU threads; None takes the rayon pool that the call is made in.
    pub threads: Option<usize>,
    /// Whether a GPU times its kernels one by one, for [`SvdReport::kernel_seconds`](crate::SvdReport).
    pub time_kernels: bool,
    /// Who is told how far a call is. Not serialized.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub progress: Option<ProgressFn>,
    /// What stops a call. Not serialized.
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

    /// Chooses what half-precision matrices are held in.
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

    /// Sets the number of CPU threads, at least 1: the call has a rayon pool of its own, which is kept for the next call that asks for as
    /// many. Without this it uses the pool that it is called in, by default rayon's global one. (A browser has no threads: the one there is
    /// computes, and this option is [`SvdError::InvalidOption`].)
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

    /// Has a GPU time each kernel by its own clock (`TIMESTAMP_QUERY`), for [`SvdReport::kernel_seconds`](crate::SvdReport). The host then
    /// waits for each submission, so that the call takes longer.
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

    /// Has `callback` told how far the call is: at the beginning of each stage, after every thousandth of the work, and at the end. It is
    /// called by whichever thread has done the work, one call at a time, and should return soon: that thread waits. On a GPU it follows
    /// what the device has done, not what was sent to it. The [triangular operations](crate::triangular) do not call it.
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

    /// Has the call stop with [`SvdError::Cancelled`] soon after `flag` is set: a CPU at the end of a kernel, of a few cycles of stage 2, or of a
    /// round of stage 3; a GPU when the submissions under way are done, a few tenths of a second each at the most. LAPACK's stage 3 alone
    /// (feature `lapack`) runs to its end. What the call has allocated is freed. The
    /// [triangular operations](crate::triangular) work in place and are not stopped.
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

    /// Who listens to a call that begins now.
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
