//! Dense to band storage.

use faer::MatRef;
use rayon::prelude::*;

use crate::{kernels::BandLayout, scalar::RealElement};

/// Copies B(i, j) = A(i, j), i <= j <= i + bandwidth, of the leading n x n part of `a` into `band` (zeroed, in `layout`).
pub(super) fn pack_band<T: RealElement>(a: MatRef<'_, T>, band: &mut [f64], layout: BandLayout, bandwidth: usize) {
    band.par_chunks_mut(layout.ld()).enumerate().for_each(|(j, column)| {
        let first = j.saturating_sub(bandwidth);
        for i in first..=j {
            column[layout.ku + i - j] = a[(i, j)].to_double();
        }
    });
}
