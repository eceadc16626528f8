//! Absurd numbers in options and arguments: as in `absurd.rs`.

use std::{env, fs};

use faer::Mat;
use svdvals_gpu::{
    Backend, Band, Element, LstsqGpu, LstsqOptions, Number, Preconditioner, QrGpu, QrOptions, RowBlocks, SvdError, SvdGpu,
    SvdOptions, SvdValsGpu, Tuning, leading_svd, svd_batch, svdvals_batch,
    triangular::{Diag, Op, Side, TriangularGpu, Uplo},
};

use crate::{
    absurd::{Problem, REALS, at_once, checks, cpu, is_right, names},
    absurd_numbers::NUMBERS,
    common::{eps, gaussian, widen},
    own_process,
};

/// The matrix in the type of its arithmetic, as an operator.
fn widened<T: Element>(a: &Mat<T>) -> Mat<f64> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)].to_complex().re)
}

/// `keep` is cut to what there is, and 0 leaves nothing. A tolerance is between 0 and 1.
#[test]
fn keep_and_tolerance() {
    fn of_type<T: Element>() {
        let a = gaussian::<T>(40, 24, 7);
        for keep in NUMBERS {
            let svd = at_once("keep", || a.svd_gpu_with(&cpu().keep(keep))).unwrap();
            assert_eq!((svd.u.ncols(), svd.s.nrows(), svd.v.ncols()), (keep.min(24), keep.min(24), keep.min(24)));
            assert_eq!(svd_batch(&[a.as_ref()], &cpu().keep(keep)).unwrap()[0].s.nrows(), keep.min(24));
            let few = cpu().keep(keep).accuracy(0.1).seed(keep as u64);
            assert_eq!(at_once("keep", || a.svd_gpu_with(&few)).unwrap().s.nrows(), keep.min(24));
            let found = at_once("k", || leading_svd(&widened(&a), keep, &SvdOptions::default().accuracy(0.1))).unwrap();
            assert_eq!(found.s.len(), keep.min(24));
        }
        for tolerance in REALS {
            let call = cpu().tolerance(tolerance);
            let is_relative = (0.0..=1.0).contains(&tolerance);
            let found = [
                at_once("tolerance", || a.svd_gpu_with(&call).map(drop)),
                at_once("tolerance", || a.qr_gpu_with(&QrOptions::from(call.run.clone()).tolerance(tolerance)).map(drop)),
                at_once("tolerance", || {
                    a.lstsq_gpu_with(&a, &LstsqOptions::from(call.run.clone()).tolerance(tolerance)).map(drop)
                }),
                at_once("tolerance", || svd_batch(&[a.as_ref()], &call).map(drop)),
            ];
            for found in found {
                match found {
                    Ok(()) => assert!(is_relative, "{tolerance}"),
                    Err(error) => {
                        assert!(!is_relative, "{tolerance}");
                        names("tolerance", &error, &["tolerance"]);
                    }
                }
            }
            let few = cpu().keep(3).accuracy(tolerance);
            let operators = SvdOptions::default().accuracy(tolerance);
            for found in [
                at_once("accuracy", || a.svd_gpu_with(&few).map(drop)),
                at_once("accuracy", || leading_svd(&widened(&a), 3, &operators).map(drop)),
            ] {
                match found {
                    Ok(()) => assert!(tolerance > 0.0 && tolerance <= 1.0, "{tolerance}"),
                    Err(SvdError::NotReached { .. }) => assert!(tolerance > 0.0 && tolerance < 1e-6, "{tolerance}"),
                    Err(error) => {
                        assert!(!(tolerance > 0.0 && tolerance <= 1.0), "{tolerance}");
                        names("accuracy", &error, &["accuracy"]);
                    }
                }
            }
            let rows = RowBlocks::<T>::with_right_sides(3, 1).unwrap();
            assert_eq!(rows.solve_faer(Some(tolerance)).is_ok(), is_relative);
        }
    }
    of_type::<f32>();
    of_type::<f64>();
}

