//! The decomposition on matrices that are hard for divide and conquer.

use faer::Mat;
use faer::linalg::matmul::matmul;
use faer::{Accum, Par};

use crate::{
    algo::bidiag::divide::Plan,
    base::{blas::Side, number::RealElement},
};

const EPS: f64 = f64::EPSILON;

/// The generator splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Uniform in `[0, 1)`.
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 * 2f64.powi(-53)
    }

    /// Distributed as the length of `k` independent normal numbers, nearly so for large `k`.
    fn chi(&mut self, k: usize) -> f64 {
        if k > 12 {
            let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
            return (k as f64 - 0.5).sqrt() + normal / 2f64.sqrt();
        }
        (0..k).map(|_| ((0..12).map(|_| self.uniform()).sum::<f64>() - 6.0).powi(2)).sum::<f64>().sqrt()
    }
}

type Bidiagonal = (Vec<f64>, Vec<f64>);

fn make(n: usize, mut d: impl FnMut(usize) -> f64, mut e: impl FnMut(usize) -> f64) -> Bidiagonal {
    ((0..n).map(&mut d).collect(), (0..n - 1).map(&mut e).collect())
}

/// Hard and easy matrices of order `n`.
fn matrices(n: usize) -> Vec<(&'static str, Bidiagonal)> {
    let (mut r, mut q, m) = (Random(n as u64), Random(1000 + n as u64), n as f64);
    let ten = |x: f64| 10f64.powf(x);
    let down = |k: usize| ten(-40.0 * k as f64 / m);
    vec![
        ("gaussian", make(n, |i| r.chi(n - i), |i| q.chi(n - 1 - i))),
        ("uniform", make(n, |_| r.uniform(), |_| q.uniform())),
        ("signs", make(n, |_| r.uniform() - 0.5, |_| q.uniform() - 0.5)),
        ("toeplitz 2 1", make(n, |_| 2.0, |_| 1.0)),
        ("toeplitz 1 2", make(n, |_| 1.0, |_| 2.0)),
        ("ones", make(n, |_| 1.0, |_| 1.0)),
        ("near 1, 1e-15", make(n, |_| 1.0, |_| 1e-15 * q.uniform())),
        ("near 1, 1e-9", make(n, |_| 1.0, |_| 1e-9 * q.uniform())),
        ("near 1, 1e-12", make(n, |_| 1.0 + 1e-13 * r.uniform(), |_| 1e-12 * q.uniform())),
        ("glued wilkinson", make(n, |i| ((i % 21) as f64 - 10.0).abs() + 1e-3, |i| if i % 21 == 20 { 1e-8 } else { 1.0 })),
        ("graded down", make(n, down, |i| down(i + 1))),
        ("graded up", make(n, |i| down(n - 1 - i), |i| down(n - 1 - i))),
        ("mixed 1e-16", make(n, |_| ten(-16.0 * r.uniform()), |_| ten(-16.0 * q.uniform()))),
        ("zeros", make(n, |_| (r.uniform() - 0.3).max(0.0), |_| q.uniform())),
        ("zeros beside", make(n, |_| r.uniform(), |_| (q.uniform() - 0.3).max(0.0))),
        (
            "rank 1",
            make(n, |i| if i == 0 { 1.0 } else { 1e-17 * r.uniform() }, |i| if i == 0 { 0.5 } else { 1e-17 * q.uniform() }),
        ),
        ("one entry", make(n, |i| f64::from(i == 0), |_| 0.0)),
        ("geometric", make(n, |i| ten(-10.0 * i as f64 / m), |i| 0.5 * ten(-10.0 * i as f64 / m))),
        ("zero", make(n, |_| 0.0, |_| 0.0)),
        ("1e300", make(n, |_| 1e300 * (r.uniform() - 0.5), |_| 1e300 * (q.uniform() - 0.5))),
        ("1e-300", make(n, |_| 1e-300 * (r.uniform() - 0.5), |_| 1e-300 * (q.uniform() - 0.5))),
        ("1e-300 beside 1", make(n, |i| if i % 3 == 0 { 1.0 } else { 1e-300 }, |i| if i % 5 == 0 { 1.0 } else { 1e-300 })),
    ]
}

fn plan((d, e): &Bidiagonal) -> Plan {
    Plan::new(d, e, &|| false).expect("not cancelled")
}

fn vectors<T: RealElement>(plan: &Plan, side: Side) -> Mat<T> {
    plan.vectors(side, &|| false).expect("not cancelled")
}

