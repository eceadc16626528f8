//! Blocks of rows: whatever the blocks and the order of merging, the results are those of the whole matrix.

use faer::{Mat, MatRef};
use num_complex::Complex;
use svdvals_gpu::{Backend, Element, LstsqGpu, Number, RealElement, RowBlocks, Scalar, SvdError, SvdOptions, SvdValsGpu};

use crate::{
    check_lstsq::right_sides,
    common::{complex_noise, eps, problems::every_scalar, reference, widen},
};

type Wide = Mat<Complex<f64>>;

fn on_cpu() -> SvdOptions {
    SvdOptions::default().backend(Backend::Cpu)
}

/// Noise, of which column j has the length `size(j)`, about.
fn with_columns<T: Element>(m: usize, n: usize, size: impl Fn(usize) -> f64) -> Mat<T> {
    Mat::from_fn(m, n, |i, j| T::from_complex(complex_noise(61, i, j) * size(j)))
}

/// The state of blocks that end at these rows.
fn of_blocks<T: Element>(a: MatRef<'_, T>, ends: &[usize], mut rows: RowBlocks<T>) -> RowBlocks<T> {
    let mut start = 0;
    for &end in ends {
        rows.push(&a.subrows(start, end - start)).unwrap();
        start = end;
    }
    rows.push(&a.subrows(start, a.nrows() - start)).unwrap();
    rows
}

/// The ends of blocks of this many rows.
fn every(step: usize, m: usize) -> Vec<usize> {
    (step..m).step_by(step).collect()
}

/// The whole matrix cut in many ways: one block, two, blocks of many sizes, one row at a time, rows one at a time between large blocks.
fn splits<T: Element>(a: MatRef<'_, T>, new: impl Fn() -> RowBlocks<T>) -> Vec<(&'static str, RowBlocks<T>)> {
    let m = a.nrows();
    let mut uneven = vec![m / 3, m / 3, (m / 3 + 1).min(m), m / 2, (m / 2 + 2).min(m), m - m / 5];
    uneven.sort_unstable();
    let mut parts: Vec<_> = (0..m)
        .step_by(m.div_ceil(5).max(1))
        .map(|start| {
            let part = a.subrows(start, m.div_ceil(5).min(m - start));
            of_blocks(part, &every(40, part.nrows()), new())
        })
        .collect();
    let (mut forwards, mut backwards) = (new(), new());
    parts.iter().for_each(|part| forwards.merge(part.clone()).unwrap());
    parts.iter().rev().for_each(|part| backwards.merge(part.clone()).unwrap());
    // As a tree, the last ones first.
    while parts.len() > 1 {
        let (last, mut before) = (parts.pop().unwrap(), parts.pop().unwrap());
        before.merge(last).unwrap();
        parts.insert(0, before);
    }
    vec![
        ("one block", of_blocks(a, &[], new())),
        ("halves", of_blocks(a, &[m / 2], new())),
        ("blocks of 100", of_blocks(a, &every(100, m), new())),
        ("blocks of 7", of_blocks(a, &every(7, m), new())),
        ("rows", of_blocks(a, &every(1, m), new())),
        ("uneven and empty", of_blocks(a, &uneven, new())),
        ("merged", forwards),
        ("merged backwards", backwards),
        ("merged as a tree", parts.pop().unwrap_or_else(new)),
    ]
}

