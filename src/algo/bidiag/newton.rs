//! All singular values simultaneously, by Newton's method in brackets from eigenvalue counts.
//!
//! With the squares `q_1..q_n` of the diagonal and `e_1..e_{n-1}` of the superdiagonal, the pivots of `B^T B - x` are
//!
//! ```text
//! d_i = q_i + s_i,    s_1 = -x,    s_{i+1} = e_i s_i / d_i - x
//! ```
//!
//! (the stationary qd transform, whose rounding errors are equivalent to perturbations of the entries by a few units: Dhillon & Parlett,
//! Linear Algebra Appl. 387, 2004). The number of negative pivots is the number of eigenvalues below `x`. The product
//! `p(x) = d_1 .. d_n` is the characteristic polynomial up to its sign, so that
//!
//! ```text
//! p'/p = sum s_i' / d_i,    s_1' = -1,    s_{i+1}' = e_i q_i s_i' / d_i^2 - 1,
//! ```
//!
//! and `x - p/p'` is a Newton step. One pass with one division per row computes both the count and the step. Passes for different `x` are
//! independent: they share vector registers and run on different threads.
//!
//! The first round evaluates at least `n` points, evenly spaced as singular values; if few values are wanted, those of these points that
//! enclose them, found by sections. Intervals with more than one value are bisected. Once
//! an interval contains a single value, Newton steps inside it take over. Spectra without clusters take about six passes per value. Values
//! that cannot be separated share the passes of a bisection.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::{FLOPS, LANES};
use super::{in_lockstep, power_of_two};
use crate::base::watch::Watch;

/// A pivot of smaller magnitude is replaced by `-SMALLEST_PIVOT`.
pub(super) const SMALLEST_PIVOT: f64 = power_of_two(-1000);

/// Eigenvalues below this are returned as zero.
const RANGE: f64 = power_of_two(-901);

/// The rounding error of a sum, relative to its largest term.
const CANCELLATION: f64 = 4.0 * f64::EPSILON;

/// The lowest point. (At zero, a zero pivot would hide the rows after it.)
const LOWEST: f64 = power_of_two(-950);

/// The first round is by sections if at most one value of so many is wanted. A value takes about `log2` of that and two points there.
const FEW: usize = 4;

/// More rounds than the bisection of any two numbers takes. The limit ends the search if rounding errors give contradictory counts.
const MAX_ROUNDS: usize = 400;

/// A shift, with the results of a pass over the rows.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: f64,
    /// The number of eigenvalues below `at`.
    below: usize,
    /// The Newton step `-p/p'` at this point; NaN if rounding errors dominate it.
    step: f64,
    /// An estimate of the rounding error of the step.
    doubt: f64,
}

/// An interval that contains the eigenvalues `low.below..high.below`, counted from the smallest.
#[derive(Clone, Copy, Debug)]
struct Bracket {
    low: Point,
    high: Point,
    /// The next point to evaluate; NaN if undetermined.
    next: f64,
    /// The length of the Newton step to `next`; infinite if `next` is not the end of a Newton step.
    last_step: f64,
}

/// Singular values, in no order, among them the `count` largest, of the bidiagonal matrix with diagonal `a` and superdiagonal `b`. The entries are
/// nonnegative, and the largest is in `[1, 2)`. The relative error is about `tolerance`, and four times that in a cluster, or of the order of rounding. Values
/// below `2^-450` are zero. Unless there are exactly two rows, a row with zero off-diagonals on both sides gives its entry as a value,
/// exactly, however small.
///
/// A bracket depends on no other bracket, so a value has the same bits however many are wanted. If `watch` is cancelled, the values are
/// meaningless.
pub fn svdvals(a: &[f64], b: &[f64], tolerance: f64, count: usize, watch: &Watch) -> Vec<f64> {
    count_passes(a, b, tolerance, count, watch).0
}

