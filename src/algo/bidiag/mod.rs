//! Singular values of a real upper bidiagonal matrix, each to high relative accuracy.
//!
//! With the diagonal `a_1..a_n` and the superdiagonal `b_1..b_{n-1}` of `B`, small *relative*
//! perturbations of the entries cause only small relative changes of every singular value, however
//! small (Demmel & Kahan, SIAM J. Sci. Stat. Comput. 11, 1990): a change of each entry by a
//! factor between `1 - eta` and `1 + eta` changes no singular value by more than `(2n - 1) eta`,
//! relatively and to first order. The rounding errors of all methods here are of this kind:
//!
//! * [`newton`]'s method in brackets finds all values simultaneously, in vector registers and on all
//!   threads, and is the default;
//! * [`bisection`] on Sturm counts is slower, but does not square: it finds the smallest values of
//!   steeply graded matrices, and the tests check Newton's method against it.
//!
//! *Scaling and range.* The entries are first scaled by a power of two that puts the largest in
//! `[1, 2)`, and the results are scaled back; both are exact unless numbers underflow. Newton's
//! method works with squares. Underflow of the squares changes a scaled singular value by at most
//! about `n 2^-537`, absolutely. Hence values above `2^-450` (`3e-136`) are relatively accurate.
//! Smaller values are recomputed by bisection, which does not square. So every singular value has
//! full relative accuracy if it, and every nonzero entry, is at least `1e-290` times
//! the largest entry; smaller values underflow gradually to zero.
//!
//! Vectors come from [`twisted`] factorisations, or by [divide] and conquer.

pub(crate) mod bisection;
pub(crate) mod divide;
#[cfg(feature = "lapack")]
pub(crate) mod lapack;
mod newton;
mod refine;
mod twisted;
mod vectors;

use crate::base::{
    parallel::{pieces_mut, worker},
    watch::Watch,
};

pub(crate) use {
    twisted::Known,
    vectors::{right_vectors, scaled_powers, vectors},
};

/// Scaled singular values below this limit are recomputed by bisection.
const SQUARES_RANGE: f64 = f64::from_bits((1023 - 450) << 52);

/// The `count` largest singular values, or all if there are fewer, in descending order, of the upper
/// bidiagonal matrix with the given diagonal and superdiagonal, by [`newton`]'s method. A value has the
/// same bits for every `count`.
///
/// Entries must be finite; they may be negative or zero. The number of exact zeros among the values
/// equals the rank deficiency of the matrix. A value above the largest finite number
/// is returned as infinity. Entries of `superdiagonal` beyond the first `n - 1` are ignored, and
/// missing ones are taken as zero.
///
/// `unit` is the machine epsilon of the type that the values will be rounded to. If `watch` is
/// cancelled, the values are meaningless.
pub fn svdvals(diagonal: &[f64], superdiagonal: &[f64], unit: f64, count: usize, watch: &Watch) -> Vec<f64> {
    let full = unit <= f64::EPSILON;
    // Two thousand times smaller than the final rounding error.
    let tolerance = if full { f64::EPSILON } else { unit / 2048.0 };
    let superdiagonal = &superdiagonal[..superdiagonal.len().min(diagonal.len().saturating_sub(1))];
    let scaling = Scaling::of(diagonal, superdiagonal);
    let mut magnitudes = Vec::with_capacity(2 * diagonal.len());
    magnitudes.extend(diagonal.iter().chain(superdiagonal).map(|entry| scaling.apply(entry.abs())));
    magnitudes.resize((2 * diagonal.len()).saturating_sub(1), 0.0);
    let (a, b) = magnitudes.split_at(diagonal.len());
    let count = count.min(a.len());
    let mut values = largest(a, b, tolerance, count, full, watch);
    if watch.is_cancelled() {
        return vec![0.0; count];
    }
    if full {
        let head = values.partition_point(|&value| value >= SQUARES_RANGE);
        refine::refine(a, b, &mut values[..head]);
    }
    values.truncate(count);
    refine_tail(a, b, &mut values, watch);
    for value in &mut values {
        *value = scaling.undo(*value);
    }
    values
}

