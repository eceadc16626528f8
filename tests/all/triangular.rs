//! Triangular multiply and solve on the CPU: every variant, element type, memory order, kind of triangle and base, and what is refused.

use faer::{Mat, MatRef};
use half::{bf16, f16};
use num_complex::Complex;
use proptest::sample::select;
use svdvals_gpu::{
    Backend, Element, RunOptions, SvdError, Tuning,
    triangular::{Diag, Op, Side, TriangularGpu, Uplo},
};

use crate::common::{
    gaussian,
    problems::{every_element, every_scalar, forall},
    triangles::{Case, Kind, Variant, verify},
};

fn cpu(triangle: usize) -> RunOptions {
    RunOptions::default().backend(Backend::Cpu).tuning(Tuning::for_cpu::<f32>(64).triangle(triangle))
}

/// Random problems of every variant, in every memory order, by both front ends: within [`verify`]'s bounds, and with NaN wherever
/// nothing may be read.
fn random_problems<T: Element>() {
    forall(1000, (Case::any(70), select(vec![1, 3, 4, 8, 13, 64])), |(case, triangle)| case.check::<T>(&cpu(triangle))).unwrap();
}

/// Every variant at a size that is cut several times, with columns for several panels, on several threads: within the same bounds.
fn all_variants<T: Element>() {
    for (seed, variant) in Variant::all().into_iter().enumerate() {
        for solve in [false, true] {
            let layout =
                crate::common::problems::Layout { by_rows: seed % 2 == 0, steps: (1, 1), padding: 0, reversed: (false, false) };
            let (kind, seed) = (Kind::Well, seed as u64);
            let case = Case { variant, solve, n: 150, k: 100, kind, alpha: -1.5, seed, of_a: layout, of_b: layout };
            case.check::<T>(&cpu(24).threads(3)).unwrap();
        }
    }
}

/// The number of threads does not change a bit.
fn threads_do_not_matter<T: Element>() {
    let case = |side| Variant { side, uplo: Uplo::Lower, op: Op::NoTrans, diag: Diag::NonUnit };
    let a =
        Mat::<T>::from_fn(130, 130, |i, j| T::from_complex((if i == j { 9.0 } else { crate::common::noise(1, i, j) }).into()));
    for side in [Side::Left, Side::Right] {
        for k in [1, 33, 200] {
            let (rows, cols) = case(side).shape(130, k);
            let b: Mat<T> = gaussian(rows, cols, 5);
            let solve = |threads| {
                let mut x = b.clone();
                let one = T::from_complex(1.0.into());
                case(side).apply(true, one, a.as_ref(), &mut x, &cpu(32).threads(threads)).unwrap();
                x
            };
            let one = solve(1);
            assert!([2, 3, 7].into_iter().all(|threads| solve(threads) == one), "{side:?}, {k} columns");
        }
    }
}

/// A zero, a NaN or an infinity on the diagonal of a triangle to be solved with is an error with its index, and B is unchanged; products,
/// a diagonal of ones and alpha = 0 don't mind.
fn unfit_diagonals<T: Element>() {
    let one = T::from_complex(1.0.into());
    for (index, value) in [(0, 0.0), (4, -0.0), (8, f64::NAN), (3, f64::INFINITY)] {
        let entry = |i, j| if i == j && i >= index { value } else { 1.0 };
        let a = Mat::<T>::from_fn(9, 9, |i, j| T::from_complex(Complex::new(entry(i, j), 0.0)));
        let b: Mat<T> = gaussian(9, 9, 3);
        for variant in Variant::all() {
            let mut x = b.clone();
            let result = variant.apply(true, one, a.as_ref(), &mut x, &cpu(4));
            match variant.diag {
                Diag::Unit => assert!(result.is_ok(), "{result:?}"),
                Diag::NonUnit => {
                    assert!(matches!(result, Err(SvdError::Singular { index: i, .. }) if i == index), "{result:?}");
                    assert_eq!(x, b, "unchanged");
                }
            }
            variant.apply(false, one, a.as_ref(), &mut x, &cpu(4)).unwrap();
            let mut x = b.clone();
            variant.apply(true, T::from_complex(0.0.into()), a.as_ref(), &mut x, &cpu(4)).unwrap();
            assert_eq!(x, Mat::from_fn(9, 9, |_, _| T::from_complex(0.0.into())));
        }
    }
}

