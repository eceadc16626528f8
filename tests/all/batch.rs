//! Batches on the CPU: their results are those of single calls.

use std::sync::{Arc, Mutex};

use faer::{Mat, MatRef};
use ndarray::{Array3, Axis, s};
use num_complex::Complex;
use svdvals_gpu::{
    Backend, CancelFlag, Element, MatSvd, Signs, Stage, SvdError, SvdGpu, SvdOptions, SvdValsBatchGpu, SvdValsGpu, Tuning,
    Vectors, svd_batch, svd_batch_async, svd_batch_each, svd_batch_report, svdvals_batch, svdvals_batch_each,
    svdvals_batch_report, svdvals_batch_report_async,
};

use crate::common::{complex_noise, problems::every_scalar};

fn on_cpu() -> SvdOptions {
    SvdOptions::default().backend(Backend::Cpu)
}

/// An m x n matrix of noise.
fn random<T: Element>(seed: u64, m: usize, n: usize) -> Mat<T> {
    Mat::from_fn(m, n, |i, j| T::from_complex(complex_noise(seed, i, j)))
}

/// Shapes of every route: columns, small and tall matrices, and by a band, with sides from 0 to 300 or so; square ones of 1 to 200.
fn shapes() -> Vec<(usize, usize)> {
    let edges = [(0, 0), (0, 5), (5, 0), (1, 1), (1, 9), (9, 1), (64, 3), (65, 3), (3, 500), (900, 20), (40, 60), (230, 226)];
    edges.into_iter().chain((1..=200).step_by(7).map(|n| (n, n))).chain([(200, 200), (5000, 13)]).collect()
}

fn views<T: Element>(batch: &[Mat<T>]) -> Vec<MatRef<'_, T>> {
    batch.iter().map(|a| a.as_ref()).collect()
}

every_scalar!(values_of_mixed_shapes, decompositions_of_mixed_shapes, stacks);

/// The values of each matrix are those of a single call, bit for bit, for one thread and for several, whatever the order in which workspace
/// was used before.
fn values_of_mixed_shapes<T: Element>() {
    let batch: Vec<Mat<T>> = shapes().into_iter().enumerate().map(|(k, (m, n))| random(k as u64, m, n)).collect();
    let single: Vec<_> = batch.iter().map(|a| a.svdvals_gpu_with(&on_cpu()).unwrap()).collect();
    for threads in [1, 2, 3] {
        assert_eq!(svdvals_batch(&views(&batch), &on_cpu().threads(threads)).unwrap(), single, "{} {threads}", T::NAME);
    }
    let backwards: Vec<_> = batch.iter().rev().map(|a| a.as_ref()).collect();
    assert!(svdvals_batch(&backwards, &on_cpu()).unwrap().iter().rev().eq(&single));
    // Transposes and reversed ones, of which a single call reads the same memory.
    let turned: Vec<_> = batch.iter().map(|a| a.transpose().reverse_rows()).collect();
    let want: Vec<_> = turned.iter().map(|a| a.svdvals_gpu_with(&on_cpu()).unwrap()).collect();
    assert_eq!(svdvals_batch(&turned, &on_cpu()).unwrap(), want);
}

fn same<T: Element>(x: &MatSvd<T>, y: &MatSvd<T>) -> bool {
    x.u == y.u && x.s == y.s && x.v == y.v
}

/// So are the decompositions, thin and as options ask.
fn decompositions_of_mixed_shapes<T: Element>() {
    let shapes = shapes().into_iter().step_by(2);
    let batch: Vec<Mat<T>> = shapes.enumerate().map(|(k, (m, n))| random(k as u64, m, n)).collect();
    for options in [on_cpu(), on_cpu().keep(3).signs(Signs::Largest), on_cpu().vectors(Vectors::Right).tolerance(0.3)] {
        let single: Vec<_> = batch.iter().map(|a| a.svd_gpu_with(&options).unwrap()).collect();
        for threads in [1, 3] {
            let found = svd_batch(&views(&batch), &options.clone().threads(threads)).unwrap();
            assert!(found.len() == single.len() && found.iter().zip(&single).all(|(x, y)| same(x, y)), "{}", T::NAME);
        }
    }
}

