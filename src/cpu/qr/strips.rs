//! X <- X - V (T^H (V^H X)), strip by strip, for X with contiguous rows, as in the LQ sweeps of a column-major matrix.
//!
//! A strip is as many columns as two registers hold. Both of its large products read it in place, with sums in registers. The first brings
//! it into the L2 cache, where the second finds it. The cache lines of the next strip are prefetched meanwhile. A matrix product that goes
//! through all rows for a few columns would find each row in another page, and stall.

#![allow(clippy::needless_range_loop, reason = "loops of constant length over several arrays of registers, which are unrolled")]

use std::{cell::Cell, marker::PhantomData, ops::Range};

use faer::{
    MatMut, MatRef,
    traits::{ComplexField, SimdArch},
};
use pulp::{Simd, WithSimd};

use crate::{
    base::{number::Scalar, registers::Choices},
    cpu::simd::{
        aligned::LINE_BYTES,
        lanes::{Lane, Lanes},
        prefetch::prefetch,
    },
};

/// Registers in a row of a strip.
const REGISTERS: usize = 2;

/// Rows whose products are summed before the sum is added to W. Chains of sums are short, and with AVX-512 these rows of a strip are 32
/// KiB.
const CHAIN_ROWS: usize = 256;

/// Columns of a strip of `T`. None if there is no SIMD for it, or if the matrix product is faster, as for complex numbers.
pub(crate) fn width<T: Scalar>() -> Option<usize> {
    registers::<T>().filter(|_| !T::IS_COMPLEX)
}

/// Columns of a strip of `T`, also if the matrix product is faster. None if there is no SIMD for it.
pub(crate) fn registers<T: Scalar>() -> Option<usize> {
    let width = <T as ComplexField>::Arch::default().dispatch(Width::<T>(PhantomData));
    (width > REGISTERS).then_some(width)
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
pub(crate) fn workspace(width: usize, reflectors: usize) -> usize {
    2 * width * reflectors
}

/// Some rows of V, unit lower trapezoidal.
pub(crate) struct Run<'a, T> {
    /// The rows, column-major.
    pub v: MatRef<'a, T>,
    /// The row of V where they begin.
    pub first: usize,
    /// Entries of these rows more than this below their own diagonal are zero: 0 for an upper triangle.
    pub below: Option<usize>,
    /// The row of X where they begin.
    pub row: usize,
}

/// What to bring into the L2 cache meanwhile.
#[derive(Clone, Copy)]
pub(crate) enum Ahead<'a, T> {
    /// The next strip.
    Strip,
    /// These elements, `(first, number)`, a few lines for each row of a strip.
    Elements(&'a [(*const T, usize)]),
}

/// Applies I - V T^H V^H if `adjoint`, else I - V T V^H, to `x`, whose rows are contiguous and whose columns are whole strips. T is
/// column-major. `work` has [`workspace`] elements.
pub(crate) fn update<T: Scalar>(
    x: MatMut<'_, T>,
    runs: &[Run<'_, T>],
    t: MatRef<'_, T>,
    adjoint: bool,
    ahead: Ahead<'_, T>,
    work: &mut [T],
) {
    <T as ComplexField>::Arch::default().dispatch(Update { x, runs, t, adjoint, ahead, work });
}

struct Update<'a, T> {
    x: MatMut<'a, T>,
    runs: &'a [Run<'a, T>],
    t: MatRef<'a, T>,
    adjoint: bool,
    ahead: Ahead<'a, T>,
    work: &'a mut [T],
}

