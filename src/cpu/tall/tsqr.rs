//! The triangular factor of a tall, narrow matrix in one pass over it (tall-and-skinny QR: Demmel, Grigori, Hoemmen and Langou 2012).
//!
//! The rows are cut into runs, which are independent. A run is read leaf by leaf. Each leaf is stacked below the R of the leaves before it,
//! and factored in the L2 cache. Only R is kept, and the matrix is not copied. The R factors of the runs are stacked to form the next
//! matrix, until one R is left. The cuts depend only on the shape, so the result does not depend on the number of threads.

use std::ops::Range;

use faer::prelude::ReborrowMut;
use faer::{
    Mat, MatMut, MatRef,
    traits::{ComplexField, SimdArch},
};
use pulp::{Simd, WithSimd};

use crate::{
    base::{
        error::Result,
        number::{Number, Re, RealElement, Scalar},
        scale::{largest, not_finite, scale_for},
        watch::Watch,
    },
    cpu::{
        qr::{
            body::PADDING,
            panel::{self, Block, Panels},
        },
        simd::{
            aligned::{Aligned, zeros},
            convert::{from_entries, scaled_into},
            prefetch::Ahead,
        },
        storage::leading_dimension,
        tall::leaves::{RUNS, in_runs, padded},
    },
};

/// Bytes of a leaf's column, such that a panel takes three quarters of an L1 cache of 32 KiB.
const COLUMN_BYTES: usize = 3072;
/// Fewest entries of a run. A run is one task.
const RUN: usize = 1 << 16;

/// A triangular factor times a scale, which is a power of two, and that scale.
pub(crate) type ScaledFactor<T> = (Mat<<T as Number>::Scalar>, Re<T>);

/// R of some rows times a scale, and that scale. The scale is None if all rows are zero.
type Factor<T> = (Mat<<T as Number>::Scalar>, Option<Re<T>>);

/// The upper triangular n x n factor of `scale` times the m x n matrix `a`, m >= n >= 1, and that `scale`. The matrix is not copied. The
/// scale is the power of two of stage 0, found in the same pass. If an entry is not finite, the error does not name it.
pub(crate) fn tsqr<T: Number>(a: MatRef<'_, T>, watch: &Watch) -> Result<ScaledFactor<T>> {
    let shape = a.shape();
    let factors = runs(a, watch, |rows, scale| {
        let largest = largest(rows).ok_or_else(not_finite)?;
        let wanted = scale_for::<T::Scalar>(largest, shape.0, shape.1);
        Ok(if largest > Re::<T>::zero_impl() && scale.is_none_or(|scale| wanted < scale) { Some(wanted) } else { scale })
    })?;
    // The smallest scale suits all runs. Only runs of zeros have none.
    let scale = factors.iter().filter_map(|(_, scale)| *scale).reduce(|x, y| if x < y { x } else { y });
    let scale = scale.unwrap_or_else(Re::<T>::one_impl);
    let by = |of: Option<Re<T>>| Re::<T>::from_double(scale.to_double() / of.unwrap_or(scale).to_double());
    let mut of_scale = Vec::with_capacity(factors.len());
    for (r, of) in factors {
        of_scale.push(scaled(r, by(of)));
    }
    Ok((joined(of_scale, watch)?, scale))
}

/// The triangular factor of stacked triangular factors.
fn joined<T: Scalar>(mut factors: Vec<Mat<T>>, watch: &Watch) -> Result<Mat<T>> {
    while factors.len() > 1 {
        let n = factors[0].ncols();
        let stacked = from_entries(factors.len() * n, n, |i, j| factors[i / n][(i % n, j)]);
        factors.clear();
        for (r, _) in runs(stacked.as_ref(), watch, |_, _| Ok(Some(Re::<T>::one_impl())))? {
            factors.push(r);
        }
    }
    Ok(factors.swap_remove(0))
}

/// `by` times `r`, exact except for underflow.
pub(crate) fn scaled<T: Scalar>(mut r: Mat<T>, by: Re<T>) -> Mat<T> {
    if by != Re::<T>::one_impl() {
        for j in 0..r.ncols() {
            for x in r.col_as_slice_mut(j) {
                *x = x.times(by);
            }
        }
    }
    r
}

