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
//! next value of the vector. That takes `O(n)` operations a vector, and no product. It is not for clusters: vectors are found where all values are
//! apart, and otherwise [`divide`](super::divide) and conquer has to.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
};

use faer::{Mat, MatMut, prelude::ReborrowMut};
use pulp::{Simd, WithSimd};

use super::{Known, PARALLEL, SQUARES_RANGE, Scaling, is_alone, newton::SMALLEST_PIVOT, power_of_two};
use crate::base::{
    number::RealElement,
    parallel::{each, row_chunks},
    zeros::zeros,
};

/// The least distance of two values, relative to the larger one, that were rounded to single precision: a few such roundings.
const APART: f64 = power_of_two(-21);

/// A vector's part along that of the next value is at most about this many `eps`, over the relative distance of the values.
const ROUNDINGS: f64 = 16.0;

/// Corrections of a value. Each about squares its error relative to the gap.
const CORRECTIONS: usize = 4;

/// Registers of values in lockstep, so that one's division hides another's.
const REGISTERS: usize = 2;

/// Most numbers in a register.
const MOST_LANES: usize = 8;

/// Values of a task.
const TASK: usize = 64;

/// The vectors of the `k` largest values as rows (k x n), of the upper bidiagonal matrix with the diagonal `a` and the superdiagonal `b`.
/// `None` if the values are not far enough apart for that, if they are too small to be squared, or if `cancelled` becomes true in time.
pub(super) fn vectors<R: RealElement>(
    a: &[f64],
    b: &[f64],
    known: Known<'_>,
    k: usize,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Option<Mat<R>> {
    let problem = Problem::new(a, b, known, k)?;
    let n = a.len();
    let mut v = zeros::<R>(k, n);
    let is_found = AtomicBool::new(true);
    let find = |start: usize, mut to: MatMut<'_, R>| {
        let values = start..start + to.nrows();
        // Of the values from `first` on: the rows of their vectors, one after the other, and the factors that bring them to unit length.
        let mut store = |first: usize, z: &[f64], factors: &[f64]| {
            let (lanes, width) = (z.len() / n, factors.len());
            let mut to = to.rb_mut().subrows_mut(first, width);
            for (i, z) in z.chunks_exact(lanes).enumerate() {
                if let Some(to) = to.rb_mut().col_mut(i).try_as_col_major_mut() {
                    for ((to, z), factor) in to.as_slice_mut().iter_mut().zip(z).zip(factors) {
                        *to = R::from_double(z * factor);
                    }
                }
            }
        };
        if cancelled() || !problem.find(values, &mut store) {
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

/// A matrix, scaled, and those of its values whose vectors are wanted.
struct Problem {
    rows: Vec<Row>,
    values: Vec<f64>,
    /// The distance of each from the nearest other value, relative to itself.
    gaps: Vec<f64>,
    drift: f64,
}

impl Problem {
    /// `None` if two of the values are too near to each other for the drift, or out of the range of squares, or if there are fewer than `k`.
    fn new(a: &[f64], b: &[f64], Known { values, drift }: Known<'_>, k: usize) -> Option<Self> {
        let scaling = Scaling::of(a, b);
        let mut values: Vec<f64> = values.iter().take(k + 1).map(|&x| scaling.apply(x)).collect();
        let gaps = gaps(&values, k, APART.max(ROUNDINGS * f64::EPSILON / drift))?;
        values.truncate(k);
        let row = |i: usize| {
            let (a, b) = (scaling.apply(a[i]), b.get(i).map_or(0.0, |&b| scaling.apply(b)));
            Row { q: a * a, e: b * b, ab: -(a * b) }
        };
        Some(Problem { rows: (0..a.len()).map(row).collect(), values, gaps, drift })
    }

    /// Gives `store` the vectors of these values, several at a time. The result is whether they were found.
    fn find(&self, values: Range<usize>, store: Store<'_>) -> bool {
        let (rows, drift) = (&self.rows, self.drift);
        pulp::Arch::new().dispatch(Find { rows, values: &self.values[values.clone()], gaps: &self.gaps[values], drift, store })
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

/// The squares of a row's entries, and the negative of their product.
#[derive(Clone, Copy)]
struct Row {
    q: f64,
    e: f64,
    ab: f64,
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
    store: Store<'a>,
}

impl WithSimd for Find<'_> {
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> bool {
        let Find { rows, values, gaps, drift, store } = self;
        let lanes = REGISTERS * S::F64_LANES;
        let (mut z, mut below) = (vec![0.0; lanes * rows.len()], vec![0.0; lanes * rows.len()]);
        let mut first = 0;
        while first < values.len() {
            let width = lanes.min(values.len() - first);
            let mut group = Group::new(&values[first..first + width], &gaps[first..first + width]);
            loop {
                let (place, gamma) =
                    twist(simd, rows, &group.x, S::as_mut_simd_f64s(&mut z).0, S::as_mut_simd_f64s(&mut below).0);
                let squares = unfold(simd, &place, S::as_mut_simd_f64s(&mut z).0, S::as_simd_f64s(&below).0);
                match group.correct(&gamma, &squares, drift) {
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
    /// The squares of the values, as they are known now.
    x: Numbers,
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
    fn new(values: &[f64], gaps: &[f64]) -> Group {
        // Idle lanes do what the first does.
        let (mut start, mut apart) = ([values[0].powi(2); REGISTERS * MOST_LANES], [0.0; REGISTERS * MOST_LANES]);
        for (l, (value, gap)) in values.iter().zip(gaps).enumerate() {
            (start[l], apart[l]) = (value.powi(2), value.powi(2) * gap);
        }
        Group { width: values.len(), x: start, start, apart, corrections: 0 }
    }

    /// Corrects the values by what is left where the factorisations meet, and the squares of the vectors' lengths: until the residual says that a vector has
    /// at most `drift` of its neighbours, or the value is as accurate as rounding lets it be.
    fn correct(&mut self, gamma: &Numbers, squares: &Numbers, drift: f64) -> Verdict {
        let (mut is_done, mut is_right) = (true, true);
        let is_last = self.corrections == CORRECTIONS;
        let mut factors = [0.0; REGISTERS * MOST_LANES];
        for l in 0..self.width {
            let (x, start, apart) = (&mut self.x[l], self.start[l], self.apart[l]);
            // An eigenvalue of B^T B lies within the residual of x. So two lanes do not have the same one.
            let residual = gamma[l].abs() / squares[l].sqrt();
            is_right &= residual <= 0.25 * apart && (*x - start).abs() <= 0.25 * apart && squares[l].is_finite();
            let (correction, allowed) = (gamma[l] / squares[l], drift.min(0.125) * apart);
            if residual <= allowed || correction.abs() <= 4.0 * f64::EPSILON * *x || is_last {
                is_right &= correction.abs() <= allowed;
            } else {
                is_done = false;
                *x += correction;
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
fn twist<S: Simd>(simd: S, rows: &[Row], x: &Numbers, above: &mut [S::f64s], below: &mut [S::f64s]) -> (Lanes<S>, Numbers) {
    let zero = simd.splat_f64s(0.0);
    let inverse = |d: S::f64s| {
        let is_small = simd.less_than_f64s(simd.abs_f64s(d), simd.splat_f64s(SMALLEST_PIVOT));
        simd.div_f64s(simd.splat_f64s(1.0), simd.select_f64s(is_small, simd.splat_f64s(-SMALLEST_PIVOT), d))
    };
    let (mut at, mut s) = ([zero; REGISTERS], [zero; REGISTERS]);
    for l in 0..REGISTERS {
        at[l] = simd.partial_load_f64s(&x[l * S::F64_LANES..(l + 1) * S::F64_LANES]);
        s[l] = simd.neg_f64s(at[l]);
    }
    for (i, &row) in rows.iter().enumerate() {
        for l in 0..REGISTERS {
            let inverse = inverse(simd.add_f64s(simd.splat_f64s(row.q), s[l]));
            below[REGISTERS * i + l] = s[l];
            above[REGISTERS * i + l] = simd.mul_f64s(simd.splat_f64s(row.ab), inverse);
            s[l] = simd.sub_f64s(simd.mul_f64s(simd.mul_f64s(simd.splat_f64s(row.e), inverse), s[l]), at[l]);
        }
    }
    let (mut place, mut gamma, mut p) = ([zero; REGISTERS], [simd.splat_f64s(f64::INFINITY); REGISTERS], [zero; REGISTERS]);
    for (i, &row) in rows.iter().enumerate().rev() {
        let is_last = i + 1 == rows.len();
        for l in 0..REGISTERS {
            let inverse = inverse(simd.add_f64s(simd.splat_f64s(row.e), p[l]));
            let q = simd.splat_f64s(row.q);
            let t = if is_last { q } else { simd.mul_f64s(simd.mul_f64s(q, inverse), p[l]) };
            let here = simd.add_f64s(below[REGISTERS * i + l], t);
            below[REGISTERS * i + l] = simd.mul_f64s(simd.splat_f64s(row.ab), inverse);
            p[l] = simd.sub_f64s(t, at[l]);
            let is_less = simd.less_than_f64s(simd.abs_f64s(here), simd.abs_f64s(gamma[l]));
            gamma[l] = simd.select_f64s(is_less, here, gamma[l]);
            place[l] = simd.select_f64s(is_less, simd.splat_f64s(i as f64), place[l]);
        }
    }
    (place, numbers(simd, &gamma))
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
mod tests {
    use super::*;
    use crate::{
        algo::bidiag::{self, divide::tests::Random},
        base::{pool::on_pool, watch::Watch},
    };

    type Kind = (&'static str, fn(usize, usize, &mut Random) -> (f64, f64));

    /// Bidiagonals without clusters: entry and the one beside it, of row i of n.
    const APART: [Kind; 6] = [
        ("random", |_, _, random| (random.uniform(), random.uniform())),
        ("signs", |_, _, random| (random.uniform() - 0.5, random.uniform() - 0.5)),
        ("as of a random matrix", |i, n, random| {
            let of = |k: usize, random: &mut Random| (k as f64).sqrt() + random.uniform() - 0.5;
            (of(n - i, random), of(n - i - 1, random))
        }),
        ("Toeplitz", |_, _, _| (2.0, 1.0)),
        ("graded", |i, n, _| (10f64.powf(-30.0 * i as f64 / n as f64), 0.5 * 10f64.powf(-30.0 * i as f64 / n as f64))),
        ("graded upward", |i, n, _| {
            (10f64.powf(-10.0 * (n - i) as f64 / n as f64), 0.5 * 10f64.powf(-10.0 * (n - i) as f64 / n as f64))
        }),
    ];

    fn matrix(entries: Kind, n: usize) -> (Vec<f64>, Vec<f64>) {
        let mut random = Random(n as u64);
        let (a, mut b): (Vec<_>, Vec<_>) = (0..n).map(|i| entries.1(i, n, &mut random)).unzip();
        b.truncate(n - 1);
        (a, b)
    }

    fn values(a: &[f64], b: &[f64]) -> Vec<f64> {
        bidiag::svdvals(a, b, f64::EPSILON, a.len(), &Watch::default())
    }

    fn found(a: &[f64], b: &[f64], values: &[f64], k: usize, drift: f64) -> Option<Mat<f64>> {
        Some(vectors::<f64>(a, b, Known { values, drift }, k, &|| false)?.transpose().to_owned())
    }

    /// The largest entry of V^T V - I.
    fn products(v: &Mat<f64>) -> f64 {
        (v.transpose() * v - Mat::<f64>::identity(v.ncols(), v.ncols())).norm_max()
    }

    /// B v has the length of the value, and two vectors are orthogonal up to the drift: at the values as they are, and at values that were rounded to
    /// single precision, where the corrections have to find them. A part of the drift along another vector changes the length by its square, and the
    /// product is off by `n eps` of the largest value.
    #[test]
    fn vectors_belong_to_their_values() {
        for kind in APART {
            for n in [1, 2, 3, 7, 16, 17, 40, 131, 300] {
                let (a, b) = matrix(kind, n);
                let exact = values(&a, &b);
                let rounded: Vec<f64> = exact.iter().map(|&x| f64::from(x as f32)).collect();
                for (values, drift) in [(&exact, 1e-9), (&rounded, 1e-9), (&rounded, 1e-4)] {
                    let v = found(&a, &b, values, n, drift).unwrap_or_else(|| panic!("{}, n = {n}: not found", kind.0));
                    let off = products(&v);
                    assert!(off <= drift, "{}, n = {n}: off by {off:e}", kind.0);
                    for (j, value) in exact.iter().enumerate() {
                        let row = |i: usize| a[i] * v[(i, j)] + if i + 1 < n { b[i] * v[(i + 1, j)] } else { 0.0 };
                        let length = (0..n).map(|i| row(i).powi(2)).sum::<f64>().sqrt();
                        let error = (length - value).abs() / exact[0];
                        assert!(
                            error <= (n as f64 * f64::EPSILON).max(drift.powi(2)),
                            "{}, n = {n}, {j}: off by {error:e}",
                            kind.0
                        );
                    }
                }
            }
        }
    }

    /// Rounding leaves two vectors orthogonal to a few eps over the distance of their values, which `ROUNDINGS` bounds.
    #[test]
    fn roundings_are_bounded() {
        for kind in APART {
            for n in [40, 131, 300] {
                let (a, b) = matrix(kind, n);
                let values = values(&a, &b);
                let v = found(&a, &b, &values, n, 1e-9).unwrap_or_else(|| panic!("{}, n = {n}: not found", kind.0));
                let product = v.transpose() * &v;
                for (i, j) in (0..n).flat_map(|i| (0..i).map(move |j| (i, j))) {
                    let apart = (values[j] - values[i]) / values[j];
                    let off = product[(i, j)].abs() * apart / f64::EPSILON;
                    assert!(off <= ROUNDINGS, "{}, n = {n}, {i} and {j}: {off}", kind.0);
                }
            }
        }
    }

    /// Among the same values a vector has the same bits however many others are wanted: lanes do not depend on each other. Nor do tasks: on threads
    /// of the pool, which share them, the bits are the same.
    #[test]
    fn each_vector_is_on_its_own() {
        for n in [5, 40, 131] {
            let (a, b) = matrix(APART[2], n);
            let values: Vec<f64> = values(&a, &b).iter().map(|&x| f64::from(x as f32)).collect();
            let all = found(&a, &b, &values, n, 1e-9).unwrap();
            for k in [0, 1, 4, n - 1] {
                assert_eq!(found(&a, &b, &values, k, 1e-9).unwrap(), all.subcols(0, k), "n = {n}, k = {k}");
            }
        }
        let (n, (a, b)) = (300, matrix(APART[2], 300));
        let values = values(&a, &b);
        assert!(n * n >= PARALLEL && is_alone(n), "one task here, several in the pool");
        let shared = on_pool(|| found(&a, &b, &values, n, 1e-9).unwrap());
        assert_eq!(found(&a, &b, &values, n, 1e-9).unwrap(), shared);
    }

    /// Refused are values of another matrix, equal ones, fewer than are wanted, zeros, values that cannot be squared, values that are too near to each other
    /// for the drift, and vectors whose lengths overflow.
    #[test]
    fn clusters_and_strange_values_are_refused() {
        let (a, b) = matrix(APART[0], 40);
        let right = values(&a, &b);
        let multiple: Vec<f64> = right.iter().map(|x| 1.01 * x).collect();
        assert!(found(&a, &b, &multiple, 40, 1e-9).is_none());
        let mut twice = right.clone();
        twice[7] = twice[6];
        assert!(found(&a, &b, &twice, 40, 1e-9).is_none());
        let mut near = right.clone();
        near[7] = near[6] * (1.0 - 1e-9);
        assert!(found(&a, &b, &near, 40, 1e-9).is_none());
        assert!(found(&a, &b, &right, 40, f64::EPSILON).is_none());
        assert!(found(&a, &b, &right[..39], 40, 1e-9).is_none() && found(&a, &b, &right[..39], 39, 1e-9).is_some());
        let mut zero = right.clone();
        zero[39] = 0.0;
        assert!(found(&a, &b, &zero, 40, 1e-9).is_none() && found(&a, &b, &zero, 39, 1e-9).is_some());
        for (a, b) in [(vec![1.0; 9], vec![0.0; 8]), (vec![0.0; 9], vec![1.0; 8]), (vec![0.0; 9], vec![0.0; 8])] {
            assert!(found(&a, &b, &values(&a, &b), 9, 1e-9).is_none());
        }
        let small: Vec<f64> = (0..9).map(|i| 10f64.powi(-20 * i)).collect();
        assert!(found(&small, &[0.0; 8], &values(&small, &[0.0; 8]), 9, 1e-9).is_none());
        assert!(found(&small, &[0.0; 8], &values(&small, &[0.0; 8]), 5, 1e-9).is_some());
        assert!(found(&[f64::NAN, 1.0], &[1.0], &[2.0, 1.0], 2, 1e-9).is_none());
        assert!(found(&[1.0; 3], &[1e-165; 2], &[1.0], 1, 1e-9).is_none_or(|v| (v.norm_l2() - 1.0).abs() < 1e-9));
    }

    /// The scale of the matrix does not matter, up to the limits of double precision.
    #[test]
    fn any_scale() {
        let (a, b) = matrix(APART[2], 40);
        let values = values(&a, &b);
        let v = found(&a, &b, &values, 40, 1e-9).unwrap();
        for power in [-1000, 1000] {
            let scaled = |x: &[f64]| x.iter().map(|x| x * power_of_two(power)).collect::<Vec<_>>();
            assert_eq!(found(&scaled(&a), &scaled(&b), &scaled(&values), 40, 1e-9).unwrap(), v, "2^{power}");
        }
    }
}
