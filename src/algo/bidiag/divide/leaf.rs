//! The singular value decomposition of a small bidiagonal matrix by the implicit QR algorithm, with and without shifts (Demmel & Kahan,
//! SIAM J. Sci. Stat. Comput. 11, 1990).

use pulp::{Simd, WithSimd};

const EPS: f64 = f64::EPSILON;

/// Sweeps a row before Jacobi's method takes over. About two are usual.
const SWEEPS: usize = 40;

/// Passes of Jacobi's method over all pairs of columns. About six are usual.
const JACOBI_PASSES: usize = 60;

/// Columns shorter than this have no direction that rounding leaves intact.
const SHORTEST: f64 = 1e-140;

/// The decomposition of a small matrix with `n` rows and `m = n` or `n + 1` columns.
pub(crate) struct Leaf {
    /// The order of `left`.
    pub(crate) n: usize,
    /// The order of `right`.
    pub(crate) m: usize,
    /// The left vectors, `n x n`, by columns.
    pub(crate) left: Vec<f64>,
    /// The right vectors, `m x m`, by columns. A column after the `n`-th spans the null space.
    pub(crate) right: Vec<f64>,
}

/// The decomposition, and its values in ascending order. The matrix has the diagonal `d`, and `e` above it. It has one more column than rows
/// if the two have the same length.
pub(crate) fn decompose(d: &[f64], e: &[f64]) -> (Leaf, Vec<f64>) {
    pulp::Arch::new().dispatch(Decompose { d, e })
}

/// [`decompose`] with the registers of the processor at hand. (Closures are not inlined there.)
struct Decompose<'a> {
    d: &'a [f64],
    e: &'a [f64],
}

impl WithSimd for Decompose<'_> {
    type Output = (Leaf, Vec<f64>);

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Self::Output {
        decompose_within(self.d, self.e, SWEEPS)
    }
}

