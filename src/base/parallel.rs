//! Parallel loops, joins and pools: all that the crate takes from rayon.
//!
//! rayon compiles its scheduler anew for each closure and each iterator. Here it is compiled once: closures go through a vtable, a call for each
//! piece of a loop. What is generic are thin shells around that. [`pieces`] is the loop under all the others; it splits as rayon's parallel
//! iterators do, in halves, as long as threads are idle.
//!
//! A panic in a closure goes on in the caller, when what runs beside it has ended.
//!
//! Where the system has no threads for rayon's global pool, the calling thread does all the work.

use std::{
    error::Error,
    mem::MaybeUninit,
    num::NonZero,
    ops::Range,
    panic::catch_unwind,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use faer::MatMut;
use rayon::iter::ParallelIterator;

use crate::base::error::{Result, SvdError};

// Loops.

/// Calls `f` with ranges that together have each number below `count` once. A range has at least `least` numbers, unless `count` is less. State
/// that `f` makes, such as workspace, serves a whole range. Where ranges begin and end depends on which threads are idle.
pub(crate) fn pieces(count: usize, least: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
    let least = least.max(1);
    let halves = |Range { start, end }: Range<usize>| {
        let half = (end - start) / 2;
        if half < least { (start..end, None) } else { (start..start + half, Some(start + half..end)) }
    };
    if count > 0 && has_pool() {
        rayon::iter::split(0..count, halves).for_each(f);
    } else if count > 0 {
        f(0..count);
    }
}

/// [`pieces`] of a slice: calls `f` with the index of the first entry of each and its entries. Pieces begin at multiples of `unit`, and have at
/// least `least` units.
pub(crate) fn pieces_mut<T: Send>(of: &mut [T], unit: usize, least: usize, f: &(dyn Fn(usize, &mut [T]) + Sync)) {
    struct Start<T>(*mut T);
    // SAFETY: through it, threads have `&mut` to distinct entries, which are `Send`.
    unsafe impl<T: Send> Sync for Start<T> {}
    impl<T> Start<T> {
        fn at(&self, index: usize) -> *mut T {
            self.0.wrapping_add(index)
        }
    }
    let (len, start) = (of.len(), Start(of.as_mut_ptr()));
    pieces(len.div_ceil(unit), least, &|units| {
        let (first, end) = (units.start * unit, len.min(units.end * unit));
        // SAFETY: first <= end <= len, as units.start < ceil(len / unit). `of` is borrowed until `pieces` returns, and the ranges that that gives
        // are disjoint.
        f(first, unsafe { std::slice::from_raw_parts_mut(start.at(first), end - first) });
    });
}

/// Calls `f` with each item.
pub(crate) fn each<X: Send>(items: impl IntoIterator<Item = X>, f: impl Fn(X) + Sync) {
    let mut items: Vec<_> = items.into_iter().map(Some).collect();
    pieces_mut(&mut items, 1, 1, &|_, items| items.iter_mut().filter_map(Option::take).for_each(&f));
}

/// The results of `f` for each item, in order.
pub(crate) fn map_each<X: Send, R: Send>(items: impl IntoIterator<Item = X>, f: impl Fn(X) -> R + Sync) -> Vec<R> {
    let mut all: Vec<_> = items.into_iter().map(|item| (Some(item), None)).collect();
    pieces_mut(&mut all, 1, 1, &|_, some| some.iter_mut().for_each(|(item, result)| *result = item.take().map(&f)));
    all.into_iter().filter_map(|(_, result)| result).collect()
}

/// The results of `f` for each number below `count`, in order.
pub(crate) fn map<R: Send>(count: usize, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    map_with(count, 1, || (), |(), k| f(k))
}

/// [`map`] in [`pieces`], each with a `room` of its own, which goes from call to call. After a panic, results are leaked.
pub(crate) fn map_with<W, R: Send>(
    count: usize,
    least: usize,
    room: impl Fn() -> W + Sync,
    f: impl Fn(&mut W, usize) -> R + Sync,
) -> Vec<R> {
    let mut results = Box::<[R]>::new_uninit_slice(count);
    pieces_mut(&mut results, 1, least, &|first, results: &mut [MaybeUninit<R>]| {
        let mut room = room();
        for (k, result) in (first..).zip(results) {
            result.write(f(&mut room, k));
        }
    });
    // SAFETY: the pieces have each entry, and each has been written.
    unsafe { results.assume_init() }.into_vec()
}

/// [`map_with`] for an `f` that may fail. The error is that of the lowest number with one, however many threads there are. Numbers above one
/// with an error are left out.
pub(crate) fn try_map<W, R: Send, E: Send>(
    count: usize,
    room: impl Fn() -> W + Sync,
    f: impl Fn(&mut W, usize) -> std::result::Result<R, E> + Sync,
) -> std::result::Result<Vec<R>, E> {
    let failed = AtomicUsize::new(usize::MAX);
    let results = map_with(count, 1, room, |room, k| {
        if k > failed.load(Ordering::Relaxed) {
            return None;
        }
        let result = f(room, k);
        if result.is_err() {
            failed.fetch_min(k, Ordering::Relaxed);
        }
        Some(result)
    });
    results.into_iter().flatten().collect()
}

// Joins and scopes.

/// The results of both closures, which may run at the same time.
pub(crate) fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    let mut of_b = None;
    let mut b = Some(b);
    let of_a = through(|a| both(a, &mut || of_b = b.take().map(|b| b())), a);
    match of_b {
        Some(of_b) => (of_a, of_b),
        None => unreachable!("join runs both closures"),
    }
}