/// Checks what a state says about the m x n matrix `a`, in units of max(m, n) eps of T's arithmetic:
///
/// * R^H R = A^H A, each entry relative to the lengths of its two columns: the columnwise backward error of Householder QR (Higham 2002, theorem
///   19.4), a multiple of n eps, of which one sees a part. So the digits of short columns are there. What A^H A alone gives has the same bound;
///   that the digits of R itself are there too is what `ill_conditioned` checks.
/// * The values are those of the whole matrix, relative to the largest.
/// * V has orthonormal columns, and A V orthogonal ones of the lengths s.
fn check<T: Element>(what: &str, a: MatRef<'_, Complex<f64>>, rows: &RowBlocks<T>) -> Result<(), String> {
    let (m, n) = a.shape();
    let k = m.min(n);
    let found = rows.finish_faer().map_err(|error| format!("{what}: {error}"))?;
    if (found.s.nrows(), found.v.shape(), found.r.shape(), found.rows) != (k, (n, k), (k, n), m as u64) {
        return Err(format!("{what}: shapes {:?} {:?}", found.v.shape(), found.r.shape()));
    }
    let unit = m.max(n).max(4) as f64 * eps::<T>();
    let off = |name: &str, x: f64| if x <= unit { Ok(()) } else { Err(format!("{what}: {name} {:.2}", x / unit)) };
    let (r, v) = (widen(found.r.as_ref()), widen(found.v.as_ref()));
    let (got, want) = (r.adjoint() * &r, a.adjoint() * a);
    let length = |j: usize| want[(j, j)].re.sqrt();
    for (i, j) in (0..n).flat_map(|j| (0..n).map(move |i| (i, j))) {
        let size = length(i) * length(j);
        off("R^H R", if size == 0.0 { got[(i, j)].norm() } else { (got[(i, j)] - want[(i, j)]).norm() / size })?;
        if i < k && i > j && r[(i, j)] != Complex::ZERO {
            return Err(format!("{what}: R is not triangular"));
        }
    }
    let s: Vec<f64> = found.s.iter().map(|s| s.to_double()).collect();
    let want = reference(a);
    let largest = want.first().copied().filter(|&s| s > 0.0).unwrap_or(1.0);
    s.iter().zip(&want).try_for_each(|(s, want)| off("values", (s - want).abs() / largest))?;
    off("V", (v.adjoint() * &v - Wide::identity(k, k)).norm_l2())?;
    let along = a * v;
    let squares = along.adjoint() * &along - Wide::from_fn(k, k, |i, j| Complex::from(if i == j { s[i] * s[i] } else { 0.0 }));
    off("A V", squares.norm_l2() / (largest * largest))
}

every_scalar!(every_split, least_squares, principal_components);

/// Every split and merge order: tall and wide matrices, few and many columns, columns of all sizes, dependent and zero ones, zero rows.
fn every_split<T: Element>() {
    let graded = |j: usize| 2f64.powi(-(((5 * j) % 12) as i32));
    let equal = |m, n| Mat::<T>::from_fn(m, n, |i, j| T::from_complex(complex_noise(62, i, j / 3)));
    let sparse = Mat::<T>::from_fn(330, 6, |i, j| {
        T::from_complex(if i % 50 == 7 && j != 2 { complex_noise(63, i, j) } else { Complex::ZERO })
    });
    let zero = || with_columns::<T>(90, 5, |_| 0.0);
    for (kind, a) in [
        ("noise", with_columns(1, 1, |_| 1.0)),
        ("noise", with_columns(3, 20, |_| 1.0)),
        ("noise", with_columns(700, 1, |_| 1.0)),
        ("noise", with_columns(733, 20, |_| 1.0)),
        ("noise", with_columns(260, 64, |_| 1.0)),
        ("graded", with_columns(733, 12, graded)),
        ("equal columns", equal(450, 9)),
        ("mostly zero rows", sparse),
        ("zero", zero()),
    ] {
        let wide = widen(a.as_ref());
        let by_rows = a.transpose().to_owned();
        for of in [a.as_ref(), by_rows.transpose()] {
            for (split, rows) in splits(of, || RowBlocks::new(a.ncols()).unwrap()) {
                let what = format!("{} {kind} {} x {}, {split}", T::NAME, a.nrows(), a.ncols());
                check(&what, wide.as_ref(), &rows).unwrap();
            }
        }
    }
}

