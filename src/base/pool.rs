//! Running work on other threads, and awaiting it.

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
#[cfg(feature = "gpu")]
use std::{future::poll_fn, pin::pin, task::Poll};

use futures_channel::oneshot;

use crate::base::{
    awake::Awake,
    error::{Result, SvdError},
    parallel::{Body, Pool, on_worker, processors, spawn, threads, through, worker},
};

/// Runs `body` on a new thread. For work that blocks and does not compute.
pub(crate) async fn on_thread<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> Result<R> {
    let (job, told) = job(body);
    let thread = named_thread().spawn(job);
    thread.map_err(|error| SvdError::OutOfMemory { reason: format!("a thread to wait on: {error}") })?;
    outcome(told).await
}

/// Runs `body` in the caller's rayon pool, from now on, or, on targets without threads (wasm), on the thread that awaits it.
pub(crate) fn on_pool_async<R: Send + 'static>(
    body: impl FnOnce() -> R + Send + 'static,
) -> impl Future<Output = Result<R>> + Send {
    let (job, told) = job(body);
    let later = if cfg!(target_family = "wasm") {
        Some(job)
    } else {
        spawn(job);
        None
    };
    async move {
        if let Some(job) = later {
            job();
        }
        outcome(told).await
    }
}

/// Runs `body` on a worker of the caller's rayon pool. Parallel loops start directly on a worker. Called from any other thread, each loop
/// wakes the pool and blocks until the loop ends, which costs tens of microseconds.
///
/// Only one call at a time runs this way. A waiting rayon worker steals jobs, so a short call could end up running a whole long one. If
/// another call is already on a worker, `body` stays on the calling thread, and each of its loops enters the pool separately.
pub(crate) fn on_pool<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    through(in_pool, body)
}

// These functions take the closure through a vtable, and are compiled once.

fn in_pool(body: Body<'_>) {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    struct Place;
    impl Drop for Place {
        fn drop(&mut self) {
            TAKEN.store(false, Ordering::Relaxed);
        }
    }
    if worker().is_some() || TAKEN.swap(true, Ordering::Relaxed) {
        return body();
    }
    let _place = Place;
    on_worker(body);
}

/// m n^2 of the smallest matrices for which the other workers are kept awake during a call. A worker comes up after 0.15 ms; a call of order 192
/// takes 1.4 to 1.7 ms on one thread of a Zen 3. Of smaller ones a second worker would see too little.
const AWAKE_FROM: usize = 192usize.pow(3);

/// `on_pool` for a call on a matrix of this shape, with the other workers kept awake if it is large enough; but not if the caller is one of a
/// pool that may have other work.
pub(crate) fn on_pool_for<R: Send>((rows, cols): (usize, usize), body: impl FnOnce() -> R + Send) -> R {
    let work = rows.saturating_mul(cols).saturating_mul(rows.min(cols));
    through(|body| if work < AWAKE_FROM { in_pool(body) } else { in_pool_awake(body) }, body)
}

/// [`on_pool_for`] for a call with the work of a product of these three dimensions. A small one stays on the calling thread.
pub(crate) fn on_pool_for_product<R: Send>((m, n, k): (usize, usize, usize), body: impl FnOnce() -> R + Send) -> R {
    let work = m.saturating_mul(n).saturating_mul(k);
    through(|body| if work < AWAKE_FROM { body() } else { in_pool_awake(body) }, body)
}

fn in_pool_awake(body: Body<'_>) {
    if worker().is_some() {
        return if IN_OWN_POOL.get() { with_others_awake(body) } else { body() };
    }
    in_pool(&mut || with_others_awake(body));
}

/// Runs `body` with the other workers of this worker's pool kept awake. A call inside another one finds them so.
fn with_others_awake(body: Body<'_>) {
    struct Here;
    impl Drop for Here {
        fn drop(&mut self) {
            KEEPS_AWAKE.set(false);
        }
    }
    if worker().is_none() || KEEPS_AWAKE.replace(true) {
        return body();
    }
    let (_here, _awake) = (Here, Awake::new());
    body();
}

