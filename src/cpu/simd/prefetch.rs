//! Software prefetching.

use faer::MatRef;

use crate::{base::view::by_lines, cpu::simd::aligned::LINE_BYTES};

/// The next leaf, prefetched into the L2 cache a few cache lines at a time during work on the current one.
pub(crate) struct Ahead<'a, T> {
    /// The leaf or its transpose, such that columns are contiguous if either order is.
    lines: MatRef<'a, T>,
    line: usize,
    at: usize,
    /// Cache lines per prefetch, and calls of [`ask`](Self::ask) per prefetch.
    at_once: usize,
    every: usize,
    calls: usize,
}

impl<'a, T> Ahead<'a, T> {
    /// Prefetches `leaf` over `calls` calls of [`ask`](Self::ask).
    pub fn of(leaf: MatRef<'a, T>, calls: usize) -> Self {
        let lines = by_lines(leaf);
        let cache_lines = lines.ncols() * lines.nrows().div_ceil(Self::STEP);
        let every = (calls / cache_lines.max(1)).max(1);
        Ahead { lines, line: 0, at: 0, at_once: cache_lines.div_ceil(calls.max(1)), every, calls: every }
    }

    /// Elements in a cache line.
    const STEP: usize = if size_of::<T>() < LINE_BYTES { LINE_BYTES / size_of::<T>() } else { 1 };

    /// Prefetches the next cache lines, if they are due.
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

/// Prefetches the cache line at `at` into the L2 cache, on x86-64. Does nothing elsewhere.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is valid for any address, and affects only caches.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
