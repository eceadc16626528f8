//! Shapes and scales on the CPU backend: sizes around every boundary of tiles and leaves, empty, thin and huge ones, special structure,
//! and both ends of every type's exponent range.

use faer::{Mat, MatRef};
use half::{bf16, f16};
use num_complex::Complex;
use svdvals_gpu::{Backend, Element, HalfStorage, PanelTree, RealElement, SvdOptions, SvdValsGpu, Tuning};

use crate::common::{
    eps,
    jacobi::exact,
    noise,
    problems::{close, every_element, every_scalar, smallest},
    stable,
};

fn cpu() -> SvdOptions {
    SvdOptions::default().backend(Backend::Cpu)
}

fn values<T: Element>(a: MatRef<'_, T>, options: &SvdOptions) -> Vec<f64> {
    let values = a.svdvals_gpu_with(options).unwrap_or_else(|e| panic!("{} {:?}: {e}", T::NAME, a.shape()));
    values.iter().map(|x| x.to_double()).collect()
}

/// An m x n matrix of `T` with the real parts (and the imaginary parts of `complex`) given.
fn matrix<T: Element>(m: usize, n: usize, entry: impl Fn(usize, usize) -> f64) -> Mat<T> {
    Mat::from_fn(m, n, |i, j| T::from_complex(Complex::new(entry(i, j), entry(i, j + 1))))
}

/// Small integers, which every type holds exactly.
fn integers<T: Element>(m: usize, n: usize) -> Mat<T> {
    matrix(m, n, |i, j| (4.0 * noise(31, i, j)).round())
}

/// Sides at, before and after a tile (8), a leaf (16), two and four leaves, each with each: bound [`stable`], the backward error.
fn sides_around_every_boundary<T: Element>() {
    const SIDES: [usize; 11] = [1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 65];
    let tuning = Tuning::for_cpu::<f32>(1).direct_up_to(0).tile_size(8).leaf(16).tile_width(5).cols_per_block(12);
    let options = [cpu(), cpu().tuning(tuning.clone()), cpu().tuning(tuning.tree(PanelTree::Flat))];
    for (m, n) in SIDES.iter().flat_map(|&m| SIDES.map(|n| (m, n))).filter(|&(m, n)| m.min(n) <= 33) {
        let a: Mat<T> = integers(m, n);
        let reference = exact(a.as_ref());
        for (k, options) in options.iter().enumerate() {
            let found = a.svdvals_gpu_with(options).unwrap();
            close(found.iter().copied(), &reference, stable::<T::Real>(m.max(n)))
                .unwrap_or_else(|e| panic!("{m} x {n}, {k}: {e}"));
        }
    }
}

/// No rows or no columns, whatever the other side: no values, at once.
fn empty_matrices_have_no_values<T: Element>() {
    for (m, n) in [(0, 0), (0, 5), (5, 0), (0, 1 << 40), (1 << 40, 0)] {
        let a = Mat::<T>::new();
        // SAFETY: a matrix of no entries; nothing is read.
        let a = unsafe { MatRef::from_raw_parts(a.as_ptr(), m, n, 1, 0) };
        assert_eq!(a.svdvals_gpu_with(&cpu()).unwrap().nrows(), 0, "{m} x {n}");
        assert_eq!(SvdValsGpu::to_band(&a, &cpu().run).unwrap().n(), 0, "{m} x {n}");
    }
}

/// 2^20 x 8 and 8 x 2^20 in seconds and little memory, whatever the order in memory.
///
/// The columns are Walsh functions (rows of a Hadamard matrix) times 1 to 8, mixed by an exactly orthogonal V made of blocks of
/// H_4 / 2: the singular values are 1024 k, without a rounding. Bound: 16 units of the last place times the 8 columns' steps, because
/// the reduction tree adds its error once a level (a handful), and every sum within is made in double precision.
fn a_million_rows<T: Element>() {
    const ROWS: usize = 1 << 20;
    let walsh = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
    let v = |k: usize, j: usize| if k / 4 == j / 4 { walsh(k % 4, j % 4) / 2.0 } else { 0.0 };
    let table: Vec<T> = (0..64)
        .map(|at| (at / 8, at % 8))
        .map(|(i, j)| (0..8).map(|k| walsh(i, k) * (k + 1) as f64 * v(k, j)).sum())
        .map(|x: f64| T::from_complex(Complex::new(x, 0.0)))
        .collect();
    // Walsh functions 0 to 7 depend on the last three bits of the row alone.
    let tall = Mat::from_fn(ROWS, 8, |i, j| table[i % 8 * 8 + j]);
    let reference: Vec<f64> = (1..=8).rev().map(|k| 1024.0 * f64::from(k)).collect();
    for a in [tall.as_ref(), tall.transpose()] {
        close(a.svdvals_gpu_with(&cpu()).unwrap().iter().copied(), &reference, 16.0 * 8.0 * eps::<T::Real>()).unwrap();
    }
    let by_rows = Mat::from_fn(8, ROWS, |i, j| tall[(j, i)]);
    let found = by_rows.transpose().svdvals_gpu_with(&cpu()).unwrap();
    close(found.iter().copied(), &reference, 16.0 * 8.0 * eps::<T::Real>()).unwrap();
}