impl<T: Scalar> WithSimd for Update<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = Lanes::<T, S>::new(simd);
        let Update { x, runs, t, adjoint, ahead, work } = self;
        let (width, reflectors) = (REGISTERS * Lanes::<T, S>::N, t.ncols());
        assert!(x.col_stride() == 1 && x.row_stride() >= 0 && x.ncols().is_multiple_of(width) && t.nrows() == reflectors);
        let column_major = |a: MatRef<'_, T>| (a.nrows() <= 1 || a.row_stride() == 1) && (a.ncols() <= 1 || a.col_stride() >= 0);
        assert!(column_major(t));
        for &Run { v, row, .. } in runs {
            assert!(v.ncols() == reflectors && row + v.nrows() <= x.nrows() && column_major(v));
        }
        let lines = match ahead {
            Ahead::Strip => None,
            Ahead::Elements(elements) => Some(Lines(Cell::new((elements, 0)))),
        };
        let (w, tw) = work[..workspace(width, reflectors)].split_at_mut(width * reflectors);
        for first in (0..x.ncols()).step_by(width) {
            w.fill(T::zero_impl());
            tw.fill(T::zero_impl());
            let w = Strip { at: w.as_mut_ptr(), ld: width };
            let tw = Strip { at: tw.as_mut_ptr(), ld: width };
            let strip = Strip { at: x.as_ptr_mut().wrapping_add(first), ld: x.row_stride().unsigned_abs() };
            let next = if first + width < x.ncols() { width } else { 0 };
            let ahead = |x: Strip<T>| lines.as_ref().map_or(Prefetch::Rows(x.at.wrapping_add(next)), Prefetch::Lines);
            // SAFETY: the assertions: the strip's columns are inside X, its rows and V's are those of each run, and W has a row of `width`
            // elements for each reflector. All are borrowed, mutably where they are written.
            unsafe {
                for &Run { v, first, below, row } in runs {
                    for i in (0..v.nrows()).step_by(CHAIN_ROWS) {
                        let (x, v) = (strip.row(row + i), v.subrows(i, CHAIN_ROWS.min(v.nrows() - i)));
                        let v = Factor { v, lower: first + i, below: below.map(|below| below as isize - i as isize) };
                        Project { x, v, w, sign: T::one_impl(), ahead: ahead(x) }.all(lanes, reflectors);
                    }
                }
                let t = Factor { v: t, lower: reflectors, below: Some(0) };
                if adjoint {
                    Project { x: w, v: t, w: tw, sign: -T::one_impl(), ahead: Prefetch::Nothing }.all(lanes, reflectors);
                } else {
                    // -T W, as T times the negated W.
                    w.negate(reflectors, width);
                    Expand { x: tw, v: t, w }.all(lanes, reflectors);
                }
                for &Run { v, first, below, row } in runs {
                    let v = Factor { v, lower: first, below: below.map(|below| below as isize) };
                    Expand { x: strip.row(row), v, w: tw }.all(lanes, v.v.nrows());
                }
            }
        }
    }
}

/// A column-major factor of a product, and its pattern of zeros.
#[derive(Clone, Copy)]
struct Factor<'a, T> {
    v: MatRef<'a, T>,
    /// Entries (i, j) with i + lower < j are zero,
    lower: usize,
    /// and those with i > j + below.
    below: Option<isize>,
}

impl<T> Factor<'_, T> {
    /// The rows outside which `columns` are zero.
    #[inline(always)]
    fn rows_of(&self, columns: Range<usize>) -> Range<usize> {
        let rows = self.v.nrows();
        let end = self.below.map_or(rows, |below| columns.end.saturating_add_signed(below).min(rows));
        columns.start.saturating_sub(self.lower).min(end)..end
    }

    /// The columns outside which `rows` are zero.
    #[inline(always)]
    fn columns_of(&self, rows: Range<usize>) -> Range<usize> {
        let end = (rows.end + self.lower).min(self.v.ncols());
        self.below.map_or(0, |below| rows.start.saturating_add_signed(-below)).min(end)..end
    }
}

/// Rows of two registers each, with leading dimension `ld`.
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
    /// There are `rows` rows of `width` elements, and nobody else uses them during the call.
    #[inline(always)]
    unsafe fn negate(self, rows: usize, width: usize) {
        for i in 0..rows {
            for k in 0..width {
                // SAFETY: the caller's promise.
                unsafe {
                    let at = self.row(i).at.add(k);
                    *at = -*at;
                }
            }
        }
    }

    /// # Safety
    /// There are such rows, and nobody changes them during the call.
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
    /// There are such rows, and nobody else uses them during the call.
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

/// Rows of a group. Each has two accumulators, which leaves some registers for the operands.
#[inline(always)]
const fn widest<S: Simd>() -> usize {
    Choices::of::<S>().group_rows
}

/// An operation on rows, in groups, and the last ones one by one.
trait Groups<T: Scalar> {
    /// The rows `first .. first + C`.
    ///
    /// # Safety
    /// There are such rows, and nobody else uses them during the call.
    unsafe fn group<S: Simd, const C: usize>(&self, lanes: Lanes<T, S>, first: usize);

    /// All of `count` rows.
    ///
    /// # Safety
    /// As for a group.
    #[inline(always)]
    unsafe fn all<S: Simd>(&self, lanes: Lanes<T, S>, count: usize) {
        let most = widest::<S>();
        let whole = count / most * most;
        for first in (0..whole).step_by(most) {
            // The conditions keep groups that an instruction set does not have from being compiled.
            // SAFETY: the caller's promise.
            unsafe {
                match most {
                    6 if const { widest::<S>() == 6 } => self.group::<S, 6>(lanes, first),
                    4 if const { widest::<S>() == 4 } => self.group::<S, 4>(lanes, first),
                    _ => (first..first + most).for_each(|first| self.group::<S, 1>(lanes, first)),
                }
            }
        }
        for first in whole..count {
            // SAFETY: likewise.
            unsafe { self.group::<S, 1>(lanes, first) };
        }
    }
}