/// The matrix and its values, multiplied by a power of two so that their largest is near one.
fn scaled((d, e): &Bidiagonal, values: &[f64]) -> (Bidiagonal, Vec<f64>) {
    let largest = d.iter().chain(e).fold(0.0f64, |largest, x| largest.max(x.abs()));
    let half = if largest > 0.0 { 2f64.powi(-(largest.log2() / 2.0) as i32) } else { 1.0 };
    let scale = |x: &[f64]| x.iter().map(|x| x * half * half).collect::<Vec<_>>();
    ((scale(d), scale(e)), scale(values))
}

fn product(a: &Mat<f64>, b: faer::MatRef<f64>) -> Mat<f64> {
    let mut c = Mat::zeros(a.nrows(), b.ncols());
    matmul(c.as_mut(), Accum::Replace, a, b, 1.0, Par::rayon(0));
    c
}

/// `|| I - V^T V ||_F`.
fn gap(v: &Mat<f64>) -> f64 {
    let n = v.ncols();
    (product(&v.transpose().to_owned(), v.as_ref()) - Mat::<f64>::identity(n, n)).norm_l2()
}

/// `|| B - U S V^T ||_F / || B ||_F`.
fn residual((d, e): &Bidiagonal, u: &Mat<f64>, s: &[f64], v: &Mat<f64>) -> f64 {
    let n = d.len();
    let scaled = Mat::from_fn(n, n, |i, j| u[(i, j)] * s[j]);
    let mut off = product(&scaled, v.transpose());
    for i in 0..n {
        off[(i, i)] -= d[i];
        if i + 1 < n {
            off[(i, i + 1)] -= e[i];
        }
    }
    let norm = d.iter().chain(e).map(|x| x * x).sum::<f64>().sqrt();
    off.norm_l2() / norm.max(f64::MIN_POSITIVE)
}

/// The number of singular values below `x`: the negative pivots of the Golub-Kahan matrix, less `n`.
fn below((d, e): &Bidiagonal, x: f64) -> usize {
    let (mut pivot, mut count) = (-x.max(1e-290), 1);
    for k in 1..2 * d.len() {
        let entry = if k % 2 == 1 { d[k / 2] } else { e[k / 2 - 1] };
        pivot = -x - entry * entry / pivot;
        pivot = if pivot.abs() < 1e-290 { -1e-290 } else { pivot };
        count += usize::from(pivot < 0.0);
    }
    count.saturating_sub(d.len())
}

/// The largest error of the values, in multiples of `eps` times the norm, rounded up to a power of two (or to 4).
fn error_of_values(b: &Bidiagonal, values: &[f64]) -> f64 {
    let n = values.len();
    // At least half the norm, and at most the norm.
    let norm = b.0.iter().chain(&b.1).fold(0.0f64, |norm, x| norm.max(x.abs())).max(values[0]);
    assert!(values.is_sorted_by(|x, y| x >= y) && values[n - 1] >= 0.0);
    // The values from the i-th on are n - i: of those below it, fewer, and of those above it, as many.
    let is_right = |i: usize, allowed: f64| {
        let (low, high) = (values[i] - allowed, values[i] + allowed.max(1e-280));
        (low <= 0.0 || below(b, low) < n - i) && below(b, high) >= n - i
    };
    let mut multiple = 4.0;
    for i in 0..n {
        while !is_right(i, multiple * EPS * norm) {
            multiple *= 2.0;
        }
    }
    multiple
}

/// For all kinds of matrices: the product of the factors is the matrix, and the vectors of both sides are orthogonal, up to `n eps` in the
/// Frobenius norm (LAPACK's tests allow 50 times as much; each level of the merges contributes a few `eps` a column, and deflation up to
/// `4 eps` of the norm in a column). The values are those of bisection to `64 eps` of the norm: `8 eps` for each level, the distance of the
/// poles that are merged.
#[test]
fn accurate_and_orthogonal() {
    let mut worst = [(0.0, String::new()), (0.0, String::new()), (0.0, String::new())];
    for n in (1..=10).chain([33, 34, 40, 67, 300]) {
        for (name, b) in matrices(n) {
            let plan = plan(&b);
            let (u, v) = (vectors(&plan, Side::Left), vectors(&plan, Side::Right));
            let (b, s) = scaled(&b, &plan.values());
            let error = error_of_values(&b, &s);
            assert!(error <= 64.0, "{name} {n}: values {error}");
            let unit = n as f64 * EPS;
            let ratios = [residual(&b, &u, &s, &v), gap(&u), gap(&v)].map(|x| x / unit);
            for (worst, ratio) in worst.iter_mut().zip(ratios) {
                if ratio > worst.0 {
                    *worst = (ratio, format!("{name} {n}"));
                }
                // A few eps a column are not below n eps where n is that small.
                let bound = if n <= 10 { 1.25 } else { 1.0 };
                assert!(ratio < bound, "{name} {n}: {ratios:.2?}");
            }
        }
    }
    println!("{worst:.2?}");
}