/// A matrix with one entry a row and a column has their absolute values as singular values, each relatively right over nearly all
/// exponents of the type, because reflectors of single powers of two are exact. Bound: 4 units, for the squares and roots of stage 3.
fn permuted_diagonals_are_relatively_right<T: Element>() {
    let n = 50;
    let lowest = match T::NAME {
        "f16" => -14,
        "f64" | "c64" => -950,
        _ => -120,
    };
    let entry = |k: usize| 2f64.powi(lowest * k as i32 / n as i32) * if k.is_multiple_of(3) { -1.0 } else { 1.0 };
    let tuning = Tuning::for_cpu::<f32>(1).direct_up_to(0).tile_size(8).leaf(16).tile_width(5);
    for (rows, cols, step) in [(n, n, 1), (n, n, 7), (n + 30, n, 13), (n, n + 8, 29)] {
        let a: Mat<T> = Mat::from_fn(rows, cols, |i, j| {
            let on_diagonal = i < n && j < n && i * step % n == j;
            T::from_complex(Complex::from(if on_diagonal { entry(j) } else { 0.0 }))
        });
        let sizes = (0..cols).flat_map(|j| (0..rows).map(move |i| (i, j))).map(|at| a[at].to_complex().norm());
        let mut reference: Vec<f64> = sizes.filter(|&x| x > 0.0).collect();
        reference.sort_by(|x, y| y.total_cmp(x));
        reference.resize(rows.min(cols), 0.0);
        for options in [cpu(), cpu().tuning(tuning.clone())] {
            for (x, y) in values(a.as_ref(), &options).into_iter().zip(&reference) {
                assert!((x - y).abs() <= 4.0 * eps::<T::Real>() * y, "{rows} x {cols}, step {step}: {x:e}, not {y:e}");
            }
        }
    }
}

/// The direct way and the way by a band have the same values, also where columns lie a multiple of 2 KB apart and so get a gap. Bound:
/// [`stable`], once for each.
fn both_ways_agree<T: Element>() {
    for (m, n) in [(256, 200), (128, 100), (121, 120), (224, 224)] {
        let a: Mat<T> = matrix(m, n, |i, j| noise(35, i, j));
        let [direct, by_band] =
            [1000, 0].map(|limit| values(a.as_ref(), &cpu().tuning(Tuning::for_cpu::<T>(n).direct_up_to(limit))));
        close(direct, &by_band, 2.0 * stable::<T::Real>(m)).unwrap_or_else(|e| panic!("{m} x {n}: {e}"));
    }
}

