//! Software prefetching.

use std::marker::PhantomData;

use faer::MatRef;

use crate::{base::view::by_lines, cpu::simd::aligned::LINE_BYTES};

/// The next leaf, prefetched into the L2 cache a few cache lines at a time during work on the current one.
pub(crate) struct Ahead<'a> {
    leaf: PhantomData<&'a ()>,
    /// The leaf or its transpose, such that lines are contiguous if either order is: their start, their length and number, and the bytes from an
    /// element to the next and from a line to the next. Lengths are in elements.
    first: *const u8,
    length: usize,
    lines: usize,
    next: [isize; 2],
    /// Elements in a cache line.
    step: usize,
    line: usize,
    at: usize,
    /// Cache lines per prefetch, and calls of [`ask`](Self::ask) per prefetch.
    at_once: usize,
    every: usize,
    calls: usize,
}

impl<'a> Ahead<'a> {
    /// Prefetches `leaf` over `calls` calls of [`ask`](Self::ask).
    pub fn of<T>(leaf: MatRef<'a, T>, calls: usize) -> Self {
        let lines = by_lines(leaf);
        let size = size_of::<T>() as isize;
        let next = [lines.row_stride() * size, lines.col_stride() * size];
        Self::of_lines(lines.as_ptr().cast(), lines.shape(), next, size_of::<T>(), calls)
    }

    fn of_lines(first: *const u8, (length, lines): (usize, usize), next: [isize; 2], size: usize, calls: usize) -> Self {
        let step = if size < LINE_BYTES { LINE_BYTES / size } else { 1 };
        let cache_lines = lines * length.div_ceil(step);
        let every = (calls / cache_lines.max(1)).max(1);
        let at_once = cache_lines.div_ceil(calls.max(1));
        Ahead { leaf: PhantomData, first, length, lines, next, step, line: 0, at: 0, at_once, every, calls: every }
    }

    /// Prefetches the next cache lines, if they are due.
    #[inline(always)]
    pub fn ask(&mut self) {
        self.calls -= 1;
        if self.calls > 0 {
            return;
        }
        self.calls = self.every;
        for _ in 0..self.at_once {
            if self.line == self.lines {
                return;
            }
            let distance = self.at as isize * self.next[0] + self.line as isize * self.next[1];
            prefetch(self.first.wrapping_byte_offset(distance));
            self.at += self.step;
            if self.at >= self.length {
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