/// The `count` largest values of the scaled matrix in descending order, by [`newton`]'s method, and if they are going to be `refined` those behind
/// them that may then be larger than one of them.
fn largest(a: &[f64], b: &[f64], tolerance: f64, count: usize, refined: bool, watch: &Watch) -> Vec<f64> {
    let n = a.len();
    let mut found = if refined { n.min(count + 1) } else { count };
    loop {
        let mut values = newton::svdvals(a, b, tolerance, found, watch);
        values.sort_unstable_by(|x, y| y.total_cmp(x));
        values.truncate(found);
        let (last, behind) = match values[..] {
            [.., behind] if count > 0 => (values[count - 1], behind),
            _ => return values,
        };
        // Values below the range of the squares are not refined.
        let apart = last < SQUARES_RANGE || behind < last * (1.0 - 4.0 * refine::LONGEST);
        if !refined || found == n || apart || watch.is_cancelled() {
            return values;
        }
        found = n.min(2 * found + LANES);
    }
}

/// The number of singular values of at least `x`, by one Sturm count.
pub fn count_from(diagonal: &[f64], superdiagonal: &[f64], x: f64) -> usize {
    diagonal.len() - bisection::count_below(diagonal, superdiagonal, x)
}

/// Flops of a row in a pass of Newton's method: additions, multiplications and divisions for the pivot and its derivative. The unit of
/// stage 3's progress.
const FLOPS: u64 = 8;

/// Values computed in lockstep: two registers of the widest instruction set.
const LANES: usize = 16;

/// Rows times values from which a pass runs on all threads.
const PARALLEL: usize = 1 << 15;

/// Order from which stage 3 moves to a rayon worker, so that its passes start on all threads without waking the pool each time.
pub(crate) const IN_POOL: usize = 400;

/// Whether passes over this many rows run on this thread alone: it is not a rayon worker, and waking the pool for each pass would cost more
/// than it gains. A pass has n rows, a refinement step about 2 n.
fn is_alone(rows: usize) -> bool {
    rows < 2 * IN_POOL && worker().is_none()
}

/// Runs `pass`, over `rows` rows, for every chunk of [`LANES`] of `values`, on this thread or on all.
fn in_lockstep<T: Send>(values: &mut [T], rows: usize, pass: impl Fn(&mut [T]) + Send + Sync) {
    if rows * values.len() < PARALLEL || is_alone(rows) {
        values.chunks_mut(LANES).for_each(pass);
    } else {
        let chunks_per_task = PARALLEL / (4 * LANES * rows) + 1;
        pieces_mut(values, LANES, chunks_per_task, &|_, values| values.chunks_mut(LANES).for_each(&pass));
    }
}

/// Replaces those of the `values` of the scaled matrix, the largest ones in descending order, that are below `SQUARES_RANGE`: by
/// zeros if all values of the matrix below it are structural zeros, else by the results of bisection.
fn refine_tail(a: &[f64], b: &[f64], values: &mut [f64], watch: &Watch) {
    let (n, head) = (a.len(), values.partition_point(|&value| value >= SQUARES_RANGE));
    if head == values.len() {
        return;
    }
    let tail = n - head;
    if tail > structural_zeros(a, b) {
        let refined = bisection::in_places(a, b, n - values.len()..tail, watch);
        for (value, &new) in values[head..].iter_mut().rev().zip(&refined) {
            *value = new;
        }
    } else {
        values[head..].fill(0.0);
    }
}

/// The number of singular values that are exactly zero.
///
/// A zero on the superdiagonal splits the matrix in two. In a part without one, deleting the first
/// column and the last row leaves a lower bidiagonal matrix with the superdiagonal on its
/// diagonal, which is nonsingular. So the rank deficiency of the part is at most one, and it is one
/// if and only if the product of its diagonal is zero.
fn structural_zeros(diagonal: &[f64], superdiagonal: &[f64]) -> usize {
    let (mut zeros, mut singular) = (0, false);
    for (index, &a) in diagonal.iter().enumerate() {
        singular |= a == 0.0;
        if superdiagonal.get(index).is_none_or(|&b| b == 0.0) {
            zeros += usize::from(singular);
            singular = false;
        }
    }
    zeros
}

/// A scaling by a power of two, stored as two factors because their product may not be representable.
#[derive(Clone, Copy)]
struct Scaling {
    factors: [f64; 2],
    inverses: [f64; 2],
}

