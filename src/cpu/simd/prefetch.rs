//! Entries on their way from memory while others are worked on.

use faer::MatRef;

use crate::{base::view::by_lines, cpu::simd::aligned::LINE_BYTES};

/// The entries that come next, to be brought into the second-level cache a few at a time while others are worked on.
pub(crate) struct Ahead<'a, T> {
    /// Columns are contiguous, if anything is.
    lines: MatRef<'a, T>,
    line: usize,
    at: usize,
    /// Cache lines to be asked for at a time, and calls from one time to the next.
    at_once: usize,
    every: usize,
    calls: usize,
}

impl<'a, T> Ahead<'a, T> {
    /// The entries of `leaf`, shared out to `calls` calls of [`ask`](Self::ask).
    pub fn of(leaf: MatRef<'a, T>, calls: usize) -> Self {
        let lines = by_lines(leaf);
        let cache_lines = lines.ncols() * lines.nrows().div_ceil(Self::STEP);
        let every = (calls / cache_lines.max(1)).max(1);
        Ahead { lines, line: 0, at: 0, at_once: cache_lines.div_ceil(calls.max(1)), every, calls: every }
    }

    /// Elements in a cache line.
    const STEP: usize = if size_of::<T>() < LINE_BYTES { LINE_BYTES / size_of::<T>() } else { 1 };

    /// Asks for the next few.
    #[inline(always)]
    pub fn ask(&mut self) {
        self.calls -= 1;
        if self.calls > 0 {
            return;
        }
        self.calls = self.every;
        for _ in 0..self.at_once {
            if self.line == self.lines.ncols() {
                return;
            }
            prefetch(self.lines.ptr_at(self.at, self.line));
            self.at += Self::STEP;
            if self.at >= self.lines.nrows() {
                (self.line, self.at) = (self.line + 1, 0);
            }
        }
    }
}

/// Asks for the cache line there, where the compiler offers that.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: whatever the address, this has no effect but on caches.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
