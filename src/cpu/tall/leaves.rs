//! A tall matrix in runs, which are tasks, of leaves, which are read once: what [`tsqr`](super::tsqr) and [`gram`](super::gram) go by.

use std::ops::Range;

use faer::{MatMut, MatRef, prelude::ReborrowMut};
use rayon::prelude::*;

use crate::{
    base::{
        error::Result,
        number::{Number, Scalar},
        view::map_into,
    },
    cpu::{qr::body::PADDING, simd::aligned::Aligned},
};

/// Runs at most: each has its own result.
pub(crate) const RUNS: usize = 256;

/// What `run` makes of every `in_run` of `m` rows, in their order. Several runs are done side by side; the memory, none at first, is workspace
/// that one run leaves to another.
pub(crate) fn in_runs<W: Send, R: Send>(
    m: usize,
    in_run: usize,
    run: impl Fn(&mut Aligned<W>, Range<usize>) -> Result<R> + Send + Sync,
) -> Result<Vec<R>> {
    if m <= in_run {
        return Ok(vec![run(&mut Aligned::default(), 0..m)?]);
    }
    let starts: Vec<usize> = (0..m).step_by(in_run).collect();
    starts.into_par_iter().map_init(Aligned::default, |work, start| run(work, start..m.min(start + in_run))).collect()
}

/// `f` of the entries of `rows`, with zeros below them up to a multiple of [`PADDING`], in `work`, `ld` elements from column to
/// column.
pub(crate) fn padded_copy<'a, T: Number, W: Scalar>(
    rows: MatRef<'_, T>,
    work: &'a mut [W],
    ld: usize,
    f: impl Fn(T::Scalar) -> W,
) -> MatMut<'a, W> {
    let (m, n) = rows.shape();
    let mut body = MatMut::from_column_major_slice_with_stride_mut(work, m.next_multiple_of(PADDING), n, ld);
    map_into(rows, body.rb_mut().subrows_mut(0, m), f);
    body.rb_mut().get_mut(m.., ..).fill(W::zero_impl());
    body
}
