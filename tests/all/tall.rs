//! Tall and wide matrices on the CPU backend: what one pass over the rows must find, keep and report.

use faer::{Mat, MatRef};
use num_complex::Complex;
use svdvals_gpu::{Backend, Element, RealElement, SvdError, SvdOptions, SvdValsGpu};

use crate::common::{
    eps, noise,
    problems::{close, every_element, every_scalar},
    stable,
};

fn cpu() -> SvdOptions {
    SvdOptions::default().backend(Backend::Cpu)
}

/// Entry (i, j) of Sylvester's Hadamard matrix, 1 or -1: columns are orthogonal over any whole number of periods.
fn hadamard(i: usize, j: usize) -> f64 {
    if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 }
}

/// x 2^power, for powers that f64 has not.
fn times_power(x: f64, power: i32) -> f64 {
    x * 2f64.powi(power / 2) * 2f64.powi(power - power / 2)
}

/// Blocks of 16 rows, each a power of two times one 16 x 16 matrix of small integers, H diag(1, 2, .., 16) H: whatever the powers p are, the
/// values are 16 (j + 1) sqrt(sum 4^p). Rows that grow, shrink, jump, begin with zeros, or are all zeros, through the type's range: no run of
/// rows knows how large the entries of another are. Bound: [`stable`], the backward error.
fn rows_of_all_sizes<T: Element>() {
    let (low, high) = match T::NAME {
        "f16" => (-24, 7),
        "f64" | "c64" => (-1070, 1000),
        _ => (-130, 110),
    };
    const BLOCKS: i32 = 400;
    let along = |k: i32| low + (high - low) * k / (BLOCKS - 1);
    let growing: Vec<Option<i32>> = (0..BLOCKS).map(|k| Some(along(k))).collect();
    let shrinking = growing.iter().rev().copied().collect();
    let jumping = (0..BLOCKS).map(|k| Some(along(k * 157 % BLOCKS))).collect();
    let late = growing.iter().enumerate().map(|(k, &p)| if k < 390 { None } else { p }).collect();
    let few = growing.iter().enumerate().map(|(k, &p)| if k % 60 == 1 { p } else { None }).collect();
    for powers in [growing, shrinking, jumping, late, few, vec![None; BLOCKS as usize]] {
        let sum = |i: usize, j: usize| (0..16).map(|k| hadamard(i, k) * hadamard(k, j) * (k + 1) as f64).sum::<f64>();
        let core = Mat::from_fn(16, 16, sum);
        let a = Mat::from_fn(16 * powers.len(), 16, |i, j| {
            T::from_complex(powers[i / 16].map_or(0.0, |power| times_power(core[(i % 16, j)], power)).into())
        });
        let most = powers.iter().flatten().max().copied().unwrap_or(0);
        let squares: f64 = powers.iter().flatten().map(|power| 4f64.powi((power - most).max(-500))).sum();
        let want: Vec<f64> = (0..16).rev().map(|j| times_power(16.0 * (j + 1) as f64 * squares.sqrt(), most)).collect();
        for a in [a.as_ref(), a.transpose()] {
            let found = a.svdvals_gpu_with(&cpu()).unwrap();
            close(found.iter().copied(), &want, stable::<T::Real>(16)).unwrap_or_else(|e| panic!("{powers:?}: {e}"));
        }
    }
}

/// The first entry that is not finite is reported where the caller has it, whichever way round the matrix is.
fn non_finite_entries_are_found<T: Element>() {
    for (row, col, cols) in
        [(0, 0, 9), (4321, 5, 9), (4999, 8, 9), (2048, 0, 9), (1535, 7, 9), (0, 0, 1), (4999, 0, 1), (1535, 0, 1)]
    {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let entry = |i: usize, j: usize| T::from_complex(if (i, j) == (row, col) { bad } else { (i * j % 7) as f64 }.into());
            let (tall, wide) = (Mat::from_fn(5000, cols, entry), Mat::from_fn(cols, 5000, |j, i| entry(i, j)));
            let check = |a: MatRef<'_, T>, place: (usize, usize)| match a.svdvals_gpu_with(&cpu()) {
                Err(SvdError::NonFinite { row, col, .. }) => assert_eq!((row, col), place),
                other => panic!("{other:?}"),
            };
            check(tall.as_ref(), (row, col));
            check(wide.as_ref(), (col, row));
            check(wide.transpose(), (row, col));
            check(tall.as_ref().reverse_rows(), (4999 - row, col));
        }
    }
}

