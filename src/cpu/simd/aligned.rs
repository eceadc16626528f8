//! Memory that begins where a cache line does. A register of AVX-512 that is read or written across two lines takes up to twice as long, and
//! allocators give out places sixteen bytes apart.

use std::ops::{Deref, DerefMut, Range};

use crate::base::error::{Result, SvdError};

/// Bytes of a cache line, which every register's length divides.
pub(crate) const LINE_BYTES: usize = 64;

/// Bytes from which memory comes as fresh pages of zeros. Less than this is written: allocators have it at hand, but not as zeros.
const FRESH_BYTES: usize = 1 << 16;

/// Elements, of which the first is where a cache line begins. None to begin with.
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
    /// Has at least `len` elements from now on, of any values.
    pub fn grow(&mut self, len: usize) {
        if self.len() < len {
            self.places = Vec::new();
            self.places.resize_with(len + LINE_BYTES / size_of::<T>(), T::zeroed);
            self.used = first(&self.places)..first(&self.places) + len;
        }
    }
}

/// The first of at least a line of `places` where a cache line begins, or their first where that cannot be told.
fn first<T>(places: &[T]) -> usize {
    let first = places.as_ptr().align_offset(LINE_BYTES);
    if first <= LINE_BYTES / size_of::<T>() { first } else { 0 }
}

/// Zeros, or an error where the allocator has no room. The system makes the pages of many when they are first written, on whichever thread.
pub(crate) fn zeros<T: bytemuck::Zeroable>(what: &'static str, len: usize) -> Result<Aligned<T>> {
    let no_room = || SvdError::OutOfMemory { reason: format!("{what}: {len} elements of {} bytes", size_of::<T>()) };
    let line = LINE_BYTES / size_of::<T>();
    let places = len.checked_add(line).ok_or_else(no_room)?;
    let places = if places.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes < FRESH_BYTES) {
        let mut zeros = Vec::new();
        zeros.try_reserve_exact(places).map_err(|_| no_room())?;
        zeros.resize_with(places, T::zeroed);
        zeros
    } else {
        bytemuck::try_zeroed_vec(places).map_err(|()| no_room())?
    };
    let first = first(&places);
    Ok(Aligned { places, used: first..first + len })
}

#[cfg(test)]
mod tests {
    use num_complex::Complex;

    use super::*;

    /// As many zeros as asked for, none too, the first of them where a cache line begins, however little or much is written by hand; and at
    /// least as many once it has grown, which loses none it had room for.
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
