//! Singular values of an upper bidiagonal matrix by the differential quotient-difference
//! algorithm with shifts (dqds).
//!
//! With `q_i = a_i^2` and `e_i = b_i^2`, one sweep with the shift `tau` transforms `B` into the `B'`
//! with `B'^T B' = B B^T - tau I`:
//!
//! ```text
//! d_1 = q_1 - tau,   q'_i = d_i + e_i,   e'_i = q_{i+1} (e_i / q'_i),
//!                    d_{i+1} = q_{i+1} (d_i / q'_i) - tau,   q'_n = d_n
//! ```
//!
//! (Fernando & Parlett, Numer. Math. 67, 1994). The only subtraction is that of the shift. If all
//! `d_i` are nonnegative, the computed `B'` is exact for entries of `B` that are perturbed by a few
//! units of roundoff each, so every value keeps its relative accuracy. The ratios `d / q'` and
//! `e / q'` are at most one, so nothing overflows if the `q_i` are of order one or less. Under
//! repeated sweeps, `e_{n-1}` converges to zero and `q_n` to the smallest eigenvalue; `sigma`, the
//! sum of the shifts (stored in two numbers), is added back.
//!
//! *Setting an off-diagonal to zero* must preserve the relative accuracy of small values too. With
//! `eta` the tolerance, `e_k` is set to zero
//!
//! * before a sweep whose pivot is `d_k >= e_k / eta^2`: by the relative criterion of
//!   Demmel & Kahan (SIAM J. Sci. Stat. Comput. 11, 1990), no singular value of `B` changes by
//!   more than `eta`, relatively. As `q'_k = d_k + e_k`, the test compares `e_k`, which the other
//!   buffer still contains, with `q'_k`;
//! * if `e_k <= eta^2 sigma`: the values `s` of `B` change by at most `sqrt(e_k)`, and the
//!   result is `s^2 + sigma >= 2 s sqrt(sigma)`, so its relative change is at most `eta`;
//! * if it is the last one and `e_k <= eta^2 (sigma + q_n)`: by one of the above, the first for the
//!   elimination from the bottom, whose pivot is `q_n`.
//!
//! *Pivots within roundoff.* In a sweep without a shift, a pivot `d_k` below `4 eps sigma` is set
//! to zero. In a sweep with a shift, the last pivot is set to zero if it is within `eps sigma`.
//! Either changes `B B^T - tau` by a diagonal matrix of that size, and so each `s^2 + sigma` by at
//! most `4 eps`, relatively.
//!
//! *Tails.* `B B^T` can also be split where only its off-diagonal entry, the square root of
//! `q_{k+1} e_k`, is negligible against `sigma`. Then `e_k` remains in the diagonal entry of
//! row `k`, which becomes the last row of the upper part. It is stored as the `tail` of that part,
//! and the next sweep adds it to the last pivot.
//!
//! Splitting, flipping and the retry after too large a shift follow Parlett & Marques (Linear
//! Algebra Appl. 309, 2000); the shifts are those of `shift`.

use super::FLOPS;
use super::bisection;
use super::shift;
use super::{sweep::MAX_FAILURES, sweep::Pivots, sweep::smaller_shift, sweep::sweep, sweep::two_by_two};
use crate::base::watch::Watch;

/// Flops reported for each row of a sweep. A value takes two (`few_sweeps_are_needed`) or three sweeps, over half of the rows on average;
/// with Newton's method it takes six passes over all rows.
const FLOPS_OF_SWEEP: u64 = FLOPS * 5;

/// The square of the tolerance `eta`, which is eight units of roundoff.
const ETA_SQUARED: f64 = 64.0 * f64::EPSILON * f64::EPSILON;

/// The last row is deflated early if that changes no eigenvalue by more than this, relatively. The
/// bound is far below roundoff, because the changes of `n` deflations add up.
const COUPLING: f64 = f64::EPSILON / 64.0;

/// The maximum sweeps of an unreduced block: per row, and in addition.
const BUDGET: (usize, usize) = (30, 100);

/// A block is flipped if `FLIP_BIAS` times its first `q` is below its last `q`.
const FLIP_BIAS: f64 = 1.5;