/// Stacks of any strides and memory order: the values and factors of each matrix, bit for bit.
fn stacks<T: Element>() {
    for (batch, m, n) in [(0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 1, 1), (7, 12, 5), (5, 5, 12), (40, 9, 9), (3, 70, 4)] {
        let whole = Array3::from_shape_fn((2 * batch, m + 1, n), |(k, i, j)| T::from_complex(complex_noise(k as u64, i, j)));
        let some = whole.slice(s![..;2, ..m, ..;-1]);
        let fortran = Array3::from_shape_fn((n, m, batch), |(j, i, k)| some[(k, i, j)]);
        for stack in [some, fortran.view().permuted_axes([2, 1, 0])] {
            let s = stack.svdvals_batch_gpu_with(&on_cpu()).unwrap();
            assert_eq!(s.dim(), (batch, m.min(n)));
            let svd = stack.svd_batch_gpu_with(&on_cpu().keep(4)).unwrap();
            let k = m.min(n).min(4);
            assert_eq!((svd.u.dim(), svd.s.dim(), svd.vt.dim()), ((batch, m, k), (batch, k), (batch, k, n)));
            for (i, a) in stack.axis_iter(Axis(0)).enumerate() {
                assert_eq!(s.row(i), a.svdvals_gpu_with(&on_cpu()).unwrap(), "{} {batch} {m} {n}", T::NAME);
                let single = a.svd_gpu_with(&on_cpu().keep(4)).unwrap();
                let of = |x: &Array3<T::Scalar>| x.index_axis(Axis(0), i).to_owned();
                assert_eq!((of(&svd.u), svd.s.row(i).to_owned(), of(&svd.vt)), (single.u, single.s, single.vt));
            }
            let full = stack.svd_batch_gpu_with(&on_cpu().vectors(Vectors::Full)).unwrap();
            assert_eq!((full.u.dim(), full.vt.dim()), ((batch, m, m), (batch, n, n)));
            let left = stack.svd_batch_gpu_with(&on_cpu().vectors(Vectors::Left)).unwrap();
            assert_eq!((left.u.dim(), left.vt.dim()), ((batch, m, m.min(n)), (batch, 0, n)));
        }
    }
}

/// Larger matrices come side by side if there are many for each thread, and else one after the other. Either way the results are those of
/// single calls.
#[test]
fn larger_matrices() {
    let by_a_band = on_cpu().tuning(Tuning::for_cpu::<f64>(60).direct_up_to(20));
    for (count, side_by_side, n, options) in
        [(7, 0, 60, &by_a_band), (8, 8, 60, &by_a_band), (9, 9, 60, &by_a_band), (3, 0, 230, &on_cpu())]
    {
        let batch: Vec<Mat<f64>> = (0..count).map(|k| random(k, n + k as usize, n)).collect();
        let report = svdvals_batch_report(&views(&batch), &options.clone().threads(2)).unwrap();
        assert_eq!((report.side_by_side, report.matrices), (side_by_side, count as usize));
        assert!(batch.iter().zip(&report.values).all(|(a, s)| a.svdvals_gpu_with(options).unwrap() == *s));
        let svds = svd_batch(&views(&batch), &options.clone().threads(2)).unwrap();
        assert!(batch.iter().zip(&svds).all(|(a, svd)| same(&a.svd_gpu_with(options).unwrap(), svd)));
    }
    // Small tiles make small matrices take the same way.
    let options = on_cpu().tuning(Tuning::for_cpu::<f32>(20).direct_up_to(4).tile_size(4).leaf(8).tile_width(2)).threads(3);
    let batch: Vec<Mat<f32>> = (0..30).map(|k| random(k, 20, 1 + k as usize)).collect();
    let report = svdvals_batch_report(&views(&batch), &options).unwrap();
    assert_eq!(report.side_by_side, 30);
    assert!(batch.iter().zip(&report.values).all(|(a, s)| a.svdvals_gpu_with(&options).unwrap() == *s));
}