/// [`svdvals`], and the number of points evaluated.
fn count_passes(a: &[f64], b: &[f64], tolerance: f64, count: usize, watch: &Watch) -> (Vec<f64>, usize) {
    let n = a.len();
    if let [a1, a2] = *a {
        let (large, small) = two_by_two(a1 * a1, a2 * a2, b[0] * b[0]);
        return (vec![large.sqrt(), small.sqrt()], 0);
    }
    let right_of = |i: usize| b.get(i).map_or(0.0, |b| *b);
    let left_of = |i: usize| if i > 0 { right_of(i - 1) } else { 0.0 };
    let (mut rows, mut alone) = (Vec::with_capacity(n), Vec::new());
    // Gershgorin's bound for the Golub-Kahan matrix: each row sum is the sum of two adjacent entries.
    let mut bound = 0.0f64;
    for (i, &a) in a.iter().enumerate() {
        let (left, right) = (left_of(i), right_of(i));
        if left == 0.0 && right == 0.0 {
            alone.push(a);
        } else {
            rows.push([a * a, right * right]);
            bound = bound.max(a + left.max(right));
        }
    }
    let n = rows.len();
    if n == 0 {
        return (alone, 0);
    }
    let grid = Grid { rows: &rows, bound: bound * (1.0 + 4.0 * f64::EPSILON) };

    // The first wanted value, counted from the smallest.
    let from = n - count.min(n);
    let wanted = |bracket: &Bracket| bracket.count() > 0 && bracket.high.below > from;
    let mut values = vec![0.0; n - from];
    let (mut brackets, mut passes) = if count <= n / FEW { grid.sections(from) } else { grid.all() };
    brackets.retain(wanted);
    let (mut next, mut points) = (Vec::with_capacity(brackets.len()), Vec::with_capacity(brackets.len()));
    let mut fill = |bracket: &Bracket, value: f64| {
        values[bracket.low.below.max(from) - from..bracket.high.below - from].fill(value.sqrt());
    };
    let mut looked_at = passes;
    for _ in 0..MAX_ROUNDS {
        let going_on = watch.did(FLOPS * (looked_at * n) as u64).is_ok();
        if brackets.is_empty() || !going_on {
            break;
        }
        looked_at = brackets.len();
        points.clear();
        points.extend(brackets.iter().map(|bracket| Point::new(bracket.inside())));
        evaluate(&rows, &mut points);
        passes += points.len();
        for (bracket, &point) in brackets.iter().zip(&points) {
            match bracket.divide(point, tolerance) {
                Divided::Found(value) => fill(bracket, value),
                Divided::Halves(halves) => next.extend(halves.into_iter().filter(wanted)),
            }
        }
        std::mem::swap(&mut brackets, &mut next);
        next.clear();
    }
    for bracket in brackets {
        fill(&bracket, bracket.high.at);
    }
    values.extend(alone);
    (values, passes)
}

/// The points of the first round, evenly spaced as singular values between zero and `bound`.
struct Grid<'a> {
    rows: &'a [[f64; 2]],
    bound: f64,
}

impl Grid<'_> {
    /// The number of intervals. (LANES points cost hardly more than one.)
    fn len(&self) -> usize {
        self.rows.len().max(LANES)
    }

    /// The point at the lower end of interval `k`, or at the upper end of the last one, not yet evaluated.
    fn point(&self, k: usize) -> Point {
        match k < self.len() {
            true => Point::new((self.bound * (k as f64 / self.len() as f64)).powi(2).max(LOWEST)),
            false => Point { below: self.rows.len(), ..Point::new(self.bound * self.bound) },
        }
    }

    /// The intervals, as brackets, and the number of points evaluated.
    fn all(&self) -> (Vec<Bracket>, usize) {
        let n = self.rows.len();
        let mut points = Vec::with_capacity(self.len() + 1);
        points.extend((0..self.len()).map(|k| self.point(k)));
        evaluate(self.rows, &mut points);
        points.push(self.point(self.len()));
        let mut below = 0;
        for point in &mut points {
            // Rounding errors can make the counts nonmonotonic; this restores the order.
            below = point.below.clamp(below, n);
            point.below = below;
        }
        (points.windows(2).map(|ends| Bracket::between(ends[0], ends[1])).collect(), self.len())
    }

    /// Those intervals that contain eigenvalues of `from..`, as the same brackets, and the number of points evaluated. An interval of the grid's
    /// points that contains such an eigenvalue is divided until its ends are neighbours.
    ///
    /// The counts of the grid's points are monotonic: a count is that of entries with relative perturbations of a few eps, so it could differ
    /// from the exact one only within `2n` times that of a value, and the points are `1 / n` of the bound apart.
    fn sections(&self, from: usize) -> (Vec<Bracket>, usize) {
        let mut lowest = [self.point(0)];
        evaluate(self.rows, &mut lowest);
        let mut intervals = vec![(0..self.len(), Bracket::between(lowest[0], self.point(self.len())))];
        let (mut divided, mut points, mut passes) = (Vec::new(), Vec::new(), 1);
        loop {
            let wide = intervals.iter().filter(|(ends, _)| ends.len() > 1).count();
            if wide == 0 {
                return (intervals.into_iter().map(|(_, bracket)| bracket).collect(), passes);
            }
            let parts = (LANES / wide + 1).max(2);
            let cut = |ends: &Range<usize>, part: usize| ends.start + ends.len() * part / parts.min(ends.len());
            points.clear();
            for (ends, _) in &intervals {
                points.extend((1..parts.min(ends.len())).map(|part| self.point(cut(ends, part))));
            }
            evaluate(self.rows, &mut points);
            passes += points.len();
            let mut inner = points.iter();
            for (ends, whole) in &intervals {
                let (mut low, parts) = (whole.low, parts.min(ends.len()));
                for part in 1..=parts {
                    let high = match part < parts {
                        true => inner.next().map_or(whole.high, |&point| Point {
                            below: point.below.clamp(low.below, whole.high.below),
                            ..point
                        }),
                        false => whole.high,
                    };
                    let bracket = Bracket::between(low, high);
                    if bracket.count() > 0 && high.below > from {
                        divided.push((cut(ends, part - 1)..cut(ends, part), bracket));
                    }
                    low = high;
                }
            }
            std::mem::swap(&mut intervals, &mut divided);
            divided.clear();
        }
    }
}

