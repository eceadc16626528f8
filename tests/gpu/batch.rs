//! Batches: matrices that a device computes together, one workgroup each, and those that it does not.

use faer::{Mat, MatRef};
use ndarray::{Array3, Axis, s};
use num_complex::Complex;
use svdvals_gpu::{
    AdapterChoice, Backend, BatchReport, CancelFlag, DeviceLimits, GpuContext, HalfStorage, RealElement, Reduction, Stage3,
    SvdError, SvdGpu, SvdOptions, SvdValsBatchGpu, SvdValsGpu, TuningTable, svd_batch, svd_batch_async, svdvals_batch_each,
    svdvals_batch_each_async, svdvals_batch_report, svdvals_batch_report_async, wgpu::DeviceType,
};

use crate::{
    Elements, Outcome, check,
    common::{Spectrum, complex_with_singular_values, eps, error, reference, rounded, stable, with_singular_values},
    tuning,
};

fn gpu<T: Elements>(context: &GpuContext) -> SvdOptions {
    SvdOptions::default().context(context.clone()).backend(Backend::Gpu).half_storage(HalfStorage::Half.for_element::<T>())
}

fn random<T: Elements>(seed: u64, m: usize, n: usize) -> Mat<T> {
    Mat::from_fn(m, n, |i, j| T::noise(seed, i, j))
}

fn views<T: Elements>(batch: &[Mat<T>]) -> Vec<MatRef<'_, T>> {
    batch.iter().map(|a| a.as_ref()).collect()
}

fn doubles<R: RealElement>(values: &faer::Col<R>) -> Vec<f64> {
    values.iter().map(|s| s.to_double()).collect()
}

/// Whether a device computes an m x n matrix without others of its shape in a workgroup: with at most 256 columns, and as many entries as a square one
/// of these, and few enough for the loops of a software driver.
fn fits((m, n): (usize, usize)) -> bool {
    let (m, n) = (m.max(n), m.min(n));
    n > 0 && n <= 200 && m * (n | 1) <= 256 * 257
}

/// Table 1 of the unified-kernels paper at n = 64, and at other powers of two, ten matrices of each spectrum in one batch (three at n = 128). The
/// bounds are the paper's figures at n = 64 (for complex numbers twice those of the real type), whether the matrix is in workgroup memory or, with others
/// that share dispatches and alone in a buffer, not. The paper has no smaller orders. There the error of the largest value decides, which is rounded in
/// the end: 1.25 units in the last place.
pub fn table_1<T: Elements>(context: &GpuContext) -> Outcome {
    let bound = match T::NAME {
        "f16" => 4.3e-3,
        "f32" => 9.6e-8,
        "c32" => 2.0 * 9.6e-8,
        "c64" => 2.0 * 5.8e-16,
        _ => 5.8e-16,
    };
    for (n, matrices) in [(2, 10), (8, 10), (16, 10), (32, 10), (64, 10), (128, 3)] {
        let bound = if n < 64 { f64::max(bound, 1.25 * eps::<T>()) } else { bound };
        for spectrum in Spectrum::ALL {
            let mut sigmas = vec![spectrum.values(n); matrices];
            let with = |(sigma, seed): (&mut Vec<f64>, u64)| match T::NAME.starts_with('c') {
                true => rounded(complex_with_singular_values(sigma, seed).as_ref()),
                false => rounded(with_singular_values(sigma, seed).as_ref()),
            };
            let batch: Vec<Mat<T>> = sigmas.iter_mut().zip(0..).map(with).collect();
            let report = svdvals_batch_report(&views(&batch), &gpu::<T>(context))?;
            let counts = (report.together, report.stacked, report.on_gpu);
            check!([(matrices, 0, matrices), (0, matrices, matrices)].contains(&counts), "n = {n}: {report}");
            check!(report.stacked == 0 || n >= 64, "n = {n}: {report}");
            let alone = svdvals_batch_report(&[batch[0].as_ref()], &gpu::<T>(context))?;
            check!(alone.together == 1, "n = {n}: {alone}");
            let of_all = report.values.iter().zip(&sigmas).chain(alone.values.iter().zip(&sigmas));
            let off = of_all.map(|(values, sigma)| error(doubles(values), sigma));
            let worst = off.fold(0.0, f64::max);
            println!("batch {} n = {n}, {spectrum:?}, together {}: {worst:.2e}", T::NAME, report.together);
            check!(worst <= bound, "n = {n}, {spectrum:?}: {worst:.2e}, bound {bound:.1e}");
        }
    }
    Ok(())
}