/// A ridge is right, or an error that names it, beside matrices at both ends of the range and on every route. Double precision has room for each.
#[test]
fn ridge() {
    fn of_type<T: Element>(largest: f64) {
        for (m, n) in [(40, 24), (300, 20), (9000, 12)] {
            let one = gaussian::<T>(m, n, 7);
            for size in [1.0, largest, 1.0 / largest] {
                let a = Mat::from_fn(m, n, |i, j| T::from_complex(one[(i, j)].to_complex() * size));
                let b = gaussian::<T>(m, 1, 9);
                let c = gaussian::<T>(n, 1, 9);
                for ridge in REALS.into_iter().chain([1e20, 1e60, 1e111, 1e113, 1e154, 1e308]) {
                    for preconditioner in [Preconditioner::Full, Preconditioner::Single] {
                        let what = format!("ridge {ridge:e}, {} {m} x {n} of {size:e}, {preconditioner}", T::NAME);
                        let call = LstsqOptions::from(cpu().run).ridge(ridge).preconditioner(preconditioner);
                        let tall = at_once(&what, || a.lstsq_gpu_with(&b, &call));
                        let wide = at_once(&what, || {
                            a.transpose().lstsq_gpu_with(&c, &call.clone().preconditioner(Preconditioner::Full))
                        });
                        for (a, b, fit) in [(a.as_ref(), &b, tall), (a.transpose(), &c, wide)] {
                            let is_penalty = ridge.is_finite() && ridge >= 0.0;
                            let has_room = is_penalty && (T::NAME == "f64" || ridge < 1e112);
                            match fit {
                                Ok(fit) => {
                                    assert!(is_penalty, "{what}");
                                    let x: Vec<f64> = fit.x.col(0).iter().map(|x| x.to_complex().re).collect();
                                    // What remains where the ridge is all that counts: A^H B / ridge.
                                    if ridge >= 1e20 && size == 1.0 {
                                        let scaled = |j: usize| {
                                            let sum: f64 = (0..a.nrows())
                                                .map(|i| (a[(i, j)].to_complex() * b[(i, 0)].to_complex()).re)
                                                .sum();
                                            sum / ridge
                                        };
                                        for (j, x) in x.iter().enumerate() {
                                            let smallest = if T::NAME == "f64" { 1e-300 } else { 1e-37 };
                                            let off = (x - scaled(j)).abs();
                                            // A backward stable method is off by eps ||B|| / sqrt(ridge).
                                            let most = 1e-3 * scaled(j).abs()
                                                + smallest
                                                + 16.0 * eps::<T>() * widen(b.as_ref()).norm_l2() / ridge.sqrt();
                                            assert!(off <= most, "{what}: {x:e} {:e}", scaled(j));
                                        }
                                    }
                                    assert!(x.iter().all(|x| x.is_finite()), "{what}");
                                }
                                Err(error @ SvdError::InvalidOption { .. }) => {
                                    names(&what, &error, &["ridge"]);
                                    assert!(!has_room, "{what}: {error}");
                                }
                                // The solution without a ridge to speak of.
                                // The solution, or R of a wide matrix, without a ridge to speak of.
                                Err(SvdError::Overflow { .. }) if size != 1.0 && ridge < 1.0 => {}
                                other => panic!("{what}: {other:?}"),
                            }
                        }
                    }
                }
            }
        }
    }
    of_type::<f32>(1e37);
    of_type::<f64>(1e300);
}

/// The threads of this process.
#[cfg(target_os = "linux")]
fn threads_here() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

#[cfg(not(target_os = "linux"))]
fn threads_here() -> usize {
    0
}

