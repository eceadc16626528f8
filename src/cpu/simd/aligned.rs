//! Memory aligned to cache lines. Allocators align to 16 bytes, but an AVX-512 load or store that crosses a cache line takes up to twice as
//! long.

use std::ops::{Deref, DerefMut, Range};

use crate::base::{
    error::{Result, SvdError},
    zeros::prefer_huge_pages,
};

/// Bytes of a cache line, a multiple of every register's size.
pub(crate) const LINE_BYTES: usize = 64;

/// Allocations of at least this many bytes come as fresh zero pages from the system. Smaller ones reuse memory, and are zeroed by hand.
const FRESH_BYTES: usize = 1 << 16;

/// A buffer whose first element is aligned to a cache line. Empty by default.
pub(crate) struct Aligned<T> {
    places: Vec<T>,
    used: Range<usize>,
}

impl<T> Default for Aligned<T> {
    fn default() -> Self {
        Aligned { places: Vec::new(), used: 0..0 }
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.places[self.used.clone()]
    }
}

impl<T> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.places[self.used.clone()]
    }
}

impl<T: bytemuck::Zeroable> Aligned<T> {
    /// Grows the buffer to at least `len` elements. Their values are arbitrary.
    pub fn grow(&mut self, len: usize) {
        if self.len() < len {
            self.places = Vec::new();
            self.places.resize_with(len + LINE_BYTES / size_of::<T>(), T::zeroed);
            self.used = first(&self.places)..first(&self.places) + len;
        }
    }
}

/// The index of the first of `places` that is aligned to a cache line, or 0 if that is unknown. `places` span at least a cache line.
fn first<T>(places: &[T]) -> usize {
    let first = places.as_ptr().align_offset(LINE_BYTES);
    if first <= LINE_BYTES / size_of::<T>() { first } else { 0 }
}

/// The error of an allocation of `len` elements of `size` bytes.
fn no_room(what: &'static str, len: usize, size: usize) -> SvdError {
    SvdError::OutOfMemory { reason: format!("{what}: {len} elements of {size} bytes") }
}

/// `len` zeros, or an error if the allocation fails. The system maps the pages of a large allocation on first write (first touch).
pub(crate) fn zeros<T: bytemuck::Zeroable>(what: &'static str, len: usize) -> Result<Aligned<T>> {
    let no_room = || no_room(what, len, size_of::<T>());
    let Some(places) = len.checked_add(LINE_BYTES / size_of::<T>()) else { return Err(no_room()) };
    let places = if places.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes < FRESH_BYTES) {
        let mut zeros = Vec::new();
        if zeros.try_reserve_exact(places).is_err() {
            return Err(no_room());
        }
        zeros.resize_with(places, T::zeroed);
        zeros
    } else if let Ok(zeros) = bytemuck::try_zeroed_vec(places) {
        prefer_huge_pages(zeros.as_ptr(), zeros.len());
        zeros
    } else {
        return Err(no_room());
    };
    let first = first(&places);
    Ok(Aligned { places, used: first..first + len })
}

#[cfg(test)]
mod tests {
    use num_complex::Complex;

    use super::*;

    /// `zeros` returns `len` aligned zeros, also for `len` = 0, and below and above `FRESH_BYTES`. `grow` aligns too, and never shrinks.
    fn begins_with_a_line<T: bytemuck::Zeroable + PartialEq>() {
        let begins = |held: &Aligned<T>| held.as_ptr().align_offset(LINE_BYTES) == 0;
        for len in [0, 1, 7, 1000, FRESH_BYTES, 3 * FRESH_BYTES + 1] {
            let held = zeros::<T>("test", len).unwrap();
            assert!(held.len() == len && begins(&held) && held.iter().all(|x| *x == T::zeroed()), "{len}");
            let mut grown = Aligned::<T>::default();
            assert!(grown.is_empty());
            for wanted in [len, len / 2, len + 1] {
                let before = grown.len();
                grown.grow(wanted);
                assert!(grown.len() == wanted.max(before) && (wanted == 0 || begins(&grown)), "{len}, {wanted}");
            }
        }
        assert!(zeros::<T>("test", usize::MAX).is_err());
    }

    #[test]
    fn memory_begins_with_a_line() {
        begins_with_a_line::<f32>();
        begins_with_a_line::<f64>();
        begins_with_a_line::<Complex<f64>>();
        begins_with_a_line::<half::f16>();
    }
}
