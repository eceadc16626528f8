//! Every option of every call on matrices of the host: it changes the result or the report as documented, or it is an error that names it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use faer::Mat;
use svdvals_gpu::{
    Band, CancelFlag, Element, HalfStorage, LstsqGpu, LstsqOptions, Orthogonal, Preconditioner, Products, QrGpu, QrOptions,
    RealElement, Reduction, Result, Route, RunOptions, Signs, Solver, Stage3, SvdError, SvdGpu, SvdOptions, SvdValsGpu, Tuning,
    TuningTable, Vectors, svd_batch_report, svdvals_batch, svdvals_batch_report,
    triangular::{Diag, Op, Side, TriangularGpu, Uplo},
};

/// What a call gave.
pub struct Seen {
    pub values: Vec<f64>,
    /// The options that its report names, if it has one.
    pub told: Option<String>,
    /// The hyperparameters that its report has.
    pub tuning: Option<Tuning>,
    /// Whether its report has the seconds of kernels.
    pub timed: bool,
}

/// A call with the options of its run.
type Run<'a> = Box<dyn Fn(&RunOptions) -> Result<Seen> + 'a>;

/// A call, and what it takes.
pub struct Entry<'a> {
    pub name: &'static str,
    pub run: Run<'a>,
    /// Whether it has progress, and can be stopped.
    pub listens: bool,
    /// Whether it stores half types as f16, if it is asked to.
    pub half: bool,
    /// Whether it takes a GPU.
    pub on_gpu: bool,
}

impl<'a> Entry<'a> {
    pub fn new(name: &'static str, run: impl Fn(&RunOptions) -> Result<Seen> + 'a) -> Self {
        Entry { name, run: Box::new(run), listens: true, half: false, on_gpu: true }
    }

    pub fn storing_half(self) -> Self {
        Entry { half: true, ..self }
    }
}

/// A triangular operation: it has no progress, and is not stopped.
pub fn in_place<'a>(name: &'static str, run: impl Fn(&RunOptions) -> Result<Seen> + 'a) -> Entry<'a> {
    Entry { listens: false, ..Entry::new(name, run) }
}

/// What a call without a report gave.
pub fn unreported(values: Vec<f64>) -> Result<Seen> {
    Ok(Seen { values, told: None, tuning: None, timed: false })
}

/// The entries of some matrix.
pub fn entries<T: Element>(a: &Mat<T>) -> Vec<f64> {
    a.col_iter().flat_map(|column| column.iter().map(|x| x.to_complex().re)).collect()
}

macro_rules! seen {
    ($report:expr, $values:expr) => {{
        let report = $report;
        let timed = !report.kernel_seconds.is_empty();
        let (told, tuning) = (Some(report.options.clone()), Some(report.tuning.clone()));
        Ok(Seen { values: $values(report.values), told, tuning, timed })
    }};
}

fn doubles<R: RealElement>(values: impl IntoIterator<Item = R>) -> Vec<f64> {
    values.into_iter().map(|x| x.to_double()).collect()
}

