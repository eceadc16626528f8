//! The secular equation of a merge, and what follows from its roots.
//!
//! The matrix with the first row `z` and the diagonal `0, d_2, ..., d_K` has the singular values `w_i` with
//!
//! ```text
//! f(w) = 1 + sum z_k^2 / (d_k^2 - w^2) = 0.
//! ```
//!
//! A root is kept as the nearer pole and its distance from it, so that `w_i - d_k` has no cancellation. Of the weights `z`, only those are
//! used for which the roots are exact: then the vectors are orthogonal (Gu & Eisenstat, SIAM J. Matrix Anal. Appl. 16, 1995).

use pulp::{Arch, Simd, WithSimd};

use crate::base::parallel::map_with;

const EPS: f64 = f64::EPSILON;

/// Evaluations for a root. Three or four are usual.
const LIMIT: usize = 200;

/// With this many terms in all, the roots are shared among threads.
const WORTH_SHARING: usize = 1 << 16;

/// The roots, in ascending order.
pub(crate) struct Roots {
    /// The pole next to each root.
    pub(crate) poles: Vec<f64>,
    /// The root less its pole.
    pub(crate) offsets: Vec<f64>,
}

/// What a merge passes on of the right vectors of a root.
pub(crate) struct Ends {
    pub(crate) first: f64,
    pub(crate) last: f64,
    /// One over the length of the right vector in the scale of the product's second factor.
    pub(crate) right: f64,
    /// The same for the left vector.
    pub(crate) left: f64,
}

/// `f` for all the numbers below `count`, on several threads if it takes `count` operations or more for each.
fn map<R: Send>(count: usize, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    if count * count < WORTH_SHARING { (0..count).map(f).collect() } else { map_with(count, 16, || (), |(), k| f(k)) }
}

impl Roots {
    /// The roots for the ascending poles `d`, of which the first is zero, and the weights `z`. None is zero. `None` if cancelled.
    pub(crate) fn new(d: &[f64], z: &[f64], cancelled: &(dyn Fn() -> bool + Sync)) -> Option<Roots> {
        if let [z] = z {
            return Some(Roots { poles: vec![0.0], offsets: vec![z.abs()] });
        }
        let squares: Vec<f64> = z.iter().map(|z| z * z).collect();
        let total = squares.iter().sum::<f64>();
        let arch = Arch::new();
        let squares = &squares[..];
        let solve = |j| if cancelled() { (0.0, 0.0) } else { arch.dispatch(Root { d, squares, total, j }) };
        let roots = map(d.len(), solve);
        let (poles, offsets) = roots.into_iter().unzip();
        (!cancelled()).then_some(Roots { poles, offsets })
    }

    /// The root with the number `i`.
    pub(crate) fn value(&self, i: usize) -> f64 {
        self.poles[i] + self.offsets[i]
    }

    /// The weights for which the roots are exact, by Loewner's formula, with the signs of `z`.
    pub(crate) fn weights(&self, d: &[f64], z: &[f64]) -> Vec<f64> {
        let arch = Arch::new();
        map(d.len(), |k| arch.dispatch(Weight { roots: self, d, k }).copysign(z[k]))
    }

    /// The entries `first` and `last` of the right vectors, after multiplication by all columns' weights, and the vectors' lengths.
    pub(crate) fn ends(&self, d: &[f64], weights: &[f64], first: &[f64], last: &[f64]) -> Vec<Ends> {
        let arch = Arch::new();
        map(d.len(), |i| arch.dispatch(EndsOf { d, weights, first, last, pole: self.poles[i], offset: self.offsets[i] }))
    }
}

/// A weight of [`Roots::weights`], but for its sign. (What `pulp` calls is a structure, since closures are not inlined there.)
struct Weight<'a> {
    roots: &'a Roots,
    d: &'a [f64],
    k: usize,
}

impl WithSimd for Weight<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let Weight { roots: Roots { poles, offsets }, d, k } = self;
        let last = d.len() - 1;
        let before = product(simd, &poles[..k], &offsets[..k], &d[..k], d[k]);
        let after = product(simd, &poles[k..last], &offsets[k..last], &d[k + 1..], d[k]);
        let end = (poles[last] - d[k] + offsets[last]) * (poles[last] + d[k] + offsets[last]);
        (before * after * end).abs().sqrt()
    }
}

