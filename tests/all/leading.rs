//! `keep` and `tolerance` of calls for values on the CPU. The values that they leave are the first of those of a call without them, to the last bit:
//! stages 1 and 2 do not know of them, and stage 3 finds each value by itself.

use std::sync::{Arc, Mutex};

use faer::{Mat, MatRef};
use num_complex::Complex;
use pollster::block_on;
use svdvals_gpu::{
    Backend, CancelFlag, Element, HalfStorage, RealElement, Reduction, Route, Stage, Stage3, SvdError, SvdGpu, SvdOptions,
    SvdValsGpu, TallReduction, Tuning, Vectors, svdvals_batch, svdvals_batch_async, svdvals_batch_each,
};

use crate::common::{complex_noise, hard, problems::every_element, rounded};

fn cpu() -> SvdOptions {
    SvdOptions::default().backend(Backend::Cpu)
}

fn random<T: Element>(seed: u64, m: usize, n: usize) -> Mat<T> {
    Mat::from_fn(m, n, |i, j| T::from_complex(complex_noise(seed, i, j)))
}

fn values<T: Element>(a: MatRef<'_, T>, options: &SvdOptions) -> Vec<T::Real> {
    let values = a.svdvals_gpu_with(options).unwrap_or_else(|e| panic!("{} {:?}: {e}", T::NAME, a.shape()));
    values.iter().copied().collect()
}

/// How many of the values are left: the definition in the documentation of both options.
fn kept<R: RealElement>(all: &[R], keep: Option<usize>, tolerance: Option<f64>) -> usize {
    let least = tolerance.unwrap_or(0.0) * all.first().map_or(0.0, |s| s.to_double());
    all.iter().filter(|s| s.to_double() >= least).count().min(keep.unwrap_or(usize::MAX))
}

/// Limits for n values: none, one, all but one, all and more; tolerances that a value is equal to, and its neighbours.
fn limits<R: RealElement>(all: &[R]) -> Vec<(Option<usize>, Option<f64>)> {
    let n = all.len();
    let counts = [0, 1, 2, n / 4, n.saturating_sub(1), n, n + 1, usize::MAX].map(|count| (Some(count), None));
    let quotient = |k: usize| Some(all.get(k)?.to_double() / all[0].to_double());
    let equal = [n / 3, n.saturating_sub(1)].into_iter().filter_map(quotient).filter(|x| x.is_finite());
    let tolerances = equal.flat_map(|x| [x.next_down(), x, x.next_up()]).chain([0.0, 1e-3, 0.5, 1.0]);
    let tolerances = tolerances.filter(|x| (0.0..=1.0).contains(x)).map(|tolerance| (None, Some(tolerance)));
    counts.into_iter().chain(tolerances).chain([(Some(3), Some(0.5)), (Some(n), Some(0.9))]).collect()
}

fn limited(options: &SvdOptions, (keep, tolerance): (Option<usize>, Option<f64>)) -> SvdOptions {
    let mut options = options.clone();
    (options.keep, options.tolerance) = (keep, tolerance);
    options
}

/// Every limit of a matrix leaves the first of all values; of a large one some limits do.
fn check<T: Element>(a: MatRef<'_, T>, options: &SvdOptions) {
    let all = values(a, options);
    let step = if a.nrows() * a.ncols() > 10_000 { 5 } else { 1 };
    for limit in limits(&all).into_iter().step_by(step) {
        let some = values(a, &limited(options, limit));
        assert_eq!(some, all[..kept(&all, limit.0, limit.1)], "{} {:?} {limit:?} {options:?}", T::NAME, a.shape());
    }
}

/// The shapes and options that take each route, m x n or its transpose.
fn routes() -> Vec<((usize, usize), SvdOptions)> {
    let small = Tuning::for_cpu::<f32>(1).direct_up_to(0).tile_size(8).leaf(16).tile_width(5);
    let (band, one_stage) = (cpu().tuning(small.clone()), cpu().reduction(Reduction::OneStage).tuning(small));
    let mut all = vec![((0, 0), cpu()), ((0, 7), cpu()), ((70, 1), cpu()), ((1, 1), cpu()), ((2, 2), cpu())];
    all.extend([((70, 70), cpu()), ((90, 77), cpu()), ((900, 20), cpu()), ((400, 80), cpu()), ((5000, 70), cpu())]);
    all.extend([(70, 70), (1, 1), (90, 33), (300, 20)].map(|shape| (shape, band.clone())));
    all.extend([(70, 70), (300, 20)].map(|shape| (shape, one_stage.clone())));
    all.extend([Reduction::TwoStage, Reduction::OneStage].map(|reduction| ((9000, 24), cpu().reduction(reduction))));
    all
}

every_element!(every_route);