/// X has the gradient of the normal equations, in LAPACK's measure (`dqrt17`: at most max(m, n) eps ||A|| (||B|| + ||A|| ||X||)), the residuals
/// are those of X, and the rank is that of the matrix; also without full rank, where X is that of least norm, and centred.
fn least_squares<T: Element>() {
    let dependent = Mat::<T>::from_fn(400, 12, |i, j| T::from_complex(complex_noise(62, i, j / 3)));
    for (a, rank) in [(with_columns::<T>(700, 12, |_| 1.0), 12), (dependent, 4), (with_columns(7, 12, |_| 1.0), 7)] {
        let ((m, n), p) = (a.shape(), 3);
        let b = right_sides(a.as_ref(), p);
        for (step, centred) in [(m, false), (100, false), (3, false), (1, true), (100, true)] {
            if centred && m < n {
                continue; // one row less
            }
            let new = RowBlocks::with_right_sides(n, p).unwrap();
            let mut rows = if centred { new.centred() } else { new };
            for start in (0..m).step_by(step) {
                let count = step.min(m - start);
                rows.push_with(&a.as_ref().subrows(start, count), &b.as_ref().subrows(start, count)).unwrap();
            }
            let fit = rows.solve_faer(None).unwrap();
            let what = format!("{} {m} x {n}, blocks of {step}", T::NAME);
            assert_eq!(fit.rank, rank, "{what}");
            let x = widen(fit.x.as_ref());
            let [a, b] = [&a, &b].map(|of| widen(of.as_ref())).map(|of| if centred { less_mean(of) } else { of });
            let (rest, norm) = (&b - &a * &x, a.norm_l2());
            let unit = m.max(n) as f64 * eps::<T>() * (b.norm_l2() + norm * x.norm_l2());
            let gradient = (a.adjoint() * &rest).norm_l2() / norm;
            assert!(gradient <= unit, "{what}: {}", gradient / unit);
            for (j, length) in fit.residuals.iter().enumerate() {
                assert!((length.to_double() - rest.col(j).norm_l2()).abs() <= unit, "{what}: {length}");
            }
            let whole = widen(reduced(&rows, rank, n).as_ref());
            assert!(rank < n || whole.nrows() == 0 || (whole - &x).norm_l2() <= 64.0 * n as f64 * eps::<T>() * x.norm_l2());
            assert_eq!(fit.intercept.is_some(), centred);
        }
        if m > n {
            let mut rows = RowBlocks::with_right_sides(n, p).unwrap();
            rows.push_with(&a, &b).unwrap();
            let (found, want) = (rows.solve_faer(None).unwrap(), a.lstsq_gpu_with(&b, &on_cpu().run.clone().into()).unwrap());
            let distance = (widen(found.x.as_ref()) - widen(want.x.as_ref())).norm_l2();
            // Both are accurate to the condition number, which is below 4 on the range, times n eps.
            assert!(distance <= 16.0 * n as f64 * eps::<T>() * widen(want.x.as_ref()).norm_l2(), "{} {distance:e}", T::NAME);
        }
    }
}

/// The solution of a state after a merge into an empty one, which is the same state.
fn reduced<T: Element>(rows: &RowBlocks<T>, rank: usize, n: usize) -> Mat<T::Scalar> {
    if rank < n {
        return Mat::zeros(0, 0);
    }
    let new = RowBlocks::with_right_sides(n, rows.right_sides()).unwrap();
    let mut all = if rows.is_centred() { new.centred() } else { new };
    all.merge(rows.clone()).unwrap();
    all.solve_faer(None).unwrap().x
}

/// The rows less their mean.
fn less_mean(mut a: Wide) -> Wide {
    let m = a.nrows() as f64;
    for column in a.as_mut().col_iter_mut() {
        let mean = column.sum() / m;
        column.iter_mut().for_each(|x| *x -= mean);
    }
    a
}

/// Centred rows have the values and vectors of the centred matrix, and its mean, for every split. The columns have a mean of some hundred times
/// their deviation, and rows drift, so that the means of blocks differ.
fn principal_components<T: Element>() {
    let (m, n) = (620, 7);
    let size = if T::IS_HALF { 8.0 } else { 300.0 };
    let a = Mat::<T>::from_fn(m, n, |i, j| {
        T::from_complex(complex_noise(64, i, j) + size * (1.0 + j as f64) + 4.0 * i as f64 / m as f64)
    });
    let centred = less_mean(widen(a.as_ref()));
    let by_rows = a.transpose().to_owned();
    let new = || RowBlocks::new(n).unwrap().centred();
    for (split, rows) in splits(a.as_ref(), new).into_iter().chain(splits(by_rows.transpose(), new)) {
        let what = format!("{} centred, {split}", T::NAME);
        check(&what, centred.as_ref(), &rows).unwrap();
        let (found, whole) = (rows.finish_faer().unwrap(), widen(a.as_ref()));
        for (j, mean) in found.mean.unwrap().iter().enumerate() {
            let want = whole.col(j).sum() / m as f64;
            // Sums of 620 numbers in double precision, of the test too: sqrt(620) eps.
            assert!((mean.to_complex() - want).norm() <= 32.0 * eps::<T>() * want.norm(), "{what}: {mean} {want}");
        }
    }
}

