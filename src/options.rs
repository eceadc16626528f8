//! What a caller may choose: the backend, the context, the hyperparameters.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{
    bidiagonal::Stage3,
    error::{Result, SvdError},
    gpu::GpuContext,
    kernels::PanelTree,
    progress::{CancelFlag, Progress, ProgressFn},
    scalar::{Element, Scalar},
    tuning_table::TuningTable,
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

/// What a matrix of `half::f16` or `half::bf16` is held in while it is reduced. Arithmetic is f32 either way.
///
/// ```
/// use svdvals_gpu::HalfStorage;
/// assert_eq!(HalfStorage::default(), HalfStorage::Single);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum HalfStorage {
    /// In f32: twice the memory, and the error is little more than that of the input's own rounding.
    #[default]
    Single,
    /// In f16, on either backend; a GPU needs `SHADER_F16`. Half the memory; every sweep of stage 1 and every cycle of stage 2 rounds
    /// what it stores, which gives the accuracy of the papers (a relative error of some 1e-3). `bf16` is kept as f16 too: after the
    /// scaling of stage 0 f16 has the range that matters, and three more bits. A CPU takes 3 to 15 times as long as with `Single`.
    Half,
}

impl fmt::Display for HalfStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            HalfStorage::Single => "single",
            HalfStorage::Half => "half",
        })
    }
}

/// The pool of a call that asked for a number of threads, asleep: for the next one that asks for as many.
static SPARE: Mutex<Option<ThreadPool>> = Mutex::new(None);

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

    /// That a call may have as many threads as were asked for.
    pub(crate) fn has_threads(&self) -> Result<()> {
        match self.threads {
            Some(0) => Err(SvdError::invalid("threads", "0, but it must be at least 1")),
            _ => Ok(()),
        }
    }

    /// Runs `body` on the threads that were asked for.
    pub(crate) fn on_threads<R: Send>(&self, body: impl FnOnce() -> Result<R> + Send) -> Result<R> {
        self.has_threads()?;
        let Some(threads) = self.threads else { return body() };
        let spare = || SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = spare().take().filter(|pool| pool.current_num_threads() == threads);
        let pool = match fitting {
            Some(pool) => pool,
            None => {
                let pool = ThreadPoolBuilder::new().num_threads(threads).build();
                pool.map_err(|error| SvdError::invalid("threads", format!("{threads}: {error}")))?
            }
        };
        let result = pool.install(body);
        *spare() = Some(pool);
        result
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

/// The hyperparameters of stages 1 and 2, and of the triangular operations. They change speed and rounding, never what is computed.
///
/// ```
/// use svdvals_gpu::{PanelTree, Tuning};
/// let tuning = Tuning::for_cpu::<f64>(1000).tile_size(32).leaf(128).tree(PanelTree::Reduction).tile_width(16);
/// assert_eq!(tuning.arity(), 4);
/// assert!(tuning.check().is_ok());
/// assert!(tuning.tile_size(0).check().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
#[non_exhaustive]
pub struct Tuning {
    /// Order up to which the CPU takes a matrix, or the triangular factor of a tall one, straight to bidiagonal form, with no band between
    /// and on one thread; 0 for never. (Matrices held as f16 always go by way of a band.)
    pub direct: usize,
    /// Tile size b of stage 1, which is the bandwidth it leaves; at least 1. (Unified-kernels paper: TILESIZE.)
    pub tile_size: usize,
    /// Most rows of a leaf block of the panel's reduction tree, at least 2 `tile_size`; its quotient by the tile size is the tree's arity.
    pub leaf: usize,
    /// Shape of the panel's reduction tree.
    pub tree: PanelTree,
    /// GPU: threads that share one column in `geqrt`. (SPLITK)
    pub split_k: usize,
    /// Trailing columns that one workgroup (GPU) or one task (CPU) updates. (COLPERBLOCK)
    pub cols_per_block: usize,
    /// Superdiagonals that one reduction step of stage 2 removes; more than b - 1 means b - 1. (Bulge-chasing paper: TW.)
    pub tile_width: usize,
    /// GPU: most threads of a `chase` workgroup. (TPB)
    pub threads_per_block: usize,
    /// GPU: consecutive cycles of a sweep that one dispatch runs. With m of them stage 2 has about (1 + 2 / m) n dispatches, each m cycles
    /// long: more of them pay where a dispatch costs more than a cycle.
    pub cycles_per_dispatch: usize,
    /// GPU: cap on the `chase` workgroups of one dispatch; each runs several cycles where there are more.
    pub max_blocks: usize,
    /// Order up to which a triangle is multiplied, or solved with, by a base kernel; larger ones are cut in two
    /// ([`triangular`](crate::triangular)). A GPU rounds it up to a multiple of 4.
    pub triangle: usize,
}

/// Hands all hyperparameters, with their setters' docs and their types, to another macro.
macro_rules! hyperparameters {
    ($to:ident) => {
        $to! {
            /// Sets the order up to which there is no band.
            direct: usize = 0,
            /// Sets the tile size, which is the bandwidth after stage 1.
            tile_size: usize = 16,
            /// Sets the most rows of a leaf block.
            leaf: usize = 512,
            /// Sets the shape of the panel's tree.
            tree: PanelTree = svdvals_gpu::PanelTree::Flat,
            /// Sets the threads that share a column.
            split_k: usize = 4,
            /// Sets the trailing columns of a block.
            cols_per_block: usize = 32,
            /// Sets the superdiagonals removed in one reduction step.
            tile_width: usize = 8,
            /// Sets the most threads of a `chase` workgroup.
            threads_per_block: usize = 128,
            /// Sets the consecutive cycles of a sweep in one dispatch.
            cycles_per_dispatch: usize = 2,
            /// Sets the cap on concurrent `chase` workgroups.
            max_blocks: usize = 100,
            /// Sets the order of the triangles that are not cut any further.
            triangle: usize = 32,
        }
    };
}
pub(crate) use hyperparameters;

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $t:ty = $example:expr),* $(,)?) => {$(
        $(#[$doc])*
        ///
        /// ```
        #[doc = concat!("let tuning = svdvals_gpu::Tuning::for_cpu::<f32>(100).", stringify!($name), "(", stringify!($example), ");")]
        #[doc = concat!("assert_eq!(tuning.", stringify!($name), ", ", stringify!($example), ");")]
        /// ```
        pub fn $name(mut self, $name: $t) -> Self {
            self.$name = $name;
            self
        }
    )*};
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident: $t:ty = $example:expr),* $(,)?) => {
        /// Name and value of each, as in `tile_size=32 leaf=256`.
        impl fmt::Display for Tuning {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&[$(format!("{}={}", stringify!($name), self.$name)),*].join(" "))
            }
        }
    };
}

