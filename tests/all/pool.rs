//! Which thread works: a call goes to the rayon pool once, and one call at a time. Each test has a process of its own, since the calls of others
//! would be in the pool, too.

use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use faer::Mat;
use half::f16;
use ndarray::Array3;
use num_complex::Complex;
use rayon::{ThreadPoolBuilder, prelude::*};
use svdvals_gpu::{
    Backend, Element, LstsqGpu, QrGpu, Route, RowBlocks, Solver, SvdGpu, SvdOptions, SvdValsBatchGpu, SvdValsGpu, Tuning,
};

use crate::{common::gaussian, own_process::is_own};

fn cpu() -> SvdOptions {
    SvdOptions::default().backend(Backend::Cpu)
}

/// Whether the thread is one of the pool's.
fn in_pool() -> bool {
    rayon::current_thread_index().is_some()
}

/// For every step that a call tells of, whether it was told of on a thread of the pool. After a loop that was handed over to the pool, that is
/// a thread outside of it.
fn steps(n: usize, call: impl FnOnce(&Mat<f64>, &SvdOptions)) -> Vec<bool> {
    let steps = Arc::new(Mutex::new(Vec::new()));
    let told = steps.clone();
    call(&gaussian::<f64>(n, n, 3), &cpu().progress(move |_| told.lock().unwrap().push(in_pool())));
    let steps = steps.lock().unwrap().clone();
    assert!(steps.len() > 4);
    steps
}

/// A call from outside of the pool is there from stage 1 to its end, and so is each stage alone but for its begin and end. A small matrix stays on
/// the thread that it is on. While one call is in the pool another stays on its thread: the pool's threads, waiting, might take it up whole,
/// and keep the first one waiting.
#[test]
fn a_call_goes_to_the_pool_once_and_one_at_a_time() {
    if !is_own("pool::a_call_goes_to_the_pool_once_and_one_at_a_time") {
        return;
    }
    let whole = |a: &Mat<f64>, options: &SvdOptions| _ = a.svdvals_gpu_with(options).unwrap();
    assert!(steps(400, whole).iter().all(|&inside| inside));
    assert!(steps(200, whole).iter().all(|&inside| !inside));
    let stages = |a: &Mat<f64>, options: &SvdOptions| _ = a.to_band(&options.run).unwrap().band_to_bidiag(&options.run).unwrap();
    assert!(steps(400, stages).iter().filter(|&&inside| !inside).count() <= 4, "the beginnings and ends of two stages");

    // The first call waits in its first step until the second one has told of its own. 250 x 250 entries are scaled on one thread, so that this
    // needs no second thread of the pool.
    let (there, first_is_there) = mpsc::channel();
    let (go_on, second_has_begun) = mpsc::channel::<()>();
    let (there, second_has_begun) = (Mutex::new(there), Mutex::new(second_has_begun));
    let first = cpu().progress(move |_| {
        _ = there.lock().unwrap().send(in_pool());
        _ = second_has_begun.lock().unwrap().recv();
    });
    let begun = Arc::new(Mutex::new((Vec::new(), Some(go_on))));
    let told = begun.clone();
    let second = cpu().tuning(Tuning::for_cpu::<f64>(250).direct_up_to(0)).progress(move |_| {
        let (inside, go_on) = &mut *told.lock().unwrap();
        inside.push(in_pool());
        drop(go_on.take());
    });
    let a = gaussian::<f64>(250, 250, 5);
    thread::scope(|scope| {
        scope.spawn(|| a.svdvals_gpu_with(&first).unwrap());
        assert_eq!(first_is_there.recv(), Ok(true));
        assert_eq!(a.svdvals_gpu_with(&second).unwrap().nrows(), 250);
    });
    assert!(!begun.lock().unwrap().0[0], "the second call began on its own thread");
}