/// Operation counts of a computation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    /// The number of sweeps, including failed ones.
    pub sweeps: usize,
    /// The total number of rows of all sweeps.
    pub rows: usize,
    /// The sweeps that failed because the shift was too large.
    pub failures: usize,
    /// The blocks finished by bisection because they used up their budget.
    pub unfinished: usize,
}

/// An unreduced block `start..end` of the matrix, shifted by `sigma + correction`.
#[derive(Clone, Copy, Debug)]
struct Block {
    start: usize,
    end: usize,
    sigma: f64,
    correction: f64,
    /// Index of the buffer that contains the block.
    side: usize,
    /// The excess of the last diagonal entry of `B B^T` over the last `q`.
    tail: f64,
    /// The row of the smallest pivot of the last sweep, except the last pivot; None if unknown.
    inner: Option<usize>,
    /// The fraction of a Rayleigh quotient to try as the shift if no bound is available.
    boldness: f64,
    /// The remaining sweeps.
    budget: usize,
}

/// The squares `q` and `e` of one representation of the whole matrix.
struct Buffer {
    q: Vec<f64>,
    e: Vec<f64>,
}

/// The state of the algorithm. Each sweep reads one of the two buffers and writes the other.
struct Solver<'a> {
    buffers: [Buffer; 2],
    values: Vec<f64>,
    pending: Vec<Block>,
    statistics: Statistics,
    watch: &'a Watch,
}

/// All singular values, in no particular order, of the upper bidiagonal matrix with the given
/// nonnegative diagonal and superdiagonal (one entry shorter), with entries below 2. If `watch` is cancelled, there are fewer values.
pub fn svdvals(diagonal: &[f64], superdiagonal: &[f64], watch: &Watch) -> Vec<f64> {
    svdvals_with_statistics(diagonal, superdiagonal, watch).0
}

/// [`svdvals`], and its operation counts.
pub fn svdvals_with_statistics(diagonal: &[f64], superdiagonal: &[f64], watch: &Watch) -> (Vec<f64>, Statistics) {
    let n = diagonal.len();
    let squares = |entries: &[f64]| entries.iter().map(|x| x * x).collect::<Vec<f64>>();
    let first = Buffer { q: squares(diagonal), e: squares(superdiagonal) };
    let second = Buffer { q: vec![0.0; n], e: vec![0.0; superdiagonal.len()] };
    let mut solver = Solver {
        buffers: [first, second],
        values: Vec::with_capacity(n),
        pending: Vec::new(),
        statistics: Statistics::default(),
        watch,
    };
    let whole =
        Block { start: 0, end: n, sigma: 0.0, correction: 0.0, side: 0, tail: 0.0, inner: None, boldness: 0.25, budget: 0 };
    let mut whole = whole.part(0, n, 0.0);
    if n > 0 {
        solver.split(&mut whole, true);
        solver.pending.push(whole);
    }
    while let Some(block) = solver.pending.pop() {
        solver.solve(block);
    }
    (solver.values, solver.statistics)
}