/// Matrices that workgroup memory does not hold share each dispatch with the others of their shape and memory order, and have the values of single calls with
/// stage 3 on the device, bit for bit: square ones, and tall ones, which are first reduced to their triangular factor. Neither matrices in workgroups,
/// nor one with a NaN, nor one without others of its shape changes that.
pub fn stacks<T: Elements>(context: &GpuContext) -> Outcome {
    let shapes = [(264, 258), (9, 7), (3300, 21), (257, 257), (264, 258), (3300, 21), (9, 7), (3300, 21)];
    let mut batch: Vec<Mat<T>> = shapes.iter().zip(50..).map(|(&(m, n), k)| random(k, m, n)).collect();
    let options = gpu::<T>(context).tuning(tuning(8, 24).split_beside(2));
    let report = svdvals_batch_report(&views(&batch), &options)?;
    check!((report.together, report.stacked, report.on_gpu) == (2, 5, 8), "{report}");
    check!(report.to_string().contains("5 of them in shared dispatches"), "{report}");
    for k in [0, 2, 4, 5, 7] {
        let alone = batch[k].svdvals_gpu_with(&options.clone().stage3(Stage3::Device))?;
        check!(alone == report.values[k], "matrix {k}, {:?}", shapes[k]);
    }
    batch[5][(2, 1)] = T::real(f64::NAN);
    for (k, of) in svdvals_batch_each(&views(&batch), &options)?.iter().enumerate() {
        match of {
            Ok(values) => check!(*values == report.values[k] && k != 5, "matrix {k} beside a bad one"),
            Err(error) => check!(matches!(error, SvdError::NonFinite { row: 2, col: 1, .. }) && k == 5, "{k}: {error}"),
        }
    }
    Ok(())
}

/// Matrices of any size share dispatches if two stages and stage 3 on the device are asked for, with the values of single calls: tall and wide ones,
/// with tiles that are accessed in vectors, and others, with panels beside updates and without. Five matrices have the dispatches of one, and five
/// times its bytes; the future gives the same.
pub fn small_stacks<T: Elements>(context: &GpuContext) -> Outcome {
    let counts = [((33, 30), 3), ((90, 21), 4), ((17, 41), 3), ((1, 1), 2), ((60, 60), 2), ((0, 4), 2), ((7, 6), 1)];
    let shapes = counts.into_iter().flat_map(|(shape, count)| std::iter::repeat_n(shape, count));
    let batch: Vec<Mat<T>> = shapes.zip(90..).map(|((m, n), k)| random(k, m, n)).collect();
    let two_stages = |tile_size, leaf, beside| {
        let options = gpu::<T>(context).tuning(tuning(tile_size, leaf).split_beside(beside));
        options.reduction(Reduction::TwoStage).stage3(Stage3::Device)
    };
    for options in [two_stages(4, 8, 2), two_stages(8, 24, 0), two_stages(5, 11, 0)] {
        let report = svdvals_batch_report(&views(&batch), &options)?;
        check!((report.together, report.stacked, report.on_gpu) == (0, 14, batch.len()), "{report}");
        for (a, values) in batch.iter().zip(&report.values) {
            check!(a.svdvals_gpu_with(&options)? == *values, "{:?}", a.shape());
        }
    }

    let batch: Vec<Mat<T>> = (0..5).map(|k| random(k, 44, 40)).collect();
    let options = two_stages(4, 8, 2);
    let report = svdvals_batch_report(&views(&batch), &options)?;
    let single = batch[0].svdvals_gpu_report(&options)?;
    check!(report.stacked == 5 && report.counts.dispatches == single.counts.dispatches, "{report}{single}");
    check!(report.counts.bytes_uploaded == 5 * single.counts.bytes_uploaded, "{report}{single}");
    check!(report.counts.bytes_read_back == 5 * single.counts.bytes_read_back, "{report}{single}");
    let there = pollster::block_on(svdvals_batch_report_async(&views(&batch), &options))?;
    check!(there.stacked == 5 && there.values == report.values && there.counts.dispatches == report.counts.dispatches, "{there}");

    // A cancellation is the error of each matrix; with another stage 3 each is a single call.
    let stop = CancelFlag::new();
    stop.cancel();
    let each = svdvals_batch_each(&views(&batch), &options.clone().cancel(stop))?;
    check!(each.iter().all(|values| matches!(values, Err(SvdError::Cancelled { .. }))), "{each:?}");
    let report = svdvals_batch_report(&views(&batch), &options.stage3(Stage3::Newton))?;
    check!((report.stacked, report.on_gpu) == (0, 5), "{report}");
    Ok(())
}

