//! Matrices of one shape that share each dispatch of a GPU's two stages: stacks.
//!
//! ```text
//! 0  scale            on the host, each by its own power of two
//! 1  to_band          of all matrices of a stack, which are one upload
//! 2  band_to_bidiag   likewise
//! 3  svdvals          likewise, by bisection; unscaled on the host
//! ```
//!
//! A matrix has the values of a single call with [`Stage3::Device`](crate::Stage3): the kernels compute the matrices of a stack side by side.

use std::collections::BTreeMap;

use faer::MatRef;
use rayon::prelude::*;

use crate::{
    algo::{
        band_to_bidiag::band_to_bidiag,
        bidiagonal::Stage3,
        svdvals::{tall_first, unscaled},
        to_band::to_band,
    },
    base::{
        clock::{Clock, StageSeconds},
        error::{Result, SvdError},
        number::{Number, Re},
        scale::power_of_two_scale,
        view::{trimmed, upright},
        watch::{Listen, Stage, Watch},
    },
    cost::{counts::Counts, work::Kernel},
    gpu::{
        device::stream::Manner,
        kernels::{
            GpuKernels,
            stacked::{is_by_rows, most_stacked},
        },
    },
    plan::{backend::logged, batch::together::Run, options::SvdOptions, route::Reduction},
    tile::{
        kernels::{StageKernels, TileKernels},
        tuning::Tuning,
    },
};

/// Whether the options leave the method to the crate, or ask for that of a stack.
pub(super) fn may_be_stacked(options: &SvdOptions) -> bool {
    matches!(
        (options.reduction, options.stage3),
        (Reduction::Auto, Stage3::Auto) | (Reduction::Auto | Reduction::TwoStage, Stage3::Device)
    )
}

