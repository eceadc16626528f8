//! What must not change singular values, and what may change them only so far; and the classical hard matrices. On the CPU backend.

use faer::Mat;
use num_complex::Complex;
use svdvals_gpu::{Backend, Element, RealElement, SvdOptions, SvdValsGpu, Tuning};

use crate::common::{
    hard,
    jacobi::exact,
    noise,
    problems::{close, every_scalar},
    stable,
};

/// Two ways through the algorithm: tiles of the sizes here, and the defaults (no band).
fn options() -> [SvdOptions; 2] {
    let options = SvdOptions::default().backend(Backend::Cpu);
    let tuning = Tuning::for_cpu::<f32>(1).direct_up_to(0).tile_size(8).leaf(16).tile_width(5).cols_per_block(12);
    [options.clone(), options.tuning(tuning)]
}

fn values<T: Element>(a: &Mat<T>, options: &SvdOptions) -> Vec<f64> {
    a.svdvals_gpu_with(options).unwrap().iter().map(|x| x.to_double()).collect()
}

/// Complex entries; a real type drops the imaginary part.
fn matrix<T: Element>(m: usize, n: usize, entry: impl Fn(usize, usize) -> Complex<f64>) -> Mat<T> {
    Mat::from_fn(m, n, |i, j| T::from_complex(entry(i, j)))
}

/// Integers from -3 to 3, real and imaginary: every type holds them and small sums of them.
fn integer(i: usize, j: usize) -> Complex<f64> {
    let part = |seed| (3.0 * noise(seed, i, j)).round();
    Complex::new(part(51), part(52))
}

/// Entry (i, j) of 2 Q, Q unitary: blocks of Hadamard's matrix of order 4 with rows times 1, -1, i, -i (the last two of complex types).
fn twice_unitary<T: Element>(i: usize, j: usize) -> Complex<f64> {
    let phase =
        [Complex::ONE, -Complex::ONE, Complex::I, -Complex::I][(i * 7 + i / 3) % if T::NAME.starts_with('c') { 4 } else { 2 }];
    if i / 4 != j / 4 {
        Complex::ZERO
    } else if (i & j & 3).count_ones().is_multiple_of(2) {
        phase
    } else {
        -phase
    }
}

/// The singular values stay under: transposition, conjugation, permutations, signs and phases of rows, unitary factors, appended zero
/// rows and columns; and they are sqrt(2) times as large, or each there twice, for a matrix repeated below or beside and below itself.
///
/// All matrices are exact. Bound: twice [`stable`], one backward error for each side of the comparison.
fn values_stay<T: Element>() {
    let transform = |m: usize, n: usize, k: usize| -> (&str, Mat<T>) {
        let a = integer;
        let shuffled = |k: usize, n: usize| if n.is_multiple_of(7) { (k * 5 + 3) % n } else { (k * 7 + 3) % n };
        let inside = |i, j| if i < m && j < n { a(i, j) } else { Complex::ZERO };
        let product = |i: usize, j: usize| (i / 4 * 4..(i / 4 * 4 + 4).min(m)).map(|k| twice_unitary::<T>(i, k) * a(k, j)).sum();
        let product_right =
            |i: usize, j: usize| (j / 4 * 4..(j / 4 * 4 + 4).min(n)).map(|k| a(i, k) * twice_unitary::<T>(k, j)).sum();
        match k {
            0 => ("A", matrix(m, n, a)),
            1 => ("A^T", matrix(n, m, |i, j| a(j, i))),
            2 => ("A^H", matrix(n, m, |i, j| a(j, i).conj())),
            3 => ("conj A", matrix(m, n, |i, j| a(i, j).conj())),
            4 => ("rows permuted", matrix(m, n, |i, j| a(shuffled(i, m), j))),
            5 => ("columns permuted", matrix(m, n, |i, j| a(i, shuffled(j, n)))),
            6 => ("reversed", matrix(m, n, |i, j| a(m - 1 - i, n - 1 - j))),
            7 => ("signs of rows", matrix(m, n, |i, j| if i % 3 == 0 { -a(i, j) } else { a(i, j) })),
            8 => ("zero rows below", matrix(m + 9, n, inside)),
            9 => ("zero rows between", matrix(2 * m, n, |i, j| if i % 2 == 0 { a(i / 2, j) } else { Complex::ZERO })),
            10 => ("zero rows above", matrix(m + 20, n, |i, j| if i < 20 { Complex::ZERO } else { a(i - 20, j) })),
            11 => ("many zero rows", matrix(6 * m, n, inside)),
            12 => ("zero columns", matrix(m, n + 9, inside)),
            13 => ("Q A / 2", matrix(m, n, product)),
            14 => ("A Q / 2", matrix(m, n, product_right)),
            15 => ("[A; A]", matrix(2 * m, n, |i, j| a(i % m, j))),
            16 => ("diag(A, A)", matrix(2 * m, 2 * n, |i, j| if i / m == j / n { a(i % m, j % n) } else { Complex::ZERO })),
            _ => ("i A", matrix(m, n, |i, j| if T::NAME.starts_with('c') { Complex::<f64>::I * a(i, j) } else { -a(i, j) })),
        }
    };
    for (m, n) in [(36, 36), (40, 28), (28, 40), (64, 20)] {
        for options in options() {
            let plain = values(&transform(m, n, 0).1, &options);
            for k in 1..18 {
                let (name, changed) = transform(m, n, k);
                let factor = [13, 14].contains(&k).then_some(2.0).or((k == 15).then_some(2f64.sqrt())).unwrap_or(1.0);
                let twice = 1 + usize::from(k == 16);
                let mut want: Vec<f64> = plain.iter().flat_map(|&s| vec![factor * s; twice]).collect();
                want.resize(changed.nrows().min(changed.ncols()), 0.0);
                let found = changed.svdvals_gpu_with(&options).unwrap();
                let bound = 2.0 * stable::<T::Real>(m.max(n));
                close(found.iter().copied(), &want, bound).unwrap_or_else(|e| panic!("{name}, {m} x {n}: {e}"));
            }
        }
    }
}

