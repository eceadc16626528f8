//! One more Newton step for every value. It removes an error of a few units from the pivots of B^T B.
//!
//! The singular values of `B` are the nonnegative eigenvalues of the Golub-Kahan matrix, tridiagonal of order `2n` with zeros on the
//! diagonal and `z = a_1, b_1, a_2, ..., a_n` on the off-diagonals (Golub & Kahan, SIAM J. Numer. Anal. 2, 1965). With the pivots of its
//! factorisation at the shift `s`,
//!
//! ```text
//! d_1 = -s,   d_(k+1) = -s - z_k^2 / d_k,      p(s) = d_1 d_2 ... d_2n
//! ```
//!
//! a step is `s <- s - p/p'` with `p'/p = sum d_k'/d_k`. The computed pivots are exact for entries that differ by a few units in the
//! last place. So the step converges to a value as accurate as that of bisection, in a single pass.

use super::{LANES, in_lockstep};

/// A step longer than this, relative to the value, is not a correction of roundoff: the value is in a tight cluster, and is unchanged.
pub const LONGEST: f64 = 256.0 * f64::EPSILON;

/// A step of at most this relative length may be the rounding error of its own pivots: the value is unchanged, so that exact values stay
/// exact. The bound is at least half a unit in the last place.
const SHORTEST: f64 = f64::EPSILON / 2.0;

/// Takes one Newton step from each of `values`, which approximate singular values of the bidiagonal matrix with diagonal `a` and
/// superdiagonal `b`, and restores the descending order.
pub fn refine(a: &[f64], b: &[f64], values: &mut [f64]) {
    let squares: Vec<f64> =
        (0..(2 * a.len()).saturating_sub(1)).map(|k| if k % 2 == 0 { a[k / 2] } else { b[k / 2] }).map(|z| z * z).collect();
    let arch = pulp::Arch::new();
    in_lockstep(values, squares.len(), |chunk| {
        if chunk.len() > LANES / 2 {
            arch.dispatch(|| take_step::<LANES>(&squares, chunk));
        } else {
            arch.dispatch(|| take_step::<{ LANES / 2 }>(&squares, chunk));
        }
    });
    values.sort_unstable_by(|x, y| y.total_cmp(x));
}

/// One Newton step for at most `N` values.
#[inline(always)]
fn take_step<const N: usize>(squares: &[f64], values: &mut [f64]) {
    let mut s = [1.0; N];
    s[..values.len()].copy_from_slice(values);
    for (value, slope) in values.iter_mut().zip(logarithmic_derivative(squares, &s)) {
        let step = slope.recip();
        if step.abs() > SHORTEST * *value && step.abs() <= LONGEST * *value {
            *value -= step;
        }
    }
}

/// `p'(s) / p(s)` at each of the shifts; not finite if a pivot is zero.
#[inline(always)]
fn logarithmic_derivative<const N: usize>(squares: &[f64], s: &[f64; N]) -> [f64; N] {
    let mut d = s.map(|s| -s);
    let mut slope = [-1.0; N]; // d_k'
    let mut sum = [0.0; N];
    for &square in squares {
        for l in 0..N {
            let inverse = 1.0 / d[l];
            let ratio = slope[l] * inverse;
            let t = square * inverse;
            sum[l] += ratio;
            d[l] = -s[l] - t;
            slope[l] = t * ratio - 1.0;
        }
    }
    for l in 0..N {
        sum[l] += slope[l] / d[l];
    }
    sum
}