/// The triangular factors of the runs of `a`, each times a scale that `rescale` computes (see [`run`]).
fn runs<T: Number>(
    a: MatRef<'_, T>,
    watch: &Watch,
    rescale: impl Fn(MatRef<'_, T>, Option<Re<T>>) -> Result<Option<Re<T>>> + Sync,
) -> Result<Vec<Factor<T>>> {
    let (m, n) = a.shape();
    let leaf = COLUMN_BYTES / size_of::<T::Scalar>();
    // A run has several leaves, and several times as many rows as its R.
    let in_run = (RUN / n).max(8 * n).max(m / RUNS).max(4 * leaf).next_multiple_of(leaf);
    in_runs(m, in_run, |body, rows| run(a, rows, leaf, body, watch, &rescale))
}

/// R of one run (`rows` of `a`) times a scale, leaf by leaf. For each leaf `rescale` returns the scale from there on, which may be lower
/// than the one before. It is None while all rows are zero. `body` is workspace.
fn run<T: Number>(
    a: MatRef<'_, T>,
    rows: Range<usize>,
    leaf: usize,
    body: &mut Aligned<T::Scalar>,
    watch: &Watch,
    rescale: impl Fn(MatRef<'_, T>, Option<Re<T>>) -> Result<Option<Re<T>>>,
) -> Result<Factor<T>> {
    let n = a.ncols();
    let most = leaf.min(rows.len()).next_multiple_of(PADDING);
    let ld = leading_dimension::<T::Scalar>(most).unwrap_or(most);
    if body.len() < ld * n {
        *body = zeros("leaf of the QR factorisation", ld.saturating_mul(n))?;
    }
    let mut r = Mat::<T::Scalar>::zeros(n, n);
    let mut scale = None;
    for start in rows.clone().step_by(leaf) {
        let end = rows.end.min(start + leaf);
        // The next leaf is prefetched at each reflector, and at every few columns that a panel is applied to. The thread of this run mostly
        // takes the run below it next.
        let mut ahead = Ahead::of(a.subrows(end, leaf.min(a.nrows() - end)), n + n * n / (6 * panel::WIDTH));
        let rows = a.subrows(start, end - start);
        let before = scale;
        scale = rescale(rows, before)?;
        if let (Some(before), Some(now)) = (before, scale) {
            r = scaled(r, Re::<T>::from_double(now.to_double() / before.to_double()));
        }
        if let Some(scale) = scale {
            let mut body = padded(body, rows.shape(), ld);
            scaled_into(rows, body.rb_mut().subrows_mut(0, rows.nrows()), scale);
            <T::Scalar as ComplexField>::Arch::default().dispatch(Join {
                r: r.as_mut(),
                body,
                ahead: &mut ahead,
                block: Block::new(false),
            });
        }
        watch.did(2 * rows.nrows() as u64 * (n as u64).pow(2))?;
    }
    Ok((r, scale))
}

/// Replaces R by the triangular factor of [R; body].
struct Join<'a, 'b, T> {
    r: MatMut<'a, T>,
    body: MatMut<'a, T>,
    ahead: &'a mut Ahead<'b>,
    block: Block<T>,
}

impl<T: Scalar> WithSimd for Join<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let cols = self.body.ncols();
        self.in_panels(simd, cols);
    }
}

impl<T: Scalar> Panels<T> for Join<'_, '_, T> {
    #[inline(always)]
    fn eliminate<S: Simd>(&mut self, simd: S, j: usize, k: usize) {
        let (mut v, body) = self.body.rb_mut().get_mut(.., j..).split_at_col_mut(k);
        let (mut top, right) = self.r.rb_mut().get_mut(j..j + k, j..).split_at_col_mut(k);
        self.block.factor(simd, top.rb_mut(), v.rb_mut(), Some(self.ahead));
        self.block.apply(simd, v, right, body, Some(self.ahead));
    }
}
