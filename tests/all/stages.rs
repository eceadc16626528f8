//! Each stage on the CPU against a dense reference, for every shape of panel tree and several tile widths, and inputs in every memory
//! order; and the reflectors that the CPU's kernels keep, the contract of vectors and QR. (The GPU's are tested by the same code,
//! tests/gpu/reflectors.rs.)

use faer::{Mat, MatRef};
use half::f16;
use num_complex::Complex;
use svdvals_gpu::internals::{CpuKernels, Level, StageKernels, Transfers, levels};
use svdvals_gpu::{Backend, Band, Element, PanelTree, RealElement, Stage3, SvdOptions, SvdValsGpu, Tuning};

use crate::{
    common::{error, gaussian, reference, stable, stacked_identities},
    kept::factors_give_the_matrix_back,
};

fn cpu(tuning: Tuning) -> SvdOptions {
    SvdOptions::default().backend(Backend::Cpu).tuning(tuning)
}

fn tuning(tile_size: usize, arity: usize, tree: PanelTree, tile_width: usize) -> Tuning {
    Tuning::for_cpu::<f64>(1)
        .direct_up_to(0)
        .tile_size(tile_size)
        .leaf(arity * tile_size)
        .tree(tree)
        .tile_width(tile_width)
        .cols_per_block(20)
}

/// m, n: sizes at, before and after tile and leaf boundaries, tall, wide, tall enough for QR first, thin, single.
const SHAPES: [(usize, usize); 14] = [
    (64, 64),
    (65, 63),
    (33, 33),
    (32, 31),
    (7, 7),
    (1, 1),
    (1, 9),
    (9, 1),
    (100, 40),
    (40, 100),
    (70, 60),
    (300, 17),
    (17, 300),
    (129, 128),
];

/// The band has A's singular values, up to the error of a backward stable reduction, and the width that was asked for.
fn band_keeps_values<T: Element>() {
    for (seed, &(m, n)) in SHAPES.iter().enumerate() {
        let a: Mat<T> = gaussian(m, n, seed as u64);
        let exact = reference(a.as_ref());
        for (tile, arity, tree) in
            [(8, 2, PanelTree::Reduction), (16, 4, PanelTree::Reduction), (5, 3, PanelTree::Reduction), (8, 2, PanelTree::Flat)]
        {
            let band: Band<T::Scalar> = SvdValsGpu::to_band(&a, &cpu(tuning(tile, arity, tree, tile)).run).unwrap();
            assert_eq!((band.n(), band.bandwidth()), (m.min(n), tile.min(m.min(n) - 1)));
            let off = error(reference(band.to_mat().as_ref()), &exact);
            assert!(off <= stable::<T>(m.max(n)), "{m} x {n}, tile {tile}, {tree:?}: {off:.1e}");
        }
    }
}

/// A level's update and the next level's factorisation touch different columns: side by side they give, bit for bit, what they give one after
/// the other.
fn side_by_side_changes_nothing<T: Element>() {
    for (m, n, b, arity, tree) in [
        (90, 80, 8, 2, PanelTree::Reduction),
        (81, 30, 8, 3, PanelTree::Reduction),
        (60, 40, 20, 2, PanelTree::Flat),
        (33, 12, 5, 2, PanelTree::Flat),
    ] {
        let a: Mat<T> = stacked_identities(3, m, n, b);
        let a = Mat::from_fn(m, n, |i, j| a[(i, j)].widen());
        let kernels = CpuKernels::<T>::new(&tuning(b, arity, tree, b)).unwrap();
        let maps = levels(tree, 0, m, b, arity * b, arity);
        let sweep: Vec<Level> = maps.map(|map| Level { transposed: false, col: 0, width: b, map }).collect();
        assert!(sweep.len() > 1);
        let reduced = |side_by_side: bool| {
            let mut a = kernels.upload(a.as_ref(), T::Real::from_double(1.0)).unwrap();
            kernels.geqrt(&mut a, &sweep[0]).unwrap();
            for pair in sweep.windows(2) {
                if side_by_side {
                    kernels.unmqr_and_geqrt(&mut a, &pair[0], &pair[1]).unwrap();
                } else {
                    kernels.unmqr(&mut a, &pair[0]).unwrap();
                    kernels.geqrt(&mut a, &pair[1]).unwrap();
                }
            }
            kernels.unmqr(&mut a, &sweep[sweep.len() - 1]).unwrap();
            kernels.download(&a).unwrap()
        };
        assert!(reduced(true) == reduced(false), "{} {m} x {n}, {tree}", T::NAME);
    }
}