/// A number of threads beyond the limit is an error before any thread is made; up to it there are as many, and a few of other pools.
#[test]
fn threads() {
    if !own_process::is_own("absurd_options::threads") {
        return;
    }
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    let most = (8 * processors).max(64);
    let a = gaussian::<f32>(300, 200, 3);
    let band = SvdValsGpu::to_band(&a, &cpu().run).unwrap();
    // First without devices, whose drivers have threads of their own. Those of the pools before, 1 + 7, may not have ended yet.
    let (before, common) = (threads_here(), rayon::current_num_threads() + 8);
    let banded = Tuning::for_cpu::<f32>(200).direct_up_to(0);
    let [one, exact] = [cpu().tuning(banded.clone()), cpu()].map(|call| a.svdvals_gpu_with(&call).unwrap());
    for threads in [1, 7, most] {
        let call = cpu().threads(threads);
        assert!(at_once("threads", || a.svdvals_gpu_with(&call.clone().tuning(banded.clone()))).unwrap() == one);
        assert!(threads_here() <= before + common + threads, "{} threads for {threads}", threads_here());
        let many = vec![a.as_ref(); 20];
        assert!(at_once("batch", || svdvals_batch(&many, &call)).unwrap().iter().all(|found| *found == exact));
    }
    for threads in [0, 20_000, 1_000_000, most + 1].into_iter().chain(NUMBERS).filter(|&count| count == 0 || count > most) {
        for backend in [Backend::Cpu, Backend::Auto, Backend::Gpu] {
            let call = SvdOptions::default().backend(backend).threads(threads);
            let mut x = a.clone();
            let (one, triangle) = (1.0, Mat::<f32>::identity(200, 200));
            let (side, uplo, op, diag) = (Side::Right, Uplo::Upper, Op::NoTrans, Diag::NonUnit);
            let found = [
                at_once("values", || a.svdvals_gpu_with(&call).map(drop)),
                at_once("awaited", || pollster::block_on(a.svdvals_gpu_async(&call)).map(drop)),
                at_once("vectors", || a.svd_gpu_with(&call).map(drop)),
                at_once("vectors awaited", || pollster::block_on(a.svd_gpu_async(&call)).map(drop)),
                at_once("qr", || a.qr_gpu_with(&call.run.clone().into()).map(drop)),
                at_once("r", || a.qr_r_gpu_with(&call.run.clone().into()).map(drop)),
                at_once("qr awaited", || pollster::block_on(a.qr_gpu_async(&call.run.clone().into())).map(drop)),
                at_once("least squares", || a.lstsq_gpu_with(&a, &call.run.clone().into()).map(drop)),
                at_once("least squares awaited", || {
                    pollster::block_on(a.lstsq_gpu_async(&a, &call.run.clone().into())).map(drop)
                }),
                at_once("batch", || svdvals_batch(&[a.as_ref()], &call).map(drop)),
                at_once("batch of vectors", || svd_batch(&[a.as_ref()], &call).map(drop)),
                at_once("batch awaited", || pollster::block_on(svdvals_gpu::svdvals_batch_async(&[a.as_ref()], &call)).map(drop)),
                at_once("stage 1", || SvdValsGpu::to_band(&a, &call.run).map(drop)),
                at_once("stage 2", || band.band_to_bidiag(&call.run).map(drop)),
                at_once("band", || band.svd(&call).map(drop)),
                at_once("triangle", || x.trsm_gpu_with(side, uplo, op, diag, one, &triangle, &call.run)),
            ];
            for (k, found) in found.into_iter().enumerate() {
                match found {
                    Err(error @ SvdError::InvalidOption { .. }) => {
                        names("threads", &error, &["threads"]);
                        let says = error.to_string();
                        assert!(
                            threads == 0 || says.contains(&most.to_string()) && says.contains(&processors.to_string()),
                            "{says}"
                        );
                    }
                    // The search for a device comes first.
                    Err(SvdError::NoAdapter { .. }) if backend == Backend::Gpu => {}
                    other => panic!("{k}: {threads} threads, {backend}: {other:?}"),
                }
            }
        }
    }
}

