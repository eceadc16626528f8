//! The rows of a panel and of the columns right of it that lie below the panel's top: see [`panel`](super::panel).

use faer::{MatMut, MatRef};
use pulp::Simd;

use crate::{
    base::number::Scalar,
    cpu::simd::lanes::{Lane, Lanes},
};

/// Rows of a body are a multiple of this, which every register's length divides: zeros below the matrix.
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

    /// To be read only.
    pub fn read(body: MatRef<'_, T>) -> Self {
        let ld = body.col_stride().unsigned_abs();
        assert!(body.nrows().is_multiple_of(PADDING) && (body.nrows() == 0 || body.row_stride() == 1));
        Body { at: body.as_ptr().cast_mut(), ld, rows: body.nrows() }
    }

    /// Column c, to be read.
    ///
    /// # Safety
    /// There is one, and nobody changes it meanwhile.
    #[inline(always)]
    pub unsafe fn read_column<'a>(self, c: usize) -> &'a [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.at.add(c * self.ld), self.rows) }
    }

    /// Column c.
    ///
    /// # Safety
    /// There is one, and nobody else uses it meanwhile.
    #[inline(always)]
    pub unsafe fn column<'a>(self, c: usize) -> &'a mut [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.at.add(c * self.ld), self.rows) }
    }

    /// A register of rows from i on of each of `C` columns.
    ///
    /// # Safety
    /// They are inside the body, and nobody changes them meanwhile.
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
