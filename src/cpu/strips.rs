//! X <- X - V (T^H (V^H X)) of real numbers whose rows are contiguous, as in the LQ sweeps of a matrix that lies by columns, strip by strip.
//!
//! A strip is as many columns as two registers hold. Both of its large products read it where it lies, with sums in registers: the first
//! brings it into the second-level cache, where the second finds it; and while a strip is worked on, the next one's cache lines are asked
//! for. A matrix product that goes through all rows for a few columns finds each of them in another page, and waits.

#![allow(clippy::needless_range_loop, reason = "loops of constant length over several arrays of registers, which are unrolled")]

use std::marker::PhantomData;

use faer::{
    MatMut, MatRef,
    traits::{ComplexField, SimdArch},
};
use pulp::{Simd, WithSimd};

use super::{
    ahead::prefetch,
    aligned::LINE_BYTES,
    lanes::{Lane, Lanes},
};
use crate::scalar::Scalar;

/// Registers in a row of a strip.
const REGISTERS: usize = 2;

/// Rows whose products are summed before they are added to those of others: short sums, and 32 KiB of a strip with AVX-512.
const ROWS: usize = 256;

/// Columns of a strip of `T`; none where there are no registers for it, or where the matrix product is faster, as for complex numbers.
pub(super) fn width<T: Scalar>() -> Option<usize> {
    let width = <T as ComplexField>::Arch::default().dispatch(Width::<T>(PhantomData));
    (width > REGISTERS && !T::IS_COMPLEX).then_some(width)
}

struct Width<T>(PhantomData<T>);

impl<T: Scalar> WithSimd for Width<T> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        REGISTERS * Lanes::<T, S>::N
    }
}

/// Elements of workspace that [`update`] needs for `reflectors` columns of V, where strips are `width` columns wide.
pub(super) fn workspace(width: usize, reflectors: usize) -> usize {
    2 * width * reflectors
}

/// Applies I - V T^H V^H to `x`, which has whole strips, and contiguous rows. `runs`: some rows of V, and the first of as many rows of X that
/// they belong to. V and T are column-major; `work` are [`workspace`] elements.
pub(super) fn update<'a, T: Scalar>(
    x: MatMut<'_, T>,
    runs: impl Iterator<Item = (MatRef<'a, T>, usize)> + Clone,
    t: MatRef<'_, T>,
    work: &mut [T],
) {
    <T as ComplexField>::Arch::default().dispatch(Update { x, runs, t, work });
}

struct Update<'a, T, I> {
    x: MatMut<'a, T>,
    runs: I,
    t: MatRef<'a, T>,
    work: &'a mut [T],
}

impl<'v, T: Scalar, I: Iterator<Item = (MatRef<'v, T>, usize)> + Clone> WithSimd for Update<'_, T, I> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = Lanes::<T, S>::new(simd);
        let Update { x, runs, t, work } = self;
        let (width, reflectors) = (REGISTERS * Lanes::<T, S>::N, t.ncols());
        assert!(x.col_stride() == 1 && x.row_stride() >= 0 && x.ncols().is_multiple_of(width) && t.nrows() == reflectors);
        let column_major = |a: MatRef<'_, T>| (a.nrows() <= 1 || a.row_stride() == 1) && (a.ncols() <= 1 || a.col_stride() >= 0);
        assert!(column_major(t));
        for (v, row) in runs.clone() {
            assert!(v.ncols() == reflectors && row + v.nrows() <= x.nrows() && column_major(v));
        }
        let (w, tw) = work[..workspace(width, reflectors)].split_at_mut(width * reflectors);
        for first in (0..x.ncols()).step_by(width) {
            w.fill(T::zero_impl());
            tw.fill(T::zero_impl());
            let w = Strip { at: w.as_mut_ptr(), ld: width };
            let tw = Strip { at: tw.as_mut_ptr(), ld: width };
            let strip = Strip { at: x.as_ptr_mut().wrapping_add(first), ld: x.row_stride().unsigned_abs() };
            let next = if first + width < x.ncols() { width } else { 0 };
            // SAFETY: the assertions: the strip's columns are those of X, its rows and V's are those of each run, and W's have `width` elements
            // for each reflector. All are borrowed, for writing where that is done.
            unsafe {
                for (v, row) in runs.clone() {
                    for i in (0..v.nrows()).step_by(ROWS) {
                        let (x, v) = (strip.row(row + i), v.subrows(i, ROWS.min(v.nrows() - i)));
                        Project { x, v, w, sign: T::one_impl(), ahead: x.at.wrapping_add(next) }.all(lanes, reflectors);
                    }
                }
                Project { x: w, v: t, w: tw, sign: -T::one_impl(), ahead: w.at }.all(lanes, reflectors);
                for (v, row) in runs.clone() {
                    Expand { x: strip.row(row), v, w: tw }.all(lanes, v.nrows());
                }
            }
        }
    }
}

