//! Which threads may spin while they wait: at most one for each processor, in all calls and pools together. A thread that spins on a core that another
//! thread needs only delays what it waits for.

use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::base::parallel::processors;

/// The permits that are taken.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread has one.
    static HAS_ONE: Cell<bool> = const { Cell::new(false) };
}

/// The right of this thread to spin, until it is dropped.
pub(crate) struct Permit {
    /// Whether it is the thread's first one, which counts.
    first: bool,
}

impl Permit {
    /// A permit; None if other threads have them all. A thread that has one is given another.
    pub fn take() -> Option<Permit> {
        if HAS_ONE.get() {
            return Some(Permit { first: false });
        }
        let one_more = |taken| (taken < processors()).then_some(taken + 1);
        TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        HAS_ONE.set(true);
        Some(Permit { first: true })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.first {
            HAS_ONE.set(false);
            TAKEN.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    /// Of more threads than there are processors, at most as many as those have a permit at a time, and each of these has it as often as it asks. (Other
    /// tests may have some.)
    #[test]
    fn a_permit_for_each_processor() {
        let (count, meet) = (AtomicUsize::new(0), Barrier::new(processors() + 3));
        let wait = || {
            let permits = [Permit::take(), Permit::take()];
            assert_eq!(permits[0].is_some(), permits[1].is_some());
            count.fetch_add(usize::from(permits[0].is_some()), Ordering::Relaxed);
            meet.wait();
        };
        std::thread::scope(|scope| (0..processors() + 3).for_each(|_| drop(scope.spawn(wait))));
        assert!(count.into_inner() <= processors());
    }
}