/// Structure that makes reflectors trivial: zero, constant, rank one, banded, bidiagonal, lower bidiagonal, triangular, one entry.
/// Bound: [`stable`]; the values of a zero matrix are exact zeros.
fn structured_matrices<T: Element>() {
    type Entry = fn(usize, usize) -> f64;
    let x = |i, j| (3.0 * noise(32, i, j)).round();
    let kinds: [(&str, Entry); 10] = [
        ("zero", |_, _| 0.0),
        ("constant", |_, _| 3.0),
        ("rank one", |i, j| ((i % 5) * (j % 3)) as f64),
        ("diagonal", |i, j| if i == j { (i % 7) as f64 } else { 0.0 }),
        ("upper bidiagonal", |i, j| if i == j || i + 1 == j { (i + j) as f64 } else { 0.0 }),
        ("lower bidiagonal", |i, j| if i == j || i == j + 1 { (i + j) as f64 } else { 0.0 }),
        ("symmetric band", |i, j| if i.abs_diff(j) <= 5 { ((i + j) % 9) as f64 - 4.0 } else { 0.0 }),
        ("upper band", |i, j| if i <= j && j <= i + 8 { ((i + 2 * j) % 9) as f64 - 4.0 } else { 0.0 }),
        ("triangular", |i, j| if i <= j { ((3 * i + j) % 9) as f64 - 4.0 } else { 0.0 }),
        ("one entry", |i, j| if (i, j) == (17, 11) { 5.0 } else { 0.0 }),
    ];
    let tuning = Tuning::for_cpu::<f32>(1).direct_up_to(0).tile_size(8).leaf(16).tile_width(5);
    for (m, n) in [(40, 40), (41, 23), (30, 33)] {
        let check = |name: &str, a: Mat<T>| {
            let reference = exact(a.as_ref());
            for options in [cpu(), cpu().tuning(tuning.clone())] {
                let found = a.svdvals_gpu_with(&options).unwrap();
                let bound = stable::<T::Real>(m.max(n));
                close(found.iter().copied(), &reference, bound).unwrap_or_else(|e| panic!("{name}, {m} x {n}: {e}"));
            }
        };
        kinds.iter().for_each(|(name, entry)| check(name, matrix(m, n, entry)));
        // Zero rows and columns: first, last, at a tile's boundary, many, all but one.
        for (name, zero) in [
            ("first", (|k| k == 0) as fn(usize) -> bool),
            ("last ones", |k| k > 19),
            ("at a boundary", |k| k == 7 || k == 8 || k == 16),
            ("every other", |k| k % 2 == 0),
            ("all but one", |k| k != 13),
            ("a whole tile", |k| (8..16).contains(&k)),
        ] {
            check(&format!("zero rows: {name}"), matrix(m, n, |i, j| if zero(i) { 0.0 } else { x(i, j) }));
            check(&format!("zero columns: {name}"), matrix(m, n, |i, j| if zero(j) { 0.0 } else { x(i, j) }));
            check(&format!("both: {name}"), matrix(m, n, |i, j| if zero(i) || zero(j) { 0.0 } else { x(i, j) }));
        }
    }
    assert!(values(Mat::<T>::from_fn(40, 30, |_, _| T::from_complex(Complex::ZERO)).as_ref(), &cpu()).iter().all(|&x| x == 0.0));
}

/// A single row or column of n entries of one size x has the value x sqrt(n), even where squares under- or overflow. Bound: 8 units, one
/// for each level of the reduction tree and no more, because sums of squares are made in double precision.
fn single_rows_and_columns<T: Element>() {
    for n in [1, 2, 4, 5, 9, 64, 100, 513, 1025, 4099] {
        let phases = [(3.0, 0.0), (0.0, 3.0), (-3.0, 0.0), (0.0, -3.0)].map(|(re, im)| Complex::new(re, im));
        let entry = |k: usize| if T::NAME.starts_with('c') { phases[k % 4] } else { phases[k % 3 / 2 * 2] };
        let largest = match T::NAME {
            "f16" => 8,
            "f64" | "c64" => 1000,
            _ => 120,
        };
        for power in [0, largest, -largest] {
            let entry = |k: usize| T::from_complex(entry(k) * 2f64.powi(power));
            let reference = 3.0 * (n as f64).sqrt() * 2f64.powi(power);
            for a in [Mat::from_fn(n, 1, |i, _| entry(i)), Mat::from_fn(1, n, |_, j| entry(j))] {
                for options in [cpu(), cpu().tuning(Tuning::for_cpu::<f32>(1).direct_up_to(0).tile_size(4).leaf(8))] {
                    let found = values(a.as_ref(), &options)[0];
                    assert!((found - reference).abs() <= 8.0 * eps::<T::Real>() * reference, "{n}: {found} for {reference}");
                }
            }
        }
    }
}

