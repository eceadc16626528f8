//! Singular values of an upper bidiagonal matrix by bisection on Sturm counts.
//!
//! Let `a_1..a_n` be the diagonal and `b_1..b_{n-1}` the superdiagonal of `B`. The Golub-Kahan
//! matrix is the `2n x 2n` symmetric tridiagonal `T` with a zero diagonal and the off-diagonals
//! `c = (a_1, b_1, a_2, b_2, ..., b_{n-1}, a_n)`; its eigenvalues are `+sigma_i` and `-sigma_i`
//! (Golub & Kahan, SIAM J. Numer. Anal. 2, 1965). The pivots of `T - x I = L D L^T` are
//!
//! ```text
//! p_1 = -x,        p_{j+1} = -x - c_j^2 / p_j,
//! ```
//!
//! and by Sylvester's law of inertia the number of negative pivots, minus `n`, is the number of
//! singular values below `x > 0`.
//!
//! *Relative accuracy.* The diagonal of `T` is zero. Hence the computed `p_{j+1}` is exact for the
//! same `x` and for a `c_j` with a relative perturbation of a few units of roundoff: the three
//! roundings of `c (c / p)` and of the subtraction, and the error in `p_j`, are all absorbed
//! into `c_j`. The count is therefore exact for a bidiagonal whose entries have relative
//! perturbations of at most about `2.5 eps`. Such a perturbation changes each singular value by at
//! most `(2n - 1) 2.5 eps`, relatively (Demmel & Kahan, SIAM J. Sci. Stat. Comput. 11, 1990,
//! theorem 2 and section 6). The evaluation as `c (c / p)` rather than `c^2 / p` keeps this true
//! over the whole exponent range, because no square underflows.
//!
//! The intervals are bisected in the *bit pattern* of the end points. The midpoint is close to
//! the geometric mean if the ends are far apart, and to the arithmetic mean if they are close. At
//! most 62 rounds reduce any interval to two adjacent floating-point numbers.

use std::ops::Range;

use super::FLOPS;
use super::{Scaling, is_alone, structural_zeros};
use crate::base::{parallel::map_with, watch::Watch};

/// Counts that are reported as one pass of Newton's method: a value needs about 60 counts, and about 6 passes of Newton's method.
const COUNTS: u64 = 10;

/// The number of shifts whose counts are computed in lockstep.
const LANES: usize = 8;

/// The smallest magnitude of a pivot; a smaller pivot is replaced by `-PIVOT_FLOOR`. Together
/// with `c < 2` this keeps `c (c / p)` finite.
const PIVOT_FLOOR: f64 = f64::MIN_POSITIVE * 4.0;

/// The minimum number of pivots of a task.
const STEPS_PER_TASK: usize = 1 << 15;

/// A half-open interval of positive floating-point numbers, given by their bit patterns, with
/// the number of singular values below each end.
#[derive(Clone, Copy)]
struct Interval {
    low: u64,
    high: u64,
    below_low: usize,
    below_high: usize,
}

impl Interval {
    /// Whether the ends are adjacent floating-point numbers.
    fn is_final(&self) -> bool {
        self.high - self.low <= 1
    }

    /// The midpoint, as a bit pattern.
    fn middle(&self) -> u64 {
        self.low + (self.high - self.low) / 2
    }

    /// The two halves, given the count at the midpoint.
    fn split(&self, count: usize) -> [Interval; 2] {
        let (middle, count) = (self.middle(), count.clamp(self.below_low, self.below_high));
        let lower = Interval { high: middle, below_high: count, ..*self };
        let upper = Interval { low: middle, below_low: count, ..*self };
        [lower, upper]
    }
}

/// The `count` largest singular values, or all if there are fewer, in descending order, each with a relative error of about `5 n eps` (see the
/// module's documentation). Signs are ignored; entries must be finite. If `watch` is cancelled, the values are meaningless.
///
/// An interval's bisection depends on no other interval, so a value has the same bits however many are computed.
pub fn svdvals(diagonal: &[f64], superdiagonal: &[f64], count: usize, watch: &Watch) -> Vec<f64> {
    let order = diagonal.len();
    let mut values = in_places(diagonal, superdiagonal, order - count.min(order)..order, watch);
    values.reverse();
    values
}

/// The singular values in the places `wanted` of the ascending order; `watch` as in [`svdvals`].
pub fn in_places(diagonal: &[f64], superdiagonal: &[f64], wanted: Range<usize>, watch: &Watch) -> Vec<f64> {
    let order = diagonal.len();
    let wanted = wanted.start..wanted.end.min(order);
    let scaling = Scaling::of(diagonal, superdiagonal);
    let chain = golub_kahan(diagonal, superdiagonal, scaling);
    let zeros = structural_zeros(diagonal, superdiagonal);
    let mut values = vec![0.0; wanted.len()];
    // Entries are below 2 after scaling, and no singular value exceeds max |a| + max |b|.
    let whole = Interval { low: 0, high: 4f64.to_bits(), below_low: zeros, below_high: order };
    let mut active = vec![whole];
    while !active.is_empty() {
        active.retain(|interval| {
            let (first, end) = (interval.below_low.max(wanted.start), interval.below_high.min(wanted.end));
            if first < end && interval.is_final() {
                values[first - wanted.start..end - wanted.start].fill(scaling.undo(f64::from_bits(interval.low)));
            }
            first < end && !interval.is_final()
        });
        let counts = count_at_middles(&chain, &active);
        if watch.did(FLOPS * (active.len() * order) as u64 / COUNTS).is_err() {
            break;
        }
        active = active.iter().zip(counts).flat_map(|(i, count)| i.split(count)).collect();
    }
    values
}

