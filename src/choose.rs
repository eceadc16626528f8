//! Where a problem is computed, and why.

use std::borrow::Cow;

use faer::MatRef;

use crate::{
    bidiagonal::Stage3,
    error::{Result, SvdError},
    gpu::{GpuContext, required_bytes},
    options::{Backend, SvdOptions, Tuning},
    scalar::Element,
};

/// Sides below which a GPU does not pay: its dispatches alone (about 3 n in stage 2) take longer than the CPU needs.
const GPU_WORTHWHILE: usize = 1024;

/// Where to compute, and why.
pub(crate) enum Choice {
    Cpu(Cow<'static, str>),
    Gpu { context: GpuContext, tuning: Tuning, reason: Cow<'static, str> },
}

impl Choice {
    /// That stage 3 can run where it is to.
    pub(crate) fn has_stage3(&self, options: &SvdOptions) -> Result<()> {
        match self {
            Choice::Cpu(reason) if options.stage3 == Stage3::Device => {
                Err(SvdError::invalid("stage3", format!("Stage3::Device, but the CPU computes: {reason}")))
            }
            _ => Ok(()),
        }
    }
}

/// Where a matrix of `T`, stored as `S`, is computed, and why. No entry is read.
pub(crate) fn choose_for_dense<T, S>(
    options: &SvdOptions,
    a: MatRef<'_, T>,
    context: impl FnOnce() -> Result<GpuContext>,
) -> Result<Choice>
where
    T: Element,
    S: Element<Real = T::Real, Scalar = T::Scalar>,
{
    let (m, n) = (a.nrows().max(a.ncols()), a.nrows().min(a.ncols()));
    choose::<T, S>(options, context, n, || too_small(n), |context, tuning| required_bytes::<S>(context, m, n, tuning))
}

/// The context that a call with `options` takes if it computes on a GPU.
pub(crate) fn context_of(options: &SvdOptions) -> Result<GpuContext> {
    options.context.clone().map_or_else(GpuContext::global, Ok)
}

/// [`context_of`] for a matrix whose smaller side is `n`, for a caller that must not block; and `None` where no GPU is asked.
pub(crate) async fn context_of_async(options: &SvdOptions, n: usize) -> Option<Result<GpuContext>> {
    let asks = options.backend == Backend::Gpu || options.backend == Backend::Auto && too_small(n).is_none();
    match &options.context {
        Some(context) => Some(Ok(context.clone())),
        None if asks => Some(GpuContext::global_async().await),
        None => None,
    }
}

/// Why a matrix of order `n` is too small for a GPU, if it is. In words that need no memory: some of them take less than a microsecond.
pub(crate) fn too_small(n: usize) -> Option<Cow<'static, str>> {
    (n < GPU_WORTHWHILE).then_some(Cow::Borrowed("a smaller side below 1024 gains nothing on a GPU"))
}

/// Where a matrix of order `n` of `T`, stored as `S`, is computed, and why. On a GPU it computes with these types, and `fits` agrees;
/// `too_small` says why it would gain nothing there; `context` opens the device, where it comes to that.
pub(crate) fn choose<T, S>(
    options: &SvdOptions,
    context: impl FnOnce() -> Result<GpuContext>,
    n: usize,
    too_small: impl Fn() -> Option<Cow<'static, str>>,
    fits: impl Fn(&GpuContext, &Tuning) -> Result<u64>,
) -> Result<Choice>
where
    T: Element,
    S: Element<Real = T::Real, Scalar = T::Scalar>,
{
    let check = |context: &GpuContext| -> Result<Tuning> {
        context.require::<T, S>()?;
        let tuning = options.tuning_for_adapter::<S>(context, n)?;
        fits(context, &tuning)?;
        Ok(tuning)
    };
    match options.backend {
        Backend::Cpu => Ok(Choice::Cpu("Backend::Cpu was asked for".into())),
        Backend::Gpu => {
            let context = context()?;
            let tuning = check(&context)?;
            Ok(Choice::Gpu { context, tuning, reason: "Backend::Gpu was asked for".into() })
        }
        Backend::Auto => {
            if let Some(reason) = too_small() {
                log::debug!("svdvals-gpu computes on the CPU: {reason}");
                return Ok(Choice::Cpu(reason));
            }
            let context = match context() {
                Ok(context) => context,
                Err(error) => return Ok(Choice::Cpu(fallback(&error.to_string()))),
            };
            if context.is_software() {
                return Ok(Choice::Cpu(fallback(&format!("{} is a software rasteriser", context.adapter_name()))));
            }
            match check(&context) {
                Ok(tuning) => Ok(Choice::Gpu { context, tuning, reason: "a hardware GPU that can hold the matrix".into() }),
                Err(error) if error.is_of_device() || matches!(error, SvdError::UnsupportedElement { .. }) => {
                    Ok(Choice::Cpu(fallback(&error.to_string())))
                }
                Err(error) => Err(error),
            }
        }
    }
}

/// Logs why the CPU computes what a GPU might have.
pub(crate) fn fallback(reason: &str) -> Cow<'static, str> {
    log::warn!("svdvals-gpu computes on the CPU: {reason}");
    reason.to_owned().into()
}

impl SvdError {
    /// Whether the device is to blame, and not the input or the options.
    pub(crate) fn is_of_device(&self) -> bool {
        matches!(
            self,
            SvdError::DeviceLost { .. } | SvdError::OutOfMemory { .. } | SvdError::Gpu { .. } | SvdError::TooLarge { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words name the number.
    #[test]
    fn the_reason_names_the_limit() {
        assert!(too_small(GPU_WORTHWHILE).is_none());
        assert!(too_small(GPU_WORTHWHILE - 1).is_some_and(|reason| reason.contains(&format!("below {GPU_WORTHWHILE} "))));
    }
}
