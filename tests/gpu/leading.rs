//! `keep` and `tolerance` of calls for values on the device.

use faer::{Mat, MatRef};
use svdvals_gpu::{
    Backend, GpuContext, GpuMatrix, HalfStorage, RealElement, Reduction, Stage3, SvdError, SvdOptions, SvdValsGpu,
    internals::{GpuKernels, TileKernels, Transfers},
    svdvals_batch_report, svdvals_batch_report_async,
};

use crate::{Elements, Outcome, check, common::noise, tuning};

fn gpu<T: Elements>(context: &GpuContext) -> SvdOptions {
    let half = HalfStorage::Half.for_element::<T>();
    SvdOptions::default().context(context.clone()).backend(Backend::Gpu).half_storage(half).tuning(tuning(8, 16))
}

fn random<T: Elements>(seed: u64, m: usize, n: usize) -> Mat<T> {
    Mat::from_fn(m, n, |i, j| T::noise(seed, i, j))
}

const LIMITS: [(Option<usize>, Option<f64>); 6] =
    [(Some(0), None), (Some(1), None), (Some(7), None), (Some(1000), None), (None, Some(0.5)), (Some(9), Some(0.7))];

fn limited(options: &SvdOptions, (keep, tolerance): (Option<usize>, Option<f64>)) -> SvdOptions {
    let mut options = options.clone();
    (options.keep, options.tolerance) = (keep, tolerance);
    options
}

/// The first of all values that a limit leaves, by the documentation of the options.
fn first<R: RealElement>(all: &[R], (keep, tolerance): (Option<usize>, Option<f64>)) -> &[R] {
    let least = tolerance.unwrap_or(0.0) * all.first().map_or(0.0, |s| s.to_double());
    &all[..all.iter().filter(|s| s.to_double() >= least).count().min(keep.unwrap_or(usize::MAX))]
}

fn vector<R: Copy>(values: &faer::Col<R>) -> Vec<R> {
    values.iter().copied().collect()
}

/// The kernel finds the largest values of a bidiagonal as it finds all of them, to the last bit, because a thread knows of no other: one, as many as a
/// workgroup has threads and one more, all but one, and more than there are. The dispatches are as many.
pub fn bisection_of_some<T: Elements>(context: &GpuContext) -> Outcome {
    let kernels = GpuKernels::new::<T>(context, &tuning(8, 16))?;
    let n = 200;
    let band = svdvals_gpu::Band::from_fn(n, 1, |i, j| T::real(noise(71, i, j)).widen())?;
    let device = kernels.upload_band(&band, T::Real::from_double(1.0), 1)?;
    let descending = |count: usize| -> Result<Vec<f64>, SvdError> {
        let mut values = pollster::block_on(kernels.svdvals(&device, count))?;
        values.sort_unstable_by(|x, y| y.total_cmp(x));
        Ok(values)
    };
    let all = descending(n)?;
    for count in [0, 1, 64, 65, n - 1, n + 1] {
        check!(descending(count)? == all[..count.min(n)], "{count} of {n}");
    }
    Ok(())
}

