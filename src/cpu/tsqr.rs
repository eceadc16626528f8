//! The triangular factor of a tall, narrow matrix in one pass over it (tall-and-skinny QR: Demmel, Grigori, Hoemmen and Langou 2012).
//!
//! The rows are cut into runs, which are independent. A run is read leaf by leaf, each leaf below the R of those before it, and factored
//! in a second-level cache: nothing but R is kept, and the matrix is not copied. The R's of the runs, one below the other, are the next
//! matrix, until one is left. Where the cuts are depends on the shape alone, so the result does not depend on the number of threads.

use faer::prelude::ReborrowMut;
use faer::{Mat, MatMut, MatRef, traits::ComplexField};
use rayon::prelude::*;

use super::{convert::map_into, geqrt::factor, zeros};
use crate::{
    error::Result,
    progress::Watch,
    scalar::{Element, Re, RealElement, Scalar},
};

/// Bytes of a leaf: half of a second-level cache of 1 MiB.
const LEAF_BYTES: usize = 1 << 19;
/// Leaves of a run.
const RUN: usize = 4;

/// The upper triangular n x n factor of `scale` times the m x n matrix `a`, m >= n >= 1, with no copy of the matrix.
pub(crate) fn tsqr<T: Element>(a: MatRef<'_, T>, scale: Re<T>, watch: &Watch) -> Result<Mat<T::Scalar>> {
    let (m, n) = a.shape();
    let leaf = (LEAF_BYTES / (n * size_of::<T::Scalar>())).max(4 * n);
    if m <= RUN * leaf {
        return run(a, scale, leaf, watch);
    }
    let starts: Vec<usize> = (0..m).step_by(RUN * leaf).collect();
    let runs = starts.into_par_iter().map(|start| run(a.subrows(start, (RUN * leaf).min(m - start)), scale, leaf, watch));
    let factors = runs.collect::<Result<Vec<Mat<T::Scalar>>>>()?;
    let stacked = Mat::from_fn(factors.len() * n, n, |i, j| factors[i / n][(i % n, j)]);
    tsqr(stacked.as_ref(), Re::<T>::from_double(1.0), watch)
}

/// The same for one run, leaf after leaf.
fn run<T: Element>(a: MatRef<'_, T>, scale: Re<T>, leaf: usize, watch: &Watch) -> Result<Mat<T::Scalar>> {
    let (m, n) = a.shape();
    let above = if m > leaf { n } else { 0 };
    let ld = above + leaf.min(m);
    let mut v = zeros("leaf of the QR factorisation", ld * n)?;
    let (mut t, mut r) = (Mat::<T::Scalar>::zeros(n, n), Mat::<T::Scalar>::zeros(n, n));
    let mut work = zeros("leaf of the QR factorisation", n * n)?;
    for start in (0..m).step_by(leaf) {
        let rows = a.subrows(start, leaf.min(m - start));
        let above = if start > 0 { n } else { 0 };
        let mut v = MatMut::from_column_major_slice_with_stride_mut(&mut v, above + rows.nrows(), n, ld);
        v.rb_mut().subrows_mut(0, above).copy_from(r.get(..above, ..));
        map_into(rows, v.rb_mut().subrows_mut(above, rows.nrows()), |x| x.times(scale));
        t.fill(T::Scalar::zero_impl());
        r.fill(T::Scalar::zero_impl());
        factor(v, t.as_mut(), r.as_mut(), &mut work, false);
        watch.did(2 * (rows.nrows() * n * n) as u64)?;
    }
    Ok(r)
}