/// Rows of two registers, `ld` elements from one to the next.
struct Strip<T> {
    at: *mut T,
    ld: usize,
}

impl<T> Clone for Strip<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Strip<T> {}

impl<T: Scalar> Strip<T> {
    #[inline(always)]
    fn row(self, i: usize) -> Self {
        Strip { at: self.at.wrapping_add(i * self.ld), ..self }
    }

    /// # Safety
    /// There are such rows, and nobody changes them meanwhile.
    #[inline(always)]
    unsafe fn load<S: Simd, const C: usize>(self, lanes: Lanes<T, S>) -> [[Lane<T, S>; REGISTERS]; C] {
        let mut rows = [[lanes.zero(); REGISTERS]; C];
        for c in 0..C {
            for r in 0..REGISTERS {
                // SAFETY: the caller's promise.
                rows[c][r] = unsafe { lanes.load(self.row(c).at.add(r * Lanes::<T, S>::N)) };
            }
        }
        rows
    }

    /// # Safety
    /// There are such rows, and nobody else uses them meanwhile.
    #[inline(always)]
    unsafe fn store<S: Simd, const C: usize>(self, lanes: Lanes<T, S>, rows: [[Lane<T, S>; REGISTERS]; C]) {
        for c in 0..C {
            for r in 0..REGISTERS {
                // SAFETY: the caller's promise.
                unsafe { lanes.store(self.row(c).at.add(r * Lanes::<T, S>::N), rows[c][r]) };
            }
        }
    }
}

/// Rows of the largest groups: with two registers of sums for each, as many as leave some for what is multiplied.
#[inline(always)]
const fn widest<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 12 } else { 6 }
}

/// What is done to a number of rows, which go by in groups as large as there are registers for.
trait Groups<T: Scalar> {
    /// The rows `first .. first + C`.
    ///
    /// # Safety
    /// There are such rows, and nobody else uses them meanwhile.
    unsafe fn group<S: Simd, const C: usize>(&self, lanes: Lanes<T, S>, first: usize);

    /// All of `count` rows.
    ///
    /// # Safety
    /// As for a group.
    #[inline(always)]
    unsafe fn all<S: Simd>(&self, lanes: Lanes<T, S>, count: usize) {
        let widest = widest::<S>();
        let mut first = 0;
        while first < count {
            let group = match count - first {
                left if left >= widest => widest,
                8.. => 8,
                4.. => 4,
                2.. => 2,
                _ => 1,
            };
            // SAFETY: passed on.
            unsafe {
                match group {
                    12 => self.group::<S, 12>(lanes, first),
                    8 => self.group::<S, 8>(lanes, first),
                    6 => self.group::<S, 6>(lanes, first),
                    4 => self.group::<S, 4>(lanes, first),
                    2 => self.group::<S, 2>(lanes, first),
                    _ => self.group::<S, 1>(lanes, first),
                }
            }
            first += group;
        }
    }
}

/// W += sign V^H X, a row of W for each column of V.
struct Project<'a, T> {
    x: Strip<T>,
    v: MatRef<'a, T>,
    w: Strip<T>,
    sign: T,
    /// Where a row of the strip that comes next begins, beside the first of `x`.
    ahead: *const T,
}

impl<T: Scalar> Groups<T> for Project<'_, T> {
    #[inline(always)]
    // SAFETY: the caller's promise, which the trait asks for.
    unsafe fn group<S: Simd, const C: usize>(&self, lanes: Lanes<T, S>, first: usize) {
        let &Project { x, v, w, sign, ahead } = self;
        // Of each of the next strip's rows the first group asks for one cache line, the second for the next one: both at once would be more
        // than memory gives meanwhile.
        let line = first.div_ceil(widest::<S>()) * LINE_BYTES;
        let asks = line < REGISTERS * Lanes::<T, S>::N * size_of::<T>();
        let ahead = ahead.wrapping_byte_add(line);
        let (at, ld) = (v.as_ptr().wrapping_add(first * v.col_stride().unsigned_abs()), v.col_stride().unsigned_abs());
        let mut sums = [[lanes.zero(); REGISTERS]; C];
        for i in 0..v.nrows() {
            // SAFETY: X has V's rows, and V these columns.
            unsafe {
                let [x] = x.row(i).load::<S, 1>(lanes);
                if asks {
                    prefetch(ahead.wrapping_add(i * self.x.ld));
                }
                for c in 0..C {
                    let v = lanes.splat(*at.add(c * ld + i));
                    for r in 0..REGISTERS {
                        sums[c][r] = lanes.conj_mul_add(v, x[r], sums[c][r]);
                    }
                }
            }
        }
        let sign = lanes.splat(sign);
        // SAFETY: W has a row for each column of V.
        unsafe {
            let mut rows = w.row(first).load::<S, C>(lanes);
            for c in 0..C {
                for r in 0..REGISTERS {
                    rows[c][r] = lanes.mul_add(sign, sums[c][r], rows[c][r]);
                }
            }
            w.row(first).store(lanes, rows);
        }
    }
}

