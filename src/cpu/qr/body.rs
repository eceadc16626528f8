//! The rows of a panel, and of the columns right of it, below the panel's top: see [`panel`](super::panel).

use faer::{MatMut, MatRef};
use pulp::Simd;

use crate::{
    base::number::Scalar,
    cpu::simd::lanes::{Lane, Lanes},
};

/// Rows of a body are a multiple of this, which is a multiple of the lanes of every register. Zeros pad the matrix below.
pub(crate) const PADDING: usize = 16;

/// The rows below the top.
#[derive(Clone, Copy)]
pub(crate) struct Body<T> {
    pub at: *mut T,
    pub ld: usize,
    /// A multiple of [`PADDING`].
    pub rows: usize,
}

impl<T: Scalar> Body<T> {
    pub fn of(body: &mut MatMut<'_, T>) -> Self {
        Body { at: body.as_ptr_mut(), ..Body::read(body.as_ref()) }
    }

    /// A body that is only read.
    pub fn read(body: MatRef<'_, T>) -> Self {
        let ld = body.col_stride().unsigned_abs();
        assert!(body.nrows().is_multiple_of(PADDING) && (body.nrows() == 0 || body.row_stride() == 1));
        Body { at: body.as_ptr().cast_mut(), ld, rows: body.nrows() }
    }

    /// Column c, read-only.
    ///
    /// # Safety
    /// It exists, and nobody changes it during `'a`.
    #[inline(always)]
    pub unsafe fn read_column<'a>(self, c: usize) -> &'a [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.at.add(c * self.ld), self.rows) }
    }

    /// Column c.
    ///
    /// # Safety
    /// It exists, and nobody else uses it during `'a`.
    #[inline(always)]
    pub unsafe fn column<'a>(self, c: usize) -> &'a mut [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.at.add(c * self.ld), self.rows) }
    }

    /// For each of the first `C` columns, a register of the rows from i on.
    ///
    /// # Safety
    /// They are inside the body, and nobody changes them during the call.
    #[inline(always)]
    pub unsafe fn registers<S: Simd, const C: usize>(self, lanes: Lanes<T, S>, i: usize) -> [Lane<T, S>; C] {
        const { assert!(PADDING.is_multiple_of(Lanes::<T, S>::N)) }
        let mut registers = [lanes.zero(); C];
        for (c, register) in registers.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *register = unsafe { lanes.load(self.at.add(c * self.ld + i)) };
        }
        registers
    }
}