#[test]
fn side_by_side_changes_nothing_real() {
    side_by_side_changes_nothing::<f32>();
    side_by_side_changes_nothing::<f64>();
}

#[test]
fn side_by_side_changes_nothing_complex() {
    side_by_side_changes_nothing::<Complex<f64>>();
}

#[test]
fn band_keeps_values_f32() {
    band_keeps_values::<f32>();
}

#[test]
fn band_keeps_values_f64() {
    band_keeps_values::<f64>();
}

#[test]
fn band_keeps_values_c32() {
    band_keeps_values::<Complex<f32>>();
}

#[test]
fn band_keeps_values_c64() {
    band_keeps_values::<Complex<f64>>();
}

/// The bidiagonal has the band's singular values, up to the error of a backward stable reduction, for one and for many reduction steps.
fn bidiagonal_keeps_values<T: Element>() {
    for (seed, (n, bandwidth)) in [(1, 0), (2, 1), (3, 2), (50, 7), (64, 63), (65, 16), (200, 24)].into_iter().enumerate() {
        let dense: Mat<T> = gaussian(n, n, seed as u64);
        let band = Band::from_fn(n, bandwidth, |i, j| dense[(i, j)]).unwrap();
        let exact = reference(band.to_mat().as_ref());
        for tile_width in [1, 2, 3, 8, 100] {
            let c = band.band_to_bidiag(&cpu(tuning(8, 2, PanelTree::Reduction, tile_width)).run).unwrap();
            assert_eq!((c.diagonal().len(), c.superdiagonal().len()), (n, n - 1));
            let dense = Mat::from_fn(n, n, |i, j| match j.wrapping_sub(i) {
                0 => c.diagonal()[i].to_double(),
                1 => c.superdiagonal()[i].to_double(),
                _ => 0.0,
            });
            let off = error(reference(dense.as_ref()), &exact);
            assert!(off <= stable::<T>(n), "n = {n}, bandwidth {bandwidth}, tile width {tile_width}: {off:.1e}");
        }
    }
}

#[test]
fn bidiagonal_keeps_values_f64() {
    bidiagonal_keeps_values::<f64>();
}

#[test]
fn bidiagonal_keeps_values_c64() {
    bidiagonal_keeps_values::<Complex<f64>>();
}

#[test]
fn bidiagonal_keeps_values_f16() {
    bidiagonal_keeps_values::<half::f16>();
}

/// A band that fits one thread's group of sweeps and one that needs many groups give the same bidiagonal, whatever number of threads runs
/// them: cycles active together touch disjoint data, so their order cannot change a rounding.
#[test]
fn chase_does_not_depend_on_threads() {
    let dense: Mat<Complex<f64>> = gaussian(700, 700, 5);
    let band = Band::from_fn(700, 32, |i, j| dense[(i, j)]).unwrap();
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| band.band_to_bidiag(&cpu(tuning(32, 4, PanelTree::Reduction, 32)).run)).unwrap()
    };
    let one = on(1);
    for threads in [2, 3, 8] {
        assert_eq!(on(threads), one, "{threads} threads");
    }
}

/// All tree shapes and tile widths give the same values, to twice the bound of each.
fn hyperparameters_do_not_change_values<T: Element>() {
    let a: Mat<T> = gaussian(150, 130, 3);
    let exact = reference(a.as_ref());
    for tree in [PanelTree::Reduction, PanelTree::Flat] {
        for arity in [2, 3, 4, 8, 100] {
            for tile_width in [1, 4, 15, 16] {
                let s = a.svdvals_gpu_with(&cpu(tuning(16, arity, tree, tile_width))).unwrap();
                let off = error(s.iter().copied(), &exact);
                assert!(off <= stable::<T>(150), "{tree:?} {arity} {tile_width}: {off:.1e}");
            }
        }
    }
}