/// On every route, in every type and storage, of both front ends and both orders in memory.
fn every_route<T: Element>() {
    let mut seen = Vec::new();
    for (k, ((m, n), options)) in routes().into_iter().enumerate() {
        let a = random::<T>(k as u64, m, n);
        seen.push(a.svdvals_gpu_report(&options).unwrap().route);
        check(a.as_ref(), &options);
        let few = options.clone().keep(3).tolerance(0.2);
        let (direct, turned) = (values(a.as_ref(), &few), values(a.transpose(), &few));
        assert_eq!(turned, values(a.transpose(), &options)[..turned.len()], "{m} x {n}");
        assert_eq!(block_on(a.svdvals_gpu_async(&few)).unwrap().iter().copied().collect::<Vec<_>>(), direct);
        #[cfg(feature = "ndarray")]
        {
            let array = ndarray::Array2::from_shape_fn((m, n), |(i, j)| a[(i, j)]);
            let all = array.svdvals_gpu_with(&options).unwrap();
            let some = array.svdvals_gpu_with(&few).unwrap();
            assert_eq!(some, all.slice(ndarray::s![..some.len()]));
            // Of a copy by columns.
            let later = block_on(array.svdvals_gpu_async(&options)).unwrap();
            let some = block_on(array.svdvals_gpu_async(&few)).unwrap();
            assert_eq!(some, later.slice(ndarray::s![..some.len()]));
        }
        if T::IS_HALF && m * n < 6000 {
            check(a.as_ref(), &options.half_storage(HalfStorage::Half));
        }
    }
    let double = size_of::<T::Real>() == 8;
    let mut every = vec![
        Route::Norm,
        Route::Direct(TallReduction::Nothing),
        Route::Band(TallReduction::Nothing),
        Route::Band(TallReduction::Qr),
    ];
    every.extend([Route::OneStage(TallReduction::Nothing), Route::OneStage(TallReduction::Qr)]);
    every.extend(if double {
        vec![Route::Direct(TallReduction::Qr), Route::Band(TallReduction::Cholesky), Route::OneStage(TallReduction::Cholesky)]
    } else {
        vec![Route::Direct(TallReduction::Gram)]
    });
    for route in every {
        assert!(seen.contains(&route), "{}: {route:?} is not among {seen:?}", T::NAME);
    }
}

/// The classical hard matrices, with clusters, gradings and deficient rank, by every method of stage 3.
#[test]
fn hard_matrices() {
    for (_, a) in hard::matrices() {
        for stage3 in [
            Stage3::Newton,
            Stage3::Bisection,
            #[cfg(feature = "lapack-openblas")]
            Stage3::Bdsqr,
            #[cfg(feature = "lapack-openblas")]
            Stage3::Bdsdc,
        ] {
            check(a.as_ref(), &cpu().stage3(stage3));
            check(rounded::<f64, f32>(a.as_ref()).as_ref(), &cpu().stage3(stage3));
        }
    }
    check(random::<Complex<f64>>(1, 450, 430).as_ref(), &cpu());
}

/// The decomposition's values are those that a call without vectors leaves.
#[test]
fn values_of_decompositions() {
    for (m, n, options) in [(70, 70, cpu()), (500, 60, cpu()), (300, 290, cpu())] {
        let a = random::<f64>(2, m, n);
        for limit in [(Some(0), None), (Some(5), None), (None, Some(0.3)), (Some(200), Some(0.1))] {
            let options = limited(&options, limit);
            let s = a.svd_gpu_with(&options.clone().vectors(Vectors::Right)).unwrap().s;
            assert_eq!(s.iter().copied().collect::<Vec<_>>(), values(a.as_ref(), &options), "{m} x {n}, {limit:?}");
        }
    }
}

/// Each matrix of a batch has its own count, those of a single call: shapes of all routes side by side, one after the other, and awaited.
#[test]
fn batches() {
    fn of_type<T: Element>() {
        let shapes = [(30, 20), (1, 9), (0, 4), (900, 20), (64, 64), (240, 230), (5, 5), (20, 30)];
        let batch: Vec<Mat<T>> = shapes.into_iter().zip(10..).map(|((m, n), k)| random(k, m, n)).collect();
        let views: Vec<MatRef<'_, T>> = batch.iter().map(|a| a.as_ref()).collect();
        let want = |options: &SvdOptions| -> Vec<_> { batch.iter().map(|a| a.svdvals_gpu_with(options).unwrap()).collect() };
        for limit in [(Some(0), None), (Some(4), None), (None, Some(0.5)), (Some(6), Some(0.7)), (None, Some(1.0))] {
            let options = limited(&cpu(), limit);
            assert_eq!(svdvals_batch(&views, &options).unwrap(), want(&options), "{} {limit:?}", T::NAME);
            assert_eq!(svdvals_batch(&views, &options.clone().threads(2)).unwrap(), want(&options));
            assert_eq!(block_on(svdvals_batch_async(&views, &options)).unwrap(), want(&options));
        }
    }
    of_type::<f32>();
    of_type::<Complex<f64>>();
}

