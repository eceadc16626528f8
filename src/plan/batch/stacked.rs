//! Matrices of one shape that share each dispatch of a GPU: stacks.
//!
//! ```text
//! 0  scale            on the host, each by its own power of two
//! 1  to_band          of all matrices of a stack, which are one upload
//! 2  band_to_bidiag   likewise
//! 3  svdvals          likewise, by bisection; unscaled on the host
//! 4  vectors          on request, likewise (stacked/vectors.rs)
//! ```
//!
//! A matrix has the results of a single call with [`Stage3::Device`](crate::Stage3): the kernels compute the matrices of a stack side by side.

mod vectors;

use std::collections::BTreeMap;

use faer::MatRef;

use crate::{
    algo::{
        bidiagonal::Stage3,
        svdvals::{Driver, narrowed, unscaled},
        vectors::VectorKernels,
    },
    base::{
        clock::Clock,
        error::{Result, SvdError},
        number::{Re, RealElement, Scalar},
        parallel::{map, map_each},
        scale::power_of_two_scale,
        stage::Stage,
        view::{trimmed, upright},
        watch::{Listen, Watch},
    },
    gpu::{
        device::stream::Manner,
        kernels::{
            GpuKernels,
            stacked::{is_by_rows, most_stacked},
        },
    },
    plan::{
        backend::logged,
        batch::each::{OfEach, OfStack, OnDevice, Run, Stacked},
        options::{SvdOptions, Vectors},
        route::Reduction,
        svd::needed,
    },
    tile::tuning::Tuning,
};

pub(super) use vectors::decompositions;

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