/// The number of singular values below `x`; zero if `x` is not positive.
pub fn count_below(diagonal: &[f64], superdiagonal: &[f64], x: f64) -> usize {
    let scaling = Scaling::of(diagonal, superdiagonal);
    if x.is_nan() || x <= 0.0 {
        return 0;
    }
    let x = scaling.apply(x);
    if x >= 4.0 {
        return diagonal.len();
    }
    let chain = golub_kahan(diagonal, superdiagonal, scaling);
    let zeros = structural_zeros(diagonal, superdiagonal);
    count_lanes(&chain, &[x])[0].clamp(zeros, diagonal.len())
}

/// The scaled off-diagonals `a_1, b_1, a_2, ..., a_n` of the Golub-Kahan matrix.
fn golub_kahan(diagonal: &[f64], superdiagonal: &[f64], scaling: Scaling) -> Vec<f64> {
    let mut chain = Vec::with_capacity(2 * diagonal.len());
    for (index, &a) in diagonal.iter().enumerate() {
        if index > 0 {
            let b = superdiagonal.get(index - 1).copied().unwrap_or(0.0);
            chain.push(scaling.apply(b.abs()));
        }
        chain.push(scaling.apply(a.abs()));
    }
    chain
}

/// The counts at the midpoints of the intervals, in the same order.
fn count_at_middles(chain: &[f64], intervals: &[Interval]) -> Vec<usize> {
    let batches_per_task = STEPS_PER_TASK / chain.len().max(1) + 1;
    let count = |batch: &[Interval]| {
        let mut shifts = [1.0; LANES];
        for (shift, interval) in shifts.iter_mut().zip(batch) {
            *shift = f64::from_bits(interval.middle());
        }
        count_lanes(chain, &shifts)
    };
    let batches: Vec<[usize; LANES]> = if is_alone(chain.len()) {
        intervals.chunks(LANES).map(count).collect()
    } else {
        let batch = |k: usize| &intervals[k * LANES..intervals.len().min((k + 1) * LANES)];
        map_with(intervals.len().div_ceil(LANES), batches_per_task, || (), |(), k| count(batch(k)))
    };
    batches.into_flattened()
}

/// The Sturm counts at several positive shifts in lockstep: for each, the number of singular
/// values below it. The inner loop has no branch, so it vectorises.
fn count_lanes<const N: usize>(chain: &[f64], shifts: &[f64; N]) -> [usize; N] {
    let mut pivots = shifts.map(|x| -x.max(PIVOT_FLOOR));
    let mut negative = [1.0; N];
    for &c in chain {
        for lane in 0..N {
            let next = -shifts[lane] - c * (c / pivots[lane]);
            let next = if next.abs() < PIVOT_FLOOR { -PIVOT_FLOOR } else { next };
            negative[lane] += if next < 0.0 { 1.0 } else { 0.0 };
            pivots[lane] = next;
        }
    }
    let order = chain.len().div_ceil(2);
    negative.map(|count| (count as usize).saturating_sub(order))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The count is a step function: `k` values lie below a shift just above the `k`-th.
    #[test]
    fn counts_match_a_known_spectrum() {
        // A diagonal matrix: its singular values are its entries.
        let diagonal = [3.0, 0.0, 1e-140, 2.0, 1e140];
        let count = |x| count_below(&diagonal, &[0.0; 4], x);
        let counts = [0.0, 1e-150, 1.1e-140, 1.9, 2.5, 3.5, 1e139, 2e140, f64::NAN].map(count);
        assert_eq!(counts, [0, 1, 2, 2, 3, 4, 4, 5, 0]);
    }

    /// The values of a diagonal matrix are exact to one unit in the last place: without coupling
    /// the only rounding is that of the pivot `-x - c (c / p)`.
    #[test]
    fn diagonal_matrices_are_exact_to_one_unit() {
        let diagonal = [1e-280, 7.0, 0.3, -0.1, 1e-30, 0.0];
        let values = svdvals(&diagonal, &[0.0; 5], 6, &Watch::default());
        for (value, exact) in values.iter().zip([7.0, 0.3, 0.1, 1e-30, 1e-280, 0.0]) {
            assert!((value - exact).abs() <= 2.0 * f64::EPSILON * exact, "{value} for {exact}");
        }
    }

    /// The count is correct at a shift with a zero pivot. Here `a_1` itself is a shift of the
    /// bisection, which makes the second pivot zero. The nearest value, computed with 120 digits, is
    /// `1.000000000002400134515`.
    #[test]
    fn a_vanishing_pivot_does_not_mislead() {
        let diagonal = [1.0000000000024447, 1.0000000000026124, 1.0000000000023705];
        let superdiagonal = [3.1505687146543286e-9, 2.566591813099419e-9];
        let middle = svdvals(&diagonal, &superdiagonal, 3, &Watch::default())[1];
        assert!((middle - 1.0000000000024).abs() <= 15.0 * f64::EPSILON, "{middle:e}");
    }

    /// Those in some places are a part of all values.
    #[test]
    fn some_are_a_part_of_all() {
        let diagonal: Vec<f64> = (1..40).map(|i| f64::from(i).sin()).collect();
        let superdiagonal: Vec<f64> = (1..39).map(|i| f64::from(i).cos()).collect();
        let mut all = svdvals(&diagonal, &superdiagonal, 39, &Watch::default());
        all.reverse();
        for (first, end) in [(0, 0), (0, 1), (0, 7), (0, 39), (3, 50), (38, 39), (39, 39), (12, 13), (5, 20)] {
            assert_eq!(in_places(&diagonal, &superdiagonal, first..end, &Watch::default()), all[first..end.min(39)]);
        }
    }
}