/// The results of `waits`, on a new thread, and of `computes` on this one. For work that waits for a device beside work of the host. Without the thread, one
/// after the other.
#[cfg(feature = "gpu")]
pub(crate) fn beside_waiting<A: Send, B>(waits: impl FnOnce() -> A + Send, computes: impl FnOnce() -> B) -> (A, B) {
    let (mut of_waits, mut waits) = (None, Some(waits));
    let mut wait = || {
        if let Some(waits) = waits.take() {
            of_waits = Some(waits());
        }
    };
    let of_computes = std::thread::scope(|scope| {
        let thread = named_thread().spawn_scoped(scope, Box::new(&mut wait) as Job<'_>);
        let of_computes = computes();
        if let Some(Err(panic)) = thread.ok().map(|thread| thread.join()) {
            resume_unwind(panic);
        }
        of_computes
    });
    wait();
    match of_waits {
        Some(of_waits) => (of_waits, of_computes),
        None => unreachable!("it runs the closure"),
    }
}

/// The results of both futures, of which each goes on while the other waits.
#[cfg(feature = "gpu")]
pub(crate) async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut of_a, mut of_b) = (None, None);
    poll_fn(move |context| {
        if of_a.is_none()
            && let Poll::Ready(a) = a.as_mut().poll(context)
        {
            of_a = Some(a);
        }
        if of_b.is_none()
            && let Poll::Ready(b) = b.as_mut().poll(context)
        {
            of_b = Some(b);
        }
        match (of_a.take(), of_b.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (of_a, of_b) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

type Panic = Box<dyn Any + Send>;

/// What threads run: one type, so that the standard library's part is compiled once.
type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

fn named_thread() -> std::thread::Builder {
    std::thread::Builder::new().name("svdvals-gpu".into())
}

fn job<R: Send + 'static>(
    body: impl FnOnce() -> R + Send + 'static,
) -> (Job<'static>, oneshot::Receiver<std::result::Result<R, Panic>>) {
    let (tell, told) = oneshot::channel();
    let job = move || {
        let (mut body, mut result) = (Some(body), None);
        let ended = caught(&mut || result = body.take().map(|body| body()));
        let outcome = match (ended, result) {
            (Err(panic), _) => Err(panic),
            (Ok(()), Some(result)) => Ok(result),
            (Ok(()), None) => unreachable!("it runs the closure"),
        };
        // The send fails if the task was dropped.
        drop(tell.send(outcome));
    };
    (Box::new(job), told)
}

fn caught(body: &mut dyn FnMut()) -> std::result::Result<(), Panic> {
    // Unwind safe: the panic resumes in `outcome`, and `body` has been consumed.
    catch_unwind(AssertUnwindSafe(body))
}

async fn outcome<R>(told: oneshot::Receiver<std::result::Result<R, Panic>>) -> Result<R> {
    match told.await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(oneshot::Canceled) => Err(SvdError::OutOfMemory { reason: "a thread ended before its work".into() }),
    }
}

thread_local! {
    /// Whether this worker runs a call for which the pool was made.
    static IN_OWN_POOL: Cell<bool> = const { Cell::new(false) };

    /// Whether this worker keeps the others awake.
    static KEEPS_AWAKE: Cell<bool> = const { Cell::new(false) };
}

/// The idle pool of the last call with a given number of threads. The next call with the same number reuses it.
static SPARE: Mutex<Option<Pool>> = Mutex::new(None);

struct OwnPool;

impl OwnPool {
    fn enter() -> Self {
        IN_OWN_POOL.set(true);
        OwnPool
    }
}

impl Drop for OwnPool {
    fn drop(&mut self) {
        IN_OWN_POOL.set(false);
    }
}

/// Threads of a call, at most, for each processor; and as many as are allowed with few processors.
const MOST_FOR_EACH: usize = 8;
const ALWAYS_ALLOWED: usize = 64;

/// Checks the requested number of threads.
pub(crate) fn may_have(threads: Option<usize>) -> Result<()> {
    let Some(threads) = threads else { return Ok(()) };
    if threads == 0 {
        return Err(SvdError::invalid("threads", "0, but it must be at least 1"));
    }
    if threads > ALWAYS_ALLOWED && threads > MOST_FOR_EACH.saturating_mul(processors()) {
        let most = ALWAYS_ALLOWED.max(MOST_FOR_EACH * processors());
        let limit = format!("{MOST_FOR_EACH} for each of the {} processors, or {ALWAYS_ALLOWED} if that is more", processors());
        return Err(SvdError::invalid("threads", format!("{threads}, but it must be at most {most}: {limit}")));
    }
    Ok(())
}

/// Runs `body` in a pool of `threads` threads, or on the calling thread for `None`.
pub(crate) fn on_threads<R: Send>(threads: Option<usize>, body: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    may_have(threads)?;
    let (mut body, mut result) = (Some(body), None);
    in_pool_of(threads, &mut || result = body.take().map(|body| body()))?;
    match result {
        Some(result) => result,
        None => unreachable!("it runs the closure"),
    }
}

fn in_pool_of(threads: Option<usize>, body: Body<'_>) -> Result<()> {
    let Some(threads) = threads else {
        body();
        return Ok(());
    };
    let spare = || SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    let fitting = spare().take().filter(|pool| pool.threads() == threads);
    let pool = match fitting {
        Some(pool) => pool,
        None => Pool::new(threads)?,
    };
    pool.run(&mut || {
        let _own = OwnPool::enter();
        body();
    });
    *spare() = Some(pool);
    Ok(())
}

/// Runs `body` at the same time on new threads, as many as this pool has, but no more than there are processors. Each is alone in a rayon pool of its
/// own, so that the parallel loops in `body` stay on it. Then runs it on this thread, for what they have left if they could not be made.
pub(crate) fn on_own_threads(body: &(dyn Fn() + Sync)) {
    std::thread::scope(|scope| {
        for _ in 0..threads().min(processors()) {
            let alone = || match Pool::new(1) {
                Ok(pool) => pool.run(&mut || body()),
                Err(_) => body(),
            };
            if named_thread().spawn_scoped(scope, Box::new(alone) as Job<'_>).is_err() {
                break;
            }
        }
    });
    body();
}

/// faer's name for all threads of the pool that the caller is in, as far as there are processors: its threads spin while they wait. A browser has one.
pub(crate) fn all_threads() -> faer::Par {
    #[cfg(not(target_arch = "wasm32"))]
    return faer::Par::rayon(threads().min(processors()));
    #[cfg(target_arch = "wasm32")]
    faer::Par::Seq
}

#[cfg(all(test, feature = "gpu"))]
mod tests {
    use std::{sync::mpsc::channel, time::Duration};

    use pollster::block_on;

    use super::*;

    /// Each of the two needs a message of the other, so they run side by side; and a panic of either is the caller's.
    #[test]
    fn waiting_beside_computing() {
        let ((tell, told), (answer, answered)) = (channel(), channel());
        let long = Duration::from_secs(60);
        let (x, y) = beside_waiting(
            move || {
                tell.send(3).expect("it is received");
                answered.recv_timeout(long).expect("an answer")
            },
            || {
                answer.send(4).expect("it is received");
                told.recv_timeout(long).expect("a message")
            },
        );
        assert_eq!((x, y), (4, 3));
        for waits in [true, false] {
            let of = |panics: bool| assert!(!panics, "on purpose");
            let ended = catch_unwind(|| beside_waiting(|| of(waits), || of(!waits)));
            let reason = ended.expect_err("one has panicked");
            assert_eq!(reason.downcast_ref(), Some(&"on purpose"), "{waits}");
        }
    }

    /// The first future waits for the second, which is not ready at once; and the other way round.
    #[test]
    fn both_go_on() {
        async fn second(tell: oneshot::Sender<i32>) -> i32 {
            let mut polled = false;
            poll_fn(|context| {
                context.waker().wake_by_ref();
                if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            tell.send(5).expect("it is received");
            6
        }
        let (tell, told) = oneshot::channel();
        assert_eq!(block_on(both(told, second(tell))), (Ok(5), 6));
        let (tell, told) = oneshot::channel();
        assert_eq!(block_on(both(second(tell), told)), (6, Ok(5)));
    }
}
