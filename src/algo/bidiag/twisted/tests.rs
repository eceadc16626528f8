//! Vectors of bidiagonals without clusters, in double and in double-double arithmetic, and refusals.

use super::*;
use crate::{
    algo::bidiag::{self, divide::tests::Random},
    base::{pool::on_pool, watch::Watch},
};

type Kind = (&'static str, fn(usize, usize, &mut Random) -> (f64, f64));

/// Bidiagonals without clusters: entry and the one beside it, of row i of n.
const APART: [Kind; 6] = [
    ("random", |_, _, random| (random.uniform(), random.uniform())),
    ("signs", |_, _, random| (random.uniform() - 0.5, random.uniform() - 0.5)),
    ("as of a random matrix", |i, n, random| {
        let of = |k: usize, random: &mut Random| (k as f64).sqrt() + random.uniform() - 0.5;
        (of(n - i, random), of(n - i - 1, random))
    }),
    ("Toeplitz", |_, _, _| (2.0, 1.0)),
    ("graded", |i, n, _| (10f64.powf(-30.0 * i as f64 / n as f64), 0.5 * 10f64.powf(-30.0 * i as f64 / n as f64))),
    ("graded upward", |i, n, _| {
        (10f64.powf(-10.0 * (n - i) as f64 / n as f64), 0.5 * 10f64.powf(-10.0 * (n - i) as f64 / n as f64))
    }),
];

fn matrix(entries: Kind, n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut random = Random(n as u64);
    let (a, mut b): (Vec<_>, Vec<_>) = (0..n).map(|i| entries.1(i, n, &mut random)).unzip();
    b.truncate(n - 1);
    (a, b)
}

fn values(a: &[f64], b: &[f64]) -> Vec<f64> {
    bidiag::svdvals(a, b, f64::EPSILON, a.len(), &Watch::default())
}

fn found(a: &[f64], b: &[f64], values: &[f64], k: usize, drift: f64) -> Option<Mat<f64>> {
    Some(vectors::<f64>(a, b, &vec![Complex::ONE; a.len()], Known { values, drift }, k, &|| false)?.transpose().to_owned())
}

/// The largest entry of V^T V - I.
fn products(v: &Mat<f64>) -> f64 {
    (v.transpose() * v - Mat::<f64>::identity(v.ncols(), v.ncols())).norm_max()
}

/// A drift that double precision does not reach.
const LEAST_DRIFT: f64 = f64::EPSILON / 16.0;

/// The drifts of all kinds of vectors that this machine finds.
fn drifts() -> &'static [f64] {
    if is_fused() { &[1e-9, 1e-4, LEAST_DRIFT] } else { &[1e-9, 1e-4] }
}

/// B v has the length of the value, and two vectors are orthogonal up to the drift: at the values as they are, and at values that were rounded to
/// single precision, where the corrections have to find them. A part of the drift along another vector changes the length by its square, and the
/// product is off by `n eps` of the largest value. Entries are products of up to n rounded quotients, errors that add up like `sqrt(n) eps`.
#[test]
fn vectors_belong_to_their_values() {
    for kind in APART {
        for n in [1, 2, 3, 7, 16, 17, 40, 131, 300] {
            let (a, b) = matrix(kind, n);
            let exact = values(&a, &b);
            let rounded: Vec<f64> = exact.iter().map(|&x| f64::from(x as f32)).collect();
            let cases = drifts().iter().map(|&drift| (&rounded, drift));
            for (values, drift) in cases.chain(drifts().iter().map(|&drift| (&exact, drift))) {
                let v = found(&a, &b, values, n, drift).unwrap_or_else(|| panic!("{}, n = {n}: not found", kind.0));
                let off = products(&v);
                assert!(off <= drift + 2.0 * (n as f64).sqrt() * f64::EPSILON, "{}, n = {n}, {drift:e}: off by {off:e}", kind.0);
                for (j, value) in exact.iter().enumerate() {
                    let row = |i: usize| a[i] * v[(i, j)] + if i + 1 < n { b[i] * v[(i + 1, j)] } else { 0.0 };
                    let length = (0..n).map(|i| row(i).powi(2)).sum::<f64>().sqrt();
                    let error = (length - value).abs() / exact[0];
                    assert!(error <= (n as f64 * f64::EPSILON).max(drift.powi(2)), "{}, n = {n}, {j}: off by {error:e}", kind.0);
                }
            }
        }
    }
}

/// Rounding leaves two vectors orthogonal to a few eps over the distance of their values, which `ROUNDINGS` bounds.
#[test]
fn roundings_are_bounded() {
    for kind in APART {
        for n in [40, 131, 300] {
            let (a, b) = matrix(kind, n);
            let values = values(&a, &b);
            let v = found(&a, &b, &values, n, 1e-9).unwrap_or_else(|| panic!("{}, n = {n}: not found", kind.0));
            let product = v.transpose() * &v;
            for (i, j) in (0..n).flat_map(|i| (0..i).map(move |j| (i, j))) {
                let apart = (values[j] - values[i]) / values[j];
                let off = product[(i, j)].abs() * apart / f64::EPSILON;
                assert!(off <= ROUNDINGS, "{}, n = {n}, {i} and {j}: {off}", kind.0);
            }
        }
    }
}

