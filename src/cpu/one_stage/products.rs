//! The products of `multiply_line`: of a reflector's v with the trailing matrix, in either memory order, and with the panel.

#![allow(clippy::needless_range_loop, reason = "loops of constant length over several arrays of registers, which are unrolled")]

use faer::{
    MatRef,
    traits::{ComplexField, SimdArch},
};
use pulp::{Simd, WithSimd};

use crate::{
    base::{
        number::{Number, Scalar},
        parallel::{each, join},
    },
    cpu::simd::lanes::{Lane, Lanes},
};

/// Entries of a task.
const TASK: usize = 1 << 15;
/// Fewer entries are left to one thread, which takes about as long as waking another.
const SERIAL: usize = 1 << 16;
/// Lines of a pass. Each reads the vector once for all of them.
const LINES: usize = 4;

/// to = A^T conj(v) and z = P^T conj(v). The columns of P are contiguous, and so are those of A or its rows.
pub(super) fn products<S: Number>(
    a: MatRef<'_, S>,
    p: MatRef<'_, S::Scalar>,
    v: &[S::Scalar],
    to: &mut [S::Scalar],
    z: &mut [S::Scalar],
) {
    let (rows, cols) = a.shape();
    let by_columns = a.row_stride() == 1;
    // Whole passes of lines, and of registers.
    let cols_of_task = (TASK / rows.max(1)).max(1).next_multiple_of(16 * LINES);
    let task = |first: usize, to: &mut [S::Scalar]| {
        let a = a.subcols(first, to.len());
        if by_columns { dots(a, v, to) } else { combination(a.transpose(), v, to) }
    };
    if rows.saturating_mul(cols) < SERIAL {
        dots(p, v, z);
        task(0, to);
    } else {
        let all = || each(to.chunks_mut(cols_of_task).enumerate(), |(k, to)| task(k * cols_of_task, to));
        join(|| dots(p, v, z), all);
    }
}

/// The contiguous column `j`, in the type of the arithmetic. Half types are converted in `buffer`.
fn line<'a, S: Number>(a: MatRef<'a, S>, j: usize, buffer: &'a mut Vec<S::Scalar>) -> &'a [S::Scalar] {
    let Some(column) = a.col(j).try_as_col_major() else { return &[] };
    if !S::IS_HALF {
        return bytemuck::cast_slice(column.as_slice());
    }
    buffer.resize(a.nrows(), S::Scalar::zero_impl());
    S::widen_slice(column.as_slice(), buffer);
    buffer
}

/// The contiguous columns from `j` on.
fn lines<'a, S: Number, const C: usize>(a: MatRef<'a, S>, j: usize, buffers: &'a mut [Vec<S::Scalar>]) -> [&'a [S::Scalar]; C] {
    let mut lines = [&[] as &[S::Scalar]; C];
    for (c, (to, buffer)) in lines.iter_mut().zip(buffers).enumerate() {
        *to = line(a, j + c, buffer);
    }
    lines
}

/// to_j = v^H a_j for the contiguous columns a_j. Each sum has the same order whatever the task.
pub(crate) fn dots<S: Number>(a: MatRef<'_, S>, v: &[S::Scalar], to: &mut [S::Scalar]) {
    let mut buffers: [Vec<S::Scalar>; LINES] = Default::default();
    for (k, to) in to.chunks_mut(LINES).enumerate() {
        let arch = <S::Scalar as ComplexField>::Arch::default();
        if let Ok(to) = <&mut [S::Scalar; LINES]>::try_from(&mut *to) {
            *to = arch.dispatch(Dots { columns: lines::<S, LINES>(a, k * LINES, &mut buffers), v });
        } else {
            for (j, to) in to.iter_mut().enumerate() {
                [*to] = arch.dispatch(Dots { columns: lines::<S, 1>(a, k * LINES + j, &mut buffers), v });
            }
        }
    }
}

struct Dots<'a, T, const C: usize> {
    columns: [&'a [T]; C],
    v: &'a [T],
}