hyperparameters!(words);

impl Tuning {
    hyperparameters!(setters);

    /// Defaults for the CPU, for a matrix whose smaller side is `n`, stored as `T`: tiles of 32 and leaves of 1024 rows, and for real types, but
    /// f16 stored as such, from n = 1025 on tiles of 48 and leaves of 1536 rows.
    ///
    /// ```
    /// use svdvals_gpu::Tuning;
    /// assert_eq!(Tuning::for_cpu::<f32>(8).tile_size, 8); // no wider than the matrix
    /// assert_eq!([1000, 4000].map(|n| Tuning::for_cpu::<f64>(n).tile_size), [32, 48]);
    /// ```
    pub fn for_cpu<T: Element>(n: usize) -> Tuning {
        // Stage 2's work grows with the bandwidth, stage 1's products move less with wider tiles. Below this n, and for complex numbers and
        // f16, whose bulge chasing takes 1.5 to 2 times as long with 48 as with 32, the first counts for more.
        let wide = n > 1024 && !T::Scalar::IS_COMPLEX && !T::IS_HALF;
        let tile_size = if wide { 48 } else { 32.min(n.max(1)) };
        Tuning {
            // The whole matrix is in a second-level cache, in double precision.
            direct: 224,
            tile_size,
            // A leaf of the panel stays in a second-level cache; a smaller matrix has no tree, and one rounding less for it.
            leaf: 32 * if wide { tile_size } else { 32 },
            tree: PanelTree::Reduction,
            split_k: 1,
            cols_per_block: 256,
            tile_width: tile_size,
            threads_per_block: 1,
            cycles_per_dispatch: 1,
            max_blocks: 1,
            // Its base kernel's triangle and columns stay in a first-level cache, and products with fewer columns of A are slower.
            triangle: 64,
        }
    }

    /// The number of R factors that a node of the panel's tree stacks.
    ///
    /// ```
    /// assert_eq!(svdvals_gpu::Tuning::for_cpu::<f32>(100).tile_size(16).leaf(64).arity(), 4);
    /// ```
    pub fn arity(&self) -> usize {
        (self.leaf / self.tile_size.max(1)).max(2)
    }

    /// The bandwidth that stage 1 leaves of a matrix of order `n`.
    pub(crate) fn bandwidth(&self, n: usize) -> usize {
        self.tile_size.min(n.saturating_sub(1))
    }

    /// Whether the values make sense together; a device's limits are checked where a device is chosen.
    ///
    /// ```
    /// assert!(svdvals_gpu::Tuning::for_cpu::<f32>(100).leaf(1).check().is_err());
    /// ```
    pub fn check(&self) -> Result<()> {
        let at_least = |option, value: usize, least: usize| {
            if value < least {
                Err(SvdError::invalid(option, format!("{value}, but it must be at least {least}")))
            } else {
                Ok(())
            }
        };
        at_least("tile_size", self.tile_size, 1)?;
        at_least("leaf", self.leaf, self.tile_size.saturating_mul(2))?;
        at_least("split_k", self.split_k, 1)?;
        at_least("cols_per_block", self.cols_per_block, 1)?;
        at_least("tile_width", self.tile_width, 1)?;
        at_least("threads_per_block", self.threads_per_block, 1)?;
        at_least("cycles_per_dispatch", self.cycles_per_dispatch, 1)?;
        at_least("max_blocks", self.max_blocks, 1)?;
        at_least("triangle", self.triangle, 1)
    }
}
