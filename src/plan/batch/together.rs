//! Matrices that a GPU computes together: one workgroup each (`shaders/batch.wgsl`, and `shaders/jacobi.wgsl` for vectors). Those of one shape that
//! workgroup memory does not hold follow as [stacks](super::stacked): by the cost model of an H100, 64 of 128 x 128 take
//! half the time that they would in a workgroup each, and with vectors a twelfth.

use std::{borrow::Cow, collections::HashSet};

use faer::MatRef;

use crate::{
    algo::{
        bidiagonal::Stage3,
        svdvals::{narrowed, unscaled},
    },
    base::{
        clock::{Clock, StageSeconds},
        error::{Result, SvdError},
        number::{Re, RealElement, Scalar},
        parallel::{map, map_each},
        scale::power_of_two_scale,
        stage::Stage,
        view::{Turned, trimmed},
        watch::{Listen, Watch},
    },
    cpu::vectors::rotated::vectors_of,
    gpu::{
        device::stream::Manner,
        kernels::batch::{Classes, GpuBatch, Rotated},
    },
    plan::{
        batch::{
            Together,
            each::{Candidates, Memory, OfEach, OnDevice, Ready, Run, Stacked},
            stacked::{decompositions, stacked},
        },
        factors::Factors,
        options::{Backend, Signs, SvdOptions, Vectors},
        route::Reduction,
        svd::{check, factors_of_caller},
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

/// As the kernels take them.
fn matrices<'a, T: Scalar>(round: &[Ready<'a, T>]) -> Vec<(MatRef<'a, T>, Re<T>)> {
    round.iter().map(|of| (of.a, of.scale)).collect()
}

/// The singular values.
impl<T: Scalar> OfEach<T> for Vec<Re<T>> {
    const VECTORS: bool = false;

    fn memory(classes: &Classes, size: (usize, usize), _: &SvdOptions) -> Option<Memory> {
        classes.of(size).map(|class| Memory::of(class.spilled))
    }

    async fn of_round(kernel: &GpuBatch, round: &[Ready<'_, T>], options: &SvdOptions) -> Result<Vec<Option<Result<Self>>>> {
        let values = kernel.svdvals::<T>(&matrices(round)).await?;
        let unscale = |(values, of): (_, &Ready<'_, T>)| {
            let values = unscaled(T::KIND, values, of.scale.to_double(), "singular values");
            Some(values.map(|values| narrowed(&values[..options.kept(&values)])))
        };
        Ok(map_each(values.into_iter().zip(round), unscale))
    }

    fn may_be_stacked(_: (usize, usize), _: &SvdOptions) -> Result<()> {
        Ok(())
    }

    async fn of_stack(stack: OnDevice<'_, T>, all: &mut Stacked<Self>, did: &(dyn Fn(&[usize]) + Sync)) -> Result<()> {
        all.results.extend(stack.matrices.iter().map(|of| of.index).zip(stack.values));
        all.tell(did);
        Ok(())
    }
}

/// The values of a matrix, and its rotated columns, unless they did not become orthogonal.
type OfWorkgroup<T> = (Vec<f64>, Option<Rotated<T>>);

/// The thin decomposition: its values are those without vectors.
impl<T: Scalar> OfEach<T> for Factors<T> {
    const VECTORS: bool = true;

    fn memory(classes: &Classes, size: (usize, usize), options: &SvdOptions) -> Option<Memory> {
        // A single call has the error of options that are none.
        if options.vectors == Vectors::Full || check::<T>(size, options).is_err() {
            return None;
        }
        let (values, vectors) = (classes.of(size)?, classes.of_vectors(size)?);
        Some(Memory::of(values.spilled || vectors.spilled))
    }