impl<T: Scalar, const C: usize> WithSimd for Dots<'_, T, C> {
    type Output = [T; C];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> [T; C] {
        let Dots { columns, v } = self;
        let lanes = Lanes::<T, S>::new(simd);
        let (step, rows) = (Lanes::<T, S>::N, v.len());
        for column in columns {
            assert!(column.len() == rows);
        }
        let mut sums = [[lanes.zero(); C]; 2];
        let whole = rows / step * step;
        let mut i = 0;
        // SAFETY: one or two whole registers are left from i on, in v and in every column (asserted above).
        unsafe {
            while i + 2 * step <= whole {
                add(lanes, v, columns, i, &mut sums[0]);
                add(lanes, v, columns, i + step, &mut sums[1]);
                i += 2 * step;
            }
            if i < whole {
                add(lanes, v, columns, i, &mut sums[0]);
            }
        }
        let mut all = [T::zero_impl(); C];
        for c in 0..C {
            let mut rest = T::zero_impl();
            for (v, x) in v[whole..].iter().zip(&columns[c][whole..]) {
                rest += T::conj_impl(v) * *x;
            }
            all[c] = lanes.sum(lanes.add(sums[0][c], sums[1][c])) + rest;
        }
        all
    }
}

/// Adds the products of one register of v and of each column, from entry `i` on.
///
/// # Safety
/// A whole register is left from i on in v and in every column.
#[inline(always)]
unsafe fn add<T: Scalar, S: Simd, const C: usize>(
    lanes: Lanes<T, S>,
    v: &[T],
    columns: [&[T]; C],
    i: usize,
    sums: &mut [Lane<T, S>; C],
) {
    // SAFETY: as the caller promises.
    unsafe {
        let v = lanes.load(v.as_ptr().add(i));
        for c in 0..C {
            sums[c] = lanes.conj_mul_add(v, lanes.load(columns[c].as_ptr().add(i)), sums[c]);
        }
    }
}

/// to = sum_i conj(v_i) a_i for the contiguous columns a_i. Each sum has the same order whatever the task.
pub(crate) fn combination<S: Number>(a: MatRef<'_, S>, v: &[S::Scalar], to: &mut [S::Scalar]) {
    let mut buffers: [Vec<S::Scalar>; LINES] = Default::default();
    to.fill(S::Scalar::zero_impl());
    let arch = <S::Scalar as ComplexField>::Arch::default();
    for (k, v) in v.chunks(LINES).enumerate() {
        if let Ok(&v) = <&[S::Scalar; LINES]>::try_from(v) {
            arch.dispatch(Combination { columns: lines::<S, LINES>(a, k * LINES, &mut buffers), v, to });
        } else {
            for (i, &v) in v.iter().enumerate() {
                arch.dispatch(Combination { columns: lines::<S, 1>(a, k * LINES + i, &mut buffers), v: [v], to });
            }
        }
    }
}

struct Combination<'a, T, const C: usize> {
    columns: [&'a [T]; C],
    v: [T; C],
    to: &'a mut [T],
}

impl<T: Scalar, const C: usize> WithSimd for Combination<'_, T, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Combination { columns, v, to } = self;
        let lanes = Lanes::<T, S>::new(simd);
        let (step, rows) = (Lanes::<T, S>::N, to.len());
        for column in columns {
            assert!(column.len() == rows);
        }
        let mut factors = [lanes.zero(); C];
        for c in 0..C {
            factors[c] = lanes.splat(T::conj_impl(&v[c]));
        }
        let whole = rows / step * step;
        let at = to.as_mut_ptr();
        for i in (0..whole).step_by(step) {
            // SAFETY: a whole register is left from i on, in `to` and in every column (asserted above).
            unsafe {
                let mut sum = lanes.load(at.add(i));
                for c in 0..C {
                    sum = lanes.mul_add(factors[c], lanes.load(columns[c].as_ptr().add(i)), sum);
                }
                lanes.store(at.add(i), sum);
            }
        }
        for i in whole..rows {
            let mut sum = T::zero_impl();
            for c in 0..C {
                sum += T::conj_impl(&v[c]) * columns[c][i];
            }
            to[i] += sum;
        }
    }
}