fn both(a: Body<'_>, b: Body<'_>) {
    if has_pool() {
        rayon::join(a, b);
    } else {
        a();
        b();
    }
}

/// The result of `body`, which runs on this thread, while other threads of the pool run `task` for each number below `count`. It returns when
/// all have ended.
pub(crate) fn beside<R>(count: usize, task: &(dyn Fn(usize) + Sync), body: impl FnOnce() -> R) -> R {
    fn run(count: usize, task: &(dyn Fn(usize) + Sync), body: &mut dyn FnMut()) {
        if !has_pool() {
            body();
            return (0..count).for_each(task);
        }
        rayon::in_place_scope(|scope| {
            (0..count).for_each(|k| scope.spawn(move |_| task(k)));
            body();
        });
    }
    let (mut body, mut result) = (Some(body), None);
    run(count, task, &mut || result = body.take().map(|body| body()));
    match result {
        Some(result) => result,
        None => unreachable!("it runs the closure"),
    }
}

/// A closure that is called once, through a vtable.
pub(crate) type Body<'a> = &'a mut (dyn FnMut() + Send);

/// The result of `body`, which `run` calls through a vtable.
pub(crate) fn through<R: Send>(run: impl FnOnce(Body<'_>), body: impl FnOnce() -> R + Send) -> R {
    let (mut body, mut result) = (Some(body), None);
    run(&mut || result = body.take().map(|body| body()));
    match result {
        Some(result) => result,
        None => unreachable!("it runs the closure"),
    }
}

// Pools and their workers.

/// The processors that this process may use, at least one, as the system said when it was asked first. (A thread that is kept on one core, as by
/// [`awake`](super::awake), is told of that one.)
pub(crate) fn processors() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZero::get))
}

/// Whether there is a pool: that of this worker, or rayon's global one, which is made if it has not been yet. Without the threads for it, it can never be.
fn has_pool() -> bool {
    static GLOBAL: OnceLock<bool> = OnceLock::new();
    // On wasm rayon has a pool of the calling thread alone.
    worker().is_some() || cfg!(target_family = "wasm") || *GLOBAL.get_or_init(has_global_pool)
}

fn has_global_pool() -> bool {
    let Err(error) = rayon::ThreadPoolBuilder::new().build_global() else { return true };
    let made = match error.source() {
        Some(_) => false,
        // Somebody else has tried to make it.
        None => catch_unwind(rayon::current_num_threads).is_ok(),
    };
    if !made {
        log::warn!("svdvals-gpu computes on the calling threads alone: rayon's global pool could not be made ({error})");
    }
    made
}