/// [`table_1`] for matrices in shared dispatches, with the default hyperparameters: the paper's figures at n = 256.
pub fn stacked_table_1<T: Elements>(context: &GpuContext) -> Outcome {
    let bound = match T::NAME {
        "f16" => 3.3e-3,
        "f32" => 8.1e-8,
        "c32" => 2.0 * 8.1e-8,
        "c64" => 2.0 * 8.3e-16,
        _ => 8.3e-16,
    };
    let mut sigmas: Vec<Vec<f64>> = Spectrum::ALL.iter().flat_map(|of| [of.values(256), of.values(256)]).collect();
    let with = |(sigma, seed): (&mut Vec<f64>, u64)| match T::NAME.starts_with('c') {
        true => rounded(complex_with_singular_values(sigma, seed).as_ref()),
        false => rounded(with_singular_values(sigma, seed).as_ref()),
    };
    let batch: Vec<Mat<T>> = sigmas.iter_mut().zip(70..).map(with).collect();
    let options = gpu::<T>(context).reduction(Reduction::TwoStage).stage3(Stage3::Device);
    let report = svdvals_batch_report(&views(&batch), &options)?;
    check!((report.stacked, report.on_gpu) == (batch.len(), batch.len()), "{report}");
    for (k, (values, sigma)) in report.values.iter().zip(&sigmas).enumerate() {
        let off = error(doubles(values), sigma);
        println!("stacked {} n = 256, matrix {k}: {off:.2e}", T::NAME);
        check!(off <= bound, "matrix {k}: {off:.2e}, bound {bound:.1e}");
    }
    let alone = batch[1].svdvals_gpu_with(&options)?;
    check!(alone == report.values[1], "a single call");
    Ok(())
}

/// Shapes of every class and none: with sides from 0 to 200, square ones, tall and wide ones.
fn shapes() -> Vec<(usize, usize)> {
    let some =
        [(0, 0), (0, 5), (5, 0), (1, 1), (1, 9), (9, 1), (3, 2), (64, 3), (3, 500), (200, 5), (40, 60), (17, 33), (33, 31)];
    some.into_iter().chain((2..=90).step_by(11).map(|n| (n, n))).chain([(128, 128), (200, 200), (270, 260)]).collect()
}

/// Matrices of mixed shapes have the values that the CPU finds, to the error of a backward stable method. Those that fit a workgroup have the same
/// values in any batch: alone, and in the reverse order among the others.
pub fn mixed_shapes<T: Elements>(context: &GpuContext) -> Outcome {
    let batch: Vec<Mat<T>> = shapes().into_iter().zip(0..).map(|((m, n), k)| random(k, m, n)).collect();
    let report = svdvals_batch_report(&views(&batch), &gpu::<T>(context))?;
    let together = batch.iter().filter(|a| fits(a.shape())).count();
    check!((report.together, report.on_gpu) == (together, batch.len()) && together > 10, "{report}");
    check!(report.to_string().contains(&format!("{together} of them in a workgroup each")), "{report}");
    for (a, values) in batch.iter().zip(&report.values) {
        let off = if a.nrows().min(a.ncols()) == 0 { 0.0 } else { error(doubles(values), &reference(a.as_ref())) };
        let bound = stable::<T>(a.nrows().max(a.ncols())) + T::stored(4);
        check!(values.nrows() == a.nrows().min(a.ncols()) && off <= bound, "{:?}: {off:.1e}, bound {bound:.1e}", a.shape());
        check!(values.iter().collect::<Vec<_>>().is_sorted_by(|x, y| x >= y), "{:?} descends", a.shape());
    }
    let backwards: Vec<MatRef<'_, T>> = batch.iter().rev().map(|a| a.as_ref()).collect();
    let again = svdvals_batch_report(&backwards, &gpu::<T>(context))?;
    check!(again.values.iter().rev().eq(&report.values), "in reverse order");
    for (a, values) in batch.iter().zip(&report.values).filter(|(a, _)| fits(a.shape())).step_by(3) {
        let alone = svdvals_batch_report(&[a.as_ref()], &gpu::<T>(context))?;
        check!((alone.together, &alone.values[0]) == (1, values), "{:?} alone", a.shape());
    }
    Ok(())
}

