//! Where a problem is computed, and why; and the only fallback, from a failed GPU to the CPU.

#[cfg(not(feature = "gpu"))]
use crate::plan::choice::{TOO_SMALL, is_too_small};
use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
    },
    plan::{
        choice::Reason,
        options::{Backend, RunOptions, SvdOptions},
        problem::Problem,
    },
};
#[cfg(feature = "gpu")]
use crate::{
    gpu::device::context::GpuContext,
    plan::choice::seconds::{any_may_gain, gains},
    tile::tuning::Tuning,
};

/// Where to compute, and why.
pub(crate) enum Place {
    Cpu(Reason),
    #[cfg(feature = "gpu")]
    Gpu(OnGpu),
}

/// A device, the hyperparameters for it, and the reason for choosing it.
#[cfg(feature = "gpu")]
pub(crate) struct OnGpu {
    pub context: GpuContext,
    pub tuning: Tuning,
    pub reason: Reason,
}

impl Place {
    /// Where a problem stored as `kind` is computed, and why.
    #[cfg(feature = "gpu")]
    pub fn of(kind: ElementKind, run: &RunOptions, problem: Problem) -> Result<Place> {
        Place::with_context(kind, run, false, problem, || context_of(run))
    }

    /// The same for singular values and vectors, with stage 3 where the options ask for it.
    #[cfg(feature = "gpu")]
    pub fn of_svd(kind: ElementKind, options: &SvdOptions, problem: Problem) -> Result<Place> {
        let opened = || context_of(&options.run);
        Place::with_context(kind, &options.run, options.need_device(), problem, opened)?.with(options)
    }

    /// [`of`](Self::of) for a caller that must not block.
    #[cfg(feature = "gpu")]
    pub async fn of_async(kind: ElementKind, run: &RunOptions, problem: Problem) -> Result<Place> {
        let context = context_of_async(kind, run, false, problem).await;
        Place::with_context(kind, run, false, problem, || context.unwrap_or_else(|| context_of(run)))
    }

    /// [`of_svd`](Self::of_svd) for a caller that must not block.
    #[cfg(feature = "gpu")]
    pub async fn of_svd_async(kind: ElementKind, options: &SvdOptions, problem: Problem) -> Result<Place> {
        let (run, bound) = (&options.run, options.need_device());
        let context = context_of_async(kind, run, bound, problem).await;
        Place::with_context(kind, run, bound, problem, || context.unwrap_or_else(|| context_of(run)))?.with(options)
    }