/// No mean is too large: with one of 1e9 times the deviation, the deviations are those of what f64 holds. Subtracting m mean^2 from the squares
/// would leave no digit. The values' error is that of the mean of a block, 1e9 eps, whose effect is second order, hence 1e-6.
#[test]
fn large_means() {
    let (m, n) = (5000, 4);
    let a = Mat::from_fn(m, n, |i, j| complex_noise(65, i, j).re + 1e9);
    let want = reference(less_mean(widen(a.as_ref())).as_ref());
    for step in [m, 1000, 10, 1] {
        let rows = of_blocks(a.as_ref(), &every(step, m), RowBlocks::new(n).unwrap().centred());
        let s = rows.finish_faer().unwrap().s;
        assert!(s.iter().zip(&want).all(|(s, want)| (s - want).abs() <= 1e-6 * want), "{step}: {s:?} {want:?}");
    }
}

/// Nearly dependent columns keep their digits: the last singular value is 1e-11 of the first, of which A^H A in double precision has none (1e-8).
/// It is found to the backward error of QR, m eps ||A||. In single precision 1e-6 is found to that of f32, from sums in double precision.
#[test]
fn ill_conditioned() {
    let near = |i: usize, j: usize, by: f64| {
        let noise = |j| complex_noise(66, i, j).re;
        if j == 5 { noise(1) + noise(2) + by * noise(5) } else { noise(j) }
    };
    let (m, n) = (3000, 8);
    for by in [1e-3, 1e-7, 1e-11] {
        let a = Mat::from_fn(m, n, |i, j| near(i, j, by));
        // faer's values below some 1e-12 of the largest may come as zeros.
        let want = a.svdvals_gpu_with(&on_cpu()).unwrap()[n - 1];
        for (split, rows) in splits(a.as_ref(), || RowBlocks::new(n).unwrap()) {
            let s = rows.finish_faer().unwrap().s;
            assert!((s[n - 1] - want).abs() <= 64.0 * f64::EPSILON * s[0], "{by:e} {split}: {:e} {want:e}", s[n - 1]);
        }
    }
    let a = Mat::from_fn(m, n, |i, j| near(i, j, 1e-5) as f32);
    let want = *reference(a.as_ref()).last().unwrap();
    for (split, rows) in splits(a.as_ref(), || RowBlocks::new(n).unwrap()) {
        let s = rows.finish_faer().unwrap().s;
        // Relative: the state is in double precision.
        assert!((f64::from(s[n - 1]) - want).abs() <= 1e-5 * want, "{split}: {} {want}", s[n - 1]);
    }
}

/// A column times a power of two gives R's column times that power, to 64 eps of its length, over the whole range of f64; and values of rows at
/// the ends of the range are those of scaled rows.
#[test]
fn graded_columns() {
    let (m, n) = (900, 6);
    let one = with_columns::<f64>(m, n, |_| 1.0);
    for powers in [[0, -40, 40, -80, 80, 0], [0, -300, 300, 200, -200, 1], [0, -600, -300, 300, 100, 20]] {
        let a = Mat::from_fn(m, n, |i, j| one[(i, j)] * 2f64.powi(powers[j]));
        for step in [m, 250, 5, 1] {
            let new = || RowBlocks::new(n).unwrap();
            let [plain, graded] = [&one, &a].map(|of| of_blocks(of.as_ref(), &every(step, m), new()).finish_faer().unwrap().r);
            for j in 0..n {
                let length = one.col(j).norm_l2();
                for i in 0..=j {
                    // The signs of rows may differ.
                    let (x, y) = (plain[(i, j)].abs(), graded[(i, j)].abs() * 2f64.powi(-powers[j]));
                    assert!((x - y).abs() <= 64.0 * f64::EPSILON * length, "{powers:?} {step} ({i}, {j}): {x} {y}");
                }
            }
        }
    }
    for power in [-1000, -700, 700, 1000] {
        let a = Mat::from_fn(m, n, |i, j| one[(i, j)] * 2f64.powi(power));
        for step in [m, 100, 1] {
            let of = |a: &Mat<f64>| of_blocks(a.as_ref(), &every(step, m), RowBlocks::new(n).unwrap()).finish_faer().unwrap().s;
            let (s, want) = (of(&a), of(&one));
            assert!(
                (0..n).all(|j| (s[j] * 2f64.powi(-power) - want[j]).abs() < 1e-13 * want[0]),
                "{power} {step} {s:?} {want:?}"
            );
        }
    }
}

