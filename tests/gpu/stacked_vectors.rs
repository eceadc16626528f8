//! Decompositions of matrices of one shape that share their dispatches.

use std::sync::{Arc, Mutex};

use faer::{Mat, MatRef};
use svdvals_gpu::{
    AdapterChoice, Backend, BatchReport, CancelFlag, GpuContext, MatSvd, RealElement, Reduction, Signs, Stage3, SvdError, SvdGpu,
    SvdOptions, Tuning, Vectors, svd_batch_async, svd_batch_each, svd_batch_report,
};

use crate::{
    Body, Elements, Outcome, check,
    common::{Spectrum, complex_with_singular_values, error, rounded, with_singular_values},
    tuning,
    vectors::{KINDS, ends_of_range, matrix, ratios},
};

pub fn trials<T: Elements>() -> Vec<(&'static str, Body)> {
    vec![
        ("stacks_are_single_calls", stacks_are_single_calls::<T>),
        ("stacks_by_options", options::<T>),
        ("stacks_with_bad_matrices", bad_matrices::<T>),
        ("stacked_ratios", hard_matrices::<T>),
        ("stacked_vectors_of_table_1", table_1::<T>),
    ]
}

/// Options with which matrices of any size share dispatches.
fn on(context: &GpuContext) -> SvdOptions {
    let options = SvdOptions::default().context(context.clone()).backend(Backend::Gpu);
    options.reduction(Reduction::TwoStage).stage3(Stage3::Device)
}

/// Tiles that are read in vectors, blocks with trees of several levels, and tiles of an odd size.
fn tunings() -> [Tuning; 3] {
    [tuning(4, 8).split_beside(2), tuning(8, 24), tuning(5, 11)]
}

fn random<T: Elements>(seed: u64, m: usize, n: usize) -> Mat<T> {
    Mat::from_fn(m, n, |i, j| T::noise(seed, i, j))
}

fn views<T: Elements>(batch: &[Mat<T>]) -> Vec<MatRef<'_, T>> {
    batch.iter().map(|a| a.as_ref()).collect()
}

fn same<T: Elements>(x: &MatSvd<T>, y: &MatSvd<T>) -> bool {
    x.u == y.u && x.s == y.s && x.v == y.v
}

/// Square, tall and wide matrices, some of them beside others of their shape in the other memory order, have the decompositions of single calls bit
/// for bit: the values, U and V. So have those of a future.
fn stacks_are_single_calls<T: Elements>(context: &GpuContext) -> Outcome {
    let counts = [((33, 30), 3), ((90, 21), 3), ((17, 41), 3), ((1, 1), 2), ((40, 40), 2), ((0, 4), 2), ((7, 6), 1), ((5, 1), 2)];
    let shapes: Vec<_> = counts.into_iter().flat_map(|(shape, count)| std::iter::repeat_n(shape, count)).collect();
    let batch: Vec<Mat<T>> = shapes.iter().zip(30..).map(|(&(m, n), k)| random(k, m, n)).collect();
    let turned: Vec<Mat<T>> = batch[..2].iter().map(|a| Mat::from_fn(a.ncols(), a.nrows(), |i, j| a[(j, i)])).collect();
    let views: Vec<MatRef<'_, T>> = batch.iter().map(|a| a.as_ref()).chain(turned.iter().map(|a| a.transpose())).collect();
    for tuning in tunings() {
        let options = on(context).tuning(tuning);
        let report = svd_batch_report(&views, &options)?;
        check!((report.together, report.stacked, report.on_gpu) == (0, 17, 20), "{report}");
        for (a, svd) in views.iter().zip(&report.values) {
            check!(same(svd, &a.svd_gpu_with(&options)?), "{:?}: a single call differs", a.shape());
        }
        let later = pollster::block_on(svd_batch_async(&views, &options))?;
        check!(later.iter().zip(&report.values).all(|(x, y)| same(x, y)), "a future differs");
    }
    Ok(())
}

/// The dispatches of several equal matrices are those of one.
fn shared_dispatches<T: Elements>(context: &GpuContext) -> Outcome {
    let (a, options) = (random::<T>(3, 44, 40), on(context).tuning(tuning(4, 8).split_beside(0)));
    let count = |matrices: usize| -> Result<u64, SvdError> {
        let report: BatchReport<_> = svd_batch_report(&vec![a.as_ref(); matrices], &options)?;
        Ok(if report.stacked == matrices { report.counts.dispatches } else { 0 })
    };
    let (two, five, one) = (count(2)?, count(5)?, a.svd_gpu_report(&options)?.counts.dispatches);
    check!(one > 100 && [two, five] == [one; 2], "{one}, {two} and {five} dispatches");
    Ok(())
}

