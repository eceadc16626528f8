//! Matrices that a GPU computes together: one workgroup each (`shaders/batch.wgsl`).

use faer::MatRef;
use rayon::prelude::*;

use crate::{
    algo::{bidiagonal::Stage3, svdvals::unscaled},
    base::{
        clock::{Clock, StageSeconds},
        error::{Result, SvdError},
        number::{Number, Re},
        scale::power_of_two_scale,
        view::trimmed,
        watch::{Listen, Stage, Watch},
    },
    gpu::{
        device::{
            context::{GpuContext, Waits},
            stream::Manner,
        },
        kernels::batch::{Classes, GpuBatch},
    },
    plan::{
        batch::Together,
        options::{Backend, SvdOptions},
        route::Reduction,
    },
};

/// Whether the options leave the method to the crate, or ask for that of the kernel.
pub(super) fn may_be_together(options: &SvdOptions) -> bool {
    options.reduction == Reduction::Auto && matches!(options.stage3, Stage3::Auto | Stage3::Device)
}

/// The matrix or its transpose, whichever has m >= n. (Any strides are as good: the host copies the matrix row by row.)
fn tall<T>(a: MatRef<'_, T>) -> MatRef<'_, T> {
    if a.nrows() < a.ncols() { a.transpose() } else { a }
}

/// How a call runs.
pub(super) struct Run<'a> {
    pub options: &'a SvdOptions,
    pub context: GpuContext,
    pub waits: Waits,
    pub timed: bool,
}

/// The singular values of those matrices of `indices` that fit a workgroup. `did` is told the indices of each round.
///
/// # Errors
/// Only before anything is computed. An error of the device is that of each matrix that it left.
pub(super) async fn svdvals_together<T, S>(
    batch: &[MatRef<'_, T>],
    indices: &[usize],
    Run { options, context, waits, timed }: Run<'_>,
    did: &(dyn Fn(&[usize]) + Sync),
) -> Result<Together<Vec<T::Real>>>
where
    T: Number,
    S: Number<Real = T::Real, Scalar = T::Scalar>,
{
    let classes = Classes::<S>::new(&context)?;
    let fits = |&index: &usize| classes.of(tall(trimmed(batch[index])).shape()).is_some();
    let fitting: Vec<usize> = indices.iter().copied().filter(fits).collect();

    // The flops of the kernel are not those of the batch's progress.
    let watch = Watch::new(&Listen::new(None, options.cancel.clone()), || Ok([0; 4]))?;
    let _ = watch.begin(Stage::Svdvals);
    let manner = Manner { waits, timed: options.time_kernels, watch, ..Manner::default() };
    let kernel = GpuBatch::<S>::running(classes, manner)?;

    let mut clock = Clock::new(timed);
    let scales: Vec<Result<Re<T>>> = fitting.par_iter().map(|&index| power_of_two_scale::<T, S>(trimmed(batch[index]))).collect();
    let mut seconds = StageSeconds { scale: clock.restart(), ..StageSeconds::default() };

    let mut results = Vec::with_capacity(fitting.len());
    let mut scaled = Vec::with_capacity(fitting.len());
    for (index, scale) in fitting.into_iter().zip(scales) {
        match scale {
            Ok(scale) => scaled.push((index, (tall(batch[index]), scale))),
            Err(error) => results.push((index, Err(error))),
        }
    }
    did(&results.iter().map(|&(index, _)| index).collect::<Vec<_>>());
    let mut failed: Option<SvdError> = None;
    for round in kernel.rounds(scaled.iter().map(|(_, (a, _))| a.shape())) {
        let (indices, matrices): (Vec<usize>, Vec<_>) = scaled[round].iter().copied().unzip();
        let found = match &failed {
            Some(error) => Err(error.clone()),
            None => kernel.svdvals::<T>(&matrices).await,
        };
        match found {
            Ok(values) => {
                let unscale = |(values, (_, scale)): (_, &(_, Re<T>))| unscaled(values, *scale, "singular values");
                let values: Vec<Result<Vec<T::Real>>> = values.into_par_iter().zip(&matrices).map(unscale).collect();
                results.extend(indices.iter().copied().zip(values));
            }
            Err(error) => {
                results.extend(indices.iter().map(|&index| (index, Err(error.clone()))));
                failed = Some(error);
            }
        }
        did(&indices);
    }
    seconds.svdvals = clock.seconds();
    let reason = match options.backend {
        Backend::Gpu => "Backend::Gpu was asked for",
        _ => "a hardware GPU, for a batch of this size",
    };
    let (counts, kernel_seconds, adapter) = (kernel.counts(), kernel.kernel_seconds(), context.adapter_name().to_owned());
    Ok(Together { results, adapter, storage: S::NAME, reason: reason.into(), counts, kernel_seconds, seconds })
}
