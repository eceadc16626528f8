//! Workers of a rayon pool that look for work all the time during a call.
//!
//! A loop of the call then reaches them in a microsecond. Waking one takes tens of them, and much more after a rest in a virtual machine: while a
//! hypervisor does not run a core that had nothing to do, Linux counts it as not there, and wakes the worker on the core of the thread that woke
//! it. That one is busy. Of 40 workers woken after a rest, on a Zen 3 with two cores under KVM, 23 to 33 came up on the busy core, after 2.2 ms
//! (median), and those that came up elsewhere were put there later in the call. So the thread of the call stays on its core for the first
//! [`APART`] of it, and the other workers stay off that core. They come up after 0.15 ms, none of 40 on the busy core.

use std::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use web_time::Instant;

use crate::base::{
    parallel::{processors, run_waiting_job, spawn_on_each, threads, worker},
    spinning::Permit,
};
use apart::{Apart, Narrowed};

/// Keeps the other workers of this worker's pool awake, until it is dropped. One that finds no work for [`IDLE`] goes to sleep.
pub(crate) struct Awake {
    ended: Arc<AtomicBool>,
    _on_one_core: Option<Narrowed>,
}

/// Workers of a pool that are kept awake, at most: with more, waking them takes longer than small loops gain. In a pool with more workers than there are
/// processors none is.
const MOST_AWAKE: usize = 16;
const IDLE: Duration = Duration::from_millis(2);
/// Idle time after which a worker offers its core to other threads at every look.
const POLITE: Duration = Duration::from_micros(100);
/// Time after which threads may run on any core again. Longer calls are left to the system's balance.
const APART: Duration = Duration::from_millis(50);

