//! Running work on other threads, and awaiting it.

use std::{
    any::Any,
    hint::spin_loop,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_channel::oneshot;
use rayon::{ThreadPool, ThreadPoolBuilder, Yield};
use web_time::Instant;

use crate::base::{
    error::{Result, SvdError},
    parallel::through,
};

/// Runs `body` on a new thread. For work that blocks and does not compute.
pub(crate) async fn on_thread<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> Result<R> {
    let (job, told) = job(body);
    let thread = std::thread::Builder::new().name("svdvals-gpu".into()).spawn(job);
    thread.map_err(|error| SvdError::OutOfMemory { reason: format!("a thread to wait on: {error}") })?;
    outcome(told).await
}

/// Runs `body` in the caller's rayon pool, or on the calling thread on targets without threads (wasm).
pub(crate) async fn on_pool_async<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> Result<R> {
    if cfg!(target_family = "wasm") {
        return Ok(body());
    }
    let (job, told) = job(body);
    rayon::spawn(job);
    outcome(told).await
}

/// Runs `body` on a worker of the caller's rayon pool. Parallel loops start directly on a worker. Called from any other thread, each loop
/// wakes the pool and blocks until the loop ends, which costs tens of microseconds.
///
/// Only one call at a time runs this way. A waiting rayon worker steals jobs, so a short call could end up running a whole long one. If
/// another call is already on a worker, `body` stays on the calling thread, and each of its loops enters the pool separately.
pub(crate) fn on_pool<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    struct Place;
    impl Drop for Place {
        fn drop(&mut self) {
            TAKEN.store(false, Ordering::Relaxed);
        }
    }
    if rayon::current_thread_index().is_some() || TAKEN.swap(true, Ordering::Relaxed) {
        return body();
    }
    let _place = Place;
    through(in_scope, body)
}

// Below, and in `parallel`, functions that take closures through a vtable are compiled once.

fn in_scope(body: &mut (dyn FnMut() + Send)) {
    rayon::scope(|_| body());
}

fn installed(pool: &ThreadPool, body: &mut (dyn FnMut() + Send)) {
    pool.install(body);
}

/// `on_pool`, with the other workers kept awake, unless the caller is one: its pool may have other work.
pub(crate) fn on_awake_pool<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    if rayon::current_thread_index().is_some() {
        return body();
    }
    on_pool(|| {
        let _awake = Awake::new();
        body()
    })
}

/// Keeps the other workers of a pool awake: until this is dropped they look for work all the time, but none longer than `IDLE` in vain. A loop
/// of a call then reaches them in a microsecond. Waking one takes tens of them; and after a rest a system without a shared last-level cache
/// (virtual machines among them) wakes it on the core of the thread that is busy, time and again, where it finds that the loop is done.
struct Awake(Arc<AtomicBool>);

/// Workers of a pool that are kept awake, at most: with more, waking them takes longer than small loops gain.
const MOST_AWAKE: usize = 16;
const IDLE: Duration = Duration::from_millis(2);
/// Idle time after which a worker offers its core to other threads at every look.
const POLITE: Duration = Duration::from_micros(100);

impl Awake {
    /// For the pool of this worker.
    fn new() -> Awake {
        let ended = Arc::new(AtomicBool::new(false));
        if let Some(here) = rayon::current_thread_index()
            && (2..=MOST_AWAKE).contains(&rayon::current_num_threads())
        {
            let ended = ended.clone();
            rayon::spawn_broadcast(move |context| {
                if context.index() != here {
                    stay_awake(&ended);
                }
            });
        }
        Awake(ended)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does what other jobs the pool has, until `ended`.
fn stay_awake(ended: &AtomicBool) {
    let mut since = Instant::now();
    while !ended.load(Ordering::Relaxed) {
        if rayon::yield_now() == Some(Yield::Executed) {
            since = Instant::now();
            continue;
        }
        let idle = since.elapsed();
        if idle > IDLE {
            return;
        }
        if idle > POLITE {
            std::thread::yield_now();
        } else {
            (0..64).for_each(|_| spin_loop());
        }
    }
}

type Panic = Box<dyn Any + Send>;

type Job = Box<dyn FnOnce() + Send>;

fn job<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> (Job, oneshot::Receiver<std::result::Result<R, Panic>>) {
    let (tell, told) = oneshot::channel();
    // The send fails if the task was dropped. Unwind safe: the panic resumes in `outcome`, and `body` has been consumed.
    (Box::new(move || drop(tell.send(catch_unwind(AssertUnwindSafe(body))))), told)
}

async fn outcome<R>(told: oneshot::Receiver<std::result::Result<R, Panic>>) -> Result<R> {
    match told.await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(oneshot::Canceled) => Err(SvdError::OutOfMemory { reason: "a thread ended before its work".into() }),
    }
}

/// The idle pool of the last call with a given number of threads. The next call with the same number reuses it.
static SPARE: Mutex<Option<ThreadPool>> = Mutex::new(None);

/// Checks the requested number of threads.
pub(crate) fn may_have(threads: Option<usize>) -> Result<()> {
    match threads {
        Some(0) => Err(SvdError::invalid("threads", "0, but it must be at least 1")),
        _ => Ok(()),
    }
}

/// Runs `body` in a pool of `threads` threads, or on the calling thread for `None`.
pub(crate) fn on_threads<R: Send>(threads: Option<usize>, body: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    may_have(threads)?;
    let Some(threads) = threads else { return body() };
    let spare = || SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    let fitting = spare().take().filter(|pool| pool.current_num_threads() == threads);
    let pool = match fitting {
        Some(pool) => pool,
        None => {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build();
            pool.map_err(|error| SvdError::invalid("threads", format!("{threads}: {error}")))?
        }
    };
    let result = through(|body| installed(&pool, body), body);
    *spare() = Some(pool);
    result
}

/// Runs `body` at the same time on `threads` new threads, or once on this one if there are none. Each is alone in a rayon pool of its own, so
/// that the parallel loops in `body` stay on it.
pub(crate) fn on_own_threads(threads: usize, body: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let alone = || match ThreadPoolBuilder::new().num_threads(1).build() {
                Ok(pool) => pool.install(&body),
                Err(_) => body(),
            };
            if std::thread::Builder::new().name("svdvals-gpu".into()).spawn_scoped(scope, alone).is_err() {
                break;
            }
        }
    });
    // If no thread could be made, all of the work is left.
    body();
}

/// faer's name for all threads of the pool that the caller is in. A browser has one.
pub(crate) fn all_threads() -> faer::Par {
    #[cfg(not(target_arch = "wasm32"))]
    return faer::Par::rayon(0);
    #[cfg(target_arch = "wasm32")]
    faer::Par::Seq
}