/// The options of a single decomposition: sides, a limit, a tolerance, signs, and unitary U and V. Wide and tall matrices share a stack.
fn options<T: Elements>(context: &GpuContext) -> Outcome {
    shared_dispatches::<T>(context)?;
    // Stored by rows and by columns, these are one stack.
    let (tall, wide): (Vec<Mat<T>>, Vec<Mat<T>>) =
        ((0..2).map(|k| random(k, 30, 22)).collect(), (3..5).map(|k| random(k, 30, 22)).collect());
    let views: Vec<MatRef<'_, T>> = tall.iter().map(|a| a.as_ref()).chain(wide.iter().map(|a| a.transpose())).collect();
    let on = on(context).tuning(tuning(4, 8));
    let every = [
        on.clone(),
        on.clone().keep(3),
        on.clone().keep(0),
        on.clone().tolerance(0.5),
        on.clone().vectors(Vectors::Left),
        on.clone().vectors(Vectors::Right),
        on.clone().vectors(Vectors::Full),
        on.clone().signs(Signs::Largest),
    ];
    for options in every {
        let report = svd_batch_report(&views, &options)?;
        check!((report.stacked, report.on_gpu) == (4, 4), "{report}, {options:?}");
        for (a, svd) in views.iter().zip(&report.values) {
            check!(same(svd, &a.svd_gpu_with(&options)?), "{:?}, {options:?}", a.shape());
        }
    }
    // With another stage 3, each is a single call.
    let report = svd_batch_report(&views, &on.clone().stage3(Stage3::Newton))?;
    check!((report.stacked, report.on_gpu) == (0, 4), "{report}");
    let error = svd_batch_report(&views, &on.tolerance(2.0)).map(|_| ());
    check!(matches!(error, Err(SvdError::InvalidOption { option: "tolerance", .. })), "{error:?}");
    Ok(())
}

/// A matrix with a NaN, and one whose values overflow, are errors of their own; the others have their factors. A cancelled call has no results.
/// Progress is told as each matrix ends.
fn bad_matrices<T: Elements>(context: &GpuContext) -> Outcome {
    let options = on(context).tuning(tuning(8, 24));
    let mut batch: Vec<Mat<T>> = (0..5).map(|k| random(k, 26, 24)).collect();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    let listening = options.clone().progress(move |now| {
        if let Ok(mut told) = told.lock() {
            told.push(now.fraction);
        }
    });
    let report = svd_batch_report(&views(&batch), &listening)?;
    check!((report.stacked, report.on_gpu) == (5, 5), "{report}");
    let seen = seen.lock().map_err(|error| error.to_string())?.clone();
    for k in 1..=5 {
        check!(seen.iter().any(|fraction| (fraction - 0.2 * f64::from(k)).abs() < 0.01), "{k} of 5 matrices: {seen:?}");
    }

    batch[1][(2, 3)] = T::real(f64::NAN);
    let huge = T::real(0.9 * if size_of::<T>() == 2 { 65504.0 } else { <T::Real as num_traits::Float>::max_value().to_double() });
    batch[3] = Mat::from_fn(26, 24, |_, _| huge);
    let each = svd_batch_each(&views(&batch), &options)?;
    check!(matches!(each[1], Err(SvdError::NonFinite { row: 2, col: 3, .. })), "{:?}", each[1].as_ref().map(|_| ()));
    // Values of half types are f32, which holds them.
    let overflows = matches!(each[3], Err(SvdError::Overflow { .. }));
    check!(overflows != (size_of::<T>() == 2), "{:?}", each[3].as_ref().map(|_| ()));
    for k in [0, 2, 4] {
        check!(each[k].as_ref().is_ok_and(|svd| same(svd, &report.values[k])), "matrix {k} beside bad ones");
    }

    let stop = CancelFlag::new();
    stop.cancel();
    let each = svd_batch_each(&views(&batch), &options.cancel(stop))?;
    check!(each.iter().all(|svd| matches!(svd, Err(SvdError::Cancelled { .. }))), "results of a cancelled call");
    Ok(())
}

/// The three ratios of DESIGN 6 are at most 1 (1 eps more for max(m, n) = 1), as those of single calls, on hard matrices that share a stack.
fn hard_matrices<T: Elements>(context: &GpuContext) -> Outcome {
    let (mut batch, mut names) = (Vec::new(), Vec::new());
    for (m, n) in [(1, 1), (1, 5), (3, 2), (40, 29), (29, 40), (100, 3), (36, 36)] {
        for kind in KINDS {
            batch.push(matrix::<T>(kind, m, n));
            names.push(format!("{kind} {m} x {n}"));
        }
    }
    for (m, n) in [(1, 1), (27, 23), (19, 23)] {
        for (name, a) in ends_of_range::<T>(m, n) {
            batch.push(a);
            names.push(format!("{name} {m} x {n}"));
        }
    }
    let report = svd_batch_report(&views(&batch), &on(context).tuning(tuning(8, 24)))?;
    check!((report.stacked, report.on_gpu) == (batch.len(), batch.len()), "{report}");
    let mut worst = [0.0f64; 3];
    for ((name, a), svd) in names.iter().zip(&batch).zip(&report.values) {
        let ((m, n), found) = (a.shape(), ratios(a.as_ref(), svd));
        let k = m.min(n);
        check!((svd.u.shape(), svd.v.shape()) == ((m, k), (n, k)), "{name}: {:?} {:?}", svd.u.shape(), svd.v.shape());
        let bound = if m.max(n) == 1 { 2.0 } else { 1.0 };
        check!(found.iter().all(|ratio| *ratio <= bound), "{} {name}: {found:.3?}", T::NAME);
        worst.iter_mut().zip(found).for_each(|(worst, ratio)| *worst = worst.max(ratio));
    }
    println!("stacks of decompositions, {}: worst ratios {worst:.3?}", T::NAME);
    Ok(())
}