impl Awake {
    /// For the pool of this worker.
    pub fn new() -> Awake {
        let ended = Arc::new(AtomicBool::new(false));
        let mut on_one_core = None;
        if let Some(here) = worker()
            && (2..=MOST_AWAKE.min(processors())).contains(&threads())
        {
            let (apart, narrowed) = Apart::new();
            on_one_core = Some(narrowed);
            let ended = ended.clone();
            spawn_on_each(Box::new(move |index| {
                if index != here {
                    stay_awake(&ended, &apart, index);
                }
            }));
        }
        Awake { ended, _on_one_core: on_one_core }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Does what other jobs the pool has, until `ended`, on the worker of this index.
fn stay_awake(ended: &AtomicBool, apart: &Apart, index: usize) {
    let Some(_permit) = Permit::take() else { return };
    let start = Instant::now();
    let (mut since, mut narrowed) = (start, Some(apart.arrived(index)));
    while !ended.load(Ordering::Relaxed) {
        let executed = run_waiting_job();
        let now = Instant::now();
        if now - start > APART && narrowed.take().is_some() {
            apart.free_first();
        }
        if executed {
            since = now;
            continue;
        }
        let idle = now - since;
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

/// Threads of a pool on different cores, by the sets of cores that they may run on. Errors change nothing: they run where the system likes.
#[cfg(target_os = "linux")]
mod apart {
    use std::{
        cell::OnceCell,
        mem::{MaybeUninit, size_of},
        sync::{
            Arc, Mutex, PoisonError,
            atomic::{AtomicI32, Ordering},
        },
    };

    use crate::base::parallel::threads;
    use libc::{
        CPU_CLR, CPU_COUNT, CPU_ISSET, CPU_SET, CPU_SETSIZE, CPU_ZERO, cpu_set_t, gettid, pid_t, sched_getaffinity, sched_getcpu,
        sched_setaffinity,
    };

    thread_local! {
        /// The threads of the workers of this one's pool; 0 for one that has not been met yet.
        static WORKERS: OnceCell<Arc<[AtomicI32]>> = const { OnceCell::new() };
    }

    /// Threads whose cores have been narrowed, and what they were before.
    static BEFORE: Mutex<Vec<(pid_t, cpu_set_t)>> = Mutex::new(Vec::new());

    /// The threads of a call.
    pub(super) struct Apart {
        first: pid_t,
        workers: Arc<[AtomicI32]>,
    }

    /// A thread that may run on all its cores again when this is dropped.
    pub(super) struct Narrowed(pid_t);

    impl Apart {
        /// Keeps this worker on its core, and those of its pool that have been met off it.
        pub fn new() -> (Self, Narrowed) {
            let new = || (0..threads()).map(|_| AtomicI32::new(0)).collect();
            let workers = WORKERS.with(|workers| workers.get_or_init(new).clone());
            let first = this_thread();
            // SAFETY: it has no precondition.
            if let Ok(core) = usize::try_from(unsafe { sched_getcpu() })
                && core < CPU_SETSIZE as usize
            {
                narrow(first, |cores| only(core, cores));
                let met = workers.iter().map(|worker| worker.load(Ordering::Relaxed)).filter(|&worker| worker != 0);
                met.for_each(|worker| narrow(worker, |cores| without(core, cores)));
            }
            (Apart { first, workers }, Narrowed(first))
        }

        /// The calling worker has been met.
        pub fn arrived(&self, index: usize) -> Narrowed {
            let worker = this_thread();
            if let Some(place) = self.workers.get(index) {
                place.store(worker, Ordering::Relaxed);
            }
            Narrowed(worker)
        }

        /// Lets the thread of the call run anywhere.
        pub fn free_first(&self) {
            drop(Narrowed(self.first));
        }
    }

    impl Drop for Narrowed {
        fn drop(&mut self) {
            let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = before.iter().position(|(thread, _)| *thread == self.0) {
                set_cores(self.0, &before.swap_remove(at).1);
            }
        }
    }

    /// Lets a thread run on fewer cores, once until it is dropped as [`Narrowed`].
    fn narrow(thread: pid_t, to: impl Fn(cpu_set_t) -> cpu_set_t) {
        let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
        if before.iter().any(|(other, _)| *other == thread) {
            return;
        }
        let Some(cores) = cores_of(thread) else { return };
        let fewer = to(cores);
        // SAFETY: sets of cores are plain data.
        let [had, has] = [cores, fewer].map(|cores| unsafe { CPU_COUNT(&cores) });
        if (1..had).contains(&has) && set_cores(thread, &fewer) {
            before.push((thread, cores));
        }
    }

    fn without(core: usize, mut cores: cpu_set_t) -> cpu_set_t {
        // SAFETY: `core` is below the size of a set.
        unsafe { CPU_CLR(core, &mut cores) };
        cores
    }

    fn only(core: usize, mut cores: cpu_set_t) -> cpu_set_t {
        // SAFETY: `core` is below the size of a set.
        unsafe {
            let has = CPU_ISSET(core, &cores);
            CPU_ZERO(&mut cores);
            if has {
                CPU_SET(core, &mut cores);
            }
        }
        cores
    }

    pub(super) fn this_thread() -> pid_t {
        // SAFETY: it has no precondition.
        unsafe { gettid() }
    }

    pub(super) fn cores_of(thread: pid_t) -> Option<cpu_set_t> {
        let mut cores = MaybeUninit::<cpu_set_t>::zeroed();
        // SAFETY: the set has the size that is said, and all zeros are one.
        unsafe { (sched_getaffinity(thread, size_of::<cpu_set_t>(), cores.as_mut_ptr()) == 0).then(|| cores.assume_init()) }
    }

    fn set_cores(thread: pid_t, cores: &cpu_set_t) -> bool {
        // SAFETY: the set has the size that is said.
        unsafe { sched_setaffinity(thread, size_of::<cpu_set_t>(), cores) == 0 }
    }
}

#[cfg(not(target_os = "linux"))]
mod apart {
    pub(super) struct Apart;
    pub(super) struct Narrowed;

    impl Apart {
        pub fn new() -> (Self, Narrowed) {
            (Apart, Narrowed)
        }

        pub fn arrived(&self, _: usize) -> Narrowed {
            Narrowed
        }

        pub fn free_first(&self) {}
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{
        apart::{cores_of, this_thread},
        *,
    };
    use crate::base::parallel::Pool;

    /// During a call its thread is on one core, of which the others are kept off once they have been met; after it all may run where they might
    /// before, whatever the order in which calls end and workers arrive.
    #[test]
    fn cores_come_back() {
        if processors() == 1 {
            return;
        }
        let pool = Pool::new(processors().min(3)).expect("a pool");
        // SAFETY: sets of cores are plain data.
        let count = || cores_of(this_thread()).map(|cores| unsafe { libc::CPU_COUNT(&cores) });
        let before = pool.on_each(count);
        for rest in [0, 0, 1, 5, 60] {
            let during = pool.install(|| {
                let _awake = Awake::new();
                let one = count();
                std::thread::sleep(Duration::from_millis(rest));
                one
            });
            assert_eq!(during, Some(1));
        }
        // A broadcast comes after those of the calls.
        assert_eq!(pool.on_each(count), before);
    }
}
