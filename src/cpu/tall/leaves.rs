//! The partition of a tall matrix into runs of rows, which are tasks, and of a run into leaves, which are read once. [`tsqr`](super::tsqr)
//! and [`gram`](super::gram) use it.

use std::ops::Range;

use faer::{MatMut, prelude::ReborrowMut};

use crate::{
    base::{
        error::Result,
        number::{Number, Scalar},
        parallel::try_map,
    },
    cpu::{qr::body::PADDING, simd::aligned::Aligned},
};

/// The type of A^H A.
pub(crate) type Wide<T> = <<T as Number>::Scalar as Scalar>::Wide;

/// Most runs. Each has its own result.
pub(crate) const RUNS: usize = 256;

/// The results of `run` for every `in_run` of `m` rows, in order. Runs are computed in parallel. The workspace is empty at first, and is
/// reused from run to run.
pub(crate) fn in_runs<W: Send, R: Send>(
    m: usize,
    in_run: usize,
    run: impl Fn(&mut Aligned<W>, Range<usize>) -> Result<R> + Send + Sync,
) -> Result<Vec<R>> {
    if m <= in_run {
        return Ok(vec![run(&mut Aligned::default(), 0..m)?]);
    }
    try_map(m.div_ceil(in_run), Aligned::default, |work, k| run(work, k * in_run..m.min((k + 1) * in_run)))
}

/// The m x n matrix in `work`, column-major with leading dimension `ld`, padded with zero rows to a multiple of [`PADDING`]. The caller writes the
/// first m rows.
pub(crate) fn padded<W: Scalar>(work: &mut [W], (m, n): (usize, usize), ld: usize) -> MatMut<'_, W> {
    let mut body = MatMut::from_column_major_slice_with_stride_mut(work, m.next_multiple_of(PADDING), n, ld);
    body.rb_mut().get_mut(m.., ..).fill(W::zero_impl());
    body
}
