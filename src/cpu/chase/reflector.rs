//! The reflectors of bulge chasing, and their application to a band from either side.

use std::ops::Range;

use num_complex::Complex;
use pulp::Simd;

use crate::{
    base::number::{Number, Scalar},
    cpu::{
        larfg::larfg,
        simd::{
            aligned::LINE_BYTES,
            lanes::{Lane, Lanes},
        },
    },
};

/// Padding on either side of a column, in real numbers: a cache line. Registers reach over a column's ends by less than this.
pub(crate) const ROOM: usize = LINE_BYTES / size_of::<f64>();

/// Registers of rows to which a reflector is applied from the right at a time: a sum each (`base/registers.rs`).
const MOST_REGISTERS: usize = 4;

/// I - tau v v^H, and i v if v is complex. With both, complex products are real products over interleaved (re, im, re, im, ..), which need
/// no shuffles.
pub(crate) struct Reflector<T> {
    /// [`ROOM`] zeros, v, and [`ROOM`] zeros.
    v: Vec<T>,
    iv: Vec<T>,
    len: usize,
    pub tau: f64,
}

impl<T: Scalar + Number<Real = f64>> Reflector<T> {
    pub fn with_capacity(len: usize) -> Self {
        let zeros = vec![T::zero_impl(); len + 2 * ROOM];
        Reflector { v: zeros.clone(), iv: zeros, len: 0, tau: 0.0 }
    }

    /// Storage for the `len` entries of x, from which [`make`](Self::make) computes v.
    #[inline(always)]
    pub fn entries(&mut self, len: usize) -> &mut [T] {
        self.len = len;
        &mut self.v[ROOM..ROOM + len]
    }

    /// Overwrites x by v of its reflector. Returns the beta of H x = beta e_1.
    #[inline(always)]
    pub fn make(&mut self) -> T {
        let (x, after) = self.v[ROOM..].split_at_mut(self.len);
        after[..ROOM].fill(T::zero_impl());
        let Some((alpha, tail)) = x.split_first_mut() else { return T::zero_impl() };
        let h = larfg(*alpha, tail);
        *alpha = T::one_impl();
        tail.iter_mut().for_each(|x| *x *= h.scale);
        if T::IS_COMPLEX {
            let used = ROOM..2 * ROOM + self.len;
            self.iv[used.clone()].iter_mut().zip(&self.v[used]).for_each(|(iv, v)| *iv = times_i(*v));
        }
        self.tau = h.tau;
        h.beta
    }

    /// v.
    pub fn v(&self) -> &[T] {
        &self.v[ROOM..ROOM + self.len]
    }

    /// v as real numbers: the real and imaginary parts.
    fn reals(&self) -> &[f64] {
        bytemuck::cast_slice(&self.v[ROOM..ROOM + self.len])
    }

    /// i v as real numbers.
    fn reals_of_i_times(&self) -> &[f64] {
        bytemuck::cast_slice(&self.iv[ROOM..ROOM + self.len])
    }
}

/// i x.
#[inline(always)]
fn times_i<T: Scalar>(x: T) -> T {
    let x = x.to_complex();
    T::from_complex(Complex::new(-x.im, x.re))
}

/// Real numbers in one element.
const fn parts<T: Scalar>() -> usize {
    if T::IS_COMPLEX { 2 } else { 1 }
}

/// The position of a matrix with contiguous columns.
#[derive(Clone, Copy)]
pub(crate) struct Place<T> {
    pub at: *mut T,
    /// The number of elements from the start of some cache line to `at`. The address itself would not do: it differs from run to run, and
    /// so would the order of summation.
    pub offset: usize,
    /// The column stride.
    pub next: usize,
}

impl<T: Scalar> Place<T> {
    /// The position of entry (i, j).
    ///
    /// # Safety
    /// It is in the same allocation.
    #[inline(always)]
    pub unsafe fn entry(self, i: usize, j: usize) -> Self {
        let distance = i + j * self.next;
        // SAFETY: the caller's promise.
        Place { at: unsafe { self.at.add(distance) }, offset: self.offset + distance, next: self.next }
    }

    /// In real numbers: the start, the column stride, and how far before each column its first register starts. That distance aligns
    /// registers to cache lines, if this is possible in all columns. A store across two cache lines takes twice the time.
    #[inline(always)]
    fn reals<S: Simd>(self) -> (*mut f64, usize, usize) {
        let (n, parts) = (Lanes::<f64, S>::N, parts::<T>());
        let next = self.next * parts;
        (self.at.cast(), next, if n > 2 && next.is_multiple_of(n) { self.offset * parts % n } else { 0 })
    }
}