/// A power of two multiplies every value exactly, from entries that are subnormal to ones whose squares overflow: stage 0 makes the same
/// numbers of them.
fn powers_of_two_scale_exactly<T: Element>() {
    let (low, high) = match T::NAME {
        "f16" => (-24, 13),
        "bf16" => (-133, 119),
        "f32" | "c32" => (-149, 119),
        _ => (-1074, 1015),
    };
    for storage in [HalfStorage::Single, HalfStorage::Half] {
        let options = cpu().half_storage(storage.for_element::<T>());
        // Factors are at most 2^126: what is smaller than 2^-127 does not come up to 1/2, and nearer to f16's subnormal numbers.
        let low = if storage == HalfStorage::Half { low.max(-129) } else { low };
        // Integers up to 4, and singular values below 2^8.
        let plain = values(integers::<T>(40, 30).as_ref(), &options);
        for power in (low..=high).step_by(((high - low) / 12) as usize).chain([low, low + 1, high]) {
            let halves = [power / 2, power - power / 2].map(|k| 2f64.powi(k));
            let times = |x: f64| x * halves[0] * halves[1];
            let scaled = matrix::<T>(40, 30, |i, j| times((4.0 * noise(31, i, j)).round()));
            // Values that are not normal numbers of their type have been rounded once more.
            let (normal, unit) = smallest::<T::Real>();
            for (found, &x) in values(scaled.as_ref(), &options).into_iter().zip(&plain) {
                let want = T::Real::from_double(times(x)).to_double();
                let allowed = if want < normal { unit } else { 0.0 };
                assert!((found - want).abs() <= allowed, "2^{power}: {found:e}, not {want:e}");
            }
        }
    }
}

every_element!(empty_matrices_have_no_values, powers_of_two_scale_exactly);

every_scalar!(
    sides_around_every_boundary,
    a_million_rows,
    permuted_diagonals_are_relatively_right,
    structured_matrices,
    both_ways_agree,
    single_rows_and_columns,
);

/// The ends of the ranges with full mantissas: entries near 1e-300 and 1e+300 in f64, 1e-37 and 1e+37 in f32, up to 65504 in f16; and
/// blocks of entries at both ends in one matrix. Bound: [`stable`] of the type, relative to the largest value.
#[test]
fn ends_of_the_range() {
    fn check<T: Element>(scales: &[f64]) {
        for (k, &scale) in scales.iter().enumerate() {
            let same: Mat<T> = matrix(37, 29, |i, j| scale * noise(33 + k as u64, i, j));
            let mixed: Mat<T> = matrix(37, 29, |i, j| scales[(i / 10 + j / 10 + k) % scales.len()] * noise(34, i, j));
            for a in [same, mixed] {
                let found = a.svdvals_gpu_with(&cpu()).unwrap();
                let result = close(found.iter().copied(), &exact(a.as_ref()), stable::<T::Real>(37));
                result.unwrap_or_else(|e| panic!("{}, {scale:e}: {e}", T::NAME));
            }
        }
    }
    check::<f64>(&[1e300, 1e-300, 1e-307, 5e-324 * 1000.0, 1e155, 1e-155]);
    check::<Complex<f64>>(&[1e300, 1e-300, 1e-307, 5e-324 * 1000.0, 1e155, 1e-155]);
    check::<f32>(&[1e36, 1e37, 1e-37, 1e-38, 1e-42, 1e19, 1e-19]);
    check::<Complex<f32>>(&[1e36, 1e37, 1e-37, 1e-38, 1e-42, 1e19, 1e-19]);
    check::<bf16>(&[1e36, 1e37, 1e-37, 1e-38, 1e-40]);
    check::<f16>(&[65504.0, 6e-5, 6e-8, 1.0]);
}

/// The largest number of a type alone is its own singular value, and so is the smallest.
#[test]
fn the_largest_and_the_smallest_number() {
    fn check<T: Element>(numbers: [f64; 2]) {
        for (x, (m, n)) in numbers.into_iter().flat_map(|x| [(1, 1), (5, 3), (2, 70)].map(|shape| (x, shape))) {
            let a: Mat<T> =
                Mat::from_fn(m, n, |i, j| T::from_complex(Complex::from(if (i, j) == (m - 1, n / 2) { -x } else { 0.0 })));
            for storage in [HalfStorage::Single, HalfStorage::Half] {
                let found = values(a.as_ref(), &cpu().half_storage(storage.for_element::<T>()));
                assert!(found[0] == x && found[1..].iter().all(|&s| s == 0.0), "{} {m} x {n}: {found:?}", T::NAME);
            }
        }
    }
    check::<f64>([f64::MAX, 5e-324]);
    check::<Complex<f64>>([f64::MAX, 5e-324]);
    check::<f32>([f32::MAX.into(), 2f64.powi(-149)]);
    check::<Complex<f32>>([f32::MAX.into(), 2f64.powi(-149)]);
    check::<bf16>([bf16::MAX.to_f64(), 2f64.powi(-133)]);
    check::<f16>([65504.0, 2f64.powi(-24)]);
}