/// The error of the first bad matrix names it, and the entry; the others' results can be had.
#[test]
fn one_bad_matrix() {
    let mut batch: Vec<Mat<f32>> = (0..100).map(|k| random(k, 12, 8)).collect();
    (batch[41][(3, 2)], batch[97][(0, 0)]) = (f32::NAN, f32::INFINITY);
    let at = |error| match error {
        SvdError::InBatch { index, source } => match *source {
            SvdError::NonFinite { row, col, .. } => (index, row, col),
            other => panic!("{other}"),
        },
        other => panic!("{other}"),
    };
    let error = svdvals_batch(&views(&batch), &on_cpu()).unwrap_err();
    assert!(error.to_string().starts_with("matrix 41 of the batch: entry (3, 2) is NaN"), "{error}");
    assert!(std::error::Error::source(&error).is_some_and(|source| source.to_string().starts_with("entry (3, 2)")));
    assert_eq!(at(error), (41, 3, 2));
    assert_eq!(at(svd_batch(&views(&batch), &on_cpu()).unwrap_err()), (41, 3, 2));
    assert_eq!(at(svdvals_batch_report(&views(&batch), &on_cpu()).unwrap_err()), (41, 3, 2));
    let stack = Array3::from_shape_fn((100, 12, 8), |(k, i, j)| batch[k][(i, j)]);
    assert_eq!(at(stack.svdvals_batch_gpu().unwrap_err()), (41, 3, 2));
    assert_eq!(at(stack.svd_batch_gpu().unwrap_err()), (41, 3, 2));

    let (values, svds) = (svdvals_batch_each(&views(&batch), &on_cpu()), svd_batch_each(&views(&batch), &on_cpu()));
    let (of_stack, svds_of_stack) = (stack.svdvals_batch_gpu_each(&on_cpu()), stack.svd_batch_gpu_each(&on_cpu()));
    let bad = |k| k == 41 || k == 97;
    for (k, (values, svd)) in values.unwrap().into_iter().zip(svds.unwrap()).enumerate() {
        assert_eq!((values.is_err(), svd.is_err()), (bad(k), bad(k)));
        if !bad(k) {
            assert_eq!(values.unwrap(), batch[k].svdvals_gpu_with(&on_cpu()).unwrap());
            assert!(same(&svd.unwrap(), &batch[k].svd_gpu_with(&on_cpu()).unwrap()));
        }
    }
    assert!(of_stack.unwrap().iter().enumerate().all(|(k, values)| values.is_err() == bad(k)));
    assert!(svds_of_stack.unwrap().iter().enumerate().all(|(k, svd)| svd.is_err() == bad(k)));
}

/// Errors of the call name no matrix, an overflow names its own, and an empty batch has an empty result.
#[test]
fn options_and_empty_batches() {
    let a = random::<f64>(1, 6, 4);
    let option = |error| match error {
        SvdError::InvalidOption { option, .. } => option,
        other => panic!("{other}"),
    };
    assert_eq!(option(svdvals_batch(&[a.as_ref()], &on_cpu().threads(0)).unwrap_err()), "threads");
    assert_eq!(option(svd_batch(&[a.as_ref()], &on_cpu().tolerance(2.0)).unwrap_err()), "tolerance");
    let stack = Array3::<f64>::ones((2, 3, 4));
    assert_eq!(option(stack.svd_batch_gpu_with(&on_cpu().tolerance(0.1)).unwrap_err()), "tolerance");
    assert_eq!(stack.svd_batch_gpu_each(&on_cpu().tolerance(0.1)).unwrap()[1].as_ref().unwrap().s.len(), 1);
    let huge = Mat::from_fn(3, 3, |_, _| f64::MAX);
    let error = svdvals_batch(&[a.as_ref(), huge.as_ref()], &on_cpu()).unwrap_err();
    assert!(matches!(&error, SvdError::InBatch { index: 1, source } if matches!(**source, SvdError::Overflow { .. })), "{error}");

    assert!(svdvals_batch::<f32>(&[], &on_cpu()).unwrap().is_empty());
    let report = svd_batch_report::<Complex<f64>>(&[], &SvdOptions::default()).unwrap();
    assert_eq!((report.values.len(), report.matrices, report.side_by_side, report.on_gpu), (0, 0, 0, 0));
    assert!(report.to_string().starts_with("0 matrices, held as c64"), "{report}");
}

