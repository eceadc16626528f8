//! What a call did, besides its values.

use std::{borrow::Cow, convert::Infallible, fmt};

#[cfg(feature = "gpu")]
use crate::gpu::kernels::GpuKernels;
use crate::{
    base::{clock::StageSeconds, element_kind::ElementKind, error::Result},
    cost::{Cost, CostOf, counts::Counts, work::Kernel},
    plan::{options::Backend, route::Route},
    tile::tuning::Tuning,
};

/// The result of a call, with what ran and how long each stage took. `Display` prints everything but the values, in two to four lines, and a table
/// of kernels if those were timed.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{Backend, SvdOptions, SvdValsGpu};
/// let a = faer::Mat::<f64>::identity(20, 20);
/// let report = a.svdvals_gpu_report(&SvdOptions::default())?;
/// assert_eq!(report.values[0], 1.0);
/// assert_eq!(report.backend, Backend::Cpu); // a 20 x 20 matrix gains nothing on a GPU
/// println!("{report}");
/// assert!(report.to_string().starts_with("20 x 20, held as f64, on the CPU (too small to gain from any GPU"));
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SvdReport<V> {
    /// The singular values, descending; of [`svd_gpu_report`](crate::SvdGpu::svd_gpu_report) the whole decomposition.
    pub values: V,
    /// The backend of stages 1 and 2: [`Backend::Gpu`] or [`Backend::Cpu`].
    pub backend: Backend,
    /// The reason for that backend.
    pub reason: Cow<'static, str>,
    /// The route of the matrix.
    pub route: Route,
    /// The adapter's name, if a GPU ran.
    pub adapter: Option<String>,
    /// The storage type of the matrix on the backend: `f16`, `bf16`, `f32`, `f64`, `c32` or `c64`.
    pub storage: &'static str,
    /// The hyperparameters used. (An iteration on the CPU uses none, but a reduction that follows it does.)
    pub tuning: Tuning,
    /// Wall-clock seconds of each stage.
    pub seconds: StageSeconds,
    /// Dispatches, submissions and bytes transferred; zeros on the CPU.
    pub counts: Counts,
    /// Seconds of each kernel by the GPU's clock. Empty unless [`RunOptions::time_kernels`](crate::RunOptions) asked for them.
    pub kernel_seconds: Vec<(Kernel, f64)>,
    /// The iteration of a call with [`SvdOptions::accuracy`](crate::SvdOptions::accuracy).
    pub iteration: Option<Iteration>,
    /// Rows and columns of the matrix.
    pub shape: (usize, usize),
    /// Whether a GPU ran stage 3 too.
    pub stage3_on_device: bool,
    /// The options that were not their defaults, as in `keep 3, backend cpu`.
    pub options: String,
    /// The storage type, and the cost of such a call.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) cost: (ElementKind, CostOf),
}

/// What an iteration with blocks of columns did.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{Backend, SvdGpu, SvdOptions};
/// let a = faer::Mat::from_fn(600, 500, |i, j| 1.0 / (1.0 + (i + 2 * j) as f64));
/// let options = SvdOptions::default().keep(4).accuracy(1e-4).backend(Backend::Cpu);
/// let iteration = a.svd_gpu_report(&options)?.iteration.unwrap();
/// assert!(iteration.products >= 4 && iteration.residual <= 1e-4 && !iteration.reduced);
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Iteration {
    /// Products with a block, by A and by A^H, those for the residuals included.
    pub products: usize,
    /// The columns of all these blocks.
    pub columns: usize,
    /// How often the bases were cut to their best columns.
    pub restarts: usize,
    /// The largest residual of the result, relative to the largest singular value.
    pub residual: f64,
    /// Whether the residual is as small as was asked for. After a reduction it is as small as rounding errors allow.
    pub reached: bool,
    /// Whether the result is that of a reduction, which would take less time than an iteration, or than the rest of it.
    pub reduced: bool,
}

/// For example `9 products with 666 columns, 1 restart, largest residual 3.1e-4`.
impl fmt::Display for Iteration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Iteration { products, columns, restarts, residual, reduced, .. } = self;
        let plural = if restarts == 1 { "" } else { "s" };
        write!(f, "{products} products with {columns} columns, {restarts} restart{plural}, ")?;
        if reduced {
            f.write_str("then a reduction, ")?;
        }
        write!(f, "largest residual {residual:.1e}")
    }
}