/// What [`Project`] prefetches.
enum Prefetch<'a, T> {
    Nothing,
    /// The rows of the next strip, from its start in the first row of X on.
    Rows(*const T),
    Lines(&'a Lines<'a, T>),
}

/// Elements to prefetch, and how many bytes of the first ones are done.
struct Lines<'a, T>(Cell<(&'a [(*const T, usize)], usize)>);

impl<T> Lines<'_, T> {
    /// Takes up to `most` cache lines: the first, and their number.
    #[inline(always)]
    fn take(&self, most: usize) -> (*const T, usize) {
        let (elements, done) = self.0.get();
        let Some((&(first, count), rest)) = elements.split_first() else { return (std::ptr::null(), 0) };
        let lines = (count * size_of::<T>()).saturating_sub(done).div_ceil(LINE_BYTES);
        let taken = lines.min(most);
        self.0.set(if taken == lines { (rest, 0) } else { (elements, done + taken * LINE_BYTES) });
        (first.wrapping_byte_add(done), taken)
    }
}

/// Cache lines that are prefetched for each row.
const LINES_A_ROW: usize = 2;

/// W += sign V^H X, a row of W for each column of V.
struct Project<'a, T> {
    x: Strip<T>,
    v: Factor<'a, T>,
    w: Strip<T>,
    sign: T,
    ahead: Prefetch<'a, T>,
}

