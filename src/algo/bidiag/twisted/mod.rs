//! Right singular vectors of known singular values, each by a twisted factorisation.
//!
//! For a value `sigma` and `x = sigma^2` the stationary and the progressive qd transform factorise `B^T B - x` from the top and from the bottom
//! (Dhillon & Parlett, Linear Algebra Appl. 387, 2004; LAPACK's `dlar1v`). With the squares `q_1..q_n` of the diagonal `a` and `e_1..e_{n-1}` of
//! the superdiagonal `b`,
//!
//! ```text
//! down   d_i = q_i + s_i,        s_1 = -x,         s_{i+1} = e_i s_i / d_i - x
//! up     d'_{i+1} = e_i + p_{i+1},   p_n = q_n - x,   p_i = q_i p_{i+1} / d'_{i+1} - x
//! gamma_i = s_i + q_i p_{i+1} / d'_{i+1},   gamma_n = s_n + q_n
//! ```
//!
//! Where they meet, at the row r with the smallest `|gamma|`, `(B^T B - x) z = gamma_r e_r` for
//!
//! ```text
//! z_r = 1,    z_i = -a_i b_i z_{i+1} / d_i  above it,    z_{i+1} = -a_i b_i z_i / d'_{i+1}  below it.
//! ```
//!
//! The rounding errors are equivalent to perturbations of the entries by a few `eps`, so that z lies within a few `eps` over the relative gap to the
//! next value of the vector. That takes `O(n)` operations a vector, and no product. Where so much of a neighbour is too much, the factorisations are in
//! double-double [arithmetic], with the square of eps in place of eps, and quotients are rounded afterwards: vectors are then as orthogonal as
//! rounding lets them be. It is not for clusters: vectors are found where all values are apart, and otherwise [`divide`](super::divide) and
//! conquer has to.

mod arithmetic;

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
};

use faer::{Mat, MatMut, prelude::ReborrowMut, traits::ComplexField};
use num_complex::Complex;
use pulp::{Simd, WithSimd};

use self::arithmetic::{Arithmetic, Double, DoubleDouble, is_fused, product, sum};
use super::{PARALLEL, SQUARES_RANGE, Scaling, is_alone, newton::SMALLEST_PIVOT, power_of_two};
use crate::base::{
    number::{Number, Scalar},
    parallel::{each, row_chunks},
    zeros::zeros,
};

/// The least distance of two values, relative to the larger one, that were rounded to single precision: a few such roundings.
const APART: f64 = power_of_two(-21);

/// The same in double precision, in which values of a matrix of thousands of rows have errors of some roundings.
const APART_IN_DOUBLE: f64 = power_of_two(-40);

/// A vector's part along that of the next value is at most about this many `eps`, over the relative distance of the values.
const ROUNDINGS: f64 = 16.0;

/// The least distance, for vectors that are orthogonal up to a drift, from which on more digits are the better means.
const DIGITS: f64 = power_of_two(-10);

/// Corrections of a value. Each about squares its error relative to the gap.
const CORRECTIONS: usize = 4;

/// Registers of values in lockstep, so that one's division hides another's.
const REGISTERS: usize = 2;

/// Most numbers in a register.
const MOST_LANES: usize = 8;

/// Values of a task.
const TASK: usize = 64;

/// Singular values that are known, and how far from orthogonal their vectors may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    /// Descending, as accurate as single precision is, or as double if the drift is below `2^-38`. Without as many as there are vectors, they are
    /// not used.
    pub(crate) values: &'a [f64],
    /// The largest product of two vectors that is allowed.
    pub(crate) drift: f64,
}