/// What a call ran before it took another way.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    pub seconds: StageSeconds,
    pub counts: Counts,
    pub kernel_seconds: Vec<(Kernel, f64)>,
}

impl Ran {
    /// What these kernels ran in so many seconds.
    #[cfg(feature = "gpu")]
    pub fn of(kernels: &GpuKernels, seconds: StageSeconds) -> Ran {
        Ran { seconds, counts: kernels.counts(), kernel_seconds: kernels.kernel_seconds() }
    }

    /// Adds it to the report of that way.
    pub fn add_to<V>(self, report: &mut SvdReport<V>) {
        report.seconds.add(&self.seconds);
        report.counts.add(&self.counts);
        for (kernel, seconds) in self.kernel_seconds {
            match report.kernel_seconds.iter_mut().find(|(of, _)| *of == kernel) {
                Some((_, sum)) => *sum += seconds,
                None => report.kernel_seconds.push((kernel, seconds)),
            }
        }
    }
}

impl<V> SvdReport<V> {
    /// The cost of this matrix on a GPU with these hyperparameters. For a call that ran on a hardware GPU, this is what it dispatched.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{SvdOptions, SvdValsGpu, cost::{DeviceModel, Kernel}};
    /// let a = faer::Mat::<f32>::identity(300, 300);
    /// let cost = a.svdvals_gpu_report(&SvdOptions::default())?.cost()?;
    /// println!("{cost}\nup to {} workgroups of unmqr at once", cost.kernel(Kernel::Unmqr).most_workgroups);
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Cost::new`].
    pub fn cost(&self) -> Result<Cost> {
        let (kind, cost) = self.cost;
        cost(kind, self.shape.0, self.shape.1, &self.tuning, self.stage3_on_device)
    }

    /// The same report with its values converted.
    ///
    /// ```
    /// # #[cfg(feature = "faer")] {
    /// use svdvals_gpu::{SvdOptions, SvdReport, SvdValsGpu};
    /// let a = faer::Mat::<f64>::identity(3, 3);
    /// let report: SvdReport<Vec<f64>> = a.svdvals_gpu_report(&SvdOptions::default())?.map(|s| s.iter().copied().collect());
    /// # #[cfg(feature = "serde")]
    /// assert!(serde_json::to_string(&report).unwrap().starts_with(r#"{"values":[1.0,1.0,1.0],"backend":"cpu","#));
    /// # }
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    pub fn map<W>(self, values: impl FnOnce(V) -> W) -> SvdReport<W> {
        match self.try_map(|v| Ok::<W, Infallible>(values(v))) {
            Ok(report) => report,
            Err(never) => match never {},
        }
    }

    /// [`map`](Self::map) by a conversion that may fail.
    pub(crate) fn try_map<W, E>(
        self,
        values: impl FnOnce(V) -> std::result::Result<W, E>,
    ) -> std::result::Result<SvdReport<W>, E> {
        let SvdReport { values: v, backend, reason, route, adapter, storage, tuning, seconds, .. } = self;
        let SvdReport { counts, kernel_seconds, iteration, shape, stage3_on_device, options, cost, .. } = self;
        let values = values(v)?;
        Ok(SvdReport {
            values,
            backend,
            reason,
            route,
            adapter,
            storage,
            tuning,
            seconds,
            counts,
            kernel_seconds,
            iteration,
            shape,
            stage3_on_device,
            options,
            cost,
        })
    }
}

/// What ran, on which backend, why, the seconds of each stage, and of each kernel if timed; without the values.
impl<V> fmt::Display for SvdReport<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((m, n), storage, reason) = (self.shape, self.storage, &self.reason);
        let device = self.adapter.as_deref().unwrap_or("the CPU");
        writeln!(f, "{m} x {n}, held as {storage}, on {device} ({reason}), {}", self.route)?;
        if !self.options.is_empty() {
            writeln!(f, "options: {}", self.options)?;
        }
        if let Some(iteration) = &self.iteration {
            writeln!(f, "{iteration}")?;
        }
        write!(f, "{}", self.seconds)?;
        if self.backend == Backend::Gpu {
            write!(f, "\n{}", self.counts)?;
        }
        if !self.kernel_seconds.is_empty()
            && let Ok(cost) = self.cost()
        {
            write!(f, "\n{}", cost.measured(&self.kernel_seconds))?;
        }
        Ok(())
    }
}