/// `psi` and its slope: the sum of `z^2 / P` and of `z^2 / P^2` for `P = d^2 - s^2 - tau`, which is not zero for `d = 0`.
#[inline(always)]
fn sums<S: Simd>(simd: S, d: &[f64], squares: &[f64], s: f64, tau: f64) -> (f64, f64) {
    let (s, tau, one) = (simd.splat_f64s(s), simd.splat_f64s(tau), simd.splat_f64s(1.0));
    let (mut sum, mut slope) = (simd.splat_f64s(0.0), simd.splat_f64s(0.0));
    let (d, d_rest) = S::as_simd_f64s(d);
    let (z, z_rest) = S::as_simd_f64s(squares);
    let rest = (!d_rest.is_empty()).then(|| (simd.partial_load_f64s(d_rest), simd.partial_load_f64s(z_rest)));
    for (d, z) in d.iter().copied().zip(z.iter().copied()).chain(rest) {
        let gap = simd.sub_f64s(simd.mul_f64s(simd.sub_f64s(d, s), simd.add_f64s(d, s)), tau);
        let inverse = simd.div_f64s(one, gap);
        let term = simd.mul_f64s(z, inverse);
        sum = simd.add_f64s(sum, term);
        slope = simd.mul_add_f64s(term, inverse, slope);
    }
    (simd.reduce_sum_f64s(sum), simd.reduce_sum_f64s(slope))
}

/// [`sums`] over the poles up to the number `j`, and over those after it.
#[inline(always)]
fn both_sums<S: Simd>(simd: S, d: &[f64], squares: &[f64], j: usize, s: f64, tau: f64) -> (f64, f64, f64, f64) {
    let (psi, psi_slope) = sums(simd, &d[..=j], &squares[..=j], s, tau);
    let (phi, phi_slope) = sums(simd, &d[j + 1..], &squares[j + 1..], s, tau);
    (psi, psi_slope, phi, phi_slope)
}

/// The product of `(w^2 - d^2) / (other^2 - d^2)` over the roots `w = pole + offset` and as many other poles. Each is in `(0, 1)`, so that no
/// part of the product is out of range.
#[inline(always)]
fn product<S: Simd>(simd: S, poles: &[f64], offsets: &[f64], others: &[f64], d: f64) -> f64 {
    let at = simd.splat_f64s(d);
    let mut product = simd.splat_f64s(1.0);
    let (poles, poles_rest) = S::as_simd_f64s(poles);
    let (offsets, offsets_rest) = S::as_simd_f64s(offsets);
    let (others, others_rest) = S::as_simd_f64s(others);
    for ((&pole, &offset), &other) in poles.iter().zip(offsets).zip(others) {
        let low = simd.add_f64s(simd.sub_f64s(pole, at), offset);
        let high = simd.add_f64s(simd.add_f64s(pole, at), offset);
        let gap = simd.mul_f64s(simd.sub_f64s(other, at), simd.add_f64s(other, at));
        product = simd.mul_f64s(product, simd.div_f64s(simd.mul_f64s(low, high), gap));
    }
    let mut rest = simd.reduce_product_f64s(product);
    for ((pole, offset), other) in poles_rest.iter().zip(offsets_rest).zip(others_rest) {
        rest *= (pole - d + offset) * (pole + d + offset) / ((other - d) * (other + d));
    }
    rest
}

/// One of [`Roots::ends`].
struct EndsOf<'a> {
    d: &'a [f64],
    weights: &'a [f64],
    first: &'a [f64],
    last: &'a [f64],
    pole: f64,
    offset: f64,
}

impl WithSimd for EndsOf<'_> {
    type Output = Ends;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Ends {
        let (pole, offset) = (simd.splat_f64s(self.pole), simd.splat_f64s(self.offset));
        let (d, d_rest) = S::as_simd_f64s(self.d);
        let (z, z_rest) = S::as_simd_f64s(self.weights);
        let (first, first_rest) = S::as_simd_f64s(self.first);
        let (last, last_rest) = S::as_simd_f64s(self.last);
        // Where the rest is filled with zeros, the weight is zero.
        let load = |rest| simd.partial_load_f64s(rest);
        let rest = (!d_rest.is_empty()).then(|| [load(d_rest), load(z_rest), load(first_rest), load(last_rest)]);
        let whole = d.iter().zip(z).zip(first.iter().zip(last)).map(|((d, z), (first, last))| [*d, *z, *first, *last]);
        let [mut right_sum, mut left_sum, mut first_sum, mut last_sum] = [simd.splat_f64s(0.0); 4];
        for [d, z, first, last] in whole.chain(rest) {
            let low = simd.add_f64s(simd.sub_f64s(pole, d), offset);
            let high = simd.add_f64s(simd.add_f64s(pole, d), offset);
            let right = simd.div_f64s(z, simd.mul_f64s(low, high));
            let left = simd.mul_f64s(d, right);
            right_sum = simd.mul_add_f64s(right, right, right_sum);
            left_sum = simd.mul_add_f64s(left, left, left_sum);
            first_sum = simd.mul_add_f64s(right, first, first_sum);
            last_sum = simd.mul_add_f64s(right, last, last_sum);
        }
        let (right, left) = (simd.reduce_sum_f64s(right_sum), simd.reduce_sum_f64s(left_sum));
        let (first, last) = (simd.reduce_sum_f64s(first_sum), simd.reduce_sum_f64s(last_sum));
        let (right, left) = (1.0 / right.sqrt(), 1.0 / (1.0 + left).sqrt());
        Ends { first: -first * right, last: -last * right, right, left }
    }
}

