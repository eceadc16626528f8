//! The unitary factors of stages 1 and 2, from the reflectors that the kernels have kept.
//!
//! ```text
//! stage 1   A = Q1 B P1^H    Q1 = U_0 U_2 ...  of the QR levels,  P1 = U_1 U_3 ...  of the LQ levels, in their order
//! stage 2   B = Q2 C P2^H    Q2 = H_0 H_1 ...  of the left reflectors of each cycle,  P2  of the right ones
//! bidiagonal   C = D1 |C| D2^H    with diagonal unitary D1, D2
//! ```

use num_complex::Complex;

use crate::{
    algo::{
        deferred::{applied_levels, kept_levels},
        to_band::factor_levels,
    },
    base::{
        blas::{Op, Side},
        error::Result,
    },
    tile::{chase_schedule::ReductionStep, kernels::TileKernels, panel_tree::Level, tuning::Tuning},
};

/// Makes the kernels keep the reflectors of stage 1 of an m x n matrix, m >= n, before its first panel is factored. It cannot be combined
/// with a preceding QR factorisation of a tall matrix: both would store their reflectors in the same entries.
pub fn keep_stage_1<K: TileKernels>(kernels: &K, a: &mut K::Dense, (m, n): (usize, usize), tuning: &Tuning) -> Result<()> {
    let deferred = kernels.deferred_columns(a, (m, n), tuning) > 0;
    kernels.keep_reflectors(a, &mut kept_levels((m, n), tuning, kernels.rows_at_once(), deferred).into_iter())
}

/// C <- op(Q1) C (`Side::Left`) or C <- op(P1) C (`Side::Right`), with the reflectors of stage 1 that the m x n matrix `a` has kept. C has
/// m rows for Q1, and n rows for P1.
pub fn apply_stage_1<K: TileKernels>(
    kernels: &K,
    a: &K::Dense,
    (m, n): (usize, usize),
    tuning: &Tuning,
    side: Side,
    op: Op,
    c: &mut K::Dense,
) -> Result<()> {
    let deferred = kernels.deferred_columns(a, (m, n), tuning) > 0;
    let levels = applied_levels(kept_levels((m, n), tuning, kernels.rows_at_once(), deferred), side, op);
    kernels.apply_levels(a, &levels, op, c)
}

/// Makes the kernels keep the reflectors of [`triangular_factor`](crate::algo::to_band::triangular_factor) of an m x n matrix.
pub(crate) fn keep_factor<K: TileKernels>(kernels: &K, a: &mut K::Dense, (m, n): (usize, usize), tuning: &Tuning) -> Result<()> {
    kernels.keep_reflectors(a, &mut factor_levels(m, n, tuning, kernels.rows_at_once()))
}

/// C <- op(Q) C for A = Q R, with the reflectors of A's triangular factor that the m x n matrix `a` has kept.
pub(crate) fn apply_factor<K: TileKernels>(
    kernels: &K,
    a: &K::Dense,
    (m, n): (usize, usize),
    tuning: &Tuning,
    op: Op,
    c: &mut K::Dense,
) -> Result<()> {
    let mut levels: Vec<(usize, Level)> = factor_levels(m, n, tuning, kernels.rows_at_once()).enumerate().collect();
    if op == Op::NoTrans {
        levels.reverse();
    }
    levels.into_iter().try_for_each(|(k, level)| kernels.apply(a, k, &level, op, c, 0))
}

/// [`apply_factor`] without op to the first columns of the identity. The levels of a panel leave the columns left of the panel as they are.
pub(crate) fn form_factor<K: TileKernels>(
    kernels: &K,
    a: &K::Dense,
    (m, n): (usize, usize),
    tuning: &Tuning,
    c: &mut K::Dense,
) -> Result<()> {
    let mut levels: Vec<(usize, Level)> = factor_levels(m, n, tuning, kernels.rows_at_once()).enumerate().collect();
    levels.reverse();
    levels.into_iter().try_for_each(|(k, level)| kernels.apply(a, k, &level, Op::NoTrans, c, level.col))
}