    async fn of_round(kernel: &GpuBatch, round: &[Ready<'_, T>], options: &SvdOptions) -> Result<Vec<Option<Result<Self>>>> {
        let found = kernel.svd::<T>(&matrices(round)).await?;
        let factors = |((values, rotated), of): (OfWorkgroup<T>, &Ready<'_, T>)| {
            rotated.map(|rotated| factors_of(values, &rotated, of, options))
        };
        Ok(map_each(found.into_iter().zip(round), factors))
    }

    fn may_be_stacked(size: (usize, usize), options: &SvdOptions) -> Result<()> {
        check::<T>(size, options)
    }

    async fn of_stack(stack: OnDevice<'_, T>, all: &mut Stacked<Self>, did: &(dyn Fn(&[usize]) + Sync)) -> Result<()> {
        decompositions(stack, all, did).await
    }
}

/// The factors of the caller's matrix, from the values and the rotated columns of `of`.
fn factors_of<T: Scalar>(values: Vec<f64>, rotated: &Rotated<T>, of: &Ready<'_, T>, options: &SvdOptions) -> Result<Factors<T>> {
    let (m, n) = of.a.shape();
    let mut s: Vec<Re<T>> = narrowed(&unscaled(T::KIND, values, of.scale.to_double(), "singular values")?);
    s.truncate(options.kept(&s));
    let w = MatRef::from_column_major_slice_with_stride(&rotated.w, m + n, n, rotated.ld);
    let (left, right) = vectors_of(w, m, s.len());
    let turned = Turned { transposed: of.transposed, ..Turned::default() };
    let mut factors = factors_of_caller(turned, options, s, left, right);
    if options.signs == Signs::Largest {
        factors.fix_signs();
    }
    Ok(factors)
}

/// The results of the stacks of those candidates that workgroup memory does not hold, and of those others that fit a workgroup. `did` is told the indices of each round.
///
/// # Errors
/// Only before anything is computed. An error of the device is that of each matrix that it left; but where it cannot hold a stack, single calls
/// compute the rest of the stacks, which is logged.
pub(super) async fn together<T, R>(
    batch: &[MatRef<'_, T>],
    candidates: &Candidates,
    run: &Run<'_>,
    did: &(dyn Fn(&[usize]) + Sync),
) -> Result<Together<R>>
where
    T: Scalar,
    R: OfEach<T>,
{
    let Run { options, ref context, waits, timed } = *run;
    let kind = options.run.half_storage.of(T::KIND);
    let classes = Classes::new(kind, context)?;
    let memory = |index: usize| R::memory(&classes, tall(trimmed(batch[index])).shape(), options);
    let in_workgroups = |index: usize| candidates.in_workgroups.binary_search(&index).is_ok();
    let are_held = |stack: &Vec<usize>| memory(stack[0]) == Some(Memory::Workgroup) && in_workgroups(stack[0]);
    let stacks: Vec<Vec<usize>> = candidates.stacks.iter().filter(|stack| !are_held(stack)).cloned().collect();
    let stacked_ones: HashSet<usize> = stacks.iter().flatten().copied().collect();
    let mut fitting = candidates.in_workgroups.clone();
    fitting.retain(|index| !stacked_ones.contains(index) && memory(*index).is_some());

    // The flops of the kernels are not those of the batch's progress.
    let watch = Watch::new(&Listen::new(None, options.run.cancel.clone()), || Ok([0; 4]))?;
    let _ = watch.begin(if R::VECTORS { Stage::Vectors } else { Stage::Svdvals });
    let manner = Manner { waits, timed: options.run.time_kernels, watch, ..Manner::default() };
    let kernel = GpuBatch::running(classes, manner)?;

    let mut clock = Clock::new(timed);
    let scales: Vec<Result<Re<T>>> = map(fitting.len(), |k| power_of_two_scale(kind, trimmed(batch[fitting[k]])));
    let mut seconds = StageSeconds { scale: clock.restart(), ..StageSeconds::default() };

    let mut results = Vec::with_capacity(fitting.len());
    let mut scaled = Vec::with_capacity(fitting.len());
    for (index, scale) in fitting.into_iter().zip(scales) {
        let a = batch[index];
        match scale {
            Ok(scale) => scaled.push((index, Ready { a: tall(a), scale, transposed: a.nrows() < a.ncols() })),
            Err(error) => results.push((index, Err(error))),
        }
    }
    did(&results.iter().map(|&(index, _)| index).collect::<Vec<_>>());
    let mut failed: Option<SvdError> = None;
    for round in kernel.rounds(scaled.iter().map(|(_, of)| of.a.shape()), R::VECTORS) {
        let (indices, matrices): (Vec<usize>, Vec<_>) = scaled[round].iter().copied().unzip();
        let found = match &failed {
            Some(error) => Err(error.clone()),
            None => R::of_round(&kernel, &matrices, options).await,
        };
        match found {
            Ok(found) => {
                let found = indices.into_iter().zip(found).filter_map(|(index, result)| Some((index, result?)));
                let first = results.len();
                results.extend(found);
                did(&results[first..].iter().map(|&(index, _)| index).collect::<Vec<_>>());
            }
            Err(error) => {
                did(&indices);
                results.extend(indices.into_iter().map(|index| (index, Err(error.clone()))));
                failed = Some(error);
            }
        }
    }
    let of_stage = if R::VECTORS { &mut seconds.left_vectors } else { &mut seconds.svdvals };
    *of_stage = clock.seconds();
    let of_stacks = stacked::<T, R>(batch, &stacks, run, did).await;
    seconds.add(&of_stacks.seconds);
    let reason = match options.run.backend {
        Backend::Gpu => Cow::Borrowed("Backend::Gpu was asked for"),
        _ => candidates.compared.to_string().into(),
    };
    let (mut counts, mut kernel_seconds) = (kernel.counts(), of_stacks.kernel_seconds);
    counts.add(&of_stacks.counts);
    kernel_seconds.extend(kernel.kernel_seconds());
    Ok(Together {
        results,
        stacked: of_stacks.results,
        adapter: context.adapter_name().to_owned(),
        storage: kind.name(),
        reason,
        counts,
        kernel_seconds: kernel_seconds.into_iter().collect(),
        seconds,
    })
}