/// # Safety
/// As for [`Lanes::store`], of `K` registers from `at` on.
#[inline(always)]
unsafe fn store<S: Simd, const K: usize>(lanes: Lanes<f64, S>, at: *mut f64, registers: [Lane<f64, S>; K]) {
    for (r, &register) in registers.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { lanes.store(at.add(r * Lanes::<f64, S>::N), register) };
    }
}

/// X <- X - tau (X conj(v)) v^T for X (`rows` x `v.len()`) at `x`.
///
/// # Safety
/// X, and fewer than [`ROOM`] numbers before and after each of its columns, are valid for reads and writes, and nobody else uses them
/// during the call. The numbers beside X are finite. They stay unchanged.
#[inline(always)]
pub(crate) unsafe fn apply_right<T: Scalar + Number<Real = f64>, S: Simd>(
    lanes: Lanes<f64, S>,
    x: Place<T>,
    rows: usize,
    v: &Reflector<T>,
) {
    let n = Lanes::<f64, S>::N;
    let (x, next, from) = x.reals::<S>();
    let to = from + rows * parts::<T>();
    // Rows are cut into even pieces of few registers, so that the sums and a column of X stay in registers.
    let pieces = to.div_ceil(MOST_REGISTERS * n).max(1);
    let piece = to.div_ceil(pieces).next_multiple_of(n).max(n);
    for start in (0..to).step_by(piece) {
        let range = from.saturating_sub(start)..(to - start).min(piece);
        // SAFETY: each call covers some registers of X's columns.
        unsafe {
            let x = x.sub(from).add(start);
            match range.end.div_ceil(n) {
                1 => right_rows::<T, S, 1>(lanes, x, next, range, v),
                2 => right_rows::<T, S, 2>(lanes, x, next, range, v),
                3 => right_rows::<T, S, 3>(lanes, x, next, range, v),
                _ => right_rows::<T, S, 4>(lanes, x, next, range, v),
            }
        }
    }
}

/// [`apply_right`] on the numbers `range` of each column, counted from `x`, in `K` registers.
///
/// # Safety
/// As for [`apply_right`].
#[inline(always)]
unsafe fn right_rows<T: Scalar + Number<Real = f64>, S: Simd, const K: usize>(
    lanes: Lanes<f64, S>,
    x: *mut f64,
    next: usize,
    range: Range<usize>,
    v: &Reflector<T>,
) {
    let parts = parts::<T>();
    // w = X Re(v), and wi = X Im(v).
    let (mut w, mut wi) = ([lanes.zero(); K], [lanes.zero(); K]);
    for (k, v) in v.reals().chunks_exact(parts).enumerate() {
        // SAFETY: column k of X.
        let column: [_; K] = unsafe { lanes.load_all(x.add(k * next)) };
        let re = lanes.splat(v[0]);
        for r in 0..K {
            w[r] = lanes.mul_add(re, column[r], w[r]);
        }
        if T::IS_COMPLEX {
            let im = lanes.splat(v[1]);
            for r in 0..K {
                wi[r] = lanes.mul_add(im, column[r], wi[r]);
            }
        }
    }
    if T::IS_COMPLEX {
        // w <- w - i wi, and wi <- i w.
        let (w, wi): (&mut [T], &mut [T]) = (lanes.elements(&mut w), lanes.elements(&mut wi));
        for (w, wi) in w.iter_mut().zip(wi) {
            *w -= times_i(*wi);
            *wi = times_i(*w);
        }
    }
    let tau = lanes.splat(-v.tau);
    for w in [&mut w, &mut wi] {
        w.iter_mut().for_each(|w| *w = lanes.mul(tau, *w));
        let numbers: &mut [f64] = lanes.elements(w);
        numbers[..range.start].fill(0.0);
        numbers[range.end..].fill(0.0);
    }
    for (k, v) in v.reals().chunks_exact(parts).enumerate() {
        // SAFETY: column k of X.
        unsafe {
            let at = x.add(k * next);
            let mut column = lanes.load_all::<K>(at);
            let re = lanes.splat(v[0]);
            for r in 0..K {
                column[r] = lanes.mul_add(w[r], re, column[r]);
            }
            if T::IS_COMPLEX {
                let im = lanes.splat(v[1]);
                for r in 0..K {
                    column[r] = lanes.mul_add(wi[r], im, column[r]);
                }
            }
            store(lanes, at, column);
        }
    }
}