/// C <- op(Q2) C (`Side::Left`) or C <- op(P2) C (`Side::Right`), with the reflectors of stage 2 that `band` has kept.
pub fn apply_stage_2<K: TileKernels>(
    kernels: &K,
    band: &K::Banded,
    (n, bandwidth): (usize, usize),
    tuning: &Tuning,
    side: Side,
    op: Op,
    c: &mut K::Dense,
) -> Result<()> {
    let mut steps: Vec<(usize, ReductionStep)> = ReductionStep::all(n, bandwidth, tuning.tile_width).enumerate().collect();
    if op == Op::NoTrans {
        steps.reverse();
    }
    steps.into_iter().try_for_each(|(k, step)| kernels.apply_chase(band, k, &step, side, op, c))
}

/// The factors of a bidiagonal matrix C = D1 |C| D2^H: the moduli of its entries, and the diagonals of the unitary D1 and D2.
#[derive(Clone, Debug, PartialEq)]
pub struct Phases {
    /// Diagonal of |C|, n entries.
    pub diagonal: Vec<f64>,
    /// Superdiagonal of |C|, n - 1 entries.
    pub superdiagonal: Vec<f64>,
    /// Diagonal of D1.
    pub left: Vec<Complex<f64>>,
    /// Diagonal of D2.
    pub right: Vec<Complex<f64>>,
}

impl Phases {
    /// The factors for the diagonal (n) and the superdiagonal (n - 1) of C, computed from the top: |c_jj| = conj(l_j) c_jj r_j gives l_j,
    /// and
    /// |c_j,j+1| = conj(l_j) c_j,j+1 r_j+1 gives r_j+1. The phase of a zero is arbitrary; it is set to 1.
    pub fn of(diagonal: &[Complex<f64>], superdiagonal: &[Complex<f64>]) -> Phases {
        // Divided twice: the length of the first quotient is off by a few roundings, which would add up over the products.
        let phase = |x: Complex<f64>| match (x.norm(), x.im) {
            (0.0, _) => Complex::ONE,
            (_, 0.0) => x.re.signum().into(),
            (length, _) => x / length / (x / length).norm(),
        };
        let (mut left, mut right) = (Vec::with_capacity(diagonal.len()), Vec::with_capacity(diagonal.len()));
        let mut r = Complex::ONE;
        for (j, &d) in diagonal.iter().enumerate() {
            let l = phase(phase(d) * r);
            right.push(r);
            left.push(l);
            if let Some(&e) = superdiagonal.get(j) {
                r = phase(phase(e).conj() * l);
            }
        }
        let moduli = |entries: &[Complex<f64>]| entries.iter().map(|x| x.norm()).collect();
        Phases { diagonal: moduli(diagonal), superdiagonal: moduli(superdiagonal), left, right }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D1 |C| D2^H equals C entry by entry, also for zero and negative entries. Bound: 8 eps for three products with numbers of modulus 1.
    #[test]
    fn phases_give_the_matrix_back() {
        let entry = |k: usize| match k % 7 {
            3 => Complex::ZERO,
            5 => Complex::new(-1.0, 0.0),
            _ => Complex::from_polar(1.0 + k as f64, 0.7 * k as f64),
        };
        let (d, e): (Vec<_>, Vec<_>) = ((0..9).map(entry).collect(), (0..8).map(|k| entry(k + 4)).collect());
        let c = Phases::of(&d, &e);
        let near = |x: Complex<f64>, y: Complex<f64>| (x - y).norm() <= 8.0 * f64::EPSILON * y.norm();
        for j in 0..9 {
            assert!(near(c.left[j] * c.diagonal[j] * c.right[j].conj(), d[j]), "diagonal {j}");
            assert!(j == 8 || near(c.left[j] * c.superdiagonal[j] * c.right[j + 1].conj(), e[j]), "superdiagonal {j}");
        }
    }
}