/// Among the same values a vector has the same bits however many others are wanted: lanes do not depend on each other. Nor do tasks: on threads
/// of the pool, which share them, the bits are the same.
#[test]
fn each_vector_is_on_its_own() {
    for (n, &drift) in [5, 40, 131].into_iter().flat_map(|n| drifts().iter().map(move |drift| (n, drift))) {
        let (a, b) = matrix(APART[2], n);
        let values: Vec<f64> = values(&a, &b).iter().map(|&x| f64::from(x as f32)).collect();
        let all = found(&a, &b, &values, n, drift).unwrap();
        for k in [0, 1, 4, n - 1] {
            assert_eq!(found(&a, &b, &values, k, drift).unwrap(), all.subcols(0, k), "n = {n}, k = {k}, {drift:e}");
        }
    }
    let (n, (a, b)) = (300, matrix(APART[2], 300));
    let values = values(&a, &b);
    assert!(n * n >= PARALLEL && is_alone(n), "one task here, several in the pool");
    for &drift in drifts() {
        let shared = on_pool(|| found(&a, &b, &values, n, drift).unwrap());
        assert_eq!(found(&a, &b, &values, n, drift).unwrap(), shared);
    }
}

/// In double-double arithmetic vectors of an order that has no other step are orthogonal but for the roundings of their entries.
#[test]
fn a_thousand_vectors() {
    for kind in if is_fused() { &APART[..4] } else { &[] } {
        let (n, (a, b)) = (1000, matrix(*kind, 1000));
        let v = found(&a, &b, &values(&a, &b), n, LEAST_DRIFT).unwrap_or_else(|| panic!("{}: not found", kind.0));
        let off = products(&v);
        assert!(off <= 2.0 * (n as f64).sqrt() * f64::EPSILON, "{}: off by {off:e}", kind.0);
    }
}

/// Entry i is multiplied by phase i, and rounded once more.
#[test]
fn entries_have_their_phases() {
    let (n, k, (a, b)) = (40, 30, matrix(APART[0], 40));
    let values = values(&a, &b);
    let v = found(&a, &b, &values, k, 1e-9).unwrap();
    let phases: Vec<Complex<f64>> = (0..n).map(|i| Complex::cis(0.7 * i as f64)).collect();
    let turned = vectors::<Complex<f64>>(&a, &b, &phases, Known { values: &values, drift: 1e-9 }, k, &|| false).unwrap();
    for (i, j) in (0..n).flat_map(|i| (0..k).map(move |j| (i, j))) {
        assert!((turned[(j, i)] - phases[i] * v[(i, j)]).norm() <= 2.0 * f64::EPSILON * v[(i, j)].abs(), "{i}, {j}");
    }
}

/// Refused are values of another matrix, equal ones, fewer than are wanted, zeros, values that cannot be squared, values that are too near to each other
/// for the drift, and vectors whose lengths overflow.
#[test]
fn clusters_and_strange_values_are_refused() {
    let (a, b) = matrix(APART[0], 40);
    let right = values(&a, &b);
    let multiple: Vec<f64> = right.iter().map(|x| 1.01 * x).collect();
    assert!(found(&a, &b, &multiple, 40, 1e-9).is_none());
    let mut twice = right.clone();
    twice[7] = twice[6];
    assert!(found(&a, &b, &twice, 40, 1e-9).is_none());
    let mut near = right.clone();
    near[7] = near[6] * (1.0 - 1e-9);
    assert!(found(&a, &b, &near, 40, 1e-9).is_none());
    // In double-double arithmetic they are not too near, but there is no such value.
    assert!(found(&a, &b, &near, 40, LEAST_DRIFT).is_none());
    near[7] = near[6] * (1.0 - 1e-13);
    assert!(found(&a, &b, &near, 40, LEAST_DRIFT).is_none());
    assert_eq!(found(&a, &b, &right, 40, LEAST_DRIFT).is_some(), is_fused());
    assert!(found(&a, &b, &right[..39], 40, 1e-9).is_none() && found(&a, &b, &right[..39], 39, 1e-9).is_some());
    let mut zero = right.clone();
    zero[39] = 0.0;
    assert!(found(&a, &b, &zero, 40, 1e-9).is_none() && found(&a, &b, &zero, 39, 1e-9).is_some());
    for (a, b) in [(vec![1.0; 9], vec![0.0; 8]), (vec![0.0; 9], vec![1.0; 8]), (vec![0.0; 9], vec![0.0; 8])] {
        assert!(found(&a, &b, &values(&a, &b), 9, 1e-9).is_none());
    }
    let small: Vec<f64> = (0..9).map(|i| 10f64.powi(-20 * i)).collect();
    assert!(found(&small, &[0.0; 8], &values(&small, &[0.0; 8]), 9, 1e-9).is_none());
    assert!(found(&small, &[0.0; 8], &values(&small, &[0.0; 8]), 5, 1e-9).is_some());
    assert!(found(&[f64::NAN, 1.0], &[1.0], &[2.0, 1.0], 2, 1e-9).is_none());
    assert!(found(&[1.0; 3], &[1e-165; 2], &[1.0], 1, 1e-9).is_none_or(|v| (v.norm_l2() - 1.0).abs() < 1e-9));
}

/// The scale of the matrix does not matter, up to the limits of double precision.
#[test]
fn any_scale() {
    let (a, b) = matrix(APART[2], 40);
    let values = values(&a, &b);
    for (&drift, power) in drifts().iter().flat_map(|drift| [(drift, -1000), (drift, 1000)]) {
        let v = found(&a, &b, &values, 40, drift).unwrap();
        let scaled = |x: &[f64]| x.iter().map(|x| x * power_of_two(power)).collect::<Vec<_>>();
        assert_eq!(found(&scaled(&a), &scaled(&b), &scaled(&values), 40, drift).unwrap(), v, "2^{power}, {drift:e}");
    }
}