impl<T: Scalar> Groups<T> for Project<'_, T> {
    #[inline(always)]
    // SAFETY: the trait's contract.
    unsafe fn group<S: Simd, const C: usize>(&self, lanes: Lanes<T, S>, first: usize) {
        let &Project { x, v: factor, w, sign, ref ahead } = self;
        let v = factor.v;
        let rows = factor.rows_of(first..first + C);
        let (at, ld) = (v.as_ptr().wrapping_add(first * v.col_stride().unsigned_abs()), v.col_stride().unsigned_abs());
        let bytes = REGISTERS * Lanes::<T, S>::N * size_of::<T>();
        let (mut asks, mut elsewhere) = (None, (std::ptr::null(), 0));
        match (ahead, factor.below) {
            (Prefetch::Nothing, _) => (),
            (Prefetch::Lines(lines), _) => elsewhere = lines.take(LINES_A_ROW * rows.len()),
            // The rows that no earlier group has prefetched.
            (Prefetch::Rows(ahead), Some(below)) => {
                for i in first.saturating_add_signed(below).min(rows.end)..rows.end {
                    for line in (0..bytes).step_by(LINE_BYTES) {
                        prefetch(ahead.wrapping_add(i * x.ld).wrapping_byte_add(line));
                    }
                }
            }
            // The first group prefetches one cache line of each row, and the second group the next one. Both at once would exceed the
            // memory bandwidth.
            (Prefetch::Rows(ahead), None) => {
                let line = first.div_ceil(widest::<S>()) * LINE_BYTES;
                asks = (line < bytes).then(|| ahead.wrapping_byte_add(line));
            }
        }
        let mut sums = [[lanes.zero(); REGISTERS]; C];
        for i in rows {
            // SAFETY: X has V's rows, and V these columns.
            unsafe {
                let [x] = x.row(i).load::<S, 1>(lanes);
                if let Some(ahead) = asks {
                    prefetch(ahead.wrapping_add(i * self.x.ld));
                } else if elsewhere.1 > 0 {
                    (0..LINES_A_ROW).for_each(|line| prefetch(elsewhere.0.wrapping_byte_add(line * LINE_BYTES)));
                    elsewhere =
                        (elsewhere.0.wrapping_byte_add(LINES_A_ROW * LINE_BYTES), elsewhere.1.saturating_sub(LINES_A_ROW));
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
    v: Factor<'a, T>,
    w: Strip<T>,
}

impl<T: Scalar> Groups<T> for Expand<'_, T> {
    #[inline(always)]
    // SAFETY: the trait's contract.
    unsafe fn group<S: Simd, const C: usize>(&self, lanes: Lanes<T, S>, first: usize) {
        let &Expand { x, v: factor, w } = self;
        let v = factor.v;
        let (at, ld) = (v.as_ptr().wrapping_add(first), v.col_stride().unsigned_abs());
        // SAFETY: X has V's rows, these among them, and W a row for each column of V.
        unsafe {
            let mut rows = x.row(first).load::<S, C>(lanes);
            for k in factor.columns_of(first..first + C) {
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
    use num_complex::Complex;

    use super::*;

    /// The strips of X become X - V T^H V^H X, or X - V T V^H X, for various numbers of rows, runs and reflectors. V is zero above its
    /// diagonal, and if the runs are triangles, below the diagonal of each run. Rows outside all runs stay unchanged. Bound: eps times the
    /// largest possible sum of the absolute values of the terms, whose factors are at most 1/2.
    fn strips_are_updated<T: Scalar>(eps: f64) {
        let Some(width) = registers::<T>() else { return };
        let entry = |i: usize, j: usize, k: usize| ((i * 7919 + j * 104_729 + k * 15_485_863) % 1009) as f64 / 1009.0 - 0.5;
        let number = |i: usize, j: usize, k: usize| T::from_complex(Complex::new(entry(i, j, k), entry(j, i, k + 3)));
        // Every run is preceded by a gap of two rows.
        let (of_run, gap) = (|i: usize, run: usize| (i / run, i % run), 2);
        for (rows, run, reflectors, strips, triangular) in [
            (1, 1, 1, 1, false),
            (7, 4, 3, 2, false),
            (48, 24, 48, 1, false),
            (300, 150, 13, 3, false),
            (531, 531, 32, 2, false),
            (13, 13, 13, 2, true),
            (90, 31, 31, 2, true),
            (144, 48, 48, 1, true),
            (600, 300, 300, 1, true),
        ] {
            let zero = |i: usize, j: usize| i < j || triangular && of_run(i, run).1 > j;
            let v = Mat::<T>::from_fn(rows, reflectors, |i, j| if zero(i, j) { T::zero_impl() } else { number(i, j, 1) });
            let t = Mat::<T>::from_fn(reflectors, reflectors, |i, j| if i <= j { number(i, j, 2) } else { T::zero_impl() });
            let place = |i: usize| i + (of_run(i, run).0 + 1) * gap;
            let before = Mat::<T>::from_fn(place(rows - 1) + 3, strips * width, |i, j| number(i, j, 3));
            let runs = (0..rows).step_by(run).map(|first| {
                let v = v.subrows(first, run.min(rows - first));
                Run { v, first, below: triangular.then_some(0), row: place(first) }
            });
            let runs: Vec<_> = runs.collect();
            for adjoint in [true, false] {
                let mut by_rows = before.transpose().to_owned();
                let mut work = vec![T::one_impl(); workspace(width, reflectors)];
                let elements = [(work.as_ptr(), work.len()), (before.as_ptr(), 40)];
                let ahead = if adjoint { Ahead::Strip } else { Ahead::Elements(&elements) };
                update(by_rows.as_mut().transpose_mut(), &runs, t.as_ref(), adjoint, ahead, &mut work);

                let wide = |a: MatRef<'_, T>| Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)].to_complex());
                let (v, t, x) = (wide(v.as_ref()), wide(t.as_ref()), wide(before.as_ref()));
                let mut of_v = Mat::zeros(x.nrows(), reflectors);
                (0..rows).for_each(|i| of_v.row_mut(place(i)).copy_from(v.row(i)));
                let w = of_v.adjoint() * &x;
                let want = &x - &of_v * if adjoint { t.adjoint() * w } else { &t * w };
                let size = 1.0 + (rows * reflectors * reflectors) as f64 / 16.0;
                let inside: Vec<usize> = (0..rows).map(place).collect();
                for i in 0..x.nrows() {
                    for j in 0..strips * width {
                        let (got, want) =
                            (by_rows[(j, i)].to_complex(), if inside.contains(&i) { want[(i, j)] } else { x[(i, j)] });
                        let most = if inside.contains(&i) { size * eps } else { 0.0 };
                        assert!((got - want).norm() <= most, "{rows} {run} {reflectors}, {adjoint}, ({i}, {j}): {got} {want}");
                    }
                }
            }
        }
    }

    #[test]
    fn strips_in_every_type() {
        strips_are_updated::<f32>(f32::EPSILON.into());
        strips_are_updated::<f64>(f64::EPSILON);
        // The moduli of entries are at most sqrt(1/2), and a term has four of them as factors.
        strips_are_updated::<Complex<f32>>(4.0 * f64::from(f32::EPSILON));
        strips_are_updated::<Complex<f64>>(4.0 * f64::EPSILON);
    }
}
