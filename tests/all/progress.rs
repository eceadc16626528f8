//! Progress and cancellation on the CPU backend. (On the GPU: `tests/gpu/waits.rs`.)

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
};

use faer::Mat;
use half::f16;
use num_complex::Complex;
use svdvals_gpu::{
    Backend, CancelFlag, Element, HalfStorage, Progress, Result, Stage, Stage3, SvdError, SvdOptions, SvdValsGpu, Tuning,
};

use crate::common::gaussian;

fn cpu() -> SvdOptions {
    SvdOptions::default().backend(Backend::Cpu)
}

/// What a call's callback is told.
fn told<R>(options: SvdOptions, call: impl FnOnce(&SvdOptions) -> Result<R>) -> (Result<R>, Vec<Progress>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    let result = call(&options.progress(move |progress| told.lock().unwrap().push(progress)));
    let seen = seen.lock().unwrap().clone();
    (result, seen)
}

/// Fractions and seconds never fall, stages come in order, the last fraction is 1 and no other is, and each stage in `whole` is told of
/// from its beginning to 0.95 of it at the least: its kernels are few enough that one of them is no more than a twentieth.
fn check_course(name: &str, seen: &[Progress], whole: &[Stage]) {
    let (last, before) = seen.split_last().unwrap_or_else(|| panic!("{name}: nothing was told"));
    assert_eq!((last.fraction, last.stage_fraction), (1.0, 1.0), "{name}");
    assert!(before.iter().all(|p| (0.0..=1.0).contains(&p.fraction) && (0.0..=1.0).contains(&p.stage_fraction)), "{name}");
    assert!(
        seen.is_sorted_by(|a, b| a.fraction <= b.fraction && a.stage <= b.stage && a.seconds <= b.seconds),
        "{name}: {seen:?}"
    );
    assert!(seen.len() <= 1003, "{name}: {} calls, for a thousand steps, the start of the last stage and the end", seen.len());
    for &stage in whole {
        let of_stage: Vec<_> = seen.iter().filter(|p| p.stage == stage).collect();
        let most = of_stage.iter().map(|p| p.stage_fraction).fold(0.0, f64::max);
        assert!(of_stage.len() > 5 && most >= 0.95, "{name}, {stage}: {} calls, up to {most}", of_stage.len());
    }
}

/// Progress of whole calls and of single stages, of every route through the CPU backend.
#[test]
fn fractions_follow_the_work() {
    use Stage::{BandToBidiag, ToBand};
    fn whole<T: Element>(m: usize, n: usize, options: SvdOptions, stages: &[Stage]) {
        let a = gaussian::<T>(m, n, 7);
        let (values, seen) = told(options.clone(), |options| a.svdvals_gpu_with(options));
        assert_eq!(values.unwrap(), a.svdvals_gpu_with(&options).unwrap(), "who is told changes no value");
        check_course(&format!("{} {m} x {n}", T::NAME), &seen, stages);
    }
    let banded = Tuning::for_cpu::<f64>(400).direct_up_to(0).tile_size(8).leaf(64).tile_width(4);
    for threads in [1, 3] {
        let options = || cpu().threads(threads).tuning(banded.clone());
        whole::<f64>(400, 400, options(), &[ToBand, BandToBidiag]);
        whole::<f32>(700, 300, options(), &[ToBand, BandToBidiag]);
        whole::<Complex<f32>>(250, 400, options(), &[ToBand, BandToBidiag]);
        whole::<f16>(300, 300, options().half_storage(HalfStorage::Half), &[ToBand, BandToBidiag]);
        whole::<f64>(60_000, 24, cpu().threads(threads), &[ToBand]);
        whole::<f32>(150, 150, cpu().threads(threads), &[]);
    }
    whole::<f64>(1, 1, cpu(), &[]);
    whole::<f64>(0, 5, cpu(), &[]);

    let a = gaussian::<f64>(400, 400, 7);
    let (band, seen) = told(cpu().tuning(banded.clone()), |options| a.to_band(&options.run));
    check_course("to_band", &seen, &[ToBand]);
    let (bidiagonal, seen) = told(cpu().tuning(banded), |options| band.unwrap().band_to_bidiag(&options.run));
    bidiagonal.unwrap();
    check_course("band_to_bidiag", &seen, &[BandToBidiag]);
}