/// A stack has one count, so it takes `keep`, and `tolerance` only with a result for each matrix.
#[cfg(feature = "ndarray")]
#[test]
fn stacks() {
    use svdvals_gpu::SvdValsBatchGpu;
    let stack = ndarray::Array3::from_shape_fn((6, 12, 9), |(k, i, j)| complex_noise(k as u64, i, j).re);
    let all = stack.svdvals_batch_gpu_with(&cpu()).unwrap();
    for keep in [0, 1, 4, 9, 20] {
        let options = cpu().keep(keep);
        let want = all.slice(ndarray::s![.., ..keep.min(9)]);
        assert_eq!(stack.svdvals_batch_gpu_with(&options).unwrap(), want);
        assert_eq!(stack.svdvals_batch_gpu_report(&options).unwrap().values, want);
        assert_eq!(block_on(stack.svdvals_batch_gpu_async(&options)).unwrap(), want);
        assert_eq!(block_on(stack.svdvals_batch_gpu_report_async(&options)).unwrap().values, want);
    }
    let half = cpu().tolerance(0.5);
    let refused = |error| assert!(matches!(error, SvdError::InvalidOption { option: "tolerance", .. }), "{error}");
    refused(stack.svdvals_batch_gpu_with(&half).unwrap_err());
    refused(stack.svdvals_batch_gpu_report(&half).unwrap_err());
    refused(block_on(stack.svdvals_batch_gpu_async(&half)).unwrap_err());
    refused(block_on(stack.svdvals_batch_gpu_report_async(&half)).unwrap_err());
    for (values, all) in stack.svdvals_batch_gpu_each(&half).unwrap().into_iter().zip(all.rows()) {
        assert_eq!(values.unwrap().to_vec(), all.to_vec()[..kept(&all.to_vec(), None, Some(0.5))]);
    }
}

/// A tolerance that is none is an error, and so are a NaN and an overflow if no value is wanted.
#[test]
fn errors() {
    let a = random::<f64>(3, 30, 20);
    for tolerance in [-0.1, 1.1, f64::NAN] {
        let options = cpu().tolerance(tolerance);
        let refused = |error| assert!(matches!(error, SvdError::InvalidOption { option: "tolerance", .. }), "{error}");
        refused(a.svdvals_gpu_with(&options).unwrap_err());
        refused(block_on(a.svdvals_gpu_async(&options)).unwrap_err());
        refused(svdvals_batch(&[a.as_ref()], &options).unwrap_err());
        refused(svdvals_batch_each(&[a.as_ref()], &options).unwrap_err());
    }
    for (m, n) in [(30, 20), (30, 1), (300, 300), (900, 20)] {
        let mut a = random::<f32>(4, m, n);
        a[(7, 0)] = f32::NAN;
        let error = a.svdvals_gpu_with(&cpu().keep(0)).unwrap_err();
        assert!(matches!(error, SvdError::NonFinite { row: 7, col: 0, .. }), "{m} x {n}: {error}");
        let huge = Mat::from_fn(m, n, |_, _| f32::MAX);
        let error = huge.svdvals_gpu_with(&cpu().keep(0)).unwrap_err();
        assert!(matches!(error, SvdError::Overflow { .. }), "{m} x {n}: {error}");
    }
}

/// The report has fewer values, and else what it has without a limit. Progress ends, and a cancellation is one.
#[test]
fn reports_and_listeners() {
    for (m, n, options) in [(300, 280, cpu()), (60, 60, cpu()), (300, 280, cpu().reduction(Reduction::OneStage))] {
        let a = random::<f64>(5, m, n);
        let all = a.svdvals_gpu_report(&options).unwrap();
        for limit in [(Some(2), None), (None, Some(0.5)), (Some(0), None)] {
            let told = Arc::new(Mutex::new(Vec::new()));
            let tell = told.clone();
            let options = limited(&options, limit).progress(move |now| tell.lock().unwrap().push((now.stage, now.fraction)));
            let some = a.svdvals_gpu_report(&options).unwrap();
            assert_eq!(some.values.nrows(), kept(all.values.as_ref().try_as_col_major().unwrap().as_slice(), limit.0, limit.1));
            assert_eq!((some.route, some.shape), (all.route, all.shape));
            assert_eq!(format!("{:?}", some.cost().unwrap()), format!("{:?}", all.cost().unwrap()));
            let told = told.lock().unwrap();
            assert!(told.is_sorted_by(|x, y| x.1 <= y.1), "{told:?}");
            assert_eq!(told.last(), Some(&(Stage::Svdvals, 1.0)));
        }
        let stop = CancelFlag::new();
        stop.cancel();
        let error = a.svdvals_gpu_with(&options.clone().keep(1).tolerance(0.5).cancel(stop)).unwrap_err();
        assert!(matches!(error, SvdError::Cancelled { .. }), "{error}");
    }
}
