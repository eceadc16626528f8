//! Kept reflectors: what every backend promises of them.

use faer::{Mat, MatRef};
use num_complex::Complex;
use svdvals_gpu::{
    Band, Element, PanelTree, RealElement, Scalar, Tuning,
    internals::{
        Op, Phases, ReductionStep, Side, Transfers, apply_stage_1, apply_stage_2, band_to_bidiag, keep_stage_1, to_band,
    },
};

use crate::common::{complex_noise, eps, widen};

/// Shapes and hyperparameters: tile size, leaf, tree, tile width. Square and tall matrices, several levels, short last blocks and panels, a
/// matrix of one tile.
pub const CASES: [(usize, usize, usize, usize, PanelTree, usize); 7] = [
    (64, 64, 8, 16, PanelTree::Reduction, 7),
    (61, 53, 8, 24, PanelTree::Reduction, 3),
    (50, 50, 8, 16, PanelTree::Flat, 4),
    (90, 41, 16, 64, PanelTree::Reduction, 15),
    (33, 33, 5, 10, PanelTree::Flat, 2),
    (130, 70, 16, 32, PanelTree::Reduction, 8),
    (9, 7, 8, 16, PanelTree::Reduction, 3),
];

/// The square root of the sum of the squares.
fn norm(a: MatRef<'_, Complex<f64>>) -> f64 {
    (0..a.ncols()).flat_map(|j| (0..a.nrows()).map(move |i| a[(i, j)].norm_sqr())).sum::<f64>().sqrt()
}

/// That `found` is `want` but for `bound` times its norm.
fn near(what: &str, found: &Mat<Complex<f64>>, want: &Mat<Complex<f64>>, bound: f64) -> Result<(), String> {
    let (off, size) = (norm((found - want).as_ref()), norm(want.as_ref()));
    if off <= bound * size { Ok(()) } else { Err(format!("{what}: off by {:.2e} of its norm, bound {bound:.2e}", off / size)) }
}

/// What a function makes of a matrix that it gets where the backend keeps one.
fn on<S: Scalar, K: Transfers<S>>(
    kernels: &K,
    c: &Mat<Complex<f64>>,
    f: impl FnOnce(&mut K::Dense) -> svdvals_gpu::Result<()>,
) -> Result<Mat<Complex<f64>>, String> {
    let c = Mat::<S>::from_fn(c.nrows(), c.ncols(), |i, j| S::from_complex(c[(i, j)]));
    let mut c = kernels.upload(c.as_ref(), RealElement::from_double(1.0)).map_err(|e| e.to_string())?;
    f(&mut c).map_err(|e| e.to_string())?;
    Ok(widen(kernels.download(&c).map_err(|e| e.to_string())?.as_ref()))
}

/// A = Q1 B P1^H and B = Q2 C P2^H, with the factors that the kernels have kept, applied in both orders and transposed; and B and C are, to the
/// last bit, those of a run that keeps nothing.
///
/// Bound, in the Frobenius norm: n eps, n the larger side; and `stored`, what roundings to the stored type may be off.
pub fn factors_give_the_matrix_back<T, K>(
    kernels_with: impl Fn(&Tuning) -> svdvals_gpu::Result<K>,
    tunings: impl Fn(&Tuning) -> bool,
    stored: f64,
) -> Result<(), String>
where
    T: Element,
    K: Transfers<T::Scalar>,
{
    for (m, n, tile, leaf, tree, tile_width) in CASES {
        let tuning = Tuning::for_cpu::<f32>(64).tile_size(tile).leaf(leaf).tree(tree).tile_width(tile_width).cols_per_block(12);
        // Where one step of stage 2 is all, with its blocks in registers.
        let tuning = tuning.split_k(4).threads_per_block(32).max_blocks(100);
        let tuning =
            if tile_width < tile { tuning } else { tuning.lines_per_thread(2).sweeps_per_block(2).cycles_per_dispatch(3) };
        if !tunings(&tuning) {
            continue;
        }
        let kernels = kernels_with(&tuning).map_err(|e| e.to_string())?;
        stage_1_factors::<T, K>(&kernels, (m, n), &tuning, stored)?;
        stage_2_factors::<T, K>(&kernels, (m, n), &tuning, stored)?;
    }
    Ok(())
}