/// [`decompose`] with at most `sweeps` sweeps a row of the QR algorithm.
#[inline(always)]
fn decompose_within(d: &[f64], e: &[f64], sweeps: usize) -> (Leaf, Vec<f64>) {
    let n = d.len();
    let m = if e.len() == n { n + 1 } else { n };
    let (mut d, mut e) = (d.to_vec(), e.to_vec());
    let (mut left, mut right) = (identity(n), identity(m));
    if m > n {
        // Column n is rotated against the columns before it, from the last to the first. What remains is square.
        let mut extra = e.pop().unwrap_or(0.0);
        for i in (0..n).rev() {
            let (c, s, r) = rotation(d[i], extra);
            d[i] = r;
            rotate(&mut right, m, i, n, c, s);
            if i > 0 {
                extra = -s * e[i - 1];
                e[i - 1] *= c;
            }
        }
    }
    if !qr(&mut d, &mut e, &mut left, &mut right, (n, m), sweeps * n) {
        jacobi(&mut d, &e, &mut left, &mut right, (n, m));
    }
    for (d, column) in d.iter_mut().zip(right.chunks_exact_mut(m)) {
        if *d < 0.0 {
            *d = -*d;
            column.iter_mut().for_each(|x| *x = -*x);
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| d[i].total_cmp(&d[j]));
    let values = order.iter().map(|&i| d[i]).collect();
    let left = order.iter().flat_map(|&i| left[i * n..][..n].iter().copied()).collect();
    order.extend(n..m);
    let right = order.iter().flat_map(|&i| right[i * m..][..m].iter().copied()).collect();
    (Leaf { n, m, left, right }, values)
}

fn identity(n: usize) -> Vec<f64> {
    let mut a = vec![0.0; n * n];
    a.iter_mut().step_by(n + 1).for_each(|a| *a = 1.0);
    a
}

/// `(c, s, r)` with `c f + s g = r` and `c g - s f = 0`.
#[inline(always)]
fn rotation(f: f64, g: f64) -> (f64, f64, f64) {
    if g == 0.0 {
        return (1.0, 0.0, f);
    }
    let square = f * f + g * g;
    let r = if square > 1e-280 { square.sqrt() } else { f.hypot(g) };
    // The quotients would be inaccurate, and entries this small do not matter.
    if r < f64::MIN_POSITIVE {
        return (1.0, 0.0, f);
    }
    let (c, s) = unit(f / r, g / r);
    (c, s, r)
}

/// `(c, s)` with `c^2 + s^2 = 1`, from one that rounding has made a little longer or shorter: that would add up in the lengths of the vectors.
#[inline(always)]
fn unit(c: f64, s: f64) -> (f64, f64) {
    let short = 0.5 * s.mul_add(-s, c.mul_add(-c, 1.0));
    (c + short * c, s + short * s)
}

/// Replaces the columns `x` and `y`, numbers `i < j` of the matrix with `n` rows, by `c x + s y` and `c y - s x`.
#[inline(always)]
fn rotate(a: &mut [f64], n: usize, i: usize, j: usize, c: f64, s: f64) {
    let (head, tail) = a.split_at_mut(j * n);
    for (x, y) in head[i * n..][..n].iter_mut().zip(&mut tail[..n]) {
        (*x, *y) = (c * *x + s * *y, c * *y - s * *x);
    }
}

/// The smaller singular value of the triangle `f, g; 0, h`.
fn smaller_of_two(f: f64, g: f64, h: f64) -> f64 {
    let (f, g, h) = (f.abs(), g.abs(), h.abs());
    let (small, large) = (f.min(h), f.max(h));
    if small == 0.0 {
        return 0.0;
    }
    // With the trace and the determinant of the square, all terms are positive.
    let sum = ((large + small).hypot(g) + (large - small).hypot(g)) / 2.0;
    small * (large / sum)
}

/// Iterates until `e` is zero, for at most `limit` sweeps. Returns whether it is.
#[inline(always)]
fn qr(d: &mut [f64], e: &mut [f64], left: &mut [f64], right: &mut [f64], (n, m): (usize, usize), limit: usize) -> bool {
    let norm = d.iter().chain(&*e).fold(0.0f64, |norm, x| norm.max(x.abs()));
    let small = norm * EPS / 32.0;
    let (mut end, mut sweeps) = (n.saturating_sub(1), 0);
    loop {
        while end > 0 && negligible(d, e, end - 1, small) {
            e[end - 1] = 0.0;
            end -= 1;
        }
        if end == 0 {
            return true;
        }
        let mut start = end - 1;
        while start > 0 && !negligible(d, e, start - 1, small) {
            start -= 1;
        }
        if start > 0 {
            e[start - 1] = 0.0;
        }
        if sweeps == limit {
            return false;
        }
        sweeps += 1;
        let mut zero = false;
        for d in &mut d[start..=end] {
            if d.abs() <= small {
                (*d, zero) = (0.0, true);
            }
        }
        let shift = if zero { 0.0 } else { smaller_of_two(d[end - 1], e[end - 1], d[end]) };
        if zero || (shift / d[start]).powi(2) < EPS {
            let (mut c, mut old_c, mut old_s) = (1.0, 1.0, 0.0);
            for i in start..end {
                let (new_c, s, r) = rotation(d[i] * c, e[i]);
                c = new_c;
                if i > start {
                    e[i - 1] = old_s * r;
                }
                (old_c, old_s, d[i]) = rotation(old_c * r, d[i + 1] * s);
                rotate(right, m, i, i + 1, c, s);
                rotate(left, n, i, i + 1, old_c, old_s);
            }
            let h = d[end] * c;
            d[end] = h * old_c;
            e[end - 1] = h * old_s;
        } else {
            let first = d[start];
            let (mut f, mut g) = ((first.abs() - shift) * (first.signum() + shift / first), e[start]);
            for i in start..end {
                let (c, s, r) = rotation(f, g);
                if i > start {
                    e[i - 1] = r;
                }
                f = c * d[i] + s * e[i];
                e[i] = c * e[i] - s * d[i];
                g = s * d[i + 1];
                d[i + 1] *= c;
                rotate(right, m, i, i + 1, c, s);
                let (c, s, r) = rotation(f, g);
                d[i] = r;
                f = c * e[i] + s * d[i + 1];
                d[i + 1] = c * d[i + 1] - s * e[i];
                if i + 1 < end {
                    g = s * e[i + 1];
                    e[i + 1] *= c;
                }
                rotate(left, n, i, i + 1, c, s);
            }
            e[end - 1] = f;
        }
    }
}

#[inline(always)]
fn negligible(d: &[f64], e: &[f64], i: usize, small: f64) -> bool {
    let e = e[i].abs();
    e <= small || e <= 0.5 * EPS * (d[i].abs() + d[i + 1].abs())
}

impl Leaf {
    /// Removes the distance of the vectors from orthogonality to first order. It is a few `eps`, which only small matrices notice.
    pub(crate) fn polish(&mut self) {
        orthogonalise(&mut self.left, self.n);
        orthogonalise(&mut self.right, self.m);
    }
}

/// Replaces `A` by `A (3 I - A^T A) / 2`.
fn orthogonalise(a: &mut [f64], n: usize) {
    let old = a.to_vec();
    for (j, a) in a.chunks_exact_mut(n).enumerate() {
        let own = &old[j * n..][..n];
        for (i, other) in old.chunks_exact(n).enumerate() {
            let off = other.iter().zip(own).fold(-f64::from(i == j), |sum, (x, y)| x.mul_add(*y, sum)) / 2.0;
            a.iter_mut().zip(other).for_each(|(a, other)| *a -= off * other);
        }
    }
}

/// One-sided Jacobi rotations on what [`qr`] left. Vectors that belong to no value are taken from a basis.
fn jacobi(d: &mut [f64], e: &[f64], left: &mut [f64], right: &mut [f64], (n, m): (usize, usize)) {
    // left * bidiagonal, by columns.
    let mut a = left.to_vec();
    for (j, column) in a.chunks_exact_mut(n).enumerate() {
        let (d, above) = (d[j], if j > 0 { e[j - 1] } else { 0.0 });
        let before = &left[j.saturating_sub(1) * n..][..n];
        for (x, before) in column.iter_mut().zip(before) {
            *x = d * *x + above * before;
        }
    }
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    for _ in 0..JACOBI_PASSES {
        let mut rotated = false;
        for j in 1..n {
            for i in 0..j {
                let (x, y) = (&a[i * n..][..n], &a[j * n..][..n]);
                let (xx, xy, yy) = (dot(x, x), dot(x, y), dot(y, y));
                if xy.abs() <= EPS * xx.sqrt() * yy.sqrt() || xx.sqrt().min(yy.sqrt()) < SHORTEST {
                    continue;
                }
                rotated = true;
                let zeta = (xx - yy) / (2.0 * xy);
                let t = zeta.signum() / (zeta.abs() + zeta.hypot(1.0));
                // `hypot` of glibc on aarch64 is too small by a quarter of `eps` on average if `t` is between 1e-8 and 1e-4.
                let c = 1.0 / t.hypot(1.0);
                let (c, s) = unit(c, c * t);
                rotate(&mut a, n, i, j, c, s);
                rotate(right, m, i, j, c, s);
            }
        }
        if !rotated {
            break;
        }
    }
    // Longest first, so that what is uncertain in a short one is corrected.
    let mut order: Vec<(usize, f64)> = a.chunks_exact(n).map(|x| dot(x, x).sqrt()).enumerate().collect();
    order.sort_by(|x, y| y.1.total_cmp(&x.1));
    for (place, &(j, length)) in order.iter().enumerate() {
        let mut column = a[j * n..][..n].to_vec();
        d[j] = if length < SHORTEST { 0.0 } else { length };
        column.iter_mut().for_each(|x| *x = if d[j] == 0.0 { 0.0 } else { *x / length });
        let mut axis = 0;
        // A unit vector of the n has at least the length 1/sqrt(n) beside any n - 1 vectors.
        while dot(&column, &column) < 0.5 / n as f64 && axis < n {
            column.fill(0.0);
            column[axis] = 1.0;
            axis += 1;
            for _ in 0..2 {
                for &(k, _) in &order[..place] {
                    let other = &left[k * n..][..n];
                    let along = dot(&column, other);
                    column.iter_mut().zip(other).for_each(|(x, other)| *x -= along * other);
                }
            }
        }
        let length = dot(&column, &column).sqrt();
        left[j * n..][..n].iter_mut().zip(&column).for_each(|(x, column)| *x = column / length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `|| B - U S V^T ||` relative to `B`, and the larger distance of `U` and `V` from orthogonality, as multiples of `m eps`.
    fn errors(d: &[f64], e: &[f64], sweeps: usize) -> (f64, f64) {
        let (Leaf { n, m, left, right }, values) = decompose_within(d, e, sweeps);
        assert!(values.is_sorted());
        let (mut off, mut norm) = (0.0, 0.0);
        for i in 0..n {
            for j in 0..m {
                let b = if i == j {
                    d[i]
                } else if j == i + 1 {
                    e[i]
                } else {
                    0.0
                };
                let product: f64 = (0..n).map(|k| left[k * n + i] * values[k] * right[k * m + j]).sum();
                off += (b - product).powi(2);
                norm += b * b;
            }
        }
        let gap = |a: &[f64], n: usize| {
            let dot = |i: usize, j: usize| (0..n).map(|k| a[i * n + k] * a[j * n + k]).sum::<f64>();
            (0..n * n).map(|k| (dot(k / n, k % n) - f64::from(k / n == k % n)).powi(2)).sum::<f64>().sqrt()
        };
        let unit = m as f64 * EPS;
        (off.sqrt() / norm.sqrt().max(f64::MIN_POSITIVE) / unit, gap(&left, n).max(gap(&right, m)) / unit)
    }

    /// The decomposition is accurate and its vectors are orthogonal, square and with an extra column, also for the fallback, for zeros and for tiny
    /// entries. An entry passes `k` rotations, each with an independent error of about `0.3 eps` times it (a rounding is off by `eps / 2` at most). So
    /// a column of length 1 has an error of length `0.3 sqrt(k) eps`, whose product with each of the others is that over `sqrt(m)`: in the norm of
    /// `m^2` products of two columns `0.3 sqrt(2 k m) eps`. With the QR algorithm `k` is about `2 m`, which makes `0.6 m eps`, and up to 1.5 for few
    /// columns. The fallback has up to 15 passes of `m - 1` rotations of a column: `1.6 m eps`.
    #[test]
    fn accurate_and_orthogonal() {
        let mut random = crate::algo::bidiag::divide::tests::Random(1);
        for n in 1..40 {
            for kind in 0..5 {
                let mut draw = || match kind {
                    0 => random.uniform(),
                    1 => (-60.0 * random.uniform()).exp(),
                    2 => (random.uniform() * 3.0).floor() - 1.0,
                    3 => 1.0,
                    _ => (-1400.0 * random.uniform()).exp(),
                };
                let (d, e): (Vec<f64>, Vec<f64>) = (0..n).map(|_| (draw(), draw())).unzip();
                for e in [&e[..], &e[..n - 1]] {
                    for sweeps in [SWEEPS, 0] {
                        let (residual, orthogonality) = errors(&d, e, sweeps);
                        let bound = if sweeps == 0 { 2.0 } else { 1.5 };
                        assert!(residual < bound && orthogonality < bound, "{n} {kind} {sweeps} {residual} {orthogonality}");
                    }
                }
            }
        }
    }
}