/// Shapes that don't fit are an error with both, and B is unchanged.
fn shapes<T: Element>() {
    let one = T::from_complex(1.0.into());
    for (a_shape, b_shape, side) in
        [((3, 4), (3, 4), Side::Left), ((3, 3), (4, 3), Side::Left), ((3, 3), (3, 4), Side::Right), ((0, 0), (0, 1), Side::Right)]
    {
        let (a, b): (Mat<T>, Mat<T>) = (gaussian(a_shape.0, a_shape.1, 1), gaussian(b_shape.0, b_shape.1, 2));
        for variant in Variant::all().into_iter().filter(|v| v.side == side) {
            for solve in [false, true] {
                let mut x = b.clone();
                let error = variant.apply(solve, one, a.as_ref(), &mut x, &cpu(4)).unwrap_err();
                assert!(matches!(error, SvdError::Shapes { a, b, .. } if a == a_shape && b == b_shape), "{error}");
                assert_eq!(x, b);
            }
        }
    }
}

/// No rows, or no columns, are nothing to do.
fn empty<T: Element>() {
    for (n, k) in [(0, 0), (0, 5), (5, 0)] {
        for variant in Variant::all() {
            let (rows, cols) = variant.shape(n, k);
            let (a, mut b): (Mat<T>, Mat<T>) = (Mat::from_fn(n, n, |_, _| T::from_complex(0.0.into())), gaussian(rows, cols, 1));
            for solve in [false, true] {
                let one = T::from_complex(1.0.into());
                // With no columns, too, a diagonal that cannot be divided by divides nothing.
                variant.apply(solve, one, a.as_ref(), &mut b, &cpu(4)).unwrap();
            }
            assert_eq!(b.shape(), (rows, cols));
        }
    }
}

every_element!(random_problems, unfit_diagonals, shapes, empty);

every_scalar!(all_variants, threads_do_not_matter);

/// Diagonal entries from one end of the range to the other, subnormal numbers included, divide as they should: to a few units, where the
/// quotient is a normal number.
#[test]
fn extreme_diagonals() {
    fn check<T: Element>(exponents: std::ops::RangeInclusive<i32>) {
        let power = |k: i32| 2f64.powi(k / 2) * 2f64.powi(k - k / 2);
        for k in exponents {
            // 1.5 2^k, and twice that; subnormal ones may lose the half.
            let d = T::from_complex(Complex::new(1.5 * power(k), power(k)));
            let b = T::from_complex(Complex::new(3.0 * power(k), 0.5 * power(k)));
            if d.magnitude().is_none() || b.magnitude().is_none() {
                continue;
            }
            let mut x = Mat::from_fn(1, 1, |_, _| b);
            let (left, lower, none) = (Side::Left, Uplo::Lower, Op::NoTrans);
            x.trsm_gpu_with(
                left,
                lower,
                none,
                Diag::NonUnit,
                T::from_complex(1.0.into()),
                &Mat::from_fn(1, 1, |_, _| d),
                &cpu(8),
            )
            .unwrap();
            // Scaled near 1 first, which is exact: num_complex's quotient squares.
            let near = |x: T| x.to_complex() * power(-k / 2) * power(-(k - k / 2));
            let want = near(b) / near(d);
            let off = (x[(0, 0)].to_complex() - want).norm() / want.norm();
            assert!(off <= 8.0 * crate::common::eps::<T>(), "{} 2^{k}: {} of {want}, off by {off:e}", T::NAME, x[(0, 0)]);
        }
    }
    check::<f32>(-148..=126);
    check::<f64>(-1073..=1022);
    check::<Complex<f32>>(-148..=126);
    check::<Complex<f64>>(-1073..=1022);
}