/// X <- X - tau v (v^H X) for X (`v.len()` x `cols`) at `x`.
///
/// # Safety
/// As for [`apply_right`].
#[inline(always)]
pub(crate) unsafe fn apply_left<T: Scalar + Number<Real = f64>, S: Simd>(
    lanes: Lanes<f64, S>,
    x: Place<T>,
    cols: usize,
    v: &Reflector<T>,
) {
    let (x, next, from) = x.reals::<S>();
    // SAFETY: the caller's promise.
    unsafe {
        match (from + v.reals().len()).div_ceil(Lanes::<f64, S>::N) {
            1 => left_columns::<T, S, 1>(lanes, x, next, from, cols, v),
            2 => left_columns::<T, S, 2>(lanes, x, next, from, cols, v),
            3 => left_columns::<T, S, 3>(lanes, x, next, from, cols, v),
            4 => left_columns::<T, S, 4>(lanes, x, next, from, cols, v),
            5 => left_columns::<T, S, 5>(lanes, x, next, from, cols, v),
            6 => left_columns::<T, S, 6>(lanes, x, next, from, cols, v),
            7 => left_columns::<T, S, 7>(lanes, x, next, from, cols, v),
            8 => left_columns::<T, S, 8>(lanes, x, next, from, cols, v),
            9 => left_columns::<T, S, 9>(lanes, x, next, from, cols, v),
            10 => left_columns::<T, S, 10>(lanes, x, next, from, cols, v),
            11 => left_columns::<T, S, 11>(lanes, x, next, from, cols, v),
            12 => left_columns::<T, S, 12>(lanes, x, next, from, cols, v),
            13 => left_columns::<T, S, 13>(lanes, x, next, from, cols, v),
            _ => {
                let (re, im) = (v.reals(), v.reals_of_i_times());
                for k in 0..cols {
                    let column = std::slice::from_raw_parts_mut(x.add(k * next), re.len());
                    let (w, wi) = (lanes.dot(re, column), if T::IS_COMPLEX { lanes.dot(im, column) } else { 0.0 });
                    lanes.axpy(-v.tau * w, re, column);
                    if T::IS_COMPLEX {
                        lanes.axpy(-v.tau * wi, im, column);
                    }
                }
            }
        }
    }
}

/// [`apply_left`] with v, i v and a column of X in `K` registers each. These start `from` numbers before the column.
///
/// # Safety
/// As for [`apply_left`].
#[inline(always)]
unsafe fn left_columns<T: Scalar + Number<Real = f64>, S: Simd, const K: usize>(
    lanes: Lanes<f64, S>,
    x: *mut f64,
    next: usize,
    from: usize,
    cols: usize,
    v: &Reflector<T>,
) {
    // SAFETY: there are zeros on either side of v and of i v.
    let (re, im): ([_; K], [_; K]) = unsafe {
        let re = lanes.load_all(v.reals().as_ptr().sub(from));
        (re, if T::IS_COMPLEX { lanes.load_all(v.reals_of_i_times().as_ptr().sub(from)) } else { [lanes.zero(); K] })
    };
    for k in 0..cols {
        // SAFETY: column k of X.
        unsafe {
            let at = x.sub(from).add(k * next);
            let mut column = lanes.load_all::<K>(at);
            // Re and Im of v^H x.
            let w = lanes.splat(-v.tau * dot(lanes, &re, &column));
            let wi = if T::IS_COMPLEX { lanes.splat(-v.tau * dot(lanes, &im, &column)) } else { lanes.zero() };
            for r in 0..K {
                column[r] = lanes.mul_add(re[r], w, column[r]);
            }
            if T::IS_COMPLEX {
                for r in 0..K {
                    column[r] = lanes.mul_add(im[r], wi, column[r]);
                }
            }
            store(lanes, at, column);
        }
    }
}

/// The dot product, in two independent chains of sums.
#[inline(always)]
fn dot<S: Simd, const K: usize>(lanes: Lanes<f64, S>, x: &[Lane<f64, S>; K], y: &[Lane<f64, S>; K]) -> f64 {
    let mut sums = [lanes.zero(); 2];
    for r in 0..K {
        sums[r % 2] = lanes.mul_add(x[r], y[r], sums[r % 2]);
    }
    lanes.sum(lanes.add(sums[0], sums[1]))
}