/// Columns from 1 down to as small as the type has them, even such whose squares underflow, and each with a part along all larger ones:
/// U R diag(sizes), with orthogonal columns of ones in U and an upper triangle of ones in R. Columns are 2^-5 or less of the one before, and
/// so the values sqrt(m) times the sizes but for a part of 2^-10 n. Bound: a thirtieth of each value; nobody promises more for such ones.
/// In single precision, where columns are sorted on the way, they may come in the other order.
fn small_columns_are_found<T: Element>() {
    let step = match T::NAME {
        "f16" => 0,
        "f64" | "c64" => 42,
        _ => 5,
    };
    let size = |j: usize| 2f64.powi(-step * j as i32);
    let first = |j: usize| if step == 0 { j } else { 0 };
    let entry = |i: usize, j: usize| (first(j)..=j).map(|k| hadamard(i, 67 * k)).sum::<f64>() * size(j);
    let a = Mat::<T>::from_fn(2048, 24, |i, j| T::from_complex(entry(i, j).into()));
    let single = eps::<T::Real>() > 1e-10;
    for a in [a.as_ref(), a.as_ref().reverse_cols()].into_iter().take(1 + usize::from(single)) {
        for (j, found) in a.svdvals_gpu_with(&cpu()).unwrap().iter().enumerate() {
            let want = 2048f64.sqrt() * size(j);
            assert!((found.to_double() / want - 1.0).abs() <= 1.0 / 30.0, "value {j}: {found:?}, not {want:e}");
        }
    }
}

every_element!(non_finite_entries_are_found);

every_scalar!(rows_of_all_sizes, small_columns_are_found);

/// In single precision the values of a tall matrix come from A^H A in double precision, and are right to the last place, small ones too.
///
/// A = U D V^T has integer parts with exact entries, values 256 2^-k, k = 0 .. 11. Bound: one unit. An eigenvalue is off by a few eps_64
/// sigma_1^2, and so a value of 2^-11 sigma_1 by a few 2^-53 2^22 / 2 of itself: 1e-9, beside rounding to f32.
#[test]
fn single_precision_is_right_to_the_last_place() {
    let entry =
        |i: usize, c: usize| (0..16).map(|j| hadamard(i, 257 * j) * 2f64.powi(-(j as i32 % 12)) * hadamard(j, c)).sum::<f64>();
    let a = Mat::from_fn(4096, 16, |i, c| entry(i, c) as f32);
    let mut want: Vec<f64> = (0..16).map(|j| 256.0 * 2f64.powi(-(j % 12))).collect();
    want.sort_by(|x, y| y.total_cmp(x));
    for (found, want) in a.svdvals_gpu_with(&cpu()).unwrap().iter().zip(want) {
        assert!((f64::from(*found) / want - 1.0).abs() <= f64::from(f32::EPSILON), "{found}, not {want}");
    }
}

/// In double precision the values of a tall matrix come from A^H A where its columns, made as long as one another, are far from dependent, and
/// from QR elsewhere; either way they are as good as QR's, whatever the condition is.
///
/// A = U D H with orthogonal columns of ones in U and Hadamard matrices of order 16 along H's diagonal. Values 2^(-k step / 8), k = 0 .. 15, times
/// the largest, each `n` / 16 times: for conditions from 1 to 2^30, so that some are on either side of the border (2^4) and near it. Bound:
/// [`stable`], of the largest value, for each of them.
fn double_precision_is_stable_on_both_sides<T: Element<Value = f64>>(m: usize, n: usize, steps: impl Iterator<Item = usize>) {
    for step in steps {
        let size = |j: usize| 2f64.powi(-((j % 16 * step) as i32 / 8));
        let term = |i: usize, j: usize, c: usize| hadamard(i, 7 * j) * size(j) * hadamard(j % 16, c % 16);
        let entry = |i: usize, c: usize| (c / 16 * 16..c / 16 * 16 + 16).map(|j| term(i, j, c)).sum::<f64>();
        let a = Mat::<T>::from_fn(m, n, |i, c| T::from_complex((entry(i, c) / 3.0).into()));
        for (j, found) in a.svdvals_gpu_with(&cpu()).unwrap().iter().enumerate() {
            let first = (m as f64).sqrt() * 4.0 / 3.0;
            let want = first * size(j / (n / 16));
            assert!((found - want).abs() <= stable::<T>(n) * first, "{m} x {n}, step {step}, value {j}: {found}, not {want}");
        }
    }
}