/// Where the system has no thread for a pool, a call that asks for one is an error, and others compute on their own thread.
#[test]
fn no_threads() {
    const NAME: &str = "absurd_options::no_threads";
    const CASE: &str = "SVDVALS_GPU_TEST_CASE";
    if env::var(CASE).is_err() {
        // No stack is that large, and with one thread for its tests a test program makes none.
        let stack = (1u64 << 46).to_string();
        return own_process::run(NAME, [(CASE, "none"), ("RUST_MIN_STACK", &stack), ("RUST_TEST_THREADS", "1")]);
    }
    assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "a thread with a stack of 64 TiB");
    let a = gaussian::<f64>(300, 260, 3);
    names("2 threads", &a.svdvals_gpu_with(&cpu().threads(2)).unwrap_err(), &["threads"]);
    // For the test's own products.
    faer::set_global_parallelism(faer::Par::Seq);
    for of in [Problem::<f64>::new(300, 260), Problem::new(3000, 20)] {
        for check in checks::<f64>() {
            assert!(is_right("on one thread", check, &of, &cpu(), &[]));
        }
    }
    let awaited = pollster::block_on(a.svdvals_gpu_async(&cpu())).unwrap();
    assert!(awaited == a.svdvals_gpu_with(&cpu()).unwrap());
    let many: Vec<_> = (0..40).map(|_| a.as_ref().subcols(0, 230)).collect();
    assert_eq!(svdvals_batch(&many, &cpu()).unwrap().len(), 40);
    let mut rows = RowBlocks::<f64>::with_right_sides(20, 1).unwrap();
    rows.push_with(&a.as_ref().subcols(0, 20), &a.as_ref().subcols(20, 1)).unwrap();
    assert!(rows.solve_faer(None).is_ok() && rows.finish_faer().is_ok());
}

/// A caller's pool with more threads than there are processors.
#[test]
fn a_large_pool_of_the_caller() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(200).build().unwrap();
    let a = gaussian::<f32>(300, 260, 3);
    let one = a.svdvals_gpu_with(&cpu()).unwrap();
    assert!(at_once("a pool of 200", || pool.install(|| a.svdvals_gpu_with(&cpu()))).unwrap() == one);
}

/// The shapes and numbers that functions take beside options.
#[test]
fn arguments() {
    for x in NUMBERS {
        for y in NUMBERS {
            let what = format!("{x}, {y}");
            // What takes long is left out: to make entries in between.
            let entries = x.saturating_mul(y.min(x).saturating_add(1));
            if !(1 << 22..1 << 40).contains(&entries) {
                match at_once(&what, || Band::from_fn(x, y, |i, j| (i + j) as f32)) {
                    Ok(band) => {
                        for width in NUMBERS {
                            let steps = at_once(&what, || band.chase_steps(width)).map(|steps| steps.n());
                            assert!(steps.as_ref().is_ok_and(|n| *n == x) || width == 0, "{what}: {steps:?}");
                        }
                    }
                    Err(error) => {
                        assert!(matches!(error, SvdError::InvalidOption { .. } | SvdError::OutOfMemory { .. }), "{what}: {error}")
                    }
                }
            }
            match at_once(&what, || RowBlocks::<f64>::with_right_sides(x, y)) {
                Ok(rows) => assert_eq!((rows.columns(), rows.right_sides()), (x, y)),
                Err(error) => {
                    assert!(matches!(error, SvdError::InvalidOption { .. } | SvdError::OutOfMemory { .. }), "{what}: {error}")
                }
            }
        }
    }
    let a = gaussian::<f32>(40, 24, 7);
    let c = SvdValsGpu::to_band(&a, &cpu().run).unwrap().band_to_bidiag(&cpu().run).unwrap();
    for k in NUMBERS {
        assert_eq!(at_once("k", || c.svd_leading(k)).unwrap().0.ncols(), k.min(24));
        assert!(Tuning::for_cpu::<f64>(k).check().is_ok());
    }
}