impl Scaling {
    /// The scaling that puts the largest magnitude in `[1, 2)`; the identity for a zero matrix.
    fn of(diagonal: &[f64], superdiagonal: &[f64]) -> Self {
        let entries = diagonal.iter().chain(superdiagonal);
        let largest = entries.fold(0.0f64, |largest, entry| largest.max(entry.abs()));
        let exponent = binary_exponent(largest);
        let halves = [exponent / 2, exponent - exponent / 2];
        Self { factors: halves.map(|k| power_of_two(-k)), inverses: halves.map(power_of_two) }
    }

    /// The scaled number.
    fn apply(self, x: f64) -> f64 {
        x * self.factors[0] * self.factors[1]
    }

    /// The number whose scaled value is `x`.
    fn undo(self, x: f64) -> f64 {
        x * self.inverses[0] * self.inverses[1]
    }
}

/// The `k` with `2^k <= x < 2^(k + 1)`; zero for zero, infinity and NaN.
fn binary_exponent(x: f64) -> i32 {
    if x == 0.0 || !x.is_finite() {
        return 0;
    }
    let normal = if x < f64::MIN_POSITIVE { x * power_of_two(64) } else { x };
    let shift = if x < f64::MIN_POSITIVE { 64 } else { 0 };
    ((normal.to_bits() >> 52) & 0x7ff) as i32 - 1023 - shift
}