/// The calls on a matrix of the host.
pub fn calls<T: Element>() -> Vec<Entry<'static>> {
    let ((m, n), one) = ((40, 24), T::from_complex(1.0.into()));
    let entry = |i: usize, j: usize| T::from_complex((((3 * i + 5 * j * j + i * j) % 17) as f64 / 8.0 - 1.0).into());
    let a = move || Mat::from_fn(m, n, entry);
    let b = move || Mat::from_fn(m, 2, move |i, j| entry(i, j + 3));
    let band = move || Band::from_fn(n, 5, entry);
    let triangle = move || Mat::from_fn(n, n, move |i, j| if i == j { T::from_complex(4.0.into()) } else { entry(i, j) });
    vec![
        Entry::new("svdvals_gpu", move |run| {
            seen!(a().svdvals_gpu_report(&run.clone().into())?, |s: faer::Col<_>| doubles(s.iter().copied()))
        })
        .storing_half(),
        Entry::new("svdvals_gpu_with", move |run| {
            unreported(doubles(a().svdvals_gpu_with(&run.clone().into())?.iter().copied()))
        })
        .storing_half(),
        Entry::new("svdvals_gpu_report_async", move |run| {
            let (a, options) = (a(), run.clone().into());
            seen!(pollster::block_on(a.svdvals_gpu_report_async(&options))?, |s: faer::Col<_>| doubles(s.iter().copied()))
        })
        .storing_half(),
        Entry::new("svd_gpu", move |run| {
            seen!(a().svd_gpu_report(&run.clone().into())?, |svd: svdvals_gpu::MatSvd<T>| doubles(svd.s.iter().copied()))
        }),
        Entry::new("svd_gpu_async", move |run| {
            let (a, options) = (a(), run.clone().into());
            unreported(doubles(pollster::block_on(a.svd_gpu_async(&options))?.s.iter().copied()))
        }),
        Entry::new("qr_gpu", move |run| {
            seen!(a().qr_gpu_report(&run.clone().into())?, |qr: svdvals_gpu::Qr<T, _>| entries(&qr.r()))
        })
        .storing_half(),
        Entry::new("qr_r_gpu", move |run| seen!(a().qr_r_gpu_report(&run.clone().into())?, |r: Mat<T::Scalar>| entries(&r)))
            .storing_half(),
        Entry::new("lstsq_gpu", move |run| {
            seen!(a().lstsq_gpu_report(&b(), &run.clone().into())?, |fit: svdvals_gpu::Lstsq<_, _>| entries(&fit.x))
        }),
        Entry::new("svdvals_batch", move |run| {
            let (first, second) = (a(), a());
            let report = svdvals_batch_report(&[first.as_ref(), second.transpose()], &run.clone().into())?;
            let values = report.values.iter().flat_map(|s| doubles(s.iter().copied())).collect();
            Ok(Seen { values, told: Some(report.options), tuning: None, timed: !report.kernel_seconds.is_empty() })
        })
        .storing_half(),
        Entry::new("svd_batch", move |run| {
            let (first, second) = (a(), a());
            let report = svd_batch_report(&[first.as_ref(), second.as_ref()], &run.clone().into())?;
            let values = report.values.iter().flat_map(|svd| doubles(svd.s.iter().copied())).collect();
            Ok(Seen { values, told: Some(report.options), tuning: None, timed: !report.kernel_seconds.is_empty() })
        }),
        Entry::new("svdvals_batch, unreported", move |run| {
            unreported(
                svdvals_batch(&[a().as_ref()], &run.clone().into())?.iter().flat_map(|s| doubles(s.iter().copied())).collect(),
            )
        })
        .storing_half(),
        Entry::new("to_band", move |run| unreported(entries(&SvdValsGpu::to_band(&a(), run)?.to_mat()))).storing_half(),
        Entry::new("band_to_bidiag", move |run| unreported(doubles(band()?.band_to_bidiag(run)?.svdvals()?))).storing_half(),
        Entry::new("Band::svd", move |run| unreported(doubles(band()?.svd(&run.clone().into())?.1))),
        in_place("trmm_gpu", move |run| {
            let mut x = a();
            x.trmm_gpu_with(Side::Right, Uplo::Upper, Op::NoTrans, Diag::NonUnit, one, &triangle(), run)?;
            unreported(entries(&x))
        }),
        in_place("trsm_gpu", move |run| {
            let mut x = a();
            x.trsm_gpu_with(Side::Right, Uplo::Upper, Op::NoTrans, Diag::NonUnit, one, &triangle(), run)?;
            unreported(entries(&x))
        }),
    ]
}

/// The name of the option that a call refused.
fn refused(result: Result<Seen>) -> Option<&'static str> {
    match result {
        Err(SvdError::InvalidOption { option, reason }) => {
            assert!(!reason.is_empty());
            Some(option)
        }
        _ => None,
    }
}