/// A power of two changes values by itself, over the whole range of the type; graded, singular and zero matrices have the CPU's values to the
/// error of a backward stable method; a value beyond the range is an error of its matrix.
pub fn scales<T: Elements>(context: &GpuContext) -> Outcome {
    let n = 20;
    let a = random::<T>(7, n, n);
    let (low, high) = if size_of::<T>() == 2 {
        (-10, 10)
    } else if size_of::<T::Real>() == 4 {
        (-100, 120)
    } else {
        (-900, 1000)
    };
    let times = |a: &Mat<T>, k: i32| Mat::from_fn(n, n, |i, j| T::from_complex(a[(i, j)].to_complex() * 2f64.powi(k)));
    let graded = Mat::from_fn(n, n, |i, j| T::from_complex(a[(i, j)].to_complex() * 0.3f64.powi((i + j) as i32)));
    let one = Mat::from_fn(n, n, |i, j| T::from_complex(a[(i, 0)].to_complex() * a[(0, j)].to_complex()));
    let huge = Mat::from_fn(n, n, |_, _| {
        T::real(0.9 * if size_of::<T>() == 2 { 65504.0 } else { <T::Real as num_traits::Float>::max_value().to_double() })
    });
    let diagonal = |x: f64| Mat::from_fn(n, n, |i, j| T::real(if i == j { x } else { 0.0 }));
    let batch = [a.clone(), times(&a, low), times(&a, high), graded, one, diagonal(0.0), diagonal(1.0), huge];
    let each = svdvals_batch_each(&views(&batch), &gpu::<T>(context))?;
    let values: Vec<Vec<f64>> =
        each[..7].iter().map(|values| values.as_ref().map(doubles)).collect::<Result<_, _>>().map_err(|e| e.clone())?;
    for (k, scaled) in [(low, &values[1]), (high, &values[2])] {
        check!(size_of::<T>() == 2 || scaled.iter().zip(&values[0]).all(|(x, y)| *x == y * 2f64.powi(k)), "2^{k}");
    }
    // Powers of two of f16 are compared with the CPU: subnormal numbers are rounded.
    let compared = |k: usize| k != 5 && (size_of::<T>() == 2 || !(1..3).contains(&k));
    for (k, a) in batch[..7].iter().enumerate().filter(|&(k, _)| compared(k)) {
        let off = error(values[k].clone(), &reference(a.as_ref()));
        check!(off <= stable::<T>(n) + T::stored(4), "matrix {k}: {off:.1e}");
    }
    check!(values[5].iter().all(|&x| x == 0.0), "zero: {:?}", values[5]);
    // Values of f16 are f32, which holds them.
    let overflows = matches!(each[7], Err(SvdError::Overflow { .. }));
    check!(overflows != (size_of::<T>() == 2), "{:?}", each[7].as_ref().map(doubles));
    Ok(())
}