/// `Auto` takes the CPU for matrices that gain nothing on a GPU, and the report says so.
#[test]
fn reports() {
    let batch: Vec<Mat<f32>> = (0..50).map(|k| random(k, 30, 20)).collect();
    let report = svdvals_batch_report(&views(&batch), &SvdOptions::default()).unwrap();
    assert_eq!((report.matrices, report.side_by_side, report.on_gpu, report.storage), (50, 50, 0, "f32"));
    let text = report.to_string();
    assert!(text.starts_with("50 matrices, held as f32: 50 side by side, 0 on a GPU ("), "{text}");
    assert!(report.seconds.band_to_bidiag > 0.0 && report.seconds.total > 0.0);
    let report = svd_batch_report(&views(&batch), &on_cpu()).unwrap();
    assert_eq!(report.reason, "Backend::Cpu was asked for");
    assert!(report.seconds.left_vectors > 0.0);
}

/// Futures give what the blocking calls give, bit for bit, errors included; their progress is that of the batch.
#[test]
fn futures() {
    let mut batch: Vec<Mat<f64>> = (0..40).map(|k| random(k, 12 + k as usize, 20)).chain([random(40, 300, 260)]).collect();
    let told = Arc::new(Mutex::new(Vec::new()));
    let options = on_cpu().threads(2).progress({
        let told = told.clone();
        move |now| told.lock().unwrap().push((now.stage, now.fraction))
    });
    let report = pollster::block_on(svdvals_batch_report_async(&views(&batch), &options)).unwrap();
    assert_eq!(report.values, svdvals_batch(&views(&batch), &on_cpu()).unwrap());
    assert_eq!((report.matrices, report.side_by_side, report.reason.as_ref()), (41, 40, "Backend::Cpu was asked for"));
    let told = told.lock().unwrap().clone();
    assert!(told.iter().all(|&(stage, _)| stage == Stage::Svdvals) && told.last().unwrap().1 == 1.0);
    let svds = pollster::block_on(svd_batch_async(&views(&batch), &on_cpu().keep(3))).unwrap();
    assert!(svds.iter().zip(&svd_batch(&views(&batch), &on_cpu().keep(3)).unwrap()).all(|(x, y)| same(x, y)));

    batch[5][(3, 2)] = f64::NAN;
    let error = pollster::block_on(svdvals_batch_report_async(&views(&batch), &SvdOptions::default())).unwrap_err();
    assert!(
        matches!(&error, SvdError::InBatch { index: 5, source } if matches!(**source, SvdError::NonFinite { .. })),
        "{error}"
    );
    let error = pollster::block_on(svd_batch_async(&views(&batch), &on_cpu().threads(0))).unwrap_err();
    assert!(matches!(error, SvdError::InvalidOption { option: "threads", .. }), "{error}");
}

/// Progress is that of the batch, and never decreases; a cancellation ends it.
#[test]
fn progress_and_cancellation() {
    let batch: Vec<Mat<f64>> = (0..300).map(|k| random(k, 40, 30)).chain([random(300, 300, 300)]).collect();
    let told = Arc::new(Mutex::new(Vec::new()));
    let options = on_cpu().threads(2).progress({
        let told = told.clone();
        move |now| told.lock().unwrap().push((now.stage, now.fraction))
    });
    svdvals_batch(&views(&batch), &options).unwrap();
    let told = told.lock().unwrap().clone();
    assert!(told.len() > 20 && told.iter().all(|&(stage, _)| stage == Stage::Svdvals));
    assert!(told.is_sorted_by(|x, y| x.1 <= y.1) && told.last().unwrap().1 == 1.0);

    let stop = CancelFlag::new();
    let options = on_cpu().cancel(stop.clone()).progress(move |now| {
        if now.fraction > 0.1 {
            stop.cancel();
        }
    });
    assert!(matches!(svdvals_batch(&views(&batch), &options), Err(SvdError::Cancelled { .. })));
    let each = svdvals_batch_each(&views(&batch), &options).unwrap();
    assert!(each.iter().all(|values| matches!(values, Err(SvdError::Cancelled { .. }))), "the flag stays set");
}
