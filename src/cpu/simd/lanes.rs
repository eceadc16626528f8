//! SIMD over contiguous elements of every type. The instruction set is chosen at run time.
//!
//! A closure that uses these operations is marked `#[inline(always)]`, or is a loop or a function so marked. Others, such as those of
//! `array::from_fn`, may be compiled without the instruction set, and each operation is then a call (`.ci/inlined.py` looks for them).

use faer::traits::{ComplexField, IndexCore, SimdCtx};
use pulp::Simd;

/// One register of elements.
pub(crate) type Lane<T, S> = <T as ComplexField>::SimdVec<S>;

/// Operations on contiguous elements `T` with the instruction set `S`.
pub(crate) struct Lanes<T: ComplexField, S: Simd> {
    ctx: SimdCtx<T, S>,
}

impl<T: ComplexField, S: Simd> Clone for Lanes<T, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: ComplexField, S: Simd> Copy for Lanes<T, S> {}

impl<T: ComplexField + Copy, S: Simd> Lanes<T, S> {
    /// Elements in a register.
    pub const N: usize = size_of::<Lane<T, S>>() / size_of::<T>();

    #[inline(always)]
    pub fn new(simd: S) -> Self {
        const { assert!(T::SIMD_CAPABILITIES.is_simd() && align_of::<Lane<T, S>>() <= align_of::<T>()) }
        Lanes { ctx: *SimdCtx::new(&T::simd_ctx(simd)) }
    }

    #[inline(always)]
    pub fn zero(self) -> Lane<T, S> {
        self.ctx.zero()
    }

    #[inline(always)]
    pub fn splat(self, value: T) -> Lane<T, S> {
        self.ctx.splat(value)
    }

    /// a b + c, elementwise.
    #[inline(always)]
    pub fn mul_add(self, a: Lane<T, S>, b: Lane<T, S>, c: Lane<T, S>) -> Lane<T, S> {
        self.ctx.mul_add(a, b, c)
    }

    /// conj(a) b + c, elementwise.
    #[inline(always)]
    pub fn conj_mul_add(self, a: Lane<T, S>, b: Lane<T, S>, c: Lane<T, S>) -> Lane<T, S> {
        self.ctx.conj_mul_add(a, b, c)
    }

    #[inline(always)]
    pub fn mul(self, a: Lane<T, S>, b: Lane<T, S>) -> Lane<T, S> {
        self.ctx.mul(a, b)
    }

    #[inline(always)]
    pub fn sum(self, a: Lane<T, S>) -> T {
        self.ctx.reduce_sum(a)
    }

    #[inline(always)]
    pub fn add(self, a: Lane<T, S>, b: Lane<T, S>) -> Lane<T, S> {
        self.ctx.add(a, b)
    }

    /// The contents of registers as elements of `U`, whose alignment must not be stricter.
    #[inline(always)]
    pub fn elements<U: bytemuck::Pod>(self, registers: &mut [Lane<T, S>]) -> &mut [U] {
        bytemuck::cast_slice_mut(registers)
    }

    /// The mask of the first `count` lanes.
    #[inline(always)]
    pub fn first(self, count: usize) -> T::SimdMemMask<S> {
        T::simd_mem_mask_between(&self.ctx.0, T::Index::truncate(0), T::Index::truncate(count))
    }

    /// # Safety
    /// `from` is valid for reading `N` elements.
    #[inline(always)]
    pub unsafe fn load(self, from: *const T) -> Lane<T, S> {
        // SAFETY: a register is plain data of N elements with no stricter alignment (checked in `new`).
        self.ctx.load(unsafe { &*from.cast() })
    }