/// The vectors of the `k` largest values as rows (k x n), of the upper bidiagonal matrix with the diagonal `a` and the superdiagonal `b`, their entries times
/// these `phases`.
/// `None` if the values are not far enough apart for that, if they are too small to be squared, or if `cancelled` becomes true in time.
pub(super) fn vectors<T: Scalar>(
    a: &[f64],
    b: &[f64],
    phases: &[Complex<f64>],
    known: Known<'_>,
    k: usize,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Option<Mat<T>> {
    let problem = Problem::new(a, b, known, k)?;
    let n = a.len();
    let mut v = zeros::<T>(k, n);
    let is_found = AtomicBool::new(true);
    let find = |start: usize, mut to: MatMut<'_, T>| {
        let values = start..start + to.nrows();
        // Of the values from `first` on: the rows of their vectors, one after the other, and the factors that bring them to unit length.
        let mut store = |first: usize, z: &[f64], factors: &[f64]| {
            let (lanes, width) = (z.len() / n, factors.len());
            let mut to = to.rb_mut().subrows_mut(first, width);
            for ((i, z), &phase) in z.chunks_exact(lanes).enumerate().zip(phases) {
                if let Some(to) = to.rb_mut().col_mut(i).try_as_col_major_mut() {
                    for ((to, z), factor) in to.as_slice_mut().iter_mut().zip(z).zip(factors) {
                        *to = times_phase(T::Wide::from_real_impl(&(z * factor)), phase);
                    }
                }
            }
        };
        if !is_found.load(Ordering::Relaxed) || cancelled() || !problem.find(values, &mut store) {
            is_found.store(false, Ordering::Relaxed);
        }
    };
    if n * k < PARALLEL || is_alone(n) {
        find(0, v.as_mut());
    } else {
        each(row_chunks(v.as_mut(), TASK).enumerate(), |(task, to)| find(task * TASK, to));
    }
    is_found.into_inner().then_some(v)
}

/// `x` times a phase. That of a real number is a sign.
#[inline]
pub(super) fn times_phase<T: Scalar>(x: T::Wide, phase: Complex<f64>) -> T {
    T::from_wide(x * T::Wide::from_complex(phase))
}

/// A matrix, scaled, and those of its values whose vectors are wanted.
struct Problem {
    rows: Vec<Row>,
    values: Vec<f64>,
    /// The distance of each from the nearest other value, relative to itself.
    gaps: Vec<f64>,
    drift: f64,
    /// Whether the arithmetic is double-double.
    is_exact: bool,
}

impl Problem {
    /// `None` if two of the values are too near to each other for the drift, or out of the range of squares, if there are fewer than `k`, or if the machine
    /// lacks what the drift takes.
    fn new(a: &[f64], b: &[f64], Known { values, drift }: Known<'_>, k: usize) -> Option<Self> {
        let scaling = Scaling::of(a, b);
        let mut values: Vec<f64> = values.iter().take(k + 1).map(|&x| scaling.apply(x)).collect();
        let least = ROUNDINGS * f64::EPSILON / drift;
        let is_exact = least > DIGITS;
        if is_exact && !is_fused() {
            return None;
        }
        let gaps = gaps(&values, k, if is_exact { APART_IN_DOUBLE } else { APART.max(least) })?;
        values.truncate(k);
        let row = |i: usize| {
            let (a, b) = (scaling.apply(a[i]), b.get(i).map_or(0.0, |&b| scaling.apply(b)));
            Row { q: product(a, a, is_exact), e: product(b, b, is_exact), ab: product(-a, b, is_exact) }
        };
        Some(Problem { rows: (0..a.len()).map(row).collect(), values, gaps, drift, is_exact })
    }

    /// Gives `store` the vectors of these values, several at a time. The result is whether they were found.
    fn find(&self, values: Range<usize>, store: Store<'_>) -> bool {
        let (rows, drift, is_exact) = (&self.rows, self.drift, self.is_exact);
        pulp::Arch::new().dispatch(Find {
            rows,
            values: &self.values[values.clone()],
            gaps: &self.gaps[values],
            drift,
            is_exact,
            store,
        })
    }
}