/// The root above the pole with the number `j`, of at least two: the pole nearer to it, and the root less that pole. `total` is the sum of
/// the `squares` of the weights.
///
/// The unknown is `tau = w^2 - s^2` with the nearer pole `s`. Each step interpolates by two poles. The step is Newton's if that would go the
/// wrong way, and a bisection if it would leave the bracket, which shrinks at every step.
struct Root<'a> {
    d: &'a [f64],
    squares: &'a [f64],
    total: f64,
    j: usize,
}

impl WithSimd for Root<'_> {
    type Output = (f64, f64);

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> (f64, f64) {
        root(simd, self.d, self.squares, self.total, self.j)
    }
}

/// See [`Root`].
#[inline(always)]
fn root<S: Simd>(simd: S, d: &[f64], squares: &[f64], total: f64, j: usize) -> (f64, f64) {
    let last = j + 1 == d.len();
    let upper = if last { d[j] + total.sqrt() } else { d[j + 1] };
    let middle = 0.5 * (d[j] + upper);
    let (psi, _, phi, _) = both_sums(simd, d, squares, j, middle, 0.0);
    let f = 1.0 + psi + phi;
    let is_left = last || f >= 0.0;
    let s = if is_left { d[j] } else { d[j + 1] };
    let half = (middle - s) * (middle + s);
    let (mut low, mut high) = if f >= 0.0 {
        (0.0, half)
    } else if last {
        (half, total * (1.0 + 4.0 * EPS))
    } else {
        (half, 0.0)
    };
    let pole = |k: usize| (d[k] - s) * (d[k] + s);
    // The start: the two poles next to the root, and the rest as it is at the middle.
    let own = |k: usize| squares[k] / ((d[k] - middle) * (d[k] + middle));
    let (z1, d1) = (squares[j], pole(j));
    let mut tau = if last {
        d1 + z1 / (f - own(j))
    } else {
        let (z2, d2) = (squares[j + 1], pole(j + 1));
        let c = f - own(j) - own(j + 1);
        quadratic(c, c * (d1 + d2) + z1 + z2, c * d1 * d2 + z1 * d2 + z2 * d1)
    };
    if !(low < tau && tau < high) {
        tau = 0.5 * (low + high);
    }
    for _ in 0..LIMIT {
        let (psi, psi_slope, phi, phi_slope) = both_sums(simd, d, squares, j, s, tau);
        let (f, slope) = (1.0 + psi + phi, psi_slope + phi_slope);
        if f.abs() <= EPS * (1.0 + 8.0 * (phi - psi) + tau.abs() * slope) {
            break;
        }
        if f < 0.0 {
            low = tau;
        } else {
            high = tau;
        }
        let d1 = pole(j) - tau;
        let mut eta = if last {
            d1 + psi_slope * d1 * d1 / (f - d1 * psi_slope)
        } else {
            let d2 = pole(j + 1) - tau;
            let c = f - d1 * psi_slope - d2 * phi_slope;
            quadratic(c, (d1 + d2) * f - d1 * d2 * slope, d1 * d2 * f)
        };
        if f * eta > 0.0 {
            eta = -f / slope;
        }
        let mut next = tau + eta;
        if !(low < next && next < high) {
            next = 0.5 * (low + high);
        }
        if next == low || next == high || next == tau {
            break;
        }
        tau = next;
    }
    (s, tau / (s + (s * s + tau).sqrt()))
}

/// The root of `c x^2 - a x + b` that is the smaller one, or stays finite as `c` vanishes.
#[inline(always)]
fn quadratic(c: f64, a: f64, b: f64) -> f64 {
    let root = (a * a - 4.0 * b * c).abs().sqrt();
    if a <= 0.0 { (a - root) / (2.0 * c) } else { 2.0 * b / (a + root) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The roots interlace strictly with the poles, and the recomputed weights agree with the given ones: each is a product of `2 K` factors
    /// of a few units of rounding, and the roots are stable to a small multiple of `K eps` of the weights' sum.
    #[test]
    fn roots_interlace_and_weights_return() {
        let mut random = crate::algo::bidiag::divide::tests::Random(2);
        for k in [2, 3, 7, 8, 9, 16, 100, 300] {
            let mut d: Vec<f64> = (0..k).map(|_| random.uniform()).collect();
            d[0] = 0.0;
            d.sort_by(f64::total_cmp);
            let z: Vec<f64> = (0..k).map(|_| random.uniform() - 0.5).collect();
            let roots = Roots::new(&d, &z, &|| false).expect("not cancelled");
            for i in 0..k {
                assert!(roots.value(i) > d[i] && (i + 1 == k || roots.value(i) < d[i + 1]), "{k} {i}");
            }
            for (new, z) in roots.weights(&d, &z).iter().zip(&z) {
                assert!((new - z).abs() < 64.0 * k as f64 * EPS, "{k} {new} {z}");
            }
        }
    }
}