/// One bad matrix is an error with its index and entry, and the others have their values. Stacks of any strides are read as they lie.
pub fn bad_matrices_and_strides<T: Elements>(context: &GpuContext) -> Outcome {
    let whole = Array3::from_shape_fn((24, 13, 9), |(k, i, j)| T::noise(k as u64, i, j));
    let stack = whole.slice(s![..;-2, 1..;2, ..;-1]);
    let options = gpu::<T>(context);
    let report = stack.svdvals_batch_gpu_report(&options)?;
    check!((report.together, report.values.dim()) == (12, (12, 6)), "{report}");
    let dense: Vec<Mat<T>> = stack.axis_iter(Axis(0)).map(|a| Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)])).collect();
    let values = svdvals_batch_report(&views(&dense), &options)?.values;
    check!(values.iter().flat_map(|of| of.iter()).eq(report.values.iter()), "strides change values");
    let turned = stack.permuted_axes([0, 2, 1]);
    check!(turned.svdvals_batch_gpu_with(&options)? == report.values, "a wide matrix is read as its transpose");

    let mut stack = stack.to_owned();
    stack[(7, 2, 3)] = T::real(f64::NAN);
    stack[(9, 0, 0)] = T::real(f64::INFINITY);
    match stack.svdvals_batch_gpu_with(&options) {
        Err(SvdError::InBatch { index: 7, source }) => {
            check!(matches!(*source, SvdError::NonFinite { row: 2, col: 3, .. }), "{source}");
        }
        other => return Err(format!("{other:?}").into()),
    }
    for (k, of) in stack.svdvals_batch_gpu_each(&options)?.into_iter().enumerate() {
        match of {
            Ok(of) => check!(of == report.values.row(k) && k != 7 && k != 9, "matrix {k}"),
            Err(error) => check!(matches!(error, SvdError::NonFinite { .. }) && (k == 7 || k == 9), "matrix {k}: {error}"),
        }
    }
    Ok(())
}

/// One upload of all entries and one of the table, a dispatch for each class of shapes, one read-back: as many bytes as the matrices have, with odd
/// leading dimensions, and two numbers a value. The model counts the same dispatches.
pub fn what_travels<T: Elements>(context: &GpuContext) -> Outcome {
    for (shapes, dispatches) in
        [(vec![(20, 20); 30], 1), (vec![(7, 7), (8, 5), (1, 1)], 1), (vec![(7, 7), (20, 20), (3, 2), (14, 10), (18, 18)], 3)]
    {
        let batch: Vec<Mat<T>> = shapes.iter().zip(0..).map(|(&(m, n), k)| random(k, m, n)).collect();
        let report = svdvals_batch_report(&views(&batch), &gpu::<T>(context))?;
        let BatchReport { counts, together, .. } = &report;
        check!((*together, counts.dispatches) == (batch.len(), dispatches), "{report}");
        let entries: usize = shapes.iter().map(|&(m, n)| m * (n | 1)).sum();
        let size = if T::NAME == "f16" { 2 } else { size_of::<T::Scalar>() };
        check!(counts.bytes_uploaded == (entries * size + 16 * batch.len()) as u64, "{counts}");
        // Uploads of up to 64 KiB together wait for the submission of the dispatches.
        let submissions = if counts.bytes_uploaded > 64 << 10 { 3 } else { 2 };
        check!(counts.submissions == submissions, "the dispatches, a read-back, and uploads if they are large: {counts}");
        let numbers: usize = shapes.iter().map(|&(_, n)| 2 * n + 1).sum();
        check!(counts.bytes_read_back == (numbers * size_of::<T::Real>()) as u64, "{counts}");
        check!(report.seconds.svdvals > 0.0 && report.seconds.total >= report.seconds.svdvals, "{report}");
    }
    // The values of a two-stage reduction are those of single calls.
    let batch: Vec<Mat<T>> = (0..3).map(|k| random(k, 30, 25)).collect();
    let options = gpu::<T>(context).reduction(Reduction::TwoStage);
    let report = svdvals_batch_report(&views(&batch), &options)?;
    check!((report.together, report.on_gpu, report.side_by_side) == (0, 3, 0) && report.counts.dispatches > 3, "{report}");
    for (a, values) in batch.iter().zip(&report.values) {
        check!(a.svdvals_gpu_with(&options)? == *values, "a single call");
    }
    Ok(())
}