/// The distance of each of the first `k` of the descending values from the nearest other one, relative to itself. `None` if one is less than `least`,
/// if there are fewer values, or if one is out of the range of squares.
fn gaps(values: &[f64], k: usize, least: f64) -> Option<Vec<f64>> {
    let mut gaps = vec![1.0; values.len()];
    for i in 1..values.len() {
        let gap = (values[i - 1] - values[i]) / values[i - 1];
        gaps[i] = gap;
        gaps[i - 1] = gap.min(gaps[i - 1]);
    }
    gaps.truncate(k);
    for (&gap, &x) in gaps.iter().zip(values) {
        // NaN is not.
        let is_apart = gap >= least && x >= SQUARES_RANGE && x.is_finite();
        if !is_apart {
            return None;
        }
    }
    (gaps.len() == k).then_some(gaps)
}

/// The squares of a row's entries, and the negative of their product, as double-double numbers.
#[derive(Clone, Copy)]
struct Row {
    q: [f64; 2],
    e: [f64; 2],
    ab: [f64; 2],
}

/// Numbers of the values in lockstep.
type Lanes<S> = [<S as Simd>::f64s; REGISTERS];

/// The same by values. Lanes that no register has are zero.
type Numbers = [f64; REGISTERS * MOST_LANES];

/// Takes vectors: the index of the first one's value, their entries by rows, a row for all lanes, and factors to unit length.
type Store<'a> = &'a mut dyn FnMut(usize, &[f64], &[f64]);

/// Finds the vectors of some values. The result is whether that succeeded.
struct Find<'a> {
    rows: &'a [Row],
    values: &'a [f64],
    gaps: &'a [f64],
    drift: f64,
    is_exact: bool,
    store: Store<'a>,
}

impl WithSimd for Find<'_> {
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> bool {
        match self.is_exact {
            true => self.with::<S, DoubleDouble<S>>(simd),
            false => self.with::<S, Double<S>>(simd),
        }
    }
}

impl Find<'_> {
    #[inline(always)]
    fn with<S: Simd, N: Arithmetic<S>>(self, simd: S) -> bool {
        let Find { rows, values, gaps, drift, store, .. } = self;
        let lanes = REGISTERS * S::F64_LANES;
        let (mut z, mut below) = (vec![0.0; lanes * rows.len()], vec![0.0; lanes * rows.len()]);
        let mut tails = vec![0.0; if N::HAS_TAIL { lanes * rows.len() } else { 0 }];
        let mut first = 0;
        while first < values.len() {
            let width = lanes.min(values.len() - first);
            let mut group = Group::new(&values[first..first + width], &gaps[first..first + width], N::HAS_TAIL);
            loop {
                let (above, parts) =
                    (S::as_mut_simd_f64s(&mut z).0, [S::as_mut_simd_f64s(&mut below).0, S::as_mut_simd_f64s(&mut tails).0]);
                let (place, gamma) = twist::<S, N>(simd, rows, &group.x, above, parts);
                let squares = unfold(simd, &place, S::as_mut_simd_f64s(&mut z).0, S::as_simd_f64s(&below).0);
                match group.correct(&gamma, &squares, drift, N::EPSILON) {
                    Verdict::Again => {}
                    Verdict::Lost => return false,
                    Verdict::Found(factors) => break store(first, &z, &factors[..width]),
                }
            }
            first += width;
        }
        true
    }
}

/// The values in lockstep.
struct Group {
    width: usize,
    /// The squares of the values, as they are known now: double-double numbers.
    x: [[f64; 2]; REGISTERS * MOST_LANES],
    /// As they were at first.
    start: Numbers,
    /// Their distances from the nearest other one, about.
    apart: Numbers,
    corrections: usize,
}

/// What is to be done with vectors.
enum Verdict {
    /// The corrected values have better ones.
    Again,
    /// They are not those of these values.
    Lost,
    /// They are right, but for these factors.
    Found(Numbers),
}

impl Group {
    fn new(values: &[f64], gaps: &[f64], has_tail: bool) -> Group {
        // Idle lanes do what the first does.
        let mut x = [product(values[0], values[0], has_tail); REGISTERS * MOST_LANES];
        let (mut start, mut apart) = ([0.0; REGISTERS * MOST_LANES], [0.0; REGISTERS * MOST_LANES]);
        for (l, (&value, gap)) in values.iter().zip(gaps).enumerate() {
            x[l] = product(value, value, has_tail);
            (start[l], apart[l]) = (x[l][0], x[l][0] * gap);
        }
        Group { width: values.len(), x, start, apart, corrections: 0 }
    }