/// The results of the matrices of `stacks`. `did` is told the indices of those that ended. An error of the device is that of each matrix that it
/// left. Missing are those that single calls have to compute: of a stack that the device cannot hold, or whose options have an error, and all that
/// come after it has run out of memory.
pub(super) async fn stacked<T, R>(
    batch: &[MatRef<'_, T>],
    stacks: &[Vec<usize>],
    run: &Run<'_>,
    did: &(dyn Fn(&[usize]) + Sync),
) -> Stacked<R>
where
    T: Scalar,
    R: OfEach<T>,
{
    let mut all = Stacked::new();
    let mut failed: Option<SvdError> = None;
    let kind = run.options.run.half_storage.of(T::KIND);
    let vectors = R::VECTORS.then_some(run.options.vectors == Vectors::Full);
    for stack in stacks {
        let (first, _) = upright(batch[stack[0]]);
        let Ok(tuning) = run.options.run.tuning_for_adapter(kind, &run.context, first.ncols()) else { continue };
        let most = most_stacked(kind, &run.context, first.shape(), is_by_rows(first), &tuning, vectors);
        let Ok(most @ 2..) = most.and_then(|most| R::may_be_stacked(first.shape(), run.options).map(|()| most)) else { continue };
        // Rounds of about the same number of matrices.
        let rounds = stack.len().div_ceil(most);
        for round in stack.chunks(stack.len().div_ceil(rounds)) {
            let first = all.results.len();
            let found = match &failed {
                Some(error) => Err(error.clone()),
                None => of_round::<T, R>(batch, round, run, &tuning, &mut all, did).await,
            };
            let full = matches!(found, Err(SvdError::OutOfMemory { .. } | SvdError::TooLarge { .. }));
            let refused = found.as_ref().is_err_and(|error| matches!(error, SvdError::InvalidOption { .. }));
            if let Err(error) = &found
                && (full || refused)
            {
                logged(format!("{} matrices in shared dispatches: {error}", round.len()));
            } else if let Err(error) = found {
                let has = |index: usize| all.results[first..].iter().any(|&(of, _)| of == index);
                let left: Vec<usize> = round.iter().copied().filter(|&index| !has(index)).collect();
                all.results.extend(left.into_iter().map(|index| (index, Err(error.clone()))));
                failed = Some(error);
            }
            all.tell(did);
            if full {
                return all;
            }
            if refused {
                break;
            }
        }
    }
    all
}

/// Adds the results of some matrices of a stack to `all`.
///
/// # Errors
/// Of the device, or a cancellation. A matrix with a NaN, or whose values overflow, has an error of its own.
async fn of_round<T, R>(
    batch: &[MatRef<'_, T>],
    round: &[usize],
    run: &Run<'_>,
    tuning: &Tuning,
    all: &mut Stacked<R>,
    did: &(dyn Fn(&[usize]) + Sync),
) -> Result<()>
where
    T: Scalar,
    R: OfEach<T>,
{
    let Run { options, ref context, waits, timed } = *run;
    // The flops of the kernels are not those of the batch's progress.
    let watch = Watch::new(&Listen::new(None, options.run.cancel.clone()), || Ok([0; 4]))?;
    watch.begin(Stage::ToBand)?;
    let (timed_kernels, stage3_on_device, kept) = (options.run.time_kernels, Some(true), R::VECTORS);
    let manner = Manner { waits, timed: timed_kernels, stage3_on_device, kept, watch: watch.clone(), ..Manner::default() };
    let kernels = GpuKernels::running(options.run.half_storage.of(T::KIND), context, tuning, manner)?;
    let (leading, left) = (options.leading(), R::VECTORS);
    let driver = Driver { kernels: &kernels, tuning, watch: &watch, one_stage: false, stage3: None, leading, timed, left };
    let found = with_driver::<T, R>(driver, batch, round, options, all, did).await;
    all.counts.add(&kernels.counts());
    for (kernel, seconds) in kernels.kernel_seconds() {
        *all.kernel_seconds.entry(kernel).or_default() += seconds;
    }
    found
}

/// [`of_round`] by the kernels of this driver.
async fn with_driver<T, R>(
    driver: Driver<'_, GpuKernels>,
    batch: &[MatRef<'_, T>],
    round: &[usize],
    options: &SvdOptions,
    all: &mut Stacked<R>,
    did: &(dyn Fn(&[usize]) + Sync),
) -> Result<()>
where
    T: Scalar,
    R: OfEach<T>,
{
    let mut clock = Clock::new(driver.timed);
    let scales: Vec<Result<Re<T>>> = map(round.len(), |k| power_of_two_scale(driver.kernels.kind, batch[round[k]]));
    all.seconds.scale += clock.restart();
    let mut matrices = Vec::with_capacity(round.len());
    for (&index, scale) in round.iter().zip(scales) {
        match scale {
            Ok(scale) => {
                let (a, turned) = upright(batch[index]);
                matrices.push(OfStack { index, a, turned, scale });
            }
            Err(error) => all.results.push((index, Err(error))),
        }
    }
    let Some(shape) = matrices.first().map(|of| of.a.shape()) else { return Ok(()) };

    let kernels = driver.kernels;
    let dense = kernels.upload_stack(&matrices.iter().map(|of| (of.a, of.scale)).collect::<Vec<_>>())?;
    let left = R::VECTORS && matrices.iter().any(|of| needed(options.vectors, of.turned.transposed).0);
    let copy = if left { kernels.copy(&dense)? } else { None };
    all.seconds.upload += driver.lap_if_timed(&mut clock).await?;
    let reduced = driver.reduce(dense, shape, R::VECTORS, &mut all.seconds).await?;
    clock.restart();
    driver.watch.begin(Stage::Svdvals)?;
    let values = kernels.bisect(&reduced.band, driver.leading.count.max(1)).await?;
    let descending = |(values, of): (Result<Vec<f64>>, &OfStack<'_, T>)| {
        let mut values = values?;
        values.sort_unstable_by(|x, y| y.total_cmp(x));
        let mut values = unscaled(kernels.kind, values, of.scale.to_double(), "singular values")?;
        values.truncate(driver.leading.of(&values));
        Ok(narrowed(&values))
    };
    let values: Vec<Result<Vec<Re<T>>>> = map_each(values.into_iter().zip(&matrices), descending);
    all.seconds.svdvals += clock.restart();

    R::of_stack(OnDevice { driver, options, matrices, reduced, copy, values }, all, did).await
}