/// A call whose flag is set while it is in a stage ends with [`SvdError::Cancelled`] that names the stage, tells nothing more after the
/// threads that were telling, and the next call gives the values that it would have given. Stage 3 by bisection stops on its way
/// too, soon after it is told: a round is about a fiftieth of it, and progress is told in steps.
#[test]
fn a_cancelled_call_stops() {
    let a = gaussian::<f64>(400, 400, 7);
    let tuning = Tuning::for_cpu::<f64>(400).direct_up_to(0).tile_size(8).leaf(64).tile_width(4);
    for threads in [1, 3] {
        let options = cpu().threads(threads).tuning(tuning.clone());
        let values = a.svdvals_gpu_with(&options).unwrap();
        for (stage, at) in [(Stage::ToBand, 0.3), (Stage::BandToBidiag, 0.4), (Stage::Svdvals, 0.0)] {
            let flag = CancelFlag::new();
            let (seen, set) = (Arc::new(Mutex::new(Vec::new())), flag.clone());
            let told = seen.clone();
            let options = options.clone().cancel(flag.clone()).progress(move |progress| {
                if progress.stage == stage && progress.stage_fraction >= at {
                    set.cancel();
                }
                told.lock().unwrap().push(progress);
            });
            let result = a.svdvals_gpu_with(&options);
            assert_eq!(result.as_ref().err(), Some(&SvdError::Cancelled { stage }), "{threads} threads");
            assert!(flag.is_cancelled());
            let after = seen.lock().unwrap().iter().filter(|p| p.stage == stage && p.stage_fraction >= at).count();
            assert!((1..=threads).contains(&after), "{stage}: {after} calls, with {threads} threads");
        }
        assert_eq!(a.svdvals_gpu_with(&options.clone().cancel(CancelFlag::new())).unwrap(), values);
        // Bisection as stage 3, half way through it.
        let flag = CancelFlag::new();
        let (seen, set) = (Arc::new(Mutex::new(0.0)), flag.clone());
        let told = seen.clone();
        let stopping = options.clone().stage3(Stage3::Bisection).cancel(flag).progress(move |progress| {
            if progress.stage == Stage::Svdvals {
                *told.lock().unwrap() = progress.stage_fraction;
                if progress.stage_fraction >= 0.5 {
                    set.cancel();
                }
            }
        });
        let error = a.svdvals_gpu_with(&stopping).err();
        assert_eq!(error, Some(SvdError::Cancelled { stage: Stage::Svdvals }));
        let at = *seen.lock().unwrap();
        assert!((0.5..0.8).contains(&at), "stopped after {at} of it");
    }
    // Set before: nothing is computed, on any route.
    let flag = CancelFlag::new();
    flag.cancel();
    let small = Mat::<f32>::identity(4, 4);
    let cancelled = |error: SvdError| assert!(matches!(error, SvdError::Cancelled { .. }), "{error}");
    cancelled(small.svdvals_gpu_with(&cpu().cancel(flag.clone())).unwrap_err());
    cancelled(gaussian::<f32>(50_000, 8, 1).svdvals_gpu_with(&cpu().cancel(flag.clone())).unwrap_err());
    cancelled(a.to_band(&cpu().cancel(flag.clone()).run).unwrap_err());
    let band = a.to_band(&cpu().run).unwrap();
    cancelled(band.band_to_bidiag(&cpu().cancel(flag).run).unwrap_err());
}

/// A callback that panics takes its call with it, in stage 2 too, where threads wait for one another: none of them for ever, and the next call
/// works.
#[test]
fn a_panic_in_the_callback_ends_the_call() {
    let a = gaussian::<f32>(300, 300, 7);
    let tuning = Tuning::for_cpu::<f32>(300).direct_up_to(0).tile_size(8).leaf(64).tile_width(4);
    let stages = [Stage::ToBand, Stage::BandToBidiag, Stage::Svdvals];
    for (stage, options) in stages.into_iter().flat_map(|stage| [(stage, cpu().threads(3)), (stage, cpu())]) {
        let options = options.tuning(tuning.clone());
        let panicking = options.clone().progress(move |progress| {
            assert!(progress.stage != stage || progress.stage_fraction < 0.2, "the callback's own");
        });
        let result = catch_unwind(AssertUnwindSafe(|| a.svdvals_gpu_with(&panicking)));
        assert!(result.is_err(), "{stage}: {result:?}");
        assert_eq!(a.svdvals_gpu_with(&options).unwrap().nrows(), 300);
    }
}

/// The future gives what the blocking call gives, to the last bit, from any thread, and only once it is polled.
#[test]
fn the_future_gives_the_same_values() {
    fn same<T: Element>(m: usize, n: usize) {
        let a = gaussian::<T>(m, n, 11);
        let options = cpu();
        let values = a.svdvals_gpu_with(&options).unwrap();
        let (report, again) = std::thread::scope(|scope| {
            let task = a.svdvals_gpu_async(&options);
            let again = scope.spawn(|| pollster::block_on(task));
            (pollster::block_on(a.svdvals_gpu_report_async(&options)).unwrap(), again.join().unwrap().unwrap())
        });
        assert_eq!((&report.values, &again), (&values, &values), "{}", T::NAME);
        assert_eq!((report.shape, report.backend), ((m, n), Backend::Cpu));
        assert!(report.seconds.total > 0.0);
    }
    same::<f32>(300, 280);
    same::<f64>(40, 90);
    same::<Complex<f64>>(60, 60);
    same::<f16>(50, 40);

    let mut a = gaussian::<f32>(30, 20, 3);
    a[(7, 5)] = f32::NAN;
    let (flag, options) = (CancelFlag::new(), cpu());
    let error = pollster::block_on(a.svdvals_gpu_async(&options)).unwrap_err();
    assert!(matches!(error, SvdError::NonFinite { row: 7, col: 5, .. }), "{error}");
    let options = options.cancel(flag.clone()).progress(|_| panic!("told of before it was polled"));
    drop(a.svdvals_gpu_async(&options));
    flag.cancel();
    assert!(flag.is_cancelled());
}