/// No rows, no columns, and blocks without rows; later ones count as if they were the first.
#[test]
fn empty_ones() {
    let mut rows = RowBlocks::<f32>::new(3).unwrap();
    let none = rows.finish_faer().unwrap();
    assert_eq!((none.s.nrows(), none.v.shape(), none.r.shape(), none.rows), (0, (3, 0), (0, 3), 0));
    rows.push(&Mat::<f32>::zeros(0, 3)).unwrap();
    rows.merge(RowBlocks::new(3).unwrap()).unwrap();
    assert_eq!((rows.rows(), rows.blocks()), (0, 1));
    rows.push(&Mat::<f32>::identity(3, 3)).unwrap();
    assert_eq!(rows.finish_faer().unwrap().s[2], 1.0);
    let mut of_nothing = RowBlocks::<f64>::new(0).unwrap();
    of_nothing.push(&Mat::<f64>::zeros(5, 0)).unwrap();
    assert_eq!((of_nothing.rows(), of_nothing.finish_faer().unwrap().s.nrows()), (5, 0));
    let mut centred = RowBlocks::<f64>::new(2).unwrap().centred();
    assert_eq!(centred.finish_faer().unwrap().mean.unwrap()[0], 0.0);
    centred.push(&faer::mat![[4.0, 5.0]]).unwrap();
    let one = centred.finish_faer().unwrap();
    assert_eq!((one.s[0], one.mean.unwrap()[1]), (0.0, 5.0));
    let fit = RowBlocks::<f64>::with_right_sides(2, 1).unwrap().solve_faer(None).unwrap();
    assert_eq!((fit.rank, fit.x.shape(), fit.residuals[0]), (0, (2, 1), 0.0));
}

/// An entry that is not finite is named with its block and its place in it, and the state is what it was; so is the size of a wrong block.
#[test]
fn bad_blocks() {
    for (m, centred, value) in
        [(100, false, f64::NAN), (100, true, f64::INFINITY), (2, false, f64::NEG_INFINITY), (2, true, f64::NAN)]
    {
        let new = RowBlocks::with_right_sides(4, 1).unwrap();
        let (mut rows, b) = (if centred { new.centred() } else { new }, Mat::<f64>::zeros(m, 1));
        for block in 0..7 {
            rows.push_with(&Mat::from_fn(m, 4, |i, j| complex_noise(block, i, j).re), &b).unwrap();
        }
        let before = rows.finish_faer().unwrap();
        let mut bad = with_columns::<f64>(m, 4, |_| 1.0);
        bad[(1, 2)] = value;
        let error = rows.push_with(&bad, &b).unwrap_err();
        assert!(error.to_string().starts_with("block 7 of rows: entry (1, 2) is "), "{error}");
        let at = |error: SvdError| match error {
            SvdError::InBlock { block, source } => match *source {
                SvdError::NonFinite { row, col, .. } => (block, row, col),
                other => panic!("{other}"),
            },
            other => panic!("{other}"),
        };
        assert_eq!(at(error), (7, 1, 2));
        let mut bad_side = b.clone();
        bad_side[(0, 0)] = value;
        bad[(1, 2)] = 0.0;
        assert_eq!(at(rows.push_with(&bad, &bad_side).unwrap_err()), (7, 0, 4));
        let after = rows.finish_faer().unwrap();
        assert!((rows.rows(), rows.blocks()) == (7 * m as u64, 7) && before.s == after.s && before.v == after.v);

        let option = |error| match error {
            SvdError::InvalidOption { option, .. } => option,
            other => panic!("{other}"),
        };
        assert_eq!(option(rows.push(&bad).unwrap_err()), "right_sides");
        assert_eq!(option(rows.push_with(&bad.as_ref().subcols(0, 3), &b).unwrap_err()), "block");
        assert_eq!(option(rows.push_with(&bad, &b.as_ref().subrows(0, m - 1)).unwrap_err()), "right_sides");
        assert_eq!(option(rows.merge(RowBlocks::new(4).unwrap()).unwrap_err()), "other");
        assert_eq!(option(rows.solve_faer(Some(2.0)).unwrap_err()), "tolerance");
        rows.push_with(&bad, &b).unwrap();
        assert_eq!(rows.blocks(), 8);
    }
    let mut large = RowBlocks::new(1).unwrap();
    large.push(&Mat::from_fn(9, 1, |_, _| f32::MAX)).unwrap();
    assert!(matches!(large.finish_faer(), Err(SvdError::Overflow { .. })));
    let mut large = RowBlocks::new(1).unwrap().centred();
    let error = large.push(&Mat::from_fn(9, 1, |i, _| if i % 2 == 0 { f64::MAX } else { -f64::MAX })).unwrap_err();
    assert!(matches!(error, SvdError::InBlock { block: 0, .. }), "{error}");
}