    /// [`of`](Self::of), where `context` opens the device if it is needed. `bound` is whether the options ask for what a device alone has.
    #[cfg(feature = "gpu")]
    fn with_context(
        kind: ElementKind,
        run: &RunOptions,
        bound: bool,
        problem: Problem,
        context: impl FnOnce() -> Result<GpuContext>,
    ) -> Result<Place> {
        let check = |context: &GpuContext| -> Result<Tuning> {
            context.require(kind)?;
            if problem.is_by_products() {
                context.cooperative()?;
            }
            let tuning = problem.tuning(run, kind, context)?;
            problem.required_bytes(kind, context, &tuning)?;
            Ok(tuning)
        };
        match run.backend {
            Backend::Cpu => Ok(Place::Cpu("Backend::Cpu was asked for".into())),
            Backend::Gpu => {
                let context = context()?;
                let tuning = check(&context)?;
                Ok(Place::Gpu(OnGpu { context, tuning, reason: "Backend::Gpu was asked for".into() }))
            }
            Backend::Auto => {
                let on_cpu = |reason| {
                    log::debug!("svdvals-gpu computes on the CPU: {reason}");
                    Ok(Place::Cpu(reason))
                };
                let cpu = match any_may_gain(kind, run, bound, problem) {
                    Ok(cpu) => cpu,
                    Err(reason) => return on_cpu(reason),
                };
                let context = match context() {
                    Ok(context) => context,
                    Err(error) => return Ok(Place::Cpu(logged(error.to_string()))),
                };
                if context.is_software() {
                    return Ok(Place::Cpu(logged(format!("{} is a software rasteriser", context.adapter_name()))));
                }
                let reason = match gains(cpu, (kind, problem), run, &context) {
                    Ok(reason) => reason,
                    Err(reason) => return on_cpu(reason),
                };
                match check(&context) {
                    Ok(tuning) => Ok(Place::Gpu(OnGpu { context, tuning, reason })),
                    Err(error) if error.is_of_device() || error.is_of_feature() => Ok(Place::Cpu(logged(error.to_string()))),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// The CPU, or an error if a GPU was asked for.
    #[cfg(not(feature = "gpu"))]
    pub fn of(kind: ElementKind, run: &RunOptions, problem: Problem) -> Result<Place> {
        match run.backend {
            Backend::Cpu => Ok(Place::Cpu("Backend::Cpu was asked for".into())),
            Backend::Gpu => Err(SvdError::NoAdapter { reason: "svdvals-gpu was built without its feature `gpu`".into() }),
            Backend::Auto if is_too_small(kind, problem) => Ok(Place::Cpu(TOO_SMALL.into())),
            Backend::Auto => Ok(Place::Cpu("svdvals-gpu was built without its feature `gpu`".into())),
        }
    }

    /// The same for singular values and vectors.
    #[cfg(not(feature = "gpu"))]
    pub fn of_svd(kind: ElementKind, options: &SvdOptions, problem: Problem) -> Result<Place> {
        Place::of(kind, &options.run, problem)?.with(options)
    }

    /// The same for a caller that must not block.
    #[cfg(not(feature = "gpu"))]
    pub async fn of_async(kind: ElementKind, run: &RunOptions, problem: Problem) -> Result<Place> {
        Place::of(kind, run, problem)
    }

    /// The same for a caller that must not block.
    #[cfg(not(feature = "gpu"))]
    pub async fn of_svd_async(kind: ElementKind, options: &SvdOptions, problem: Problem) -> Result<Place> {
        Place::of_svd(kind, options, problem)
    }

    /// Checks that what computes has what the options of the run ask for.
    pub fn has_run(&self, run: &RunOptions) -> Result<()> {
        match self {
            Place::Cpu(reason) if run.time_kernels => {
                Err(SvdError::invalid("time_kernels", format!("a GPU's kernels are timed, but the CPU computes: {reason}")))
            }
            #[cfg(feature = "gpu")]
            Place::Gpu(on) if run.time_kernels => on.context.has_timestamps(),
            _ => Ok(()),
        }
    }

    /// This place, if it has what the options of singular values and vectors ask for.
    pub fn with(self, options: &SvdOptions) -> Result<Self> {
        match &self {
            Place::Cpu(reason) if options.need_device() => {
                Err(SvdError::invalid("stage3", format!("Stage3::Device, but the CPU computes: {reason}")))
            }
            _ => self.has_run(&options.run).map(|()| self),
        }
    }
}

/// The result of a GPU. If the device failed and the options permit the CPU, the reason why the CPU computes instead. `bound` is whether other options than
/// those of the run need the device.
#[cfg(feature = "gpu")]
pub(crate) fn or_fall_back<R>(run: &RunOptions, bound: bool, result: Result<R>) -> Result<std::result::Result<R, Reason>> {
    match result {
        Err(error) if run.backend == Backend::Auto && !bound && !run.time_kernels && error.is_of_device() => {
            Ok(Err(logged(format!("the GPU failed: {error}"))))
        }
        result => result.map(Ok),
    }
}

/// Logs the reason why the CPU computes what a GPU might have computed.
#[cfg(feature = "gpu")]
pub(crate) fn logged(reason: String) -> Reason {
    log::warn!("svdvals-gpu computes on the CPU: {reason}");
    reason.into()
}

/// The context of a call, if it computes on a GPU.
#[cfg(feature = "gpu")]
pub(crate) fn context_of(run: &RunOptions) -> Result<GpuContext> {
    run.context.clone().map_or_else(GpuContext::global, Ok)
}

/// [`context_of`] for a caller that must not block. None if the call does not ask for a GPU.
#[cfg(feature = "gpu")]
async fn context_of_async(kind: ElementKind, run: &RunOptions, bound: bool, problem: Problem) -> Option<Result<GpuContext>> {
    let asks = match run.backend {
        Backend::Gpu => true,
        Backend::Auto => any_may_gain(kind, run, bound, problem).is_ok(),
        Backend::Cpu => false,
    };
    match &run.context {
        Some(context) => Some(Ok(context.clone())),
        None if asks => Some(GpuContext::global_async().await),
        None => None,
    }
}

#[cfg(feature = "gpu")]
impl SvdError {
    /// Whether the device lacks what the call needs.
    fn is_of_feature(&self) -> bool {
        matches!(self, SvdError::UnsupportedElement { .. } | SvdError::InvalidOption { option: "products", .. })
    }

    /// Whether the error comes from the device, not from the input or the options.
    pub(crate) fn is_of_device(&self) -> bool {
        matches!(
            self,
            SvdError::DeviceLost { .. } | SvdError::OutOfMemory { .. } | SvdError::Gpu { .. } | SvdError::TooLarge { .. }
        )
    }
}
