//! Where and how a call runs.

#[cfg(feature = "gpu")]
use crate::gpu::device::context::GpuContext;
use crate::{
    base::{
        number::HalfStorage,
        watch::{CancelFlag, Listen, Progress, ProgressFn},
    },
    plan::{options::Backend, tuning_table::TuningTable},
    tile::tuning::Tuning,
};

/// Where and how a call runs: a part of the options of every decomposition, and the only options of [stages](crate::SvdValsGpu::to_band),
/// [triangular operations](crate::triangular) and [rows in blocks](crate::RowBlocks). [`SvdOptions`](crate::SvdOptions), [`QrOptions`](crate::QrOptions) and
/// [`LstsqOptions`](crate::LstsqOptions) have the
/// same methods.
///
/// An option that a call cannot honour is an error: [`SvdError::InvalidOption`](crate::SvdError::InvalidOption).
///
/// ```
/// use svdvals_gpu::{Backend, RunOptions, SvdOptions};
/// let run = RunOptions::default().backend(Backend::Cpu).threads(2);
/// assert_eq!(SvdOptions::from(run).keep(3).run.threads, Some(2));
/// ```
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct RunOptions {
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
    /// The number of CPU threads, at most 8 for each processor, or 64 if that is more. None takes the rayon pool of the caller.
    pub threads: Option<usize>,
    /// The callback for progress. Not serialized.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub progress: Option<ProgressFn>,
    /// The flag that cancels a call. Not serialized.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub cancel: Option<CancelFlag>,
    /// Whether a GPU times each kernel, for [`SvdReport::kernel_seconds`](crate::SvdReport).
    pub time_kernels: bool,
}

impl RunOptions {
    /// Chooses where to compute.
    ///
    /// ```
    /// use svdvals_gpu::{Backend, RunOptions};
    /// assert_eq!(RunOptions::default().backend(Backend::Cpu).backend, Backend::Cpu);
    /// ```
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Chooses the GPU.
    ///
    /// ```
    /// use svdvals_gpu::{AdapterChoice, GpuContext, RunOptions};
    /// if let Ok(context) = GpuContext::new(&AdapterChoice::default()) {
    ///     assert!(RunOptions::default().context(context).context.is_some());
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

    /// Sets the number of CPU threads, at least 1 and at most 8 for each processor, or 64 if that is more: other numbers are
    /// [`SvdError::InvalidOption`](crate::SvdError::InvalidOption), before any thread is made. The call has a rayon pool of its own, which is kept for
    /// the next call with the same number. Without this option it uses the pool of the caller, by default rayon's global one. (A browser has a single
    /// thread, which computes; there this option is an error.)
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
    /// The thread that has done the work, or one that waits for a GPU, makes the call, one call at a time. It waits for the callback, which should therefore
    /// return soon, and must not wait for rayon's threads.
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
    /// use svdvals_gpu::{CancelFlag, RunOptions};
    /// let stop = CancelFlag::new();
    /// let _options = RunOptions::default().cancel(stop.clone()); // and `stop.cancel()` from elsewhere
    /// ```
    pub fn cancel(mut self, flag: CancelFlag) -> Self {
        self.cancel = Some(flag);
        self
    }

    /// Sets the hyperparameters.
    ///
    /// ```
    /// use svdvals_gpu::{RunOptions, Tuning};
    /// let options = RunOptions::default().tuning(Tuning::for_cpu::<f64>(500).leaf(512));
    /// assert_eq!(options.tuning.unwrap().leaf, 512);
    /// ```
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = Some(tuning);
        self
    }

    /// Sets a table of hyperparameters. It takes precedence over the one of the environment variable `SVDVALS_GPU_TUNING`, which is then
    /// not read, even if this table is empty.
    ///
    /// ```
    /// use svdvals_gpu::{RunOptions, TuningTable};
    /// let options = RunOptions::default().tuning_table(TuningTable::default());
    /// assert!(options.tuning_table.is_some());
    /// ```
    pub fn tuning_table(mut self, table: TuningTable) -> Self {
        self.tuning_table = Some(table);
        self
    }

    /// The listeners of a call that begins now.
    pub(crate) fn listen(&self) -> Listen {
        Listen::new(self.progress.clone(), self.cancel.clone())
    }
}

// The same methods on options that hold these.
macro_rules! run_methods {
    ($options:ty) => {
        impl $options {
            /// See [`RunOptions::backend`].
            pub fn backend(mut self, backend: $crate::plan::options::Backend) -> Self {
                self.run = self.run.backend(backend);
                self
            }

            /// See [`RunOptions::context`].
            #[cfg(feature = "gpu")]
            pub fn context(mut self, context: $crate::gpu::device::context::GpuContext) -> Self {
                self.run = self.run.context(context);
                self
            }

            /// See [`RunOptions::tuning`].
            pub fn tuning(mut self, tuning: $crate::tile::tuning::Tuning) -> Self {
                self.run = self.run.tuning(tuning);
                self
            }

            /// See [`RunOptions::tuning_table`].
            pub fn tuning_table(mut self, table: $crate::plan::tuning_table::TuningTable) -> Self {
                self.run = self.run.tuning_table(table);
                self
            }

            /// See [`RunOptions::half_storage`].
            pub fn half_storage(mut self, half_storage: $crate::base::number::HalfStorage) -> Self {
                self.run = self.run.half_storage(half_storage);
                self
            }

            /// See [`RunOptions::threads`].
            pub fn threads(mut self, threads: usize) -> Self {
                self.run = self.run.threads(threads);
                self
            }

            /// See [`RunOptions::progress`].
            pub fn progress(mut self, callback: impl Fn($crate::base::watch::Progress) + Send + Sync + 'static) -> Self {
                self.run = self.run.progress(callback);
                self
            }

            /// See [`RunOptions::cancel`].
            pub fn cancel(mut self, flag: $crate::base::watch::CancelFlag) -> Self {
                self.run = self.run.cancel(flag);
                self
            }

            /// See [`RunOptions::time_kernels`].
            pub fn time_kernels(mut self, time_kernels: bool) -> Self {
                self.run = self.run.time_kernels(time_kernels);
                self
            }
        }

        /// The defaults, run in this way.
        impl From<$crate::plan::options::RunOptions> for $options {
            fn from(run: $crate::plan::options::RunOptions) -> Self {
                Self { run, ..Self::default() }
            }
        }
    };
}

pub(super) use run_methods;