/// The indices of those matrices of a batch that have the shape and the memory order of others, m x n with m >= n >= 1: a stack each.
pub(super) fn stacks<T>(batch: &[MatRef<'_, T>], indices: impl Iterator<Item = usize>) -> Vec<Vec<usize>> {
    let mut all: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for index in indices {
        let (a, _) = upright(trimmed(batch[index]));
        if a.ncols() > 0 {
            all.entry((a.shape(), is_by_rows(a))).or_default().push(index);
        }
    }
    all.into_values().filter(|stack| stack.len() > 1).collect()
}

/// The results of stacks, with what ran.
pub(super) struct Stacked<R> {
    /// The indices of the matrices, and their results.
    pub results: Vec<(usize, Result<R>)>,
    pub counts: Counts,
    pub kernel_seconds: BTreeMap<Kernel, f64>,
    pub seconds: StageSeconds,
}

impl<R> Default for Stacked<R> {
    fn default() -> Self {
        Stacked {
            results: Vec::new(),
            counts: Counts::default(),
            kernel_seconds: BTreeMap::new(),
            seconds: StageSeconds::default(),
        }
    }
}

/// The singular values of the matrices of `stacks`. `did` is told the indices of each round. An error of the device is that of each matrix that it
/// left. Missing are those that single calls have to compute: of a stack that the device cannot hold, or whose options have an error, and all that
/// come after it has run out of memory.
pub(super) async fn stacked<T, S>(
    batch: &[MatRef<'_, T>],
    stacks: &[Vec<usize>],
    run: &Run<'_>,
    did: &(dyn Fn(&[usize]) + Sync),
) -> Stacked<Vec<T::Real>>
where
    T: Number,
    S: Number<Real = T::Real, Scalar = T::Scalar>,
{
    let mut all = Stacked::default();
    let mut failed: Option<SvdError> = None;
    for stack in stacks {
        let (first, _) = upright(batch[stack[0]]);
        let Ok(tuning) = run.options.tuning_for_adapter::<S>(&run.context, first.ncols()) else { continue };
        let Ok(most @ 2..) = most_stacked::<S>(&run.context, first.shape(), is_by_rows(first), &tuning) else { continue };
        // Rounds of about the same number of matrices.
        let rounds = stack.len().div_ceil(most);
        for round in stack.chunks(stack.len().div_ceil(rounds)) {
            let first = all.results.len();
            let found = match &failed {
                Some(error) => Err(error.clone()),
                None => of_round::<T, S>(batch, round, run, &tuning, &mut all).await,
            };
            let full = matches!(found, Err(SvdError::OutOfMemory { .. } | SvdError::TooLarge { .. }));
            if let Err(error) = &found
                && full
            {
                logged(format!("{} matrices in shared dispatches: {error}", round.len()));
            } else if let Err(error) = found {
                let has = |index: usize| all.results[first..].iter().any(|&(of, _)| of == index);
                let left: Vec<usize> = round.iter().copied().filter(|&index| !has(index)).collect();
                all.results.extend(left.into_iter().map(|index| (index, Err(error.clone()))));
                failed = Some(error);
            }
            did(&all.results[first..].iter().map(|&(index, _)| index).collect::<Vec<_>>());
            if full {
                return all;
            }
        }
    }
    all
}

/// Adds the singular values of some matrices of a stack to `all`.
///
/// # Errors
/// Of the device, or a cancellation. A matrix with a NaN, or whose values overflow, has an error of its own.
async fn of_round<T, S>(
    batch: &[MatRef<'_, T>],
    round: &[usize],
    run: &Run<'_>,
    tuning: &Tuning,
    all: &mut Stacked<Vec<T::Real>>,
) -> Result<()>
where
    T: Number,
    S: Number<Real = T::Real, Scalar = T::Scalar>,
{
    let Run { options, ref context, waits, timed } = *run;
    // The flops of the kernels are not those of the batch's progress.
    let watch = Watch::new(&Listen::new(None, options.cancel.clone()), || Ok([0; 4]))?;
    watch.begin(Stage::Svdvals)?;
    let manner = Manner { waits, timed: options.time_kernels, stage3_on_device: Some(true), one_stage: false, watch };
    let kernels = GpuKernels::<S>::running(context, tuning, manner)?;
    let found = with_kernels::<T, S>(&kernels, batch, round, timed, tuning, all).await;
    all.counts.add(&kernels.counts());
    for (kernel, seconds) in kernels.kernel_seconds() {
        *all.kernel_seconds.entry(kernel).or_default() += seconds;
    }
    found
}

/// [`of_round`] by these kernels.
async fn with_kernels<T, S>(
    kernels: &GpuKernels<S>,
    batch: &[MatRef<'_, T>],
    round: &[usize],
    timed: bool,
    tuning: &Tuning,
    all: &mut Stacked<Vec<T::Real>>,
) -> Result<()>
where
    T: Number,
    S: Number<Real = T::Real, Scalar = T::Scalar>,
{
    let lap = async |clock: &mut Clock| {
        if timed {
            kernels.finish().await?;
        }
        Ok(clock.restart())
    };

    let mut clock = Clock::new(timed);
    let scales: Vec<Result<Re<T>>> = round.par_iter().map(|&index| power_of_two_scale::<T, S>(batch[index])).collect();
    all.seconds.scale += clock.restart();
    let (mut indices, mut matrices) = (Vec::with_capacity(round.len()), Vec::with_capacity(round.len()));
    for (&index, scale) in round.iter().zip(scales) {
        match scale {
            Ok(scale) => {
                indices.push(index);
                matrices.push((upright(batch[index]).0, scale));
            }
            Err(error) => all.results.push((index, Err(error))),
        }
    }
    let Some((m, n)) = matrices.first().map(|(a, _)| a.shape()) else { return Ok(()) };

    let mut dense = kernels.upload_stack(&matrices)?;
    all.seconds.upload += lap(&mut clock).await?;
    let rows = tall_first(kernels, &mut dense, m, n, tuning)?;
    to_band(kernels, &mut dense, rows, n, tuning)?;
    let bandwidth = tuning.bandwidth(n);
    let mut band = kernels.pack_band(&dense, n, bandwidth, tuning.tile_width)?;
    drop(dense);
    all.seconds.to_band += lap(&mut clock).await?;
    band_to_bidiag(kernels, &mut band, n, bandwidth, tuning.tile_width)?;
    all.seconds.band_to_bidiag += lap(&mut clock).await?;
    let values = kernels.bisect(&band).await?;
    let descending = |(values, (_, scale)): (Result<Vec<f64>>, &(_, Re<T>))| {
        let mut values = values?;
        values.sort_unstable_by(|x, y| y.total_cmp(x));
        unscaled(values, *scale, "singular values")
    };
    let values: Vec<Result<Vec<T::Real>>> = values.into_par_iter().zip(&matrices).map(descending).collect();
    all.seconds.svdvals += clock.restart();

    all.results.extend(indices.into_iter().zip(values));
    Ok(())
}