/// A state that went through serde goes on as the one that it was: the numbers are the same up to `serde_json`'s rounding.
#[test]
fn stored_states() {
    stored::<f32>();
    stored::<f64>();
    stored::<half::bf16>();
    stored::<Complex<f32>>();
    stored::<Complex<f64>>();
}

fn stored<T: Element>() {
    let a = with_columns::<T>(500, 6, |j| 2f64.powi(-(j as i32)));
    let b = right_sides(a.as_ref(), 1);
    let push = |rows: &mut RowBlocks<T>, start: usize, count: usize| {
        rows.push_with(&a.as_ref().subrows(start, count), &b.as_ref().subrows(start, count)).unwrap();
    };
    for centred in [false, true] {
        let new = RowBlocks::with_right_sides(6, 1).unwrap();
        let mut rows = if centred { new.centred() } else { new };
        for (start, count) in [(0, 3), (3, 200), (203, 1)] {
            push(&mut rows, start, count);
            let text = serde_json::to_string(&rows).unwrap();
            let back: RowBlocks<T> = serde_json::from_str(&text).unwrap();
            assert_eq!((back.rows(), back.blocks(), back.is_centred()), (rows.rows(), rows.blocks(), centred));
            rows = back;
        }
        push(&mut rows, 204, 296);
        let a = widen(a.as_ref());
        let only = |rows: &RowBlocks<T>| {
            let fit = rows.finish_faer().unwrap();
            fit.s.iter().map(|s| s.to_double()).collect::<Vec<_>>()
        };
        let want = reference(if centred { less_mean(a) } else { a }.as_ref());
        let unit = 500.0 * eps::<T>() * want[0];
        assert!(only(&rows).iter().zip(&want).all(|(s, want)| (s - want).abs() <= unit), "{}", T::NAME);
    }
    let text = serde_json::to_string(&RowBlocks::<T>::new(2).unwrap()).unwrap();
    for (from, to) in [("\"columns\":2", "\"columns\":3"), ("\"exponent\":0", "\"exponent\":5000"), ("\"rows\":0", "\"lines\":0")]
    {
        assert!(text.contains(from) && serde_json::from_str::<RowBlocks<T>>(&text.replace(from, to)).is_err(), "{text}");
    }
    assert!(<T::Scalar as Scalar>::IS_COMPLEX == text.contains("[0.0,0.0,0.0,0.0,0.0,0.0]"), "{text}");
}

/// The state does not depend on the number of threads, and moves between them.
#[test]
fn threads_do_not_matter() {
    fn is_sent<S: Send + Sync>(state: S) -> S {
        state
    }
    // Blocks of several pieces each.
    let a = with_columns::<f32>(50_000, 13, |_| 1.0);
    let b = with_columns::<f64>(30_000, 20, |j| 10f64.powi(-(j as i32) / 4));
    let of = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let of_a = || of_blocks(a.as_ref(), &every(15_000, 50_000), RowBlocks::new(13).unwrap()).finish_faer().unwrap().s;
        let of_b = |rows| is_sent(of_blocks(b.as_ref(), &[13_000], rows)).finish_faer().unwrap().r;
        let new = || RowBlocks::new(20).unwrap();
        pool.install(|| (of_a(), of_b(new()), of_b(new().centred())))
    };
    let one = of(1);
    assert!([2, 3].into_iter().all(|threads| of(threads) == one));
}