/// The larger and the smaller eigenvalue of `B^T B` for the 2 x 2 matrix with the squares `q1`,
/// `e`, `q2`: the roots of `x^2 - (q1 + q2 + e) x + q1 q2`, which is symmetric in `q1` and `q2`.
/// With `q1 >= q2`, the larger exceeds `q1 + e` by the positive root of
/// `s^2 + (q1 - q2 + e) s - q2 e`. The remaining operations have no cancellation.
fn two_by_two(q1: f64, q2: f64, e: f64) -> (f64, f64) {
    let (q1, q2) = if q1 >= q2 { (q1, q2) } else { (q2, q1) };
    let half = 0.5 * ((q1 - q2) + e);
    if half == 0.0 || q2 == 0.0 {
        return (q1 + e, q2);
    }
    let ratio = q2 * (e / half);
    let large = q1 + (e + ratio / (1.0 + (1.0 + ratio / half).sqrt()));
    (large, q2 * (q1 / large))
}

enum Divided {
    /// The common value of all eigenvalues of the bracket.
    Found(f64),
    Halves([Bracket; 2]),
}

impl Point {
    fn new(at: f64) -> Point {
        Point { at, below: 0, step: f64::NAN, doubt: f64::NAN }
    }
}

impl Bracket {
    /// A bracket without a Newton step.
    fn between(low: Point, high: Point) -> Bracket {
        Bracket { low, high, next: f64::NAN, last_step: f64::INFINITY }
    }

    fn count(&self) -> usize {
        self.high.below - self.low.below
    }

    /// The next point to evaluate: the end of a Newton step inside the bracket if there is one eigenvalue, else the middle.
    fn inside(&self) -> f64 {
        let Bracket { low, high, next, .. } = *self;
        let is_inside = |at: f64| low.at < at && at < high.at;
        if is_inside(next) {
            return next;
        }
        if self.count() == 1 && next.is_nan() {
            // The shorter step is tried first.
            let ends = if high.step.abs() < low.step.abs() || low.step.is_nan() { [high, low] } else { [low, high] };
            if let Some(at) = ends.map(|end| end.at + end.step).into_iter().find(|&at| is_inside(at)) {
                return at;
            }
        }
        middle(low, high)
    }

    /// The result of evaluating `point`, which is inside the bracket.
    fn divide(&self, mut point: Point, tolerance: f64) -> Divided {
        let Bracket { low, high, last_step, .. } = *self;
        point.below = point.below.clamp(low.below, high.below);
        let allowed = tolerance * point.at;
        let single = self.count() == 1;
        let (from, to) = if point.below > low.below { (low, point) } else { (point, high) };
        let (mut next, mut length) = (if single { middle(from, to) } else { f64::NAN }, f64::INFINITY);
        if single && point.step.is_finite() {
            let (end, step) = (point.at + point.step, point.step.abs());
            if from.at <= end && end <= to.at {
                // If steps shrink at least linearly, the sum of the remaining ones is about the last step times the last ratio.
                let allowed = tolerance * end;
                let rest = if last_step.is_finite() { step * (step / last_step).min(1.0) } else { step };
                if rest <= allowed && point.doubt <= allowed {
                    return Divided::Found(end);
                }
                // Far from its eigenvalue, a step is the shorter the more eigenvalues lie behind it. Then bisection is faster.
                if 3.0 * step <= last_step && from.at < end && end < to.at {
                    (next, length) = (end, step);
                }
            } else if step <= allowed {
                // Count and step disagree on the side of the eigenvalue. Either the point is within the tolerance of it, or the step
                // belongs to another eigenvalue. A point four tolerances away decides.
                next = point.at + if from.at < point.at { -4.0 * allowed } else { 4.0 * allowed };
            }
        }
        if high.at < RANGE {
            return Divided::Found(0.0);
        }
        // At full accuracy the ends are adjacent numbers. An eigenvalue equal to the upper end is counted below it.
        if high.at - low.at <= 8.0 * (tolerance - f64::EPSILON) * low.at || high.at <= low.at.next_up() {
            return Divided::Found(high.at);
        }
        let half = |low, high| Bracket { low, high, next, last_step: length };
        Divided::Halves([half(low, point), half(point, high)])
    }
}