/// The lengths of columns may be far apart where the columns are far from dependent: then each value is right to the last few digits, however
/// small it is.
///
/// A = U D with orthogonal columns of ones in U and lengths down to 2^-800 of the first, in two orders. Bound: [`stable`], of each value.
fn lengths_of_columns_do_not_matter<T: Element<Value = f64>>() {
    let size = |j: usize| 2f64.powi(400 - 80 * j as i32);
    let a = Mat::<T>::from_fn(8192, 11, |i, j| T::from_complex((hadamard(i, 67 * j) * size(j) / 3.0).into()));
    for a in [a.as_ref(), a.as_ref().reverse_cols()] {
        for (j, found) in a.svdvals_gpu_with(&cpu()).unwrap().iter().enumerate() {
            let want = 8192f64.sqrt() / 3.0 * size(j);
            assert!((found / want - 1.0).abs() <= stable::<T>(11), "value {j}: {found}, not {want}");
        }
    }
}

#[test]
fn double_precision() {
    double_precision_is_stable_on_both_sides::<f64>(8192, 16, 0..=16);
    double_precision_is_stable_on_both_sides::<Complex<f64>>(8192, 16, 0..=16);
    double_precision_is_stable_on_both_sides::<f64>(4096, 336, [0, 1, 2, 3, 12].into_iter());
    double_precision_is_stable_on_both_sides::<Complex<f64>>(4096, 240, [1, 12].into_iter());
    lengths_of_columns_do_not_matter::<f64>();
    lengths_of_columns_do_not_matter::<Complex<f64>>();
}

/// The values do not depend on the number of threads: runs of rows are cut and joined by the shape alone. Rows of zeros below change nothing
/// but the order of sums, whatever a leaf's workspace had in their place before: 1e-13 of the largest value in double precision, and in
/// single what rounding the entries costs. All of that for A^H A and for QR, to which two columns alike lead, of few columns and of many.
#[test]
fn threads_do_not_matter() {
    for (m, n) in [(20_011, 13), (5003, 330)] {
        let values_of = |a: &Mat<f64>, threads| a.svdvals_gpu_with(&cpu().threads(threads)).unwrap();
        for last in [n, n - 1] {
            let entry = |i: usize, j: usize| noise(7, i, if j == last { 0 } else { j });
            let a = Mat::from_fn(m, n, entry);
            let one = values_of(&a, 1);
            assert!([2, 3, 8].into_iter().all(|threads| values_of(&a, threads) == one));
            let padded = Mat::from_fn(m + 21, n, |i, j| if i < m { entry(i, j) } else { 0.0 });
            for (value, padded) in one.iter().zip(values_of(&padded, 2).iter()) {
                assert!((value - padded).abs() <= 1e-13 * one[0], "{value}, not {padded}");
            }
            let single = Mat::from_fn(m, n, |i, j| entry(i, j) as f32);
            let one_of_single = single.svdvals_gpu_with(&cpu().threads(1)).unwrap();
            assert_eq!(single.svdvals_gpu_with(&cpu().threads(3)).unwrap(), one_of_single);
            for (single, value) in one_of_single.iter().zip(one.iter()) {
                assert!((f64::from(*single) - value).abs() <= 3.0 * f64::from(f32::EPSILON) * one[0], "{single}, not {value}");
            }
        }
    }
}