#[test]
fn hyperparameters_do_not_change_values_f32() {
    hyperparameters_do_not_change_values::<f32>();
}

#[test]
fn hyperparameters_do_not_change_values_f64() {
    hyperparameters_do_not_change_values::<f64>();
}

#[test]
fn hyperparameters_do_not_change_values_c64() {
    hyperparameters_do_not_change_values::<Complex<f64>>();
}

/// Every way a matrix can lie in memory gives the values of the dense copy: transposes, reversals, steps and their combinations.
#[test]
fn memory_orders_do_not_matter() {
    let big: Mat<f64> = gaussian(90, 80, 9);
    let options = cpu(tuning(8, 2, PanelTree::Reduction, 8));
    // SAFETY: entry (i, j) of each view is an entry of `big`: the farthest is (2 * 39 + 1, 3 * 24 + 2).
    let stepped = unsafe { MatRef::from_raw_parts(&raw const big[(1, 2)], 40, 25, 2 * big.row_stride(), 3 * big.col_stride()) };
    let views: [MatRef<'_, f64>; 6] = [
        big.as_ref(),
        big.transpose(),
        big.as_ref().reverse_rows(),
        big.as_ref().reverse_rows_and_cols().transpose(),
        stepped,
        stepped.transpose().reverse_cols(),
    ];
    for (k, view) in views.into_iter().enumerate() {
        let off = error(view.svdvals_gpu_with(&options).unwrap().iter().copied(), &reference(view));
        assert!(off <= stable::<f64>(90), "view {k}: {off:.1e}");
    }
}

/// Equal values come out as such: those of the identity are 1, exactly.
#[test]
fn identity() {
    let values = Mat::<f32>::identity(100, 70).svdvals_gpu_with(&SvdOptions::default().backend(Backend::Cpu)).unwrap();
    assert!(values.iter().all(|&s| s == 1.0));
}

/// The methods of stage 3 agree to the relative accuracy that each has: a few n units, here with 40 orders between the ends.
#[test]
fn stage_3_methods_agree() {
    let mut random = crate::common::Random(8);
    for grade in [0.0, -40.0 / 300.0, 40.0 / 300.0] {
        let mut entry = |i: usize| random.normal() * 10f64.powf(grade * i as f64);
        let (d, e): (Vec<f64>, Vec<f64>) = ((0..300).map(&mut entry).collect(), (0..299).map(&mut entry).collect());
        let c = svdvals_gpu::Bidiagonal::new(d, e).unwrap();
        let s = c.svdvals_by(Stage3::Newton).unwrap();
        let mut others = vec![c.svdvals_by(Stage3::Bisection).unwrap()];
        #[cfg(feature = "lapack-openblas")]
        others.extend([c.svdvals_by(Stage3::Bdsqr).unwrap(), c.svdvals_by(Stage3::Bdsdc).unwrap()]);
        others.iter_mut().for_each(|o| assert_eq!(o.len(), s.len()));
        for other in &others {
            for (k, (x, y)) in s.iter().zip(other).enumerate() {
                assert!((x - y).abs() <= 300.0 * f64::EPSILON * y, "grade {grade}, value {k}: {x:e} and {y:e}");
            }
        }
    }
}

/// In every type of the arithmetic, and stored as f16, where every level and cycle rounds what it stores: 32 roundings of f16.
#[test]
fn factors_give_the_matrix_back_in_every_type() {
    fn holds<T: Element>(stored: f64) {
        factors_give_the_matrix_back::<T, _>(CpuKernels::<T>::new, |_| true, stored).unwrap();
    }
    holds::<f32>(0.0);
    holds::<f64>(0.0);
    holds::<Complex<f32>>(0.0);
    holds::<Complex<f64>>(0.0);
    holds::<f16>(32.0 * 2f64.powi(-11));
}