    /// `K` registers from `from` on.
    ///
    /// # Safety
    /// `from` is valid for reading `K` times `N` elements.
    #[inline(always)]
    pub unsafe fn load_all<const K: usize>(self, from: *const T) -> [Lane<T, S>; K] {
        let mut registers = [self.zero(); K];
        for (k, register) in registers.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *register = unsafe { self.load(from.add(k * Self::N)) };
        }
        registers
    }

    /// # Safety
    /// `to` is valid for writing `N` elements.
    #[inline(always)]
    pub unsafe fn store(self, to: *mut T, value: Lane<T, S>) {
        // SAFETY: as for `load`.
        self.ctx.store(unsafe { &mut *to.cast() }, value)
    }

    /// The elements that `mask` selects; zero in the other lanes.
    ///
    /// # Safety
    /// `from` is valid for reading the selected elements.
    #[inline(always)]
    pub unsafe fn load_masked(self, mask: T::SimdMemMask<S>, from: *const T) -> Lane<T, S> {
        // SAFETY: a masked load touches the selected elements only.
        unsafe { self.ctx.mask_load(mask, from.cast()) }
    }

    /// # Safety
    /// `to` is valid for writing the selected elements.
    #[inline(always)]
    pub unsafe fn store_masked(self, mask: T::SimdMemMask<S>, to: *mut T, value: Lane<T, S>) {
        // SAFETY: a masked store touches the selected elements only.
        unsafe { self.ctx.mask_store(mask, to.cast(), value) }
    }

    /// x^H y.
    #[inline(always)]
    pub fn dot(self, x: &[T], y: &[T]) -> T {
        let len = x.len().min(y.len());
        let (x, y) = (x.as_ptr(), y.as_ptr());
        let mut acc = [self.zero(); 4];
        let mut i = 0;
        // SAFETY: every access stays below `len`, the shorter slice's length.
        unsafe {
            while i + 4 * Self::N <= len {
                for (k, acc) in acc.iter_mut().enumerate() {
                    *acc = self.conj_mul_add(self.load(x.add(i + k * Self::N)), self.load(y.add(i + k * Self::N)), *acc);
                }
                i += 4 * Self::N;
            }
            while i + Self::N <= len {
                acc[0] = self.conj_mul_add(self.load(x.add(i)), self.load(y.add(i)), acc[0]);
                i += Self::N;
            }
            if i < len {
                let mask = self.first(len - i);
                acc[1] = self.conj_mul_add(self.load_masked(mask, x.add(i)), self.load_masked(mask, y.add(i)), acc[1]);
            }
        }
        self.sum(self.add(self.add(acc[0], acc[1]), self.add(acc[2], acc[3])))
    }

    /// y <- alpha x + y.
    #[inline(always)]
    pub fn axpy(self, alpha: T, x: &[T], y: &mut [T]) {
        let len = x.len().min(y.len());
        let (x, y) = (x.as_ptr(), y.as_mut_ptr());
        let alpha = self.splat(alpha);
        let mut i = 0;
        // SAFETY: every access stays below `len`, the shorter slice's length.
        unsafe {
            while i + Self::N <= len {
                self.store(y.add(i), self.mul_add(alpha, self.load(x.add(i)), self.load(y.add(i))));
                i += Self::N;
            }
            if i < len {
                let mask = self.first(len - i);
                let value = self.mul_add(alpha, self.load_masked(mask, x.add(i)), self.load_masked(mask, y.add(i)));
                self.store_masked(mask, y.add(i), value);
            }
        }
    }

    /// x <- alpha x.
    #[inline(always)]
    pub fn scal(self, alpha: T, x: &mut [T]) {
        let len = x.len();
        let x = x.as_mut_ptr();
        let alpha = self.splat(alpha);
        let mut i = 0;
        // SAFETY: every access stays below the slice's length.
        unsafe {
            while i + Self::N <= len {
                self.store(x.add(i), self.mul(alpha, self.load(x.add(i))));
                i += Self::N;
            }
            if i < len {
                let mask = self.first(len - i);
                self.store_masked(mask, x.add(i), self.mul(alpha, self.load_masked(mask, x.add(i))));
            }
        }
    }
}