    /// Corrects the values by what is left where the factorisations meet, and the squares of the vectors' lengths: until the residual says that a vector has
    /// at most `drift` of its neighbours, or the value is as accurate as rounding lets it be.
    fn correct(&mut self, gamma: &Numbers, squares: &Numbers, drift: f64, epsilon: f64) -> Verdict {
        let (mut is_done, mut is_right) = (true, true);
        let is_last = self.corrections == CORRECTIONS;
        let mut factors = [0.0; REGISTERS * MOST_LANES];
        for l in 0..self.width {
            let (x, start, apart) = (&mut self.x[l], self.start[l], self.apart[l]);
            // An eigenvalue of B^T B lies within the residual of x. So two lanes do not have the same one.
            let residual = gamma[l].abs() / squares[l].sqrt();
            is_right &= residual <= 0.25 * apart && (x[0] - start).abs() <= 0.25 * apart && squares[l].is_finite();
            let (correction, allowed) = (gamma[l] / squares[l], drift.min(0.125) * apart);
            if residual <= allowed || correction.abs() <= 4.0 * epsilon * x[0] || is_last {
                is_right &= correction.abs() <= allowed;
            } else {
                is_done = false;
                *x = sum(*x, correction);
            }
            factors[l] = 1.0 / squares[l].sqrt();
        }
        self.corrections += 1;
        match (is_done, is_right) {
            (false, _) => Verdict::Again,
            (true, true) => Verdict::Found(factors),
            (true, false) => Verdict::Lost,
        }
    }
}

/// Factorises `B^T B - x` from both ends. In `above` and `below` it leaves the quotients of neighbours in a vector above and below the row where the
/// factorisations meet. Returns that row, and gamma there.
#[inline(always)]
fn twist<S: Simd, N: Arithmetic<S>>(
    simd: S,
    rows: &[Row],
    x: &[[f64; 2]],
    above: &mut [S::f64s],
    [below, tails]: [&mut [S::f64s]; 2],
) -> (Lanes<S>, Numbers) {
    let zero = simd.splat_f64s(0.0);
    let (mut minus_x, mut s) = ([N::splat(simd, [0.0; 2]); REGISTERS], [N::splat(simd, [0.0; 2]); REGISTERS]);
    for l in 0..REGISTERS {
        let mut parts = [[0.0; MOST_LANES]; 2];
        for (lane, x) in x[l * S::F64_LANES..(l + 1) * S::F64_LANES].iter().enumerate() {
            (parts[0][lane], parts[1][lane]) = (-x[0], -x[1]);
        }
        let [head, tail] = [&parts[0], &parts[1]];
        minus_x[l] = N::new(simd.partial_load_f64s(&head[..S::F64_LANES]), simd.partial_load_f64s(&tail[..S::F64_LANES]));
        s[l] = minus_x[l];
    }
    for (i, row) in rows.iter().enumerate() {
        for l in 0..REGISTERS {
            let inverse = inverse_sum(simd, N::splat(simd, row.q), s[l]);
            below[REGISTERS * i + l] = s[l].head();
            if N::HAS_TAIL {
                tails[REGISTERS * i + l] = s[l].tail(simd);
            }
            above[REGISTERS * i + l] = N::splat(simd, row.ab).times(simd, inverse).rounded(simd);
            s[l] = N::splat(simd, row.e).times(simd, inverse).times(simd, s[l]).plus(simd, minus_x[l]);
        }
    }
    let (mut place, mut gamma, mut p) =
        ([zero; REGISTERS], [simd.splat_f64s(f64::INFINITY); REGISTERS], [N::splat(simd, [0.0; 2]); REGISTERS]);
    for (i, row) in rows.iter().enumerate().rev() {
        let is_last = i + 1 == rows.len();
        for l in 0..REGISTERS {
            let inverse = inverse_sum(simd, N::splat(simd, row.e), p[l]);
            let q = N::splat(simd, row.q);
            let t = if is_last { q } else { q.times(simd, inverse).times(simd, p[l]) };
            // What the heads' sum loses is a part of it: where they cancel it is exact.
            let mut here = simd.add_f64s(below[REGISTERS * i + l], t.head());
            if N::HAS_TAIL {
                here = simd.add_f64s(here, simd.add_f64s(tails[REGISTERS * i + l], t.tail(simd)));
            }
            below[REGISTERS * i + l] = N::splat(simd, row.ab).times(simd, inverse).rounded(simd);
            p[l] = t.plus(simd, minus_x[l]);
            let is_less = simd.less_than_f64s(simd.abs_f64s(here), simd.abs_f64s(gamma[l]));
            gamma[l] = simd.select_f64s(is_less, here, gamma[l]);
            place[l] = simd.select_f64s(is_less, simd.splat_f64s(i as f64), place[l]);
        }
    }
    (place, numbers(simd, &gamma))
}