/// The values that the limits leave are the first of all, to the last bit, with stage 3 on the host or on the device, in one stage or two, of a matrix that
/// the call uploads, of one that is there, of a band, and awaited. The dispatches are those without a limit, which [`svdvals_gpu::SvdReport::cost`]
/// counts.
pub fn of_single_calls<T: Elements>(context: &GpuContext) -> Outcome {
    let two_stages = gpu::<T>(context);
    let in_one = gpu::<T>(context).reduction(Reduction::OneStage);
    for ((m, n), options) in [
        ((75, 70), two_stages.clone()),
        ((75, 70), two_stages.clone().stage3(Stage3::Device)),
        ((20, 90), two_stages.clone().stage3(Stage3::Device)),
        ((40, 40), in_one.clone()),
        ((40, 40), in_one.stage3(Stage3::Device)),
        ((0, 4), two_stages.stage3(Stage3::Device)),
    ] {
        let a = random::<T>(72, m, n);
        let there = GpuMatrix::upload(context, &a)?;
        let (report, resident) = (a.svdvals_gpu_report(&options)?, there.svdvals_report(&options)?);
        let all = vector(&report.values);
        let band = there.to_gpu_band(&options.run)?;
        // The band of a matrix of half types is one of f32.
        let of_f32 = |options: &SvdOptions| options.clone().reduction(Reduction::TwoStage).half_storage(HalfStorage::Single);
        let of_band = band.svdvals(&of_f32(&options))?;
        for limit in LIMITS {
            let (options, name) = (limited(&options, limit), format!("{m} x {n}, {limit:?}, {:?}", options.stage3));
            let some = a.svdvals_gpu_report(&options)?;
            check!(vector(&some.values) == first(&all, limit), "{name}: {:?}", some.values);
            check!(some.counts.dispatches == report.counts.dispatches, "{name}: {} and {}", some.counts, report.counts);
            check!(format!("{:?}", some.cost()?) == format!("{:?}", report.cost()?), "{name}: the cost");
            check!(vector(&pollster::block_on(a.svdvals_gpu_async(&options))?) == first(&all, limit), "{name}: a future");
            check!(there.svdvals(&options)? == first(&resident.values, limit), "{name}: of a matrix that is there");
            check!(band.svdvals(&of_f32(&options))? == first(&of_band, limit), "{name}: of a band");
        }
    }
    let (a, none) = (random::<T>(73, 9, 8), gpu::<T>(context).tolerance(2.0));
    let there = GpuMatrix::upload(context, &a)?;
    let band = there.to_gpu_band(&gpu::<T>(context).run)?;
    for error in [
        a.svdvals_gpu_with(&none).err(),
        there.svdvals(&none).err(),
        band.svdvals(&none.clone().half_storage(HalfStorage::Single)).err(),
    ] {
        check!(matches!(error, Some(SvdError::InvalidOption { option: "tolerance", .. })), "{error:?}");
    }
    Ok(())
}

/// Each matrix of a batch has its own count, whether it has a workgroup, shares dispatches or comes alone: the first of the values that the same batch has
/// without a limit. A matrix with a NaN is an error though no value is wanted.
pub fn of_batches<T: Elements>(context: &GpuContext) -> Outcome {
    let shapes = [(12, 9), (9, 12), (0, 3), (1, 7), (30, 30), (30, 30)];
    let mut batch: Vec<Mat<T>> = shapes.into_iter().zip(74..).map(|((m, n), k)| random(k, m, n)).collect();
    for options in [gpu::<T>(context), gpu::<T>(context).reduction(Reduction::TwoStage).stage3(Stage3::Device)] {
        let views: Vec<MatRef<'_, T>> = batch.iter().map(|a| a.as_ref()).collect();
        let all = svdvals_batch_report(&views, &options)?;
        for limit in LIMITS {
            let limited = limited(&options, limit);
            let some = svdvals_batch_report(&views, &limited)?;
            let later = pollster::block_on(svdvals_batch_report_async(&views, &limited))?;
            check!((some.together, some.stacked) == (all.together, all.stacked), "{limit:?}: {some}{all}");
            for ((some, later), all) in some.values.iter().zip(&later.values).zip(&all.values) {
                check!(vector(some) == first(&vector(all), limit) && later == some, "{limit:?}: {some:?} of {all:?}");
            }
        }
        let error = svdvals_batch_report(&views, &options.clone().tolerance(-1.0)).map(|_| ());
        check!(matches!(error, Err(SvdError::InvalidOption { option: "tolerance", .. })), "{error:?}");
    }
    batch[4][(2, 3)] = T::real(f64::NAN);
    let views: Vec<MatRef<'_, T>> = batch.iter().map(|a| a.as_ref()).collect();
    let error = svdvals_batch_report(&views, &gpu::<T>(context).keep(0)).map(|_| ());
    check!(matches!(error, Err(SvdError::InBatch { index: 4, .. })), "{error:?}");
    Ok(())
}