/// The power of two with an exponent between -1022 and 1023.
const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The maximum relative difference of two results. The error of bisection is at most `5 n eps` by
    /// the theory in its module. Newton's method is allowed `3 n eps`: its last pass has rounding errors of
    /// a few units in each entry. The additional 8 rows allow for the constants at small `n`.
    fn tolerance(n: usize) -> f64 {
        8.0 * (n + 8) as f64 * f64::EPSILON
    }

    /// The largest relative difference between two descending lists of values.
    fn difference(x: &[f64], y: &[f64]) -> f64 {
        assert_eq!(x.len(), y.len());
        assert!(x.is_sorted_by(|a, b| a >= b) && x.iter().all(|&x| x >= 0.0));
        let relative = |(x, y): (&f64, &f64)| if x == y { 0.0 } else { (x - y).abs() / x.max(*y) };
        x.iter().zip(y).map(relative).fold(0.0, f64::max)
    }

    /// The values by the default method, after a comparison with the values for single precision (within a 128th of a unit, plus `tolerance`).
    fn svdvals(a: &[f64], b: &[f64]) -> Vec<f64> {
        let values = super::svdvals(a, b, f64::EPSILON, a.len(), &Watch::default());
        let unit = f64::from(f32::EPSILON);
        let error = difference(&values, &super::svdvals(a, b, unit, a.len(), &Watch::default()));
        assert!(error <= unit / 128.0 + tolerance(a.len()), "single: n = {}, {error:.2e}", a.len());
        values
    }

    /// Checks the values against bisection, and their product against that of the diagonal entries,
    /// which is the determinant. In logarithms, `n` relative errors add up.
    fn check(name: &str, a: &[f64], b: &[f64]) {
        let (values, n) = (svdvals(a, b), a.len());
        let error = difference(&values, &bisection::svdvals(a, b, n, &Watch::default()));
        assert!(error <= tolerance(n), "{name}: n = {n}, {error:.2e}");
        let logarithms = |x: &[f64]| x.iter().map(|x| x.abs().ln()).sum::<f64>();
        let scale = values.iter().map(|x| x.ln().abs()).sum::<f64>();
        if !a.contains(&0.0) && values.iter().all(|&x| x > 1e-290) {
            let (product, exact) = (logarithms(&values), logarithms(a));
            let allowed = n as f64 * (tolerance(n) + f64::EPSILON * scale);
            assert!((product - exact).abs() <= allowed, "{name}: n = {n}, {product} for {exact}");
        }
    }

    /// Reproducible uniform random numbers in (0, 1].
    fn uniform(seed: u64) -> impl FnMut() -> f64 {
        let mut state = 0x9e37_79b9_7f4a_7c15 ^ (seed + 1);
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((state >> 11) as f64 + 1.0) / (1u64 << 53) as f64
        }
    }

    /// A list of `n` numbers.
    fn list(n: usize, entry: impl FnMut(usize) -> f64) -> Vec<f64> {
        (0..n).map(entry).collect()
    }

    /// Every value agrees with bisection on matrices of many kinds and orders.
    #[test]
    fn values_agree_with_bisection() {
        for n in [1, 2, 3, 4, 5, 10, 33, 64, 150, 321] {
            let mut random = uniform(n as u64);
            let m = n - 1;
            check("uniform", &list(n, |_| random()), &list(m, |_| random()));
            check("cubes", &list(n, |_| random().powi(3)), &list(m, |_| random().powi(3)));
            check("like chi", &list(n, |i| ((n - i) as f64).sqrt() * random()), &list(m, |i| ((m - i) as f64).sqrt()));
            check("Toeplitz", &vec![2.0; n], &vec![1.0; m]);
            check("Toeplitz", &vec![1.0; n], &vec![2.0; m]);
            check("constant", &vec![0.3; n], &vec![0.3; m]);
            check("equal", &vec![0.7; n], &vec![0.0; m]);
            check("nearly equal", &vec![1.0; n], &list(m, |_| 1e-9 * random()));
            check("nearly equal", &vec![1.0; n], &list(m, |_| 1e-16 * random()));
            let glue = |i: usize| if i % 11 == 10 { 1e-7 } else { 1.0 };
            check("glued", &list(n, |i| (i % 11) as f64 - 5.5), &list(m, glue));
            check("glued", &list(n, |i| ((i % 11) as f64 - 5.0).abs() + 1e-3), &list(m, |i| 1e-3 * glue(i)));
        }
    }

    /// Graded matrices, with entries over many orders of magnitude in any order, keep relative accuracy.
    /// In the steep ones the squares underflow.
    #[test]
    fn graded_matrices_agree_with_bisection() {
        for (n, orders) in [(20, 40.0), (100, 40.0), (300, 40.0), (25, 130.0), (40, 200.0), (120, 270.0)] {
            let down = list(n, |i| 10f64.powf(-orders * i as f64 / n as f64));
            let up: Vec<f64> = down.iter().rev().copied().collect();
            let mut random = uniform(n as u64);
            let peak = list(n, |i| down[i.abs_diff(n / 2)]);
            let mixed = list(n, |_| 10f64.powf(-orders * random()));
            for (name, a) in [("down", &down), ("up", &up), ("peak", &peak), ("mixed", &mixed)] {
                check(name, a, &a[1..]);
                check(name, a, &a[..n - 1]);
                check(name, a, &list(n - 1, |i| (a[i] * a[i + 1]).sqrt()));
                check(name, a, &list(n - 1, |i| 1e-5 * a[i].min(a[i + 1])));
            }
            check("valley", &list(n, |i| down[n - 1 - i.abs_diff(n / 2)]), &up[1..]);
        }
    }

    /// The number of zero values equals the rank deficiency, wherever the zeros are.
    #[test]
    fn zeros_are_exact() {
        assert!(svdvals(&[], &[]).is_empty());
        assert_eq!(svdvals(&[0.0; 5], &[0.0; 4]), [0.0; 5]);
        assert_eq!(svdvals(&[0.0; 3], &[1.0; 2]), [1.0, 1.0, 0.0]);
        assert_eq!(svdvals(&[-0.0], &[]), [0.0]);
        for n in [2, 3, 10, 60, 200] {
            let mut random = uniform(n as u64);
            for share in [0.02, 0.2, 0.6] {
                let mut sparse = |_| if random() < share { 0.0 } else { random() };
                let (a, b) = (list(n, &mut sparse), list(n - 1, &mut sparse));
                let full = vec![0.1; n - 1];
                for (a, b) in [(&a, &b), (&a, &full), (&vec![0.5; n], &b)] {
                    check("zeros", a, b);
                    let zeros = svdvals(a, b).iter().filter(|&&x| x == 0.0).count();
                    assert_eq!(zeros, structural_zeros(a, b));
                }
            }
        }
    }

    /// The entry of a row with zero off-diagonals on both sides is a value, exactly.
    #[test]
    fn entries_alone_are_exact() {
        let mut random = uniform(3);
        for n in [1, 2, 5, 40] {
            let a = list(3 * n, |_| random());
            let b = list(3 * n - 1, |i| if i % 3 == 1 { 0.5 * a[i] } else { 0.0 });
            let values = super::svdvals(&a, &b, f64::EPSILON, a.len(), &Watch::default());
            for alone in a.iter().step_by(3) {
                assert!(values.contains(alone), "{alone} of {n}");
            }
        }
    }

    /// With all entries one, the values are `2 sin((2 j - 1) pi / (4 n + 2))`. The `n eps` are those
    /// of `tolerance`; the formula itself is good to a few units.
    #[test]
    fn the_closed_form_is_met() {
        for n in [1, 2, 3, 17, 100, 500] {
            let angle = |j: usize| (2 * (n - j) - 1) as f64 * std::f64::consts::PI / (4 * n + 2) as f64;
            let exact = list(n, |j| 2.0 * angle(j).sin());
            assert!(difference(&svdvals(&vec![1.0; n], &vec![1.0; n - 1]), &exact) <= tolerance(n));
        }
    }

    /// The 2 x 2 matrix with a unit diagonal and `x` above it has the values `y` and `1 / y` with
    /// `y - 1 / y = x`; for `x = 1e10` the smaller one is `1e-10`, relatively exact.
    #[test]
    fn the_smaller_of_two_is_relatively_exact() {
        for x in [1e-12, 0.5, 3.0, 1e10, 1e120f64] {
            let large = 0.5 * x + (1.0 + 0.25 * x * x).sqrt();
            assert!(difference(&svdvals(&[1.0, 1.0], &[x]), &[large, 1.0 / large]) <= tolerance(2), "{x}");
        }
    }

    /// Entries near the ends of the exponent range, where the squares are far outside it.
    #[test]
    fn extreme_scales_are_handled() {
        let mut random = uniform(5);
        let (a, b) = (list(30, |_| random()), list(29, |_| random()));
        for scale in [1e-300, 1e-160, 1e160, 1e300] {
            check("scaled", &list(30, |i| scale * a[i]), &list(29, |i| scale * b[i]));
        }
        check("both ends", &[1e140, 1e-140, 1.0, 1e100, 1e-100], &[1e-140, 1e120, 1e-120, 1.0]);
        assert_eq!(svdvals(&[5e-324, 1e308], &[0.0]), [1e308, 0.0]);
        assert_eq!(svdvals(&[5e-324], &[]), [5e-324]);
        assert_eq!(svdvals(&[1e308; 2], &[1e308])[0], 1e308 * svdvals(&[1.0; 2], &[1.0])[0]);
    }

    /// Any length of the superdiagonal is accepted.
    #[test]
    fn a_wrong_length_does_not_panic() {
        assert_eq!(svdvals(&[3.0, -4.0], &[]), [4.0, 3.0]);
        assert_eq!(svdvals(&[3.0], &[1.0, 2.0]), [3.0]);
    }

    /// A signed number of any size, zero one time in eight.
    fn entry() -> impl Strategy<Value = f64> {
        let number = (1.0..10.0f64, -20i32..20, any::<bool>());
        let number = number.prop_map(|(x, k, minus)| if minus { -x } else { x } * 10f64.powi(k));
        prop_oneof![7 => number, 1 => Just(0.0)]
    }

    proptest! {
        /// Random sizes and zeros: agreement with bisection, to the last bit the same values for
        /// the magnitudes alone, and exactly scaled ones for a matrix scaled by a power of two.
        #[test]
        fn random_exponents_agree_with_bisection(
            a in prop::collection::vec(entry(), 1..40),
            b in prop::collection::vec(entry(), 40),
            k in -300i32..300,
        ) {
            let b = &b[..a.len() - 1];
            check("random", &a, b);
            let values = svdvals(&a, b);
            let map = |x: &[f64], f: &dyn Fn(f64) -> f64| x.iter().map(|&x| f(x)).collect::<Vec<_>>();
            prop_assert_eq!(&values, &svdvals(&map(&a, &f64::abs), &map(b, &f64::abs)));
            let scale = |x: f64| x * power_of_two(k);
            prop_assert_eq!(map(&values, &scale), svdvals(&map(&a, &scale), &map(b, &scale)));
        }
    }
}