/// The inverse of a pivot, which is the sum of these. It is not too small: the product of two later ones has all digits that it should have. In
/// double-double arithmetic that takes more than a pivot that is a normal number, and `a` is as good if it differs by its rounding error.
#[inline(always)]
fn inverse_sum<S: Simd, N: Arithmetic<S>>(simd: S, a: N, b: N) -> N {
    let d = a.plus(simd, b);
    let mut least = simd.splat_f64s(SMALLEST_PIVOT);
    if N::HAS_TAIL {
        least = simd.max_f64s(least, simd.mul_f64s(simd.abs_f64s(a.head()), simd.splat_f64s(N::EPSILON)));
    }
    let is_small = simd.less_than_f64s(simd.abs_f64s(d.head()), least);
    let head = simd.select_f64s(is_small, simd.neg_f64s(least), d.head());
    N::new(head, simd.select_f64s(is_small, simd.splat_f64s(0.0), d.tail(simd))).inverse(simd)
}

/// Multiplies the quotients up: `z` has those above the `place` and becomes the vectors, with the entry 1 there. Returns the squares of their lengths.
#[inline(always)]
fn unfold<S: Simd>(simd: S, place: &Lanes<S>, z: &mut [S::f64s], below: &[S::f64s]) -> Numbers {
    let zero = simd.splat_f64s(0.0);
    let n = z.len() / REGISTERS;
    let mut beside = [zero; REGISTERS];
    for i in (0..n).rev() {
        let at = simd.splat_f64s(i as f64);
        for l in 0..REGISTERS {
            let product = simd.mul_f64s(z[REGISTERS * i + l], beside[l]);
            let above = simd.select_f64s(simd.less_than_f64s(at, place[l]), product, zero);
            beside[l] = simd.select_f64s(simd.equal_f64s(at, place[l]), simd.splat_f64s(1.0), above);
            z[REGISTERS * i + l] = beside[l];
        }
    }
    let mut squares = [zero; REGISTERS];
    for i in 0..n {
        let at = simd.splat_f64s(i as f64);
        for l in 0..REGISTERS {
            let product = simd.mul_f64s(below[REGISTERS * i.saturating_sub(1) + l], beside[l]);
            beside[l] = simd.select_f64s(simd.less_than_f64s(place[l], at), product, z[REGISTERS * i + l]);
            z[REGISTERS * i + l] = beside[l];
            squares[l] = simd.add_f64s(squares[l], simd.mul_f64s(beside[l], beside[l]));
        }
    }
    numbers(simd, &squares)
}

/// The numbers of the lanes.
#[inline(always)]
fn numbers<S: Simd>(simd: S, lanes: &Lanes<S>) -> Numbers {
    let mut all = [0.0; REGISTERS * MOST_LANES];
    for (l, &lanes) in lanes.iter().enumerate() {
        simd.partial_store_f64s(&mut all[l * S::F64_LANES..(l + 1) * S::F64_LANES], lanes);
    }
    all
}

#[cfg(test)]
mod tests;