/// A small matrix takes one thread from stage 0 to stage 3, since waking others would take longer: it is done while all of the pool's are stuck.
#[test]
fn small_matrices_need_no_pool() {
    fn values_of<T: Element>(n: usize) -> usize {
        let a = gaussian::<T>(n, n, 13);
        a.svdvals_gpu_with(&cpu()).unwrap().nrows() + a.transpose().svdvals_gpu_with(&cpu()).unwrap().nrows()
    }
    if !is_own("pool::small_matrices_need_no_pool") {
        return;
    }
    let gate = Arc::new(Mutex::new(()));
    let (tell, told) = mpsc::channel();
    let closed = gate.lock();
    let stuck = gate.clone();
    rayon::spawn_broadcast(move |_| drop(stuck.lock()));
    thread::spawn(move || {
        for n in [1, 60, 200, 224] {
            let values = [values_of::<f32>(n), values_of::<f64>(n), values_of::<f16>(n), values_of::<Complex<f64>>(n)];
            assert_eq!(values, [2 * n; 4]);
        }
        tell.send(())
    });
    told.recv_timeout(Duration::from_secs(60)).expect("a second's work");
    drop(closed);
}

/// The threads that a call asks for are as many as it asks for, its own, and kept for the next call, also where one with other threads, or one
/// that was stopped by a panic, came between: new ones each time would be new threads, with nothing in their caches and no memory at hand.
#[test]
fn threads_are_kept() {
    if !is_own("pool::threads_are_kept") {
        return;
    }
    let a = gaussian::<f64>(300, 300, 17);
    let threads_of = |threads: usize, calls: usize| {
        let seen = Arc::new(Mutex::new(HashSet::new()));
        let told = seen.clone();
        let options = cpu().threads(threads).progress(move |_| {
            assert_eq!(rayon::current_num_threads(), threads);
            told.lock().unwrap().insert(thread::current().id());
        });
        (0..calls).for_each(|_| _ = a.svdvals_gpu_with(&options).unwrap());
        seen.lock().unwrap().clone()
    };
    let two = threads_of(2, 10);
    assert!(two.len() <= 2, "{two:?}");
    let three = threads_of(3, 10);
    assert!(three.len() <= 3 && three.is_disjoint(&two), "{three:?}");
    let panicking = cpu().threads(3).progress(|_| panic!("the callback's own"));
    assert!(catch_unwind(AssertUnwindSafe(|| a.svdvals_gpu_with(&panicking))).is_err());
    assert!(threads_of(3, 10).len() <= 3);
}

/// Checks that `of` gives for more threads than the machine has cores what it gives for one, bit for bit.
fn same_on_any<R: PartialEq>(what: &str, threads: impl IntoIterator<Item = usize>, of: impl Fn(usize) -> R) {
    let one = of(1);
    for threads in threads {
        assert!(of(threads) == one, "{what}, {threads} threads");
    }
}

/// With more threads than the machine has cores, and more than bulge chasing has work for, every result is bitwise that of one thread: a column's
/// arithmetic depends on its place alone. Small matrices are sent through the band too.
#[test]
fn more_threads_than_cores() {
    fn of_type<T: Element>(n: usize) {
        let a = gaussian::<T>(n, n, 19);
        same_on_any(&format!("{}, n = {n}", T::NAME), [2, 5, 16, 64], |threads| {
            let options = cpu().threads(threads).tuning(Tuning::for_cpu::<T>(n).direct_up_to(0));
            let svd = a.svd_gpu_with(&options).unwrap();
            (a.svdvals_gpu_with(&options).unwrap(), svd.u, svd.v, a.qr_r_gpu_with(&options.run.clone().into()).unwrap())
        });
    }
    if !is_own("pool::more_threads_than_cores") {
        return;
    }
    for n in [40, 130, 300] {
        of_type::<f32>(n);
        of_type::<Complex<f64>>(n);
    }
}