impl Solver<'_> {
    /// Finds all values of a block. Parts that split off are queued.
    fn solve(&mut self, mut block: Block) {
        self.flip(&mut block);
        while block.start < block.end {
            if self.deflate(&mut block) {
                self.flip(&mut block);
            } else if block.budget == 0 && block.tail == 0.0 {
                return self.finish_by_bisection(block);
            } else {
                if self.watch.did(FLOPS_OF_SWEEP * (block.end - block.start) as u64).is_err() {
                    return self.pending.clear();
                }
                if !self.advance_without_last(&mut block) {
                    self.advance(&mut block);
                }
                self.split(&mut block, false);
            }
        }
    }

    /// Deflates one or two values at the bottom of the block if its last off-diagonals are negligible.
    fn deflate(&mut self, block: &mut Block) -> bool {
        let Buffer { q, e } = &self.buffers[block.side];
        let (last, rows) = (block.end - 1, block.end - block.start);
        let pivot = if block.tail == 0.0 { q[last] } else { 0.0 };
        let small = |k: usize| e[k] <= ETA_SQUARED * (block.sigma + pivot);
        if rows == 1 || small(last - 1) {
            self.values.push(block.value(q[last] + block.tail));
            block.end -= 1;
            block.tail = 0.0;
            return true;
        }
        if rows == 2 && block.tail == 0.0 {
            let (large, small) = two_by_two(q[last - 1], q[last], e[last - 1]);
            self.values.extend([block.value(large), block.value(small)]);
            block.end -= 2;
            return true;
        }
        false
    }

    /// Splits the block at its negligible off-diagonals, and queues all parts but the last. The
    /// other buffer must contain the state before the last sweep, unless the block is `fresh`.
    fn split(&mut self, block: &mut Block, fresh: bool) {
        let (low, high) = (block.start, block.end - 1);
        let sigma = block.sigma;
        let (limit, coupling) = (ETA_SQUARED * sigma, ETA_SQUARED * sigma * sigma);
        let Buffer { q, e } = &self.buffers[block.side];
        let old = if fresh { e } else { &self.buffers[1 - block.side].e };
        let tolerance = if fresh { 0.0 } else { ETA_SQUARED };
        let (q, next) = (&q[low..high], &q[low + 1..=high]);
        let (e, old) = (&e[low..high], &old[low..high]);
        let negligible = |q: f64, e: f64, old: f64| (old <= tolerance * q) | (e <= limit);
        let rows = || q.iter().zip(next).zip(e).zip(old);
        let found = rows().fold(false, |any, (((&q, &next), &e), &old)| any | negligible(q, e, old) | (next * e < coupling));
        if !found {
            return;
        }
        let mut cuts = Vec::new();
        for ((((&q, &next), &e), &old), row) in rows().zip(low..) {
            if negligible(q, e, old) {
                cuts.push((row + 1, 0.0));
            } else if next * e < coupling {
                cuts.push((row + 1, e));
            }
        }
        for (end, tail) in cuts {
            self.pending.push(block.part(block.start, end, tail));
            *block = block.part(end, block.end, block.tail);
        }
    }

    /// Reverses the order of the rows if the block is graded the wrong way. This preserves the
    /// singular values.
    fn flip(&mut self, block: &mut Block) {
        let (start, end) = (block.start, block.end);
        let Buffer { q, e } = &mut self.buffers[block.side];
        if block.tail == 0.0 && end > start + 2 && FLIP_BIAS * q[start] < q[end - 1] {
            q[start..end].reverse();
            e[start..end - 1].reverse();
            block.inner = None;
        }
    }

    /// Tries to deflate the last row and to sweep over the others with their next shift in one
    /// step. Returns whether this succeeded; if not, the block is unchanged.
    ///
    /// In `B B^T` the last row is coupled to the others by `c` with `c^2 = q_n e_{n-1}`. Without
    /// `c`, the last eigenvalue is `q_n`. If the eigenvalues of the other rows all exceed
    /// `q_n + gap`, setting `c` to zero changes no eigenvalue by more than `c^2 / gap` (Mathias, SIAM
    /// J. Matrix Anal. Appl. 19, 1998). The sweep itself proves the gap: it succeeds with the shift
    /// `tau` only if all those eigenvalues are at least `tau`.
    fn advance_without_last(&mut self, block: &mut Block) -> bool {
        let Buffer { q, e } = &self.buffers[block.side];
        let last = block.end - 1;
        let (value, tail) = (q[last], e[last - 1]);
        let enough = |gap: f64| value * tail < COUPLING * block.sigma * gap;
        if block.tail > 0.0 || last < block.start + 2 || !enough(q[last - 1] - value) {
            return false;
        }
        let inner = block.inner.filter(|&row| row < last);
        let mut others = Block { end: last, tail, inner, ..*block };
        let tau = self.advance(&mut others);
        let done = enough(tau - value);
        if done {
            self.values.push(block.value(value));
            *block = others;
        }
        done
    }

    /// Sweeps with decreasing shifts until one succeeds; a zero shift always does. Returns the
    /// successful shift.
    fn advance(&mut self, block: &mut Block) -> f64 {
        let rows = block.start..block.end;
        let [one, two] = &mut self.buffers;
        let (from, to) = if block.side == 0 { (one, two) } else { (two, one) };
        let (q, e) = (&from.q[rows.clone()], &from.e[rows.start..rows.end - 1]);
        let (new_q, new_e) = (&mut to.q[rows.clone()], &mut to.e[rows.start..rows.end - 1]);
        let row = block.inner.and_then(|row| row.checked_sub(block.start));
        let mut tau = shift::choose(q, e, block.tail, row, block.boldness);
        let unit = f64::EPSILON * block.sigma;
        let mut failures = 0;
        loop {
            let noise = if failures == 0 || tau == 0.0 { 4.0 * unit } else { unit };
            let (shift, noise) = if tau > noise { (tau, unit) } else { (0.0, noise) };
            let mut pivots = sweep(q, e, new_q, new_e, shift, noise);
            pivots.last += block.tail;
            self.statistics.sweeps += 1;
            self.statistics.rows += q.len();
            block.budget = block.budget.saturating_sub(1);
            let good = pivots.inner >= 0.0 && -pivots.last <= noise;
            // A zero shift fails only if the entries are not finite.
            if good || failures > MAX_FAILURES {
                new_q[q.len() - 1] = if pivots.last > noise { pivots.last } else { 0.0 };
                block.accept(shift, pivots, failures == 0);
                return shift;
            }
            failures += 1;
            self.statistics.failures += 1;
            let retry = || shift::choose(q, e, block.tail, Some(pivots.row), block.boldness);
            tau = smaller_shift(shift, pivots, failures, unit, retry);
        }
    }

    /// Finds the values of a block by bisection.
    fn finish_by_bisection(&mut self, block: Block) {
        self.statistics.unfinished += 1;
        let Buffer { q, e } = &self.buffers[block.side];
        let roots = |squares: &[f64]| squares.iter().map(|x| x.sqrt()).collect::<Vec<f64>>();
        let (a, b) = (roots(&q[block.start..block.end]), roots(&e[block.start..block.end - 1]));
        let rest = bisection::svdvals(&a, &b, self.watch);
        self.values.extend(rest.iter().map(|value| block.value(value * value)));
    }
}

