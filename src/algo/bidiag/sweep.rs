//! The inner loop of the dqds algorithm, the 2 x 2 case, and the choice of a smaller shift: see
//! [`super::dqds`] for the formulas and their source.

/// The number of failed shifts after which the shift is zero.
pub(super) const MAX_FAILURES: usize = 5;

/// The pivots of a sweep that determine the next one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pivots {
    /// The smallest pivot that is not the last.
    pub inner: f64,
    /// The row of that pivot.
    pub row: usize,
    /// The last pivot.
    pub last: f64,
    /// Whether a pivot that is not the last was zero to within roundoff.
    pub close: bool,
}

/// One dqds sweep over a block of at least two rows, from `q, e` to `new_q, new_e`. It ends early
/// at a negative pivot other than the last, and returns that pivot as `inner`.
///
/// Without a shift, a pivot below `noise` becomes zero. It stays zero down to the last row, so a
/// single sweep moves an eigenvalue found in the middle of the block to its end.
pub(super) fn sweep(q: &[f64], e: &[f64], new_q: &mut [f64], new_e: &mut [f64], tau: f64, noise: f64) -> Pivots {
    let last = q.len() - 1;
    let mut d = q[0] - tau;
    let (mut inner, mut row, mut close) = (d, 0, false);
    let (new_q, new_last) = new_q.split_at_mut(last);
    let steps = e.iter().zip(&q[1..]).zip(new_q).zip(new_e);
    for (index, (((&e, &q), new_q), new_e)) in steps.enumerate() {
        if d <= noise {
            if d < 0.0 {
                close |= d >= -noise;
                (inner, row) = (d, index);
                break;
            }
            close = true;
            d = if tau == 0.0 { 0.0 } else { d };
        }
        let smaller = d < inner;
        inner = if smaller { d } else { inner };
        row = if smaller { index } else { row };
        let sum = d + e;
        *new_q = sum;
        *new_e = q * (e / sum);
        d = q * (d / sum) - tau;
    }
    new_last[0] = d;
    Pivots { inner, row, last: d, close }
}

/// The larger and the smaller eigenvalue of `B^T B` for the 2 x 2 matrix with the squares `q1`,
/// `e`, `q2`: the roots of `x^2 - (q1 + q2 + e) x + q1 q2`, which is symmetric in `q1` and `q2`.
/// With `q1 >= q2`, the larger exceeds `q1 + e` by the positive root of
/// `s^2 + (q1 - q2 + e) s - q2 e`. The remaining operations have no cancellation.
pub(super) fn two_by_two(q1: f64, q2: f64, e: f64) -> (f64, f64) {
    let (q1, q2) = if q1 >= q2 { (q1, q2) } else { (q2, q1) };
    let half = 0.5 * ((q1 - q2) + e);
    if half == 0.0 || q2 == 0.0 {
        return (q1 + e, q2);
    }
    let ratio = q2 * (e / half);
    let large = q1 + (e + ratio / (1.0 + (1.0 + ratio / half).sqrt()));
    (large, q2 * (q1 / large))
}

/// The shift to try after `shift` failed, for the `failures`-th time in a row, with the given
/// pivots. Shifts near `unit`, the roundoff of the values, get few trials.
pub(super) fn smaller_shift(shift: f64, pivots: Pivots, failures: usize, unit: f64, retry: impl Fn() -> f64) -> f64 {
    if failures >= MAX_FAILURES {
        return 0.0;
    }
    if failures == 1 && pivots.close {
        return shift - 16.0 * (unit + f64::EPSILON * shift);
    }
    if pivots.inner >= 0.0 {
        // The last pivot decreases at least as fast as the shift increases.
        return (shift + pivots.last) * (1.0 - 2.0 * f64::EPSILON);
    }
    // The first negative pivot is slightly below the rows where the eigenvector is large.
    let other = if failures <= 2 { retry() } else { 0.0 };
    if other > unit && other < 0.999 * shift {
        other
    } else if failures == 1 && shift > 64.0 * unit {
        0.875 * shift
    } else {
        0.25 * shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The two values reproduce the trace and the determinant of the 2 x 2 block within the few roundings
    /// of the formula, for all sizes. So the smaller value is relatively accurate.
    #[test]
    fn two_by_two_is_relatively_exact() {
        let sizes = [0.0, 1e-250, 1e-120, 1e-16, 0.7, 1.0, 3.0, 1e16];
        for (q1, q2, e) in sizes.iter().flat_map(|&x| sizes.iter().flat_map(move |&y| sizes.map(|z| (x, y, z)))) {
            let (large, small) = two_by_two(q1, q2, e);
            let (trace, root) = (q1 + q2 + e, q1.sqrt() * q2.sqrt());
            assert!(small >= 0.0 && small <= large);
            assert!((large + small - trace).abs() <= 8.0 * f64::EPSILON * trace, "{q1} {q2} {e}");
            assert!((large.sqrt() * small.sqrt() - root).abs() <= 8.0 * f64::EPSILON * root + 1e-160, "{q1} {q2} {e}");
        }
    }

    /// A sweep preserves the trace of `B B^T`, minus the shifts, up to the rounding of `n` additions.
    #[test]
    fn a_sweep_subtracts_the_shift() {
        let (q, e) = ([4.0, 3.0, 2.5, 2.0], [0.5, 0.25, 0.125]);
        let (mut new_q, mut new_e) = ([0.0; 4], [0.0; 3]);
        let pivots = sweep(&q, &e, &mut new_q, &mut new_e, 0.5, 0.0);
        let sum = |q: &[f64], e: &[f64]| q.iter().chain(e).sum::<f64>();
        assert!((sum(&q, &e) - 2.0 - sum(&new_q, &new_e)).abs() < 16.0 * f64::EPSILON * sum(&q, &e));
        assert!(pivots.last == new_q[3] && pivots.inner >= pivots.last && pivots.row == 2);
    }

    /// A shift above the smallest eigenvalue gives a negative pivot.
    #[test]
    fn a_sweep_notices_too_large_a_shift() {
        let (mut new_q, mut new_e) = ([0.0; 3], [0.0; 2]);
        let pivots = sweep(&[1.0, 1.0, 1.0], &[1.0, 1.0], &mut new_q, &mut new_e, 0.25, 0.0);
        assert!(pivots.inner < 0.0 || pivots.last < 0.0);
    }
}