/// The futures give what the blocking calls give, errors included; so do those of decompositions.
pub fn futures<T: Elements>(context: &GpuContext) -> Outcome {
    let options = gpu::<T>(context).half_storage(HalfStorage::Single);
    let mut batch: Vec<Mat<T>> =
        [(40, 30), (0, 5), (20, 50), (1, 1), (300, 290)].into_iter().zip(0..).map(|((m, n), k)| random(k, m, n)).collect();
    let (here, there) = (
        svdvals_batch_report(&views(&batch), &options)?,
        pollster::block_on(svdvals_batch_report_async(&views(&batch), &options))?,
    );
    check!(here.values == there.values && here.counts == there.counts, "{here}\n{there}");
    check!((there.together, there.on_gpu) == (here.together, 5), "{there}");
    // The same decompositions: that of the last one, which does not fit a workgroup, is a single call's.
    let svds = svd_batch(&views(&batch), &options)?;
    let later = pollster::block_on(svd_batch_async(&views(&batch), &options))?;
    for ((a, svd), later) in batch.iter().zip(&svds).zip(&later) {
        check!(later.u == svd.u && later.s == svd.s && later.v == svd.v, "{:?}, vectors of a future", a.shape());
    }
    let (last, single) = (&svds[4], batch[4].svd_gpu_with(&options)?);
    check!(single.u == last.u && single.s == last.s && single.v == last.v, "vectors of a single call");
    batch[2][(3, 4)] = T::from_complex(Complex::from(f64::NAN));
    let each = pollster::block_on(svdvals_batch_each_async(&views(&batch), &options))?;
    check!(matches!(each[2], Err(SvdError::NonFinite { row: 3, col: 4, .. })), "{:?}", each[2]);
    check!(each.iter().filter(|values| values.is_ok()).count() == 4, "others fail too");

    let stop = CancelFlag::new();
    stop.cancel();
    let each = svdvals_batch_each(&views(&batch), &options.cancel(stop))?;
    let cancelled = |k: usize| matches!(each[k], Err(SvdError::Cancelled { .. }));
    check!([0, 1, 3, 4].into_iter().all(cancelled), "{each:?}");
    Ok(())
}

/// `Auto` takes a device that says that it is hardware for a batch of enough work, leaves a smaller one to the CPU, and never takes a software driver.
pub fn backends() -> Outcome {
    let lent = GpuContext::new(&AdapterChoice::default())?;
    let mut info = lent.device().adapter_info();
    info.device_type = DeviceType::DiscreteGpu;
    let hardware = GpuContext::from_wgpu(lent.device().clone(), lent.queue().clone(), info);
    let a = random::<f32>(1, 24, 20);
    let batch = vec![a.as_ref(); 20_000];
    // The rates of a slow core, so that the choice is not this machine's.
    let mut table = TuningTable::default();
    table.set_cpu_rates(60e9, 30e9)?;
    let options = |context: &GpuContext| SvdOptions::default().context(context.clone()).tuning_table(table.clone()).threads(2);
    let report = svdvals_batch_report(&batch[..100], &options(&hardware))?;
    check!((report.on_gpu, report.side_by_side) == (0, 100), "{report}");
    check!(report.reason.contains("any GPU at least"), "{report}");
    let report = svdvals_batch_report(&batch, &options(&hardware))?;
    check!((report.on_gpu, report.together, report.side_by_side) == (20_000, 20_000, 0), "{report}");
    check!(report.reason.starts_with("the GPU would take about "), "{report}");
    check!(report.values.iter().all(|values| *values == report.values[0]), "equal matrices have different values");
    let of_lent = if lent.is_software() { options(&lent) } else { SvdOptions::default().backend(Backend::Cpu) };
    let on_cpu = svdvals_batch_report(&batch, &of_lent)?;
    check!((on_cpu.on_gpu, on_cpu.side_by_side) == (0, 20_000), "{on_cpu}");
    let off = error(doubles(&report.values[0]), &doubles(&on_cpu.values[0]));
    check!(off <= stable::<f32>(24), "{off:.1e}");

    // Where a matrix is does not change its values: some of these exceed the workgroup memory of a device with WebGPU's limits alone.
    let webgpu = GpuContext::new(&AdapterChoice::default().limits(DeviceLimits::WebGpuDefault))?;
    let batch: Vec<Mat<f32>> = (60..68).map(|n| random(n as u64, n + 3, n)).collect();
    let [here, there] = [&lent, &webgpu].map(|context| svdvals_batch_report(&views(&batch), &gpu::<f32>(context)));
    let (here, there) = (here?, there?);
    check!((here.together, there.together) == (8, 8) && here.values == there.values, "{here}{there}");
    check!(here.counts.dispatches == 2, "the classes of 64 and 72 columns: {here}");
    check!(there.counts.dispatches == 3, "that of 63 columns, and in a buffer those of 64 and 128: {there}");
    Ok(())
}