#[cfg(test)]
mod tests {
    use faer::traits::SimdArch;
    use pulp::WithSimd;

    use super::*;

    /// The application from the left or from the right to X (rows x cols), whose columns start at `offset`, `offset + next`, ...
    struct Case<'a, T> {
        v: &'a [T],
        x: &'a mut [T],
        offset: usize,
        next: usize,
        rows: usize,
        cols: usize,
        left: bool,
    }

    impl<T: Scalar + Number<Real = f64>> WithSimd for Case<'_, T> {
        type Output = f64;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> f64 {
            let Case { v: entries, x, offset, next, rows, cols, left } = self;
            let lanes = Lanes::<f64, S>::new(simd);
            // A longer reflector first: its remains must not affect the next one.
            let mut v = Reflector::<T>::with_capacity(entries.len() + 3);
            v.entries(entries.len() + 3).fill(T::one_impl());
            v.make();
            v.entries(entries.len()).copy_from_slice(entries);
            v.make();
            // SAFETY: the case has `ROOM` entries before, between and after the columns.
            unsafe {
                let place = Place { at: x.as_mut_ptr().add(offset), offset, next };
                if left { apply_left(lanes, place, cols, &v) } else { apply_right(lanes, place, rows, &v) }
            }
            v.tau
        }
    }

    /// H X and X conj(H) match sums over their entries: for lengths around every number of registers, for every offset of a column in a
    /// cache line, equal in all columns or not. Numbers beside X stay bitwise unchanged.
    fn against_sums<T: Scalar + Number<Real = f64>>() {
        let entry = |i: usize, j: usize| {
            T::from_complex(Complex::new((i * 7 + j * 3) as f64 % 11.0 - 5.2, (i * 5 + j) as f64 % 7.0 - 2.9))
        };
        for (len, other) in [(1, 3), (2, 9), (7, 1), (8, 20), (17, 33), (48, 95), (49, 64), (97, 5), (120, 70)] {
            for offset in (ROOM..2 * ROOM).step_by(if T::IS_COMPLEX { 1 } else { 3 }) {
                for (left, extra) in [(true, 0), (true, 1), (false, 0), (false, 1)] {
                    let (rows, cols) = if left { (len, other) } else { (other, len) };
                    let next = (rows + ROOM).next_multiple_of(ROOM) + extra;
                    let before: Vec<T> = (0..offset + cols * next + ROOM).map(|at| entry(at, at / next)).collect();
                    let x: Vec<T> = (0..len).map(|k| entry(k, 40)).collect();
                    let mut after = before.clone();
                    let case = Case { v: &x, x: &mut after, offset, next, rows, cols, left };
                    let tau = T::Arch::default().dispatch(case);
                    let h = larfg(x[0], &x[1..]);
                    let v: Vec<Complex<f64>> =
                        std::iter::once(1.0.into()).chain(x[1..].iter().map(|x| (*x * h.scale).to_complex())).collect();
                    assert_eq!(tau, h.tau);
                    let at = |i: usize, j: usize| before[offset + i + j * next].to_complex();
                    let mut want = before.clone();
                    for (i, j) in (0..cols).flat_map(|j| (0..rows).map(move |i| (i, j))) {
                        let change = if left {
                            v[i] * (0..rows).map(|k| v[k].conj() * at(k, j)).sum::<Complex<f64>>()
                        } else {
                            v[j] * (0..cols).map(|k| v[k].conj() * at(i, k)).sum::<Complex<f64>>()
                        };
                        want[offset + i + j * next] = T::from_complex(at(i, j) - change * tau);
                    }
                    for (place, (&got, &want)) in after.iter().zip(&want).enumerate() {
                        let (i, j) = (place.wrapping_sub(offset) % next, place.wrapping_sub(offset) / next);
                        if i < rows && j < cols {
                            // Entries are below 8, ||v||^2 tau is 2, and no sum has more than 120 terms.
                            let error = (got.to_complex() - want.to_complex()).norm();
                            assert!(error < 1e-12, "{len}, {other}, {offset}, {left}, {extra}: ({i}, {j}) {error:e}");
                        } else {
                            assert_eq!(got, want, "{len}, {other}, {offset}, {left}, {extra}: beside X, {place}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn real_reflectors() {
        against_sums::<f64>();
    }

    #[test]
    fn complex_reflectors() {
        against_sums::<Complex<f64>>();
    }
}