/// So is a least squares solution, with its residuals and its backward error, by each solver: sums over rows have parts that depend on the shape
/// alone, and are added in order. One right-hand side takes products of vectors, ten take those of matrices.
#[test]
fn least_squares_on_more_threads() {
    fn of_type<T: Element>(m: usize, n: usize, rank: usize, solver: Solver) {
        let a = gaussian::<T>(m, n, 23);
        // The columns from `rank` on are those before once more.
        let a = Mat::from_fn(m, n, |i, j| a[(i, j % rank)]);
        let what = format!("{}, {m} x {n} of rank {rank}", T::NAME);
        for p in [1, 10] {
            let b = gaussian::<T>(m, p, 29);
            let route = a.lstsq_gpu_report(&b, &cpu().run.clone().into()).unwrap().route;
            assert!(route == Route::LeastSquares(solver), "{what}: {route}");
            same_on_any(&what, [5, 64], |threads| a.lstsq_gpu_with(&b, &cpu().threads(threads).run.clone().into()).unwrap());
        }
    }
    if !is_own("pool::least_squares_on_more_threads") {
        return;
    }
    for (m, n, rank, solver) in [
        (9000, 20, 20, Solver::Cholesky),
        (10_600, 330, 330, Solver::Cholesky),
        (300, 260, 260, Solver::Qr),
        (300, 120, 40, Solver::Svd),
    ] {
        of_type::<f32>(m, n, rank, solver);
        if n < 300 {
            of_type::<Complex<f64>>(m, n, rank, solver);
        }
    }
}

/// So are the results of a batch: those of a single call, which are bitwise the same on any number of threads. Matrices of order 260 are computed
/// side by side if there are four for each thread, and else one after the other, each on all threads.
#[test]
fn batches_on_more_threads() {
    fn of_type<T: Element>(count: usize, n: usize) {
        let all = gaussian::<T>(count * n, n, 31);
        let stack = Array3::from_shape_fn((count, n, n), |(k, i, j)| all[(k * n + i, j)]);
        same_on_any(&format!("{count} of {}, n = {n}", T::NAME), [2, 64], |threads| {
            let svd = stack.svd_batch_gpu_with(&cpu().threads(threads)).unwrap();
            (stack.svdvals_batch_gpu_with(&cpu().threads(threads)).unwrap(), svd.u, svd.s, svd.vt)
        });
    }
    if !is_own("pool::batches_on_more_threads") {
        return;
    }
    of_type::<f32>(100, 20);
    of_type::<Complex<f64>>(50, 20);
    of_type::<f32>(5, 260);
}

/// So is what blocks of rows leave, centred or not: A^H A of a block has parts that depend on its shape alone, of few columns and of many. A block
/// of a few rows takes a QR factorisation.
#[test]
fn row_blocks_on_more_threads() {
    fn of_type<T: Element>(n: usize, centred: bool) {
        let blocks = [1500, 7, 700].map(|m| (gaussian::<T>(m, n, m as u64), gaussian::<T>(m, 2, 37)));
        same_on_any(&format!("{}, {n} columns, centred: {centred}", T::NAME), [5, 64], |threads| {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let rows = RowBlocks::<T>::with_right_sides(n, 2).unwrap();
                let mut rows = if centred { rows.centred() } else { rows };
                blocks.iter().for_each(|(a, b)| rows.push_with(a, b).unwrap());
                let (svd, fit) = (rows.finish_faer().unwrap(), rows.solve_faer(None).unwrap());
                (svd.s, svd.v, svd.r, svd.mean, fit.x, fit.intercept, fit.residuals)
            })
        });
    }
    if !is_own("pool::row_blocks_on_more_threads") {
        return;
    }
    for centred in [false, true] {
        of_type::<f32>(20, centred);
        of_type::<Complex<f64>>(20, centred);
    }
    of_type::<f32>(330, true);
}

/// Many calls at once, from threads outside of the pool and large enough to go there, give what they give alone, while the pool has other work
/// too. The larger ones keep its workers awake.
#[test]
fn many_calls_at_once() {
    if !is_own("pool::many_calls_at_once") {
        return;
    }
    for (m, n, threads, calls) in [(300, 260, 32, 3), (540, 520, 6, 2)] {
        let a = gaussian::<f32>(m, n, 11);
        let alone = a.svdvals_gpu_with(&cpu().threads(2)).unwrap();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| (0..calls).for_each(|_| assert_eq!(a.svdvals_gpu_with(&cpu()).unwrap(), alone)));
            }
            let of = |k: u64| (1..=k).into_par_iter().sum::<u64>();
            (0..200).for_each(|k| assert_eq!(of(k), k * (k + 1) / 2));
        });
    }
}
