//! Work that a task waits for while other threads do it.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_channel::oneshot;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::base::error::{Result, SvdError};

/// What `body` returns, run on a thread of its own: for what waits and does not compute.
pub(crate) async fn on_thread<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> Result<R> {
    let (job, told) = job(body);
    let thread = std::thread::Builder::new().name("svdvals-gpu".into()).spawn(job);
    thread.map_err(|error| SvdError::OutOfMemory { reason: format!("a thread to wait on: {error}") })?;
    outcome(told).await
}

/// What `body` returns, run in the rayon pool of the calling thread; where there are no threads, in place.
pub(crate) async fn on_pool_async<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> Result<R> {
    if cfg!(target_family = "wasm") {
        return Ok(body());
    }
    let (job, told) = job(body);
    rayon::spawn(job);
    outcome(told).await
}

/// What `body` returns, run on a thread of the rayon pool that the call is made in. There its parallel loops begin where they are called;
/// from any other thread each of them is handed over to the pool, which is woken, and its end waited for: tens of microseconds a loop.
///
/// One call at a time: a thread of the pool that waits takes up whatever the pool was given, and would have the call that it waits in last as
/// long as another one that it took up whole. Where a call is there already, `body` stays on its thread, and hands its loops over.
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
    rayon::scope(|_| body())
}

type Panic = Box<dyn Any + Send>;

fn job<R: Send + 'static>(
    body: impl FnOnce() -> R + Send + 'static,
) -> (impl FnOnce() + Send + 'static, oneshot::Receiver<std::result::Result<R, Panic>>) {
    let (tell, told) = oneshot::channel();
    // Nobody listens where the task was dropped. Unwind safe: the panic goes on where the result is awaited, and `body` is gone.
    (move || drop(tell.send(catch_unwind(AssertUnwindSafe(body)))), told)
}

async fn outcome<R>(told: oneshot::Receiver<std::result::Result<R, Panic>>) -> Result<R> {
    match told.await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(oneshot::Canceled) => Err(SvdError::OutOfMemory { reason: "a thread ended before its work".into() }),
    }
}

/// The pool of a call that asked for a number of threads, asleep: for the next one that asks for as many.
static SPARE: Mutex<Option<ThreadPool>> = Mutex::new(None);

/// That a call may have as many threads as were asked for.
pub(crate) fn may_have(threads: Option<usize>) -> Result<()> {
    match threads {
        Some(0) => Err(SvdError::invalid("threads", "0, but it must be at least 1")),
        _ => Ok(()),
    }
}

/// Runs `body` on the threads that were asked for.
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
    let result = pool.install(body);
    *spare() = Some(pool);
    result
}
