//! The classical hard matrices.

use faer::Mat;

use super::{noise, with_singular_values};

/// Name and entries; exact in no type, so every type rounds them and is measured against what it rounded to.
pub fn matrices() -> Vec<(&'static str, Mat<f64>)> {
    let of = |n: usize, entry: &dyn Fn(usize, usize) -> f64| Mat::from_fn(n, n, entry);
    let one_small = |n: usize| {
        let mut sigma = vec![1.0; n];
        sigma[n - 1] = 2f64.powi(-26);
        with_singular_values(&mut sigma, 41)
    };
    vec![
        ("Hilbert", of(24, &|i, j| 1.0 / (i + j + 1) as f64)),
        ("Kahan", of(48, &kahan)),
        ("Frank", of(24, &|i, j| if j + 1 < i { 0.0 } else { (24 - i.max(j)) as f64 })),
        (
            "Wilkinson W21+",
            of(21, &|i, j| if i == j { (i as f64 - 10.0).abs() } else { f64::from(u8::from(i.abs_diff(j) == 1)) }),
        ),
        ("glued Wilkinson", of(63, &|i, j| glued(i, j, 21, 1e-8))),
        ("graded down", of(40, &|i, j| noise(42, i, j) * 10f64.powi(-(i as i32)))),
        ("graded up", of(40, &|i, j| noise(43, i, j) * 10f64.powi(i as i32 + j as i32 - 78))),
        ("graded outwards", of(40, &|i, j| noise(44, i, j) * 10f64.powi(-(i.abs_diff(20) as i32)))),
        ("nearly rank-deficient", one_small(32)),
        (
            "numerical rank 3",
            of(40, &|i, j| (0..3).map(|k| noise(45, i, k) * noise(46, k, j)).sum::<f64>() + 1e-13 * noise(47, i, j)),
        ),
        ("Vandermonde", of(30, &|i, j| ((i + 1) as f64 / 30.0).powi(j as i32))),
        ("Pascal", of(16, &|i, j| (1..=i).fold(1.0, |c, k| c * (j + k) as f64 / k as f64).round())),
        ("Lauchli", Mat::from_fn(41, 40, |i, j| if i == 0 { 1.0 } else { 1e-9 * f64::from(u8::from(i == j + 1)) })),
        ("Grcar", of(40, &|i, j| if i == j + 1 { -1.0 } else { f64::from(u8::from(i <= j && j <= i + 3)) })),
        ("Lotkin", of(20, &|i, j| if i == 0 { 1.0 } else { 1.0 / (i + j + 1) as f64 })),
        ("Golub", of(30, &|i, j| (0..=i.min(j)).map(|k| l(i, k) * l(j + 99, k)).sum())),
        ("devil's stairs", stairs(64)),
    ]
}

/// Kahan's triangle, s = sin 1.2: its small value is far below its last diagonal entry.
fn kahan(i: usize, j: usize) -> f64 {
    let (sin, cos) = 1.2f64.sin_cos();
    let row = sin.powi(i as i32);
    if i == j { row } else { -cos * row * f64::from(u8::from(i < j)) }
}

/// Wilkinson's W+ of odd order `period` again and again along the diagonal, glued by `glue`: clusters of nearly equal values.
fn glued(i: usize, j: usize, period: usize, glue: f64) -> f64 {
    match i.abs_diff(j) {
        0 => ((i % period) as f64 - (period / 2) as f64).abs(),
        1 if i.max(j).is_multiple_of(period) => glue,
        1 => 1.0,
        _ => 0.0,
    }
}

/// Entry of a unit lower triangular matrix of random integers: the product of two is very ill-conditioned.
fn l(i: usize, k: usize) -> f64 {
    if i % 99 == k { 1.0 } else { (8.0 * noise(48, i, k)).round() }
}

/// Stewart's devil's stairs: steps of equal values, each half the one before, between random orthogonal matrices.
fn stairs(n: usize) -> Mat<f64> {
    let mut sigma: Vec<f64> = (0..n).map(|k| 2f64.powi(-(k as i32 / 8) * 2)).collect();
    with_singular_values(&mut sigma, 49)
}