/// The arithmetic mean of two points, or the geometric mean if they are far apart.
fn middle(low: Point, high: Point) -> f64 {
    if high.at < 4.0 * low.at {
        return 0.5 * (low.at + high.at);
    }
    // A Newton step from below all eigenvalues does not overshoot.
    let end = low.at + low.step;
    let above = if low.below == 0 && low.at < end && end < high.at { end } else { low.at };
    above.sqrt() * high.at.sqrt()
}

/// Computes the counts and steps of all points.
fn evaluate(rows: &[[f64; 2]], points: &mut [Point]) {
    let arch = pulp::Arch::new();
    in_lockstep(points, rows.len(), |points| arch.dispatch(Pass { rows, points }));
}

/// One pass over the rows for every two registers of points, or for one remaining register.
struct Pass<'a> {
    rows: &'a [[f64; 2]],
    points: &'a mut [Point],
}

impl WithSimd for Pass<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for points in self.points.chunks_mut(2 * S::F64_LANES) {
            if points.len() > S::F64_LANES {
                registers::<S, 2>(simd, self.rows, points);
            } else {
                registers::<S, 1>(simd, self.rows, points);
            }
        }
    }
}

/// The pass for at most `K` registers of points.
#[inline(always)]
fn registers<S: Simd, const K: usize>(simd: S, rows: &[[f64; 2]], points: &mut [Point]) {
    let splat = |x: f64| simd.splat_f64s(x);
    let (zero, one, minus_one) = (splat(0.0), splat(1.0), splat(-1.0));
    let (smallest, negative) = (splat(SMALLEST_PIVOT), splat(-SMALLEST_PIVOT));
    let mut minus_x = [minus_one; K];
    let lanes: &mut [f64] = bytemuck::cast_slice_mut(&mut minus_x);
    lanes.iter_mut().zip(&*points).for_each(|(lane, point)| *lane = -point.at);
    let mut s = minus_x;
    let (mut slope, mut sum, mut largest, mut below) = ([minus_one; K], [zero; K], [zero; K], [zero; K]);
    for &[q, e] in rows {
        let (q, e) = (splat(q), splat(e));
        for k in 0..K {
            let d = simd.add_f64s(q, s[k]);
            let d = simd.select_f64s(simd.less_than_f64s(simd.abs_f64s(d), smallest), negative, d);
            below[k] = simd.add_f64s(below[k], simd.select_f64s(simd.less_than_f64s(d, zero), one, zero));
            let inverse = simd.div_f64s(one, d);
            let ratio = simd.mul_f64s(slope[k], inverse);
            sum[k] = simd.add_f64s(sum[k], ratio);
            largest[k] = simd.max_f64s(largest[k], simd.abs_f64s(ratio));
            slope[k] = simd.mul_add_e_f64s(simd.mul_f64s(e, inverse), simd.mul_f64s(q, ratio), minus_one);
            s[k] = simd.mul_add_e_f64s(e, simd.mul_f64s(s[k], inverse), minus_x[k]);
        }
    }
    let (sum, largest): (&[f64], &[f64]) = (bytemuck::cast_slice(&sum), bytemuck::cast_slice(&largest));
    let below: &[f64] = bytemuck::cast_slice(&below);
    for (l, point) in points.iter_mut().enumerate() {
        point.below = below[l] as usize;
        // Near an eigenvalue of a leading submatrix, two large terms of the sum cancel and leave their rounding errors.
        let relative = CANCELLATION * largest[l] / sum[l].abs();
        point.step = if sum[l].is_finite() && relative < 0.25 { -1.0 / sum[l] } else { f64::NAN };
        point.doubt = relative * point.step.abs();
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

    /// About six passes per value for well-separated values: of the matrix of ones, and of the bidiagonal of a Gaussian matrix (with the
    /// chi variables replaced by their means). With clusters, or over 30 orders of magnitude, fewer than the sixty of bisection.
    #[test]
    fn few_passes_are_needed() {
        let n = 210;
        let root = |i: usize| ((n - i) as f64 / n as f64).sqrt();
        let wilkinson = |i: usize| ((i % 21) as f64 - 10.0).abs() / 8.0 + 0.125;
        let passes = |a: &dyn Fn(usize) -> f64, b: &dyn Fn(usize) -> f64| {
            let (a, b): (Vec<f64>, Vec<f64>) = ((0..n).map(a).collect(), (1..n).map(b).collect());
            let (values, passes) = count_passes(&a, &b, f64::EPSILON, n, &Watch::default());
            assert_eq!(values.len(), n);
            passes as f64 / n as f64
        };
        let ones = passes(&|_| 1.0, &|_| 1.0);
        let gaussian = passes(&root, &root);
        let glued = passes(&wilkinson, &|i| if i % 21 == 0 { 1e-8 } else { 0.125 });
        let graded = passes(&|i| 2f64.powf(-0.5 * i as f64), &|i| 2f64.powf(-0.5 * i as f64));
        assert!(ones <= 7.0 && gaussian <= 7.0 && glued <= 20.0 && graded <= 60.0, "{ones}, {gaussian}, {glued}, {graded}");
    }

    /// Few values of many take few passes: those of the sections, at most `LANES` for each of the `log(n)` to the base `LANES` rounds if one value is wanted
    /// and twice the binary logarithm for each of several, and about six in its bracket, or as many as a bisection for those at the end of a cluster.
    #[test]
    fn few_values_take_few_passes() {
        let n = 2000;
        let root = |i: usize| ((n - i) as f64 / n as f64).sqrt();
        let (a, b): (Vec<f64>, Vec<f64>) = ((0..n).map(root).collect(), (1..n).map(root).collect());
        let passes = |count: usize| count_passes(&a, &b, f64::EPSILON, count, &Watch::default()).1;
        let (one, ten, hundred, all) = (passes(1), passes(10), passes(100), passes(n));
        assert!(one <= 80 && ten <= 200 && hundred <= 1200 && all >= 5 * n, "{one}, {ten}, {hundred}, {all}");
    }

    /// The error of a step is at most its doubt, and the doubt is small away from an eigenvalue of the leading submatrix, 0.7. Near it two
    /// large terms cancel, and the step may be pure rounding error. The eigenvalues of B^T B are those of [[0.7, r], [r, 1.2]] with r^2 =
    /// 0.21.
    #[test]
    fn cancelled_steps_are_not_taken() {
        let half = (0.95f64 * 0.95 - 0.63).sqrt();
        for k in 1..200 {
            for (distance, hidden) in [(f64::EPSILON, true), (1e-6, false)] {
                let x = 0.7 + f64::from(k) * distance;
                let step = -1.0 / (1.0 / (x - 0.95 - half) + 1.0 / (x - 0.95 + half));
                let mut points = [Point::new(x)];
                evaluate(&[[0.7, 0.3], [0.9, 0.0]], &mut points);
                let found = points[0].step;
                let doubt = points[0].doubt;
                assert!((hidden && found.is_nan()) || (found - step).abs() <= doubt, "{k}: {found} +- {doubt} for {step}");
                assert!(hidden || doubt < 1e-8, "{k}: {doubt}");
            }
        }
    }

    /// The tolerance is relative to the end of the step, not to the point: here the step ends twelve orders of magnitude below the point.
    #[test]
    fn far_ends_are_looked_at_again() {
        let point = |at, below, step| Point { at, below, step, doubt: 0.0 };
        let low = point(1e-200, 0, f64::NAN);
        let bracket = Bracket { low, high: point(1.0, 1, f64::NAN), next: 1e-10, last_step: 10.0 };
        let tolerance = 1e-10;
        assert!(matches!(bracket.divide(point(1e-10, 1, -1e-10 * (1.0 - 1e-12)), tolerance), Divided::Halves(_)));
        let near = point(1e-10, 1, -1e-16);
        assert!(matches!(bracket.divide(near, tolerance), Divided::Found(_)));
        assert!(matches!(bracket.divide(Point { doubt: 1e-17, ..near }, tolerance), Divided::Halves(_)));
    }

    /// The iteration ends even with entries that are not finite, although callers exclude these.
    #[test]
    fn it_ends_even_if_entries_are_not_finite() {
        let (a, b) = ([1.0, f64::NAN, 0.5, 1.0], [1.0, 0.5, f64::INFINITY]);
        for count in [4, 1] {
            assert_eq!(svdvals(&a, &b, f64::EPSILON, count, &Watch::default()).len(), count);
        }
    }
}