/// Table 1 of the unified-kernels paper at n = 256, two matrices of each spectrum, with the default hyperparameters and options: the errors of the
/// values have the paper's bounds (for complex numbers twice those of the real type; f16 is rounded before the call), the vectors the ratios of single
/// calls.
fn table_1<T: Elements>(context: &GpuContext) -> Outcome {
    let bound = match T::NAME {
        "f16" => 3.3e-3,
        "f64" => 8.3e-16,
        "c64" => 2.0 * 8.3e-16,
        "c32" => 2.0 * 8.1e-8,
        _ => 8.1e-8,
    };
    let mut sigmas: Vec<Vec<f64>> = Spectrum::ALL.iter().flat_map(|of| [of.values(256), of.values(256)]).collect();
    let with = |(sigma, seed): (&mut Vec<f64>, u64)| match T::NAME.starts_with('c') {
        true => rounded(complex_with_singular_values(sigma, seed).as_ref()),
        false => rounded(with_singular_values(sigma, seed).as_ref()),
    };
    let batch: Vec<Mat<T>> = sigmas.iter_mut().zip(70..).map(with).collect();
    let options = SvdOptions::default().context(context.clone()).backend(Backend::Gpu);
    let report = svd_batch_report(&views(&batch), &options)?;
    check!((report.stacked, report.on_gpu) == (batch.len(), batch.len()), "{report}");
    for (k, ((svd, sigma), a)) in report.values.iter().zip(&sigmas).zip(&batch).enumerate() {
        let (off, found) = (error(svd.s.iter().map(|s| s.to_double()), sigma), ratios(a.as_ref(), svd));
        println!("stacked {} n = 256, matrix {k}: {off:.2e}, ratios {found:.3?}", T::NAME);
        check!(off <= bound, "matrix {k}: {off:.2e}, bound {bound:.1e}");
        check!(found.iter().all(|ratio| *ratio <= 1.0), "matrix {k}: {found:.3?}");
    }
    let alone = batch[1].svd_gpu_with(&options.stage3(Stage3::Device))?;
    check!(same(&alone, &report.values[1]), "a single call");
    Ok(())
}

/// Where the buffers hold the matrices or their reflectors in rounds, the decompositions are the same, and each round has its own dispatches. Matrices of which a buffer holds one, or not U, are single calls.
pub fn small_buffers() -> Outcome {
    let large = GpuContext::new(&AdapterChoice::default())?;
    // 6144 numbers of f32: three matrices of 44 x 40.
    let small = GpuContext::new(&AdapterChoice::default().max_binding(4 * 6144))?;
    let one = random::<f32>(9, 44, 40);
    let counts = |context: &GpuContext, matrices: usize| {
        let report = svd_batch_report(&vec![one.as_ref(); matrices], &on(context).tuning(tuning(4, 8)))?;
        Ok::<_, SvdError>((report.counts.dispatches, report.stacked, report.values))
    };
    let (whole, rounds, two, three) = (counts(&large, 5)?, counts(&small, 5)?, counts(&large, 2)?, counts(&large, 3)?);
    check!((whole.1, rounds.1) == (5, 5), "{} and {} of 5", whole.1, rounds.1);
    check!(rounds.0 == two.0 + three.0 && rounds.0 > whole.0, "{} dispatches, {} in one round", rounds.0, whole.0);
    check!(rounds.2.iter().zip(&whole.2).all(|(x, y)| same(x, y)), "rounds change results");

    let shapes = [(80, 70), (2000, 1), (80, 70), (2000, 1), (44, 40), (44, 40)];
    let batch: Vec<Mat<f32>> = shapes.into_iter().zip(0..).map(|((m, n), k)| random(k, m, n)).collect();
    let report = svd_batch_report(&views(&batch), &on(&small).tuning(tuning(8, 64)))?;
    check!((report.stacked, report.on_gpu) == (2, 6), "{report}");
    for (a, svd) in batch.iter().zip(&report.values) {
        check!(ratios(a.as_ref(), svd).iter().all(|ratio| *ratio <= 1.0), "{:?}", a.shape());
    }
    Ok(())
}

/// From order 1000 on, real V are as the reflectors give them, and each is read from its place among those of the stack.
pub fn of_order_1000() -> Outcome {
    let context = GpuContext::global()?;
    let batch: Vec<Mat<f32>> = (0..2).map(|k| random(k, 1000, 1000)).collect();
    let options = on(&context).vectors(Vectors::Right).keep(251);
    let report = svd_batch_report(&views(&batch), &options)?;
    check!((report.stacked, report.on_gpu) == (2, 2), "{report}");
    check!(same(&report.values[1], &batch[1].svd_gpu_with(&options)?), "a single call differs");
    Ok(())
}