/// |sigma_k(A + E) - sigma_k(A)| <= ||E||_2 (Weyl), and the 2-norm of all these differences is at most ||E||_F (Mirsky), for
/// perturbations from the size of A down to that of its rounding. A + E is rounded first, and E taken from what it became.
///
/// Beside that: twice [`stable`] of the largest value, the two backward errors.
fn perturbations_move_values_as_far_as_weyl_allows<T: Element>() {
    let (m, n) = (45, 36);
    let a: Mat<T> = matrix(m, n, |i, j| Complex::new(noise(53, i, j), noise(54, i, j)));
    let difference = |a: &Mat<T>, b: &Mat<T>| Mat::from_fn(m, n, |i, j| b[(i, j)].to_complex() - a[(i, j)].to_complex());
    for options in options() {
        let before = values(&a, &options);
        let slack = 2.0 * stable::<T::Real>(m) * before[0];
        for size in [1.0, 1e-2, 1e-4, 1e-8, 1e-12] {
            let by = |i, j| Complex::new(noise(55, i, j), noise(56, i, j)) * size;
            let b: Mat<T> = Mat::from_fn(m, n, |i, j| T::from_complex(a[(i, j)].to_complex() + by(i, j)));
            let e = exact(difference(&a, &b).as_ref());
            let frobenius = e.iter().map(|x| x * x).sum::<f64>().sqrt();
            let moved: Vec<f64> = values(&b, &options).iter().zip(&before).map(|(x, y)| x - y).collect();
            let (most, all) = (crate::common::furthest(moved.iter().copied()), moved.iter().map(|x| x * x).sum::<f64>().sqrt());
            assert!(most <= e[0] + slack, "{size:e}: {most:.2e}, ||E|| = {:.2e}", e[0]);
            assert!(all <= frobenius + slack * (n as f64).sqrt(), "{size:e}: {all:.2e}, ||E||_F = {frobenius:.2e}");
        }
    }
}

/// Without a column, or a row, the values interlace: sigma_(k+1) <= sigma'_k <= sigma_k. Slack: [`stable`] for each.
fn values_interlace<T: Element>() {
    for options in options() {
        let whole = values(&matrix::<T>(40, 33, integer), &options);
        for (m, n) in [(40, 32), (39, 33)] {
            let part = values(&matrix::<T>(m, n, integer), &options);
            let slack = 2.0 * stable::<T::Real>(40) * whole[0];
            for (k, s) in part.iter().enumerate() {
                let below = whole.get(k + 1).copied().unwrap_or(0.0);
                assert!(below - slack <= *s && *s <= whole[k] + slack, "{m} x {n}, {k}: {s:e} outside {below:e}..{:e}", whole[k]);
            }
        }
    }
}

/// sum sigma_k^2 = ||A||_F^2 and, for an integer triangular matrix, the product is that of the diagonal. Bound: the sum is to n units of
/// the rounding of each value, and the backward error; the product to n backward errors over the smallest value.
fn norm_and_determinant<T: Element>() {
    for options in options() {
        for (m, n) in [(40, 40), (70, 25), (25, 31)] {
            let a: Mat<T> = matrix(m, n, integer);
            let found = values(&a, &options).iter().map(|s| s * s).sum::<f64>();
            let norm: f64 = (0..n).flat_map(|j| (0..m).map(move |i| (i, j))).map(|at| a[at].to_complex().norm_sqr()).sum();
            assert!((found - norm).abs() <= stable::<T::Real>(m.max(n)) * norm, "{m} x {n}: {found} for {norm}");
        }
        let n = 20;
        let entry = |i: usize, j: usize| {
            if i > j {
                Complex::ZERO
            } else if i == j {
                (4.0 + (i % 3) as f64).into()
            } else {
                integer(i, j) / 4.0
            }
        };
        let found = values(&matrix::<T>(n, n, entry), &options);
        let want: f64 = (0..n).map(|i| (4.0 + (i % 3) as f64).ln()).sum();
        let product: f64 = found.iter().map(|s| s.ln()).sum();
        let allowed = found.iter().map(|s| found[0] / s).sum::<f64>() * stable::<T::Real>(n);
        assert!((product - want).abs() <= allowed, "determinant: e^{product}, not e^{want}");
    }
}

/// The classical hard matrices, rounded to the type, whole, as their transposes and with their columns reversed. Bound: [`stable`].
fn hard_matrices<T: Element>() {
    for (name, a) in hard::matrices() {
        let rounded: Mat<T> = matrix(a.nrows(), a.ncols(), |i, j| a[(i, j)].into());
        let finite = (0..a.ncols()).all(|j| (0..a.nrows()).all(|i| rounded[(i, j)].to_complex().is_finite()));
        if !finite {
            continue; // Pascal's largest entries in f16
        }
        let reference = exact(rounded.as_ref());
        let views =
            [rounded.as_ref(), rounded.transpose(), rounded.as_ref().reverse_cols(), rounded.as_ref().reverse_rows_and_cols()];
        for (view, options) in views.into_iter().flat_map(|view| options().map(|options| (view, options))) {
            let found = view.svdvals_gpu_with(&options).unwrap();
            let result = close(found.iter().copied(), &reference, stable::<T::Real>(a.nrows()));
            result.unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}

every_scalar!(
    values_stay,
    perturbations_move_values_as_far_as_weyl_allows,
    values_interlace,
    norm_and_determinant,
    hard_matrices,
);