/// Those of stage 1.
pub fn stage_1_factors<T, K>(kernels: &K, (m, n): (usize, usize), tuning: &Tuning, stored: f64) -> Result<(), String>
where
    T: Element,
    K: Transfers<T::Scalar>,
{
    let (one, tile) = (T::Real::from_double(1.0), tuning.tile_size);
    let fail = |e: svdvals_gpu::SvdError| format!("{m} x {n}, {tuning}: {e}");
    let at = |what: &str| format!("{m} x {n}, {tuning}: {what}");
    let bound = m.max(n) as f64 * eps::<T>() + stored;
    let a = Mat::from_fn(m, n, |i, j| T::from_complex(complex_noise(81, i, j)).widen());
    let turned = Mat::from_fn(n, m, |j, i| a[(i, j)]);
    for (order, source) in [("columns", a.as_ref()), ("rows", turned.transpose())] {
        let at = |what: &str| at(&format!("by {order}, {what}"));
        let bandwidth = tile.min(n - 1);
        let reduced = |keep: bool| -> svdvals_gpu::Result<(K::Dense, Band<T::Scalar>)> {
            let mut dense = kernels.upload(source, one)?;
            if keep {
                keep_stage_1(kernels, &mut dense, (m, n), tuning)?;
            }
            to_band(kernels, &mut dense, m, n, tuning)?;
            let band = kernels.pack_band(&dense, n, bandwidth, 1)?;
            let band = kernels.download_band(band, bandwidth, one)?;
            Ok((dense, band))
        };
        let ((_, plain), (dense, band)) = (reduced(false).map_err(fail)?, reduced(true).map_err(fail)?);
        if plain != band {
            return Err(at("the band differs where reflectors are kept"));
        }
        let stage_1 = |c: &Mat<Complex<f64>>, side, op| {
            on::<T::Scalar, _>(kernels, c, |c| apply_stage_1(kernels, &dense, (m, n), tuning, side, op, c))
        };
        let a = widen(a.as_ref());
        let b = Mat::from_fn(m, n, |i, j| band.get(i, j.min(n)).into_complex());
        let left = stage_1(&b, Side::Left, Op::NoTrans)?;
        let back = stage_1(&left.adjoint().to_owned(), Side::Right, Op::NoTrans)?.adjoint().to_owned();
        near(&at("Q1 B P1^H"), &back, &a, bound)?;
        let left = stage_1(&a, Side::Left, Op::ConjTrans)?;
        let forth = stage_1(&left.adjoint().to_owned(), Side::Right, Op::ConjTrans)?.adjoint().to_owned();
        near(&at("Q1^H A P1"), &forth, &b, bound)?;
        // Q^T C is the conjugate of Q^H conj(C).
        let conj = |c: &Mat<Complex<f64>>| Mat::from_fn(c.nrows(), c.ncols(), |i, j| c[(i, j)].conj());
        for (side, c) in [(Side::Left, a.clone()), (Side::Right, a.adjoint().to_owned())] {
            let (found, want) = (stage_1(&c, side, Op::Trans)?, conj(&stage_1(&conj(&c), side, Op::ConjTrans)?));
            near(&at(&format!("{side:?}, transposed")), &found, &want, bound)?;
        }
    }
    Ok(())
}

/// Those of stage 2.
fn stage_2_factors<T, K>(kernels: &K, (m, n): (usize, usize), tuning: &Tuning, stored: f64) -> Result<(), String>
where
    T: Element,
    K: Transfers<T::Scalar>,
{
    let (one, tile, tile_width) = (T::Real::from_double(1.0), tuning.tile_size, tuning.tile_width);
    let fail = |e: svdvals_gpu::SvdError| format!("{m} x {n}, {tuning}: {e}");
    let at = |what: &str| format!("{m} x {n}, {tuning}: {what}");
    let bound = m.max(n) as f64 * eps::<T>() + stored;
    let band = Band::from_fn(n, tile, |i, j| T::from_complex(complex_noise(82, i, j)).widen()).map_err(fail)?;
    let bandwidth = band.bandwidth();
    let chased = |keep: bool| -> svdvals_gpu::Result<_> {
        let mut there = kernels.upload_band(&band, one, tile_width)?;
        if keep {
            kernels.keep_chase(&mut there, &[Side::Left, Side::Right])?;
        }
        band_to_bidiag(kernels, &mut there, n, bandwidth, tile_width)?;
        let c = pollster::block_on(kernels.bidiagonal(&there))?;
        Ok((there, c))
    };
    let ((_, plain), (there, c)) = (chased(false).map_err(fail)?, chased(true).map_err(fail)?);
    if plain != c {
        return Err(at("the bidiagonal differs where reflectors are kept"));
    }
    let stage_2 = |c: &Mat<Complex<f64>>, side, op| {
        on::<T::Scalar, _>(kernels, c, |c| apply_stage_2(kernels, &there, (n, bandwidth), tuning, side, op, c))
    };
    let phases = Phases::of(&c.diagonal, &c.superdiagonal);
    let bidiagonal = Mat::from_fn(n, n, |i, j| match j.wrapping_sub(i) {
        0 => phases.left[i] * phases.diagonal[i] * phases.right[i].conj(),
        1 => phases.left[i] * phases.superdiagonal[i] * phases.right[j].conj(),
        _ => Complex::ZERO,
    });
    let b = widen(band.to_mat().as_ref());
    let left = stage_2(&bidiagonal, Side::Left, Op::NoTrans)?;
    let back = stage_2(&left.adjoint().to_owned(), Side::Right, Op::NoTrans)?.adjoint().to_owned();
    near(&at("Q2 C P2^H"), &back, &b, bound)?;
    let left = stage_2(&b, Side::Left, Op::ConjTrans)?;
    let forth = stage_2(&left.adjoint().to_owned(), Side::Right, Op::ConjTrans)?.adjoint().to_owned();
    near(&at("Q2^H B P2"), &forth, &bidiagonal, bound)?;
    let steps = ReductionStep::all(n, bandwidth, tile_width).count();
    if bandwidth > 1 && steps == 0 {
        return Err(at("there is nothing to keep"));
    }
    Ok(())
}

/// A number as a complex one.
trait IntoComplex {
    fn into_complex(self) -> Complex<f64>;
}

impl<T: svdvals_gpu::Number> IntoComplex for T {
    fn into_complex(self) -> Complex<f64> {
        self.to_complex()
    }
}