/// The number of threads of the caller's pool.
pub(crate) fn threads() -> usize {
    if has_pool() { rayon::current_num_threads() } else { 1 }
}

/// The index of this worker in its pool, or None on a thread that is no worker.
pub(crate) fn worker() -> Option<usize> {
    rayon::current_thread_index()
}

/// Runs `body` on a worker of the caller's pool: on this thread if it is one.
pub(crate) fn on_worker(body: Body<'_>) {
    if has_pool() { rayon::scope(|_| body()) } else { body() }
}

/// Runs `job` on a worker of the caller's pool, later.
pub(crate) fn spawn(job: Box<dyn FnOnce() + Send>) {
    if has_pool() { rayon::spawn(job) } else { job() }
}

/// Runs `job` on each worker of this worker's pool, later, with the worker's index.
pub(crate) fn spawn_on_each(job: Box<dyn Fn(usize) + Send + Sync>) {
    rayon::spawn_broadcast(move |context| job(context.index()));
}

/// Runs a job that waits for a worker of this pool. Whether there was one, and this thread is a worker.
pub(crate) fn run_waiting_job() -> bool {
    rayon::yield_now() == Some(rayon::Yield::Executed)
}

/// A pool of threads.
pub(crate) struct Pool(rayon::ThreadPool);

impl Pool {
    /// A pool of `threads` threads; an error if the system has no more of them.
    pub fn new(threads: usize) -> Result<Pool> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.map(Pool).map_err(|error| SvdError::invalid("threads", format!("{threads} could not be made: {error}")))
    }

    /// The number of its threads.
    pub fn threads(&self) -> usize {
        self.0.current_num_threads()
    }

    /// Runs `body` on a worker of this pool, which is then the pool of the loops within.
    pub fn run(&self, body: Body<'_>) {
        self.0.install(body);
    }
}

#[cfg(test)]
impl Pool {
    /// The result of `body` on a worker of this pool.
    pub fn install<R: Send>(&self, body: impl FnOnce() -> R + Send) -> R {
        through(|body| self.run(body), body)
    }

    /// The results of `body` on each worker.
    pub fn on_each<R: Send>(&self, body: impl Fn() -> R + Sync) -> Vec<R> {
        self.0.broadcast(|_| body())
    }
}

// Values and matrices for loops.

/// The value in `cell`, computed if there is none. Not within `get_or_init`: a worker that waits there may take up another call that needs the value.
pub(crate) fn computed<R>(cell: &OnceLock<R>, compute: impl FnOnce() -> R) -> &R {
    match cell.get() {
        Some(value) => value,
        None => {
            let value = compute();
            cell.get_or_init(|| value)
        }
    }
}

/// The columns of `x` in chunks of `cols`, the last one of what is left.
pub(crate) fn col_chunks<T>(x: MatMut<'_, T>, cols: usize) -> impl Iterator<Item = MatMut<'_, T>> {
    let widths = std::iter::repeat_n(cols, x.ncols() / cols).chain([x.ncols() % cols]).filter(|&width| width > 0);
    in_widths(x, widths)
}

/// As [`col_chunks`], of rows.
pub(crate) fn row_chunks<T>(x: MatMut<'_, T>, rows: usize) -> impl Iterator<Item = MatMut<'_, T>> {
    col_chunks(x.transpose_mut(), rows).map(MatMut::transpose_mut)
}

/// The columns of `x` in `count` parts, the first of which may be wider by one.
pub(crate) fn col_parts<T>(x: MatMut<'_, T>, count: usize) -> impl Iterator<Item = MatMut<'_, T>> {
    let cols = x.ncols();
    in_widths(x, (0..count).map(move |k| cols / count + usize::from(k < cols % count)))
}

/// The next columns of `x`, as many as each of `widths` says.
fn in_widths<'a, T>(x: MatMut<'a, T>, widths: impl Iterator<Item = usize>) -> impl Iterator<Item = MatMut<'a, T>> {
    widths.scan(Some(x), |rest, width| {
        let (part, others) = rest.take()?.split_at_col_mut(width);
        *rest = Some(others);
        Some(part)
    })
}

#[cfg(test)]
mod tests;