/// B may be an owned matrix, a view or a window of one; A any matrix of either library; a window of B leaves the rest alone.
#[test]
fn front_ends() {
    let a = ndarray::array![[2.0f64, 7.0], [1.0, 4.0]];
    let mut b = ndarray::Array2::from_shape_fn((4, 4), |(i, j)| (i + j) as f64);
    let before = b.clone();
    let (left, lower, none, non_unit) = (Side::Left, Uplo::Lower, Op::NoTrans, Diag::NonUnit);
    let mut window = b.slice_mut(ndarray::s![1..3, ..;-2]);
    window.trmm_gpu(left, lower, none, non_unit, 1.0, &a).unwrap();
    for j in 0..4 {
        let of_window = j % 2 == 1;
        let want = if of_window {
            [2.0 * before[(1, j)], before[(1, j)] + 4.0 * before[(2, j)]]
        } else {
            [before[(1, j)], before[(2, j)]]
        };
        assert_eq!([b[(0, j)], b[(1, j)], b[(2, j)], b[(3, j)]], [before[(0, j)], want[0], want[1], before[(3, j)]]);
    }
    let mut shared = before.clone().into_shared();
    let other = shared.clone();
    shared.trsm_gpu(Side::Right, lower, none, non_unit, 1.0, &Mat::<f64>::identity(4, 4)).unwrap();
    assert_eq!(shared, before);
    let mut x = Mat::from_fn(2, 1, |i, _| [2.0, 9.0][i]);
    x.as_mut().trsm_gpu(left, lower, none, non_unit, 1.0, &a).unwrap();
    assert_eq!(x, faer::mat![[1.0], [2.0]]);
    assert_eq!(other, before, "shared data is another's, too");
}

/// What is wrong with the options is said, whatever the size.
#[test]
fn options_are_checked() {
    let (a, mut b) = (Mat::<f32>::identity(3, 3), Mat::<f32>::identity(3, 3));
    let (left, lower, none, non_unit) = (Side::Left, Uplo::Lower, Op::NoTrans, Diag::NonUnit);
    for (option, options) in [("triangle", cpu(0)), ("threads", cpu(8).threads(0))] {
        let error = b.trsm_gpu_with(left, lower, none, non_unit, 1.0, &a, &options).unwrap_err();
        assert!(matches!(error, SvdError::InvalidOption { option: named, .. } if named == option), "{error}");
    }
}

/// Half types are rounded once: a product whose partial sums need f32 is the nearest f16 or bf16 to the exact one.
#[test]
fn half_types_round_once() {
    fn check<T: Element>() {
        // 1 + 64 numbers each of half a unit of 1: added one by one in T, none would count.
        let unit = if T::NAME == "f16" { 2f64.powi(-11) } else { 2f64.powi(-8) };
        let a = Mat::<T>::from_fn(65, 65, |i, j| T::from_complex((if i == j { 1.0 } else { unit }).into()));
        let mut b = Mat::<T>::from_fn(65, 1, |_, _| T::from_complex(1.0.into()));
        let before = b.clone();
        let v = Variant { side: Side::Left, uplo: Uplo::Lower, op: Op::NoTrans, diag: Diag::NonUnit };
        v.apply(false, T::from_complex(1.0.into()), a.as_ref(), &mut b, &cpu(8)).unwrap();
        assert_eq!(b[(64, 0)], T::from_complex((1.0 + 64.0 * unit).into()), "{}", T::NAME);
        verify(v, false, T::from_complex(1.0.into()), a.as_ref(), MatRef::from(before.as_ref()), b.as_ref()).unwrap();
    }
    check::<f16>();
    check::<bf16>();
}