impl Block {
    /// The rows `start..end` as a separate block.
    fn part(&self, start: usize, end: usize, tail: f64) -> Block {
        let inner = self.inner.filter(|row| (start..end).contains(row));
        let budget = BUDGET.0 * (end - start) + BUDGET.1;
        Block { start, end, tail, inner, budget, ..*self }
    }

    /// Accepts the result of a sweep; `at_once` means that no other shift failed before.
    fn accept(&mut self, tau: f64, pivots: Pivots, at_once: bool) {
        self.side = 1 - self.side;
        self.tail = 0.0;
        self.inner = (pivots.inner > 0.0).then_some(self.start + pivots.row);
        self.boldness += if at_once { (1.0 - self.boldness) / 4.0 } else { -0.5 * self.boldness };
        self.add_shift(tau);
    }

    /// The singular value of the whole matrix from an eigenvalue of the shifted one.
    fn value(&self, eigenvalue: f64) -> f64 {
        (self.sigma + (eigenvalue + self.correction)).max(0.0).sqrt()
    }

    /// Adds to the shift, keeping the part lost to rounding in `correction`.
    fn add_shift(&mut self, tau: f64) {
        let tau = tau + self.correction;
        let sum = self.sigma + tau;
        let rest = sum - self.sigma;
        self.correction = (self.sigma - (sum - rest)) + (tau - rest);
        self.sigma = sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At most four sweeps per value and no bisection, for a matrix with delocalised eigenvectors and
    /// for one with many clusters.
    #[test]
    fn few_sweeps_are_needed() {
        let n = 210;
        let wilkinson: Vec<f64> = (0..n).map(|i| ((i % 21) as f64 - 10.0).abs() / 8.0 + 0.125).collect();
        let glue: Vec<f64> = (1..n).map(|i| if i % 21 == 0 { 1e-8 } else { 0.125 }).collect();
        for (a, b) in [(vec![1.0; n], vec![1.0; n - 1]), (wilkinson, glue)] {
            let (values, statistics) = svdvals_with_statistics(&a, &b, &Watch::default());
            assert_eq!(values.len(), n);
            assert!(statistics.sweeps <= 4 * n && statistics.unfinished == 0, "{statistics:?}");
        }
    }

    /// The iteration ends even with entries that are not finite, although callers exclude these.
    #[test]
    fn it_ends_even_if_entries_are_not_finite() {
        assert_eq!(svdvals(&[1.0, f64::NAN, 0.5, 1.0], &[1.0, 0.5, f64::INFINITY], &Watch::default()).len(), 4);
    }
}
