//! Sketches of many columns, from one pass over rows.

use faer::{Mat, MatRef};
use half::bf16;
use num_complex::Complex;
use svdvals_gpu::{Element, RealElement, RowSketch, SvdError};

use crate::{
    common::{eps, reference, widen},
    krylov_triples::{SPECTRA, with_spectrum},
    vectors::matrix,
};

/// The rows of a matrix in blocks.
fn sketch<T: Element>(a: MatRef<'_, T>, k: usize, rows: usize, seed: u64) -> RowSketch<T> {
    let mut sketch = RowSketch::<T>::with_seed(a.ncols(), k, seed).unwrap();
    for first in (0..a.nrows()).step_by(rows) {
        sketch.push(&a.subrows(first, rows.min(a.nrows() - first))).unwrap();
    }
    sketch
}

/// Each value is at most the true one and, with the stated error, at least: s_j <= sigma_j <= sqrt(s_j^2 + error^2). What is left is what the values leave:
/// ||A||_F^2 less their squares. V is orthonormal. Squares have rounding errors of n eps of the largest square, in double precision for every type, besides the
/// rounding of the results.
fn check<T: Element>(what: &str, a: MatRef<'_, T>, k: usize) {
    let found = sketch(a, k, 37, 3).finish().unwrap();
    let exact = reference(a);
    let (m, n) = a.shape();
    assert_eq!((found.s.len(), found.v.shape()), (k.min(m).min(n), (n, k.min(m).min(n))), "{what}");
    let largest = exact.first().copied().unwrap_or(0.0);
    let rounding = (m.max(n) as f64 * 4.0 * f64::EPSILON).sqrt() * largest + eps::<T::Scalar>() * largest;
    for (s, exact) in found.s.iter().map(|s| s.to_double()).zip(&exact) {
        assert!(s <= exact + rounding, "{what}: {s} is above {exact}");
        assert!(exact * exact <= s * s + found.error.powi(2) + 2.0 * largest * rounding, "{what}: {s}, {exact}, {}", found.error);
    }
    let squares = |values: &[f64]| values.iter().map(|s| s * s).sum::<f64>();
    let s: Vec<f64> = found.s.iter().map(|s| s.to_double()).collect();
    assert!(
        (squares(&exact) - squares(&s) - found.rest.powi(2)).abs() <= 4.0 * largest * rounding * s.len().max(1) as f64,
        "{what}"
    );
    assert!(found.error <= found.rest + rounding);
    let v = widen(found.v.as_ref());
    let off = (v.adjoint() * &v - Mat::<Complex<f64>>::identity(v.ncols(), v.ncols())).norm_max();
    assert!(off <= n as f64 * eps::<T::Scalar>(), "{what}: {off:e}");
}

#[test]
fn bounds_hold() {
    fn of<T: Element>() {
        for (what, value) in SPECTRA {
            check(what, with_spectrum::<T>(150, 120, value).as_ref(), 8);
            check(what, with_spectrum::<T>(60, 200, value).as_ref(), 5);
        }
        for what in ["zero", "rank third", "one entry", "graded rows", "zero border", "diagonal"] {
            check(what, matrix::<T>(what, 90, 70).as_ref(), 6);
        }
        check("few rows", matrix::<T>("random", 3, 50).as_ref(), 8);
        check("no rows", matrix::<T>("random", 0, 50).as_ref(), 8);
        check("all", matrix::<T>("random", 40, 12).as_ref(), 12);
    }
    of::<f64>();
    of::<f32>();
    of::<Complex<f32>>();
    of::<bf16>();
}

/// Values that decrease fast are found to the accuracy of squares: what ten more columns leave of 0.5^i is 4e-6, or 6e-4 of the eighth value, and a sketch misses a few
/// times that.
#[test]
fn fast_decrease() {
    let a = with_spectrum::<f64>(300, 280, SPECTRA[1].1);
    let found = sketch(a.as_ref(), 8, 100, 0).finish().unwrap();
    assert!(found.error < 1e-2 * found.s[7], "{}", found.error);
    assert!((0..8).all(|j| (found.s[j] - 0.5f64.powi(j as i32)).abs() < 1e-6), "{:?}", found.s);
}

/// Merged sketches are those of all rows, but for the order of sums; others are refused, and so are wrong blocks, after which the next is added.
#[test]
fn merging_and_errors() {
    let a = with_spectrum::<f64>(100, 60, SPECTRA[2].1);
    let (all, mut first) = (sketch(a.as_ref(), 5, 100, 9), sketch(a.subrows(0, 40), 5, 13, 9));
    first.merge(&sketch(a.subrows(40, 60), 5, 60, 9)).unwrap();
    assert_eq!((first.rows(), first.blocks()), (100, 5));
    let (x, y) = (all.finish().unwrap(), first.finish().unwrap());
    assert!(x.s.iter().zip(&y.s).all(|(x, y)| (x - y).abs() < 1e-12), "{:?} {:?}", x.s, y.s);
    for other in [RowSketch::with_seed(60, 5, 1), RowSketch::with_seed(61, 5, 9), RowSketch::with_seed(60, 6, 9)] {
        assert!(matches!(first.merge(&other.unwrap()), Err(SvdError::InvalidOption { option: "sketch", .. })));
    }
    let mut bad = a.subrows(0, 3).to_owned();
    bad[(1, 2)] = f64::NAN;
    let before = first.finish().unwrap().s;
    for (block, names) in [(bad, "(1, 2)"), (Mat::zeros(2, 61), "61 columns"), (Mat::full(1, 60, 1e200), "squares")] {
        let error = first.push(&block).unwrap_err();
        assert!(matches!(error, SvdError::InBlock { block: 5, .. }) && error.to_string().contains(names), "{error}");
    }
    assert_eq!(first.finish().unwrap().s, before);
    assert!(RowSketch::<f64>::new(usize::MAX, 3).is_err());
    // Fourth powers beyond either end of the range, and values beyond that of f32.
    let mut sketch = RowSketch::<f64>::new(3, 1).unwrap();
    assert!(sketch.push(&faer::mat![[1e100, 0.0, 1e100]]).is_err());
    sketch.push(&faer::mat![[1e-85, 0.0, 1e-85]]).unwrap();
    assert!(matches!(sketch.finish(), Err(SvdError::InvalidOption { option: "sketch", .. })));
    let mut sketch = RowSketch::<f32>::new(4, 1).unwrap();
    sketch.push(&Mat::full(1, 4, 3e38f32)).unwrap();
    assert!(matches!(sketch.finish(), Err(SvdError::Overflow { .. })));
}