/// X += V W.
struct Expand<'a, T> {
    x: Strip<T>,
    v: MatRef<'a, T>,
    w: Strip<T>,
}

impl<T: Scalar> Groups<T> for Expand<'_, T> {
    #[inline(always)]
    // SAFETY: the caller's promise, which the trait asks for.
    unsafe fn group<S: Simd, const C: usize>(&self, lanes: Lanes<T, S>, first: usize) {
        let &Expand { x, v, w } = self;
        let (at, ld) = (v.as_ptr().wrapping_add(first), v.col_stride().unsigned_abs());
        // SAFETY: X has V's rows, these among them, and W a row for each column of V.
        unsafe {
            let mut rows = x.row(first).load::<S, C>(lanes);
            for k in 0..v.ncols() {
                let [w] = w.row(k).load::<S, 1>(lanes);
                for c in 0..C {
                    let v = lanes.splat(*at.add(k * ld + c));
                    for r in 0..REGISTERS {
                        rows[c][r] = lanes.mul_add(v, w[r], rows[c][r]);
                    }
                }
            }
            x.row(first).store(lanes, rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use faer::Mat;

    use super::*;
    use crate::scalar::{Re, RealElement};

    /// The strips of X become X - V T^T V^T X, whatever the number of rows, runs and reflectors; rows that no run has stay what they were. The
    /// error is to be a unit of what the sums, of numbers up to a half, could come to if none cancelled; more terms than a few cancel.
    fn strips_are_updated<T: Scalar>(eps: f64) {
        let Some(width) = width::<T>() else { return };
        let entry = |i: usize, j: usize, k: usize| ((i * 7919 + j * 104_729 + k * 15_485_863) % 1009) as f64 / 1009.0 - 0.5;
        let number = |x: f64| T::from_real_impl(&Re::<T>::from_double(x));
        for (rows, reflectors, strips) in [(1, 1, 1), (7, 3, 2), (48, 48, 1), (300, 13, 3), (531, 32, 2)] {
            let v = Mat::<T>::from_fn(rows, reflectors, |i, j| number(entry(i, j, 1)));
            let t = Mat::<T>::from_fn(reflectors, reflectors, |i, j| number(if i <= j { entry(i, j, 2) } else { 0.0 }));
            let before = Mat::<T>::from_fn(rows + 5, strips * width, |i, j| number(entry(i, j, 3)));
            let half = rows / 2;
            let runs = [(v.subrows(0, half), 1), (v.subrows(half, rows - half), half + 4)];
            let inside =
                |i: usize| (1..half + 1).contains(&i).then(|| i - 1).or((half + 4..rows + 4).contains(&i).then(|| i - 4));
            let mut by_rows = before.transpose().to_owned();
            let mut work = vec![T::one_impl(); workspace(width, reflectors)];
            update(by_rows.as_mut().transpose_mut(), runs.into_iter(), t.as_ref(), &mut work);

            let wide = |a: MatRef<'_, T>| Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)].to_complex().re);
            let (v, t, x) = (wide(v.as_ref()), wide(t.as_ref()), wide(before.as_ref()));
            let of_v = Mat::from_fn(rows + 5, reflectors, |i, j| inside(i).map_or(0.0, |i| v[(i, j)]));
            let want = &x - &of_v * (t.transpose() * (of_v.transpose() * &x));
            let size = 1.0 + (rows * reflectors * reflectors) as f64 / 16.0;
            for i in 0..rows + 5 {
                for j in 0..strips * width {
                    let (got, before) = (by_rows[(j, i)].to_complex().re, x[(i, j)]);
                    match inside(i) {
                        None => assert_eq!(got, before),
                        Some(_) => {
                            assert!((got - want[(i, j)]).abs() <= size * eps, "{rows} {reflectors}: {got} {}", want[(i, j)])
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn strips_in_both_precisions() {
        strips_are_updated::<f32>(f32::EPSILON.into());
        strips_are_updated::<f64>(f64::EPSILON);
    }
}