/// The same at an order with several levels of shared work.
#[test]
fn accurate_and_orthogonal_at_1000() {
    let n = 1000;
    for (name, b) in matrices(n) {
        let plan = plan(&b);
        let (u, v) = (vectors(&plan, Side::Left), vectors(&plan, Side::Right));
        let (b, s) = scaled(&b, &plan.values());
        let error = error_of_values(&b, &s);
        assert!(error <= 64.0, "{name}: values {error}");
        let ratios = [residual(&b, &u, &s, &v), gap(&u), gap(&v)].map(|x| x / (n as f64 * EPS));
        assert!(ratios.iter().all(|&ratio| ratio < 1.0), "{name}: {ratios:.2?}");
    }
}

/// With products in `f32`, the same bounds hold with the `eps` of `f32`.
#[test]
fn products_in_single_precision() {
    let mut worst = [0.0f64; 3];
    for n in [40, 300] {
        for (name, b) in matrices(n) {
            let plan = plan(&b);
            let wide = |side| {
                let a = vectors::<f32>(&plan, side);
                Mat::from_fn(n, n, |i, j| f64::from(a[(i, j)]))
            };
            let (u, v) = (wide(Side::Left), wide(Side::Right));
            let (b, s) = scaled(&b, &plan.values());
            let unit = n as f64 * f64::from(f32::EPSILON);
            let ratios = [residual(&b, &u, &s, &v), gap(&u), gap(&v)].map(|x| x / unit);
            worst.iter_mut().zip(ratios).for_each(|(worst, ratio)| *worst = worst.max(ratio));
            assert!(ratios.iter().all(|&ratio| ratio < 1.0), "{name} {n}: {ratios:.2?}");
        }
    }
    println!("single {worst:.3?}");
}

/// The leading vectors are the first of all, for well separated values: both are products of the same factors, in another order. Each of
/// the at most six levels adds a few `eps` to an entry.
#[test]
fn leading_vectors_are_the_first() {
    for n in [1, 5, 40, 300] {
        for (name, b) in matrices(n) {
            let plan = plan(&b);
            for (side, k) in [(Side::Left, n.div_ceil(8)), (Side::Right, n.div_ceil(8)), (Side::Right, n), (Side::Right, n + 1)] {
                let (some, all) = (plan.leading::<f64>(side, k), vectors::<f64>(&plan, side));
                assert_eq!((some.nrows(), some.ncols()), (n, k.min(n)));
                let off = (&some - all.subcols(0, k.min(n))).norm_max();
                assert!(off < 64.0 * EPS, "{name} {n} {side:?} {off}");
            }
            assert_eq!(plan.leading::<f64>(Side::Left, 0).ncols(), 0);
        }
    }
}

/// Two runs, and runs with one and with two threads, give the same bits: no sum depends on how the work is shared.
#[test]
fn same_bits() {
    for (name, b) in matrices(400).into_iter().take(2).chain(matrices(331).into_iter().skip(9).take(1)) {
        let run = |threads: usize| {
            let pool = crate::base::parallel::Pool::new(threads).expect("a pool");
            pool.install(|| {
                let plan = plan(&b);
                let wide = vectors::<f64>(&plan, Side::Left);
                (
                    plan.values(),
                    vectors::<f64>(&plan, Side::Right),
                    wide,
                    vectors::<f32>(&plan, Side::Right),
                    plan.leading::<f64>(Side::Left, 7),
                )
            })
        };
        let one = run(1);
        for threads in [1, 2, 3] {
            assert!(run(threads) == one, "{name} {threads}");
        }
    }
}

/// Cancelled, there is no result. Without rows, there is an empty one.
#[test]
fn cancelled_or_empty() {
    let (d, e) = &matrices(100)[0].1;
    assert!(Plan::new(d, e, &|| true).is_none());
    let plan = plan(&(d.clone(), e.clone()));
    assert!(plan.vectors::<f32>(Side::Left, &|| true).is_none());
    let empty = Plan::new(&[], &[], &|| false).expect("not cancelled");
    assert!(empty.values().is_empty());
    assert_eq!(vectors::<f64>(&empty, Side::Right).nrows(), 0);
    assert_eq!(empty.leading::<f64>(Side::Right, 3).ncols(), 0);
}

/// The values of a matrix of two rows are those of the formula, to a few units.
#[test]
fn two_rows() {
    let values = plan(&(vec![3.0, -4.0], vec![12.0])).values();
    let (sum, gap) = (7f64.hypot(12.0), 1f64.hypot(12.0));
    assert!((values[0] - (sum + gap) / 2.0).abs() < 8.0 * EPS * sum && (values[1] - (sum - gap) / 2.0).abs() < 8.0 * EPS * sum);
}