/// Every option of a run, in calls that run as `base` says, on a GPU or not, which has a clock or not. `half` is whether their matrices are of a half type.
pub fn runs(calls: &[Entry<'_>], base: &RunOptions, (on_gpu, clock): (bool, bool), half: bool, tuning: Tuning) {
    for call in calls {
        let (name, run) = (call.name, |options: RunOptions| (call.run)(&options));
        let base = if call.on_gpu || !on_gpu { base.clone() } else { RunOptions::default() };
        let plain = run(base.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let reports = plain.told.is_some();
        let told = |options: RunOptions, words: &str| -> Seen {
            let seen = run(options).unwrap_or_else(|error| panic!("{name}, {words}: {error}"));
            if let Some(told) = &seen.told {
                assert!(told.split(", ").any(|part| part == words), "{name}: {told:?} does not name {words:?}");
            }
            seen
        };
        // Threads do not change a bit.
        assert_eq!(told(base.clone().threads(2), "threads 2").values, plain.values, "{name}");
        assert_eq!(refused(run(base.clone().threads(0))), Some("threads"), "{name}");

        let seen = told(base.clone().tuning(tuning.clone()), "tuning");
        assert!(seen.tuning.is_none_or(|used| used == tuning), "{name}: another tuning");
        if name == "to_band" {
            assert!(seen.values != plain.values, "{name}: the tile size does not matter");
        }
        told(base.clone().tuning_table(TuningTable::default()), "tuning_table");
        assert_eq!(refused(run(base.clone().tuning(tuning.clone().tile_size(0)))), Some("tile_size"), "{name}: a tile of 0");

        let stored = run(base.clone().half_storage(HalfStorage::Half));
        match half && call.half {
            true => match stored {
                Ok(seen) => assert!(seen.values != plain.values, "{name}: f16 rounds nothing"),
                Err(SvdError::UnsupportedElement { .. }) if on_gpu => {}
                Err(error) => panic!("{name}: {error}"),
            },
            false => assert_eq!(refused(stored), Some("half_storage"), "{name}"),
        }

        let count = Arc::new(AtomicUsize::new(0));
        let counter = count.clone();
        let options = base.clone().progress(move |_| _ = counter.fetch_add(1, Ordering::Relaxed));
        let stop = CancelFlag::new();
        stop.cancel();
        let stopped = run(base.clone().cancel(stop));
        if call.listens && call.on_gpu {
            told(options, "progress");
            assert!(count.load(Ordering::Relaxed) > 0, "{name}: no progress");
        } else {
            assert_eq!(refused(run(options)), Some("progress"), "{name}");
        }
        if call.listens {
            assert!(matches!(stopped, Err(SvdError::Cancelled { .. })), "{name}: not stopped");
        } else {
            assert_eq!(refused(stopped), Some("cancel"), "{name}");
        }

        let timed = run(base.clone().time_kernels(true));
        match clock && reports {
            true => assert!(timed.unwrap_or_else(|error| panic!("{name}: {error}")).timed, "{name}: no seconds of kernels"),
            false => assert_eq!(refused(timed), Some("time_kernels"), "{name}"),
        }
    }
}

/// Every option of singular values and vectors.
pub fn svd_options(base: &RunOptions, on_gpu: bool) {
    let a = Mat::from_fn(40, 24, |i, j| ((3 * i + 5 * j * j + i * j) % 17) as f32 / 8.0 - 1.0);
    let band = Band::from_fn(24, 5, |i, j| ((2 * i + 7 * j) % 11) as f32 - 5.0).unwrap();
    let with = SvdOptions::from(base.clone());
    let values = |options: &SvdOptions| a.svdvals_gpu_report(options);
    let vectors = |options: &SvdOptions| a.svd_gpu_report(options);
    let both = |options: &SvdOptions, words: &str| {
        let (values, vectors) = (values(options).unwrap(), vectors(options).unwrap());
        for told in [&values.options, &vectors.options] {
            assert!(told.starts_with(words), "{told:?} does not name {words:?}");
        }
        (values, vectors)
    };
    let named = |result: Result<usize>| match result {
        Err(SvdError::InvalidOption { option, .. }) => option,
        other => panic!("{other:?}"),
    };
    let all = values(&with).unwrap().values;
    let (some, svd) = both(&with.clone().keep(3), "keep 3");
    assert_eq!((some.values.nrows(), svd.values.u.ncols(), svd.values.v.ncols()), (3, 3, 3));
    assert!((0..3).all(|k| some.values[k] == all[k]), "other values");
    let least = f64::from(all[5] / all[0]) * (1.0 - 1e-6);
    let (some, svd) = both(&with.clone().tolerance(least), "tolerance");
    assert_eq!((some.values.nrows(), svd.values.s.nrows()), (6, 6));
    for tolerance in [-0.1, 1.1, f64::NAN] {
        let options = with.clone().tolerance(tolerance);
        assert_eq!(named(values(&options).map(|s| s.values.nrows())), "tolerance");
        assert_eq!(named(vectors(&options).map(|svd| svd.values.s.nrows())), "tolerance");
    }

    // A matrix of this size is reduced.
    let three = with.clone().keep(3);
    let (some, svd) = both(&three.clone().accuracy(0.01).seed(5), "keep 3, accuracy 0.01, seed 5");
    assert!(some.iteration.is_some_and(|it| it.reduced) && svd.values.residuals.is_some());
    assert!((0..3).all(|k| (some.values[k] - all[k]).abs() <= 0.01 * all[0]), "other values");
    let refused =
        [with.clone().accuracy(0.01), three.clone().accuracy(0.0), three.clone().accuracy(f64::NAN), three.clone().accuracy(1.5)];
    for options in refused {
        assert_eq!(named(values(&options).map(|s| s.values.nrows())), "accuracy");
        assert_eq!(named(vectors(&options).map(|svd| svd.values.s.nrows())), "accuracy");
    }
    assert_eq!(named(vectors(&three.clone().seed(1)).map(|svd| svd.values.s.nrows())), "seed");
    let options = three.accuracy(0.01);
    assert_eq!(named(svdvals_batch(&[a.as_ref()], &options).map(|s| s.len())), "accuracy");
    assert_eq!(named(svd_batch_report(&[a.as_ref()], &options).map(|svd| svd.values.len())), "accuracy");
    assert_eq!(named(band.svd(&options).map(|svd| svd.1.len())), "accuracy");

    for (vectors_of, shapes) in [(Vectors::Full, (40, 24)), (Vectors::Left, (24, 0)), (Vectors::Right, (0, 24))] {
        let options = with.clone().vectors(vectors_of);
        let report = vectors(&options).unwrap();
        assert_eq!((report.values.u.ncols(), report.values.v.ncols()), shapes);
        assert!(report.options.starts_with(&format!("vectors {vectors_of}")), "{}", report.options);
        assert_eq!(named(values(&options).map(|s| s.values.nrows())), "vectors");
        assert_eq!(named(svdvals_batch(&[a.as_ref()], &options).map(|s| s.len())), "vectors");
    }
    let options = with.clone().signs(Signs::Largest);
    let u = vectors(&options).unwrap().values.u;
    // The first of the largest modulus.
    let largest = |j: usize| u.col(j).iter().fold(0.0f32, |most, &x| if x.abs() > most.abs() { x } else { most });
    assert!((0..24).all(|j| largest(j) > 0.0), "signs");
    assert_eq!(named(values(&options).map(|s| s.values.nrows())), "signs");

    let (one, svd) = both(&with.clone().reduction(Reduction::OneStage), "reduction one_stage");
    assert!(matches!((one.route, svd.route), (Route::OneStage(_), Route::OneStage(_))));
    let (two, svd) = both(&with.clone().reduction(Reduction::TwoStage), "reduction two_stage");
    assert!(matches!((two.route, svd.route), (Route::Band(_), Route::Band(_))));
    assert_eq!(named(band.svd(&with.clone().reduction(Reduction::OneStage)).map(|svd| svd.1.len())), "reduction");
    both(&with.clone().stage3(Stage3::Bisection), "stage3 bisection");
    let on_device = with.clone().stage3(Stage3::Device);
    match on_gpu {
        true => assert!({
            let (values, vectors) = both(&on_device, "stage3 device");
            values.stage3_on_device && vectors.stage3_on_device
        }),
        false => {
            assert_eq!(named(values(&on_device).map(|s| s.values.nrows())), "stage3");
            assert_eq!(named(vectors(&on_device).map(|svd| svd.values.s.nrows())), "stage3");
            assert_eq!(named(svdvals_batch(&[a.as_ref()], &on_device).map(|s| s.len())), "stage3");
        }
    }
}

/// Every option of QR factorisations and of least squares. `products` is whether the device multiplies by low precision.
pub fn factor_options(base: &RunOptions, products: bool) {
    // Column 20 is long; else the condition number is about 100.
    let a = Mat::from_fn(40, 24, |i, j| (((3 * i + 1) * (j + 2)) as f32).sin() + if j == 20 { 30.0 } else { 0.0 });
    let b = Mat::from_fn(40, 1, |i, _| (i % 5) as f32);
    let named = |result: Result<usize>| match result {
        Err(SvdError::InvalidOption { option, .. }) => option,
        other => panic!("{other:?}"),
    };
    let told = |told: &str, words: &str| assert!(told.starts_with(words), "{told:?} does not name {words:?}");
    let with = QrOptions::from(base.clone());
    let report = a.qr_gpu_report(&with.clone().pivot(true)).unwrap();
    told(&report.options, "pivot");
    assert_eq!(report.values.order().map(|order| order[0]), Some(20));
    let report = a.qr_gpu_report(&with.clone().tolerance(0.5)).unwrap();
    told(&report.options, "tolerance 0.5");
    assert!(report.values.rank() < 24);
    assert_eq!(named(a.qr_r_gpu_with(&with.clone().tolerance(0.5)).map(|r| r.nrows())), "tolerance");
    assert_eq!(named(a.qr_gpu_with(&with.clone().tolerance(f64::NAN)).map(|_| 0)), "tolerance");
    let positive = with.clone().positive_diagonal(true);
    let report = a.qr_gpu_report(&positive).unwrap();
    told(&report.options, "positive_diagonal");
    let (r, alone) = (report.values.r(), a.qr_r_gpu_with(&positive).unwrap());
    assert!((0..24).all(|k| r[(k, k)] >= 0.0 && alone[(k, k)] >= 0.0));
    let half = with.clone().products(Products::Half);
    match products {
        true => {
            let report = a.qr_gpu_report(&half).unwrap();
            told(&report.options, "products half");
            assert_eq!(report.route, Route::Qr(Orthogonal::Recursive(Products::Half)));
        }
        false => assert_eq!(named(a.qr_gpu_with(&half).map(|_| 0)), "products"),
    }
    let wide = Mat::from_fn(40, 24, |i, j| f64::from(a[(i, j)]));
    assert_eq!(named(wide.qr_gpu_with(&half).map(|_| 0)), "products");

    let with = LstsqOptions::from(base.clone());
    let solve = |options: &LstsqOptions, words: &str| {
        let report = a.lstsq_gpu_report(&b, options).unwrap();
        told(&report.options, words);
        report
    };
    let plain = a.lstsq_gpu_with(&b, &with).unwrap();
    assert!(plain.singular_values.is_none() && plain.rank == 24);
    assert!(solve(&with.clone().tolerance(0.1), "tolerance 0.1").values.rank < 24);
    assert!(
        solve(&with.clone().tolerance(0.1).preconditioner(Preconditioner::Half), "tolerance 0.1, preconditioner half")
            .values
            .rank
            < 24
    );
    assert!(solve(&with.clone().ridge(100.0), "ridge 100").values.x.norm_l2() < 0.9 * plain.x.norm_l2());
    assert!(solve(&with.clone().singular_values(true), "singular_values").values.singular_values.is_some_and(|s| s.len() == 24));
    for preconditioner in [Preconditioner::Single, Preconditioner::Half] {
        let report = a.lstsq_gpu_report(&b, &with.clone().preconditioner(preconditioner));
        match report {
            Ok(report) => {
                told(&report.options, &format!("preconditioner {preconditioner}"));
                assert_eq!(report.route, Route::LeastSquares(Solver::Preconditioned));
            }
            Err(SvdError::UnsupportedElement { element: "f16", .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(
        named(a.lstsq_gpu_with(&b, &with.clone().preconditioner(Preconditioner::Resident)).map(|fit| fit.rank)),
        "preconditioner"
    );
    let half = with.clone().products(Products::Half);
    match products {
        true => assert_eq!(solve(&half, "products half").route, Route::LeastSquares(Solver::Recursive(Products::Half))),
        false => assert_eq!(named(a.lstsq_gpu_with(&b, &half).map(|fit| fit.rank)), "products"),
    }
    assert_eq!(named(a.transpose().lstsq_gpu_with(&Mat::<f32>::zeros(24, 1), &half).map(|fit| fit.rank)), "products");
    for (bad, option) in
        [(with.clone().ridge(-1.0), "ridge"), (with.clone().ridge(f64::NAN), "ridge"), (with.clone().tolerance(2.0), "tolerance")]
    {
        assert_eq!(named(a.lstsq_gpu_with(&b, &bad).map(|fit| fit.rank)), option);
    }
}
