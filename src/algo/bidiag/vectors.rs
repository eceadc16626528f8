//! Singular vectors of a bidiagonal matrix: by [`twisted`] factorisations at known values, or by [divide] and conquer.

use faer::{Mat, MatMut, prelude::ReborrowMut};
use num_complex::Complex;

use super::{
    divide,
    twisted::{self, Known, times_phase},
};
use crate::base::{
    blas::Side,
    element_kind::ElementKind,
    error::{Result, room_for},
    number::{Re, RealElement, Scalar},
    parallel::{col_chunks, each},
    view::map_into,
    watch::Watch,
    zeros::zeros,
};

/// Rows of the vectors in a task that copies them.
const COPIED: usize = 256;

/// `scale` times `values` to a `power`, from values of this kind; zero for those that are not normal numbers of it, and have lost digits.
pub(crate) fn scaled_powers(kind: ElementKind, values: &[f64], scale: f64, power: i32) -> Vec<f64> {
    let least = if kind.is_double() { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
    values.iter().map(|&value| if value < least { 0.0 } else { value.powi(power) * scale }).collect()
}

/// The right singular vectors of the `k` largest values as rows (k x n), of the upper bidiagonal matrix with the given diagonal and superdiagonal, their
/// entries times these phases: by [twisted] factorisations at the `known` values where these are far enough apart, else by divide and conquer.
///
/// # Errors
/// If `watch` is cancelled.
pub(crate) fn right_vectors<T: Scalar>(
    diagonal: &[f64],
    superdiagonal: &[f64],
    phases: &[Complex<f64>],
    k: usize,
    known: Known<'_>,
    watch: &Watch,
) -> Result<Mat<T>> {
    let (n, k) = (diagonal.len(), k.min(diagonal.len()));
    room_for::<T>("singular vectors of the bidiagonal", k, n, 1)?;
    watch.check()?;
    match twisted::vectors(diagonal, superdiagonal, phases, known, k, &|| watch.is_cancelled()) {
        Some(found) => {
            watch.did((2 * n * n) as u64)?;
            Ok(found)
        }
        None => {
            let [found] = vectors::<Re<T>, 1>(diagonal, superdiagonal, [Side::Right], k, watch)?;
            let mut turned = zeros::<T>(k, n);
            let task = |(task, mut to): (usize, MatMut<'_, T>)| {
                let start = task * COPIED;
                map_into(found.transpose().subcols(start, to.ncols()), to.rb_mut(), |x| T::from_real_impl(&x));
                for (i, &phase) in (0..to.ncols()).zip(&phases[start..]) {
                    let column = to.rb_mut().col_mut(i).try_as_col_major_mut().filter(|_| phase != Complex::ONE);
                    if let Some(column) = column {
                        column.as_slice_mut().iter_mut().for_each(|x| *x = times_phase(x.to_wide(), phase));
                    }
                }
            };
            each(col_chunks(turned.as_mut(), COPIED).enumerate(), task);
            Ok(turned)
        }
    }
}

/// The singular vectors of these sides that belong to the `k` largest values (n x k), of the upper bidiagonal matrix with the given diagonal
/// and superdiagonal, by [divide and conquer](divide): right vectors V and left ones U with B = U S V^T, S descending. The plan is made in
/// double precision, the products in that of `R`.
///
/// # Errors
/// If `watch` is cancelled.
pub(crate) fn vectors<R: RealElement, const SIDES: usize>(
    diagonal: &[f64],
    superdiagonal: &[f64],
    sides: [Side; SIDES],
    k: usize,
    watch: &Watch,
) -> Result<[Mat<R>; SIDES]> {
    let n = diagonal.len();
    // Two matrices for the products, and the vectors of each side.
    room_for::<R>("singular vectors of the bidiagonal", n, n.saturating_add(16), 2 + SIDES)?;
    let cancelled = || watch.is_cancelled();
    watch.check()?;
    let plan = divide::Plan::new(diagonal, superdiagonal, &cancelled);
    watch.did((2 * n * n) as u64)?;
    let of_side = |side| {
        let plan = plan.as_ref()?;
        // All vectors take 4/3 n^3 flops, the leading ones 2 n^2 k.
        let found = if 3 * k < 2 * n { plan.leading(side, k) } else { plan.vectors(side, &cancelled)? };
        Some(if found.ncols() > k { found.subcols(0, k).to_owned() } else { found })
    };
    let vectors = sides.map(|side| of_side(side).unwrap_or_else(|| Mat::zeros(n, 0)));
    watch.check()?;
    Ok(vectors)
}
