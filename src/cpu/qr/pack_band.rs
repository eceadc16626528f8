//! Dense to band storage. Twin: `shaders/pack_band.wgsl`.

use faer::MatRef;

use crate::{
    base::{number::Number, parallel::each},
    tile::band_layout::BandLayout,
};

/// Copies B(i, j) = A(i, j), i <= j <= i + bandwidth, of the leading n x n part of `a` into `band` (zeroed, in `layout`).
pub(crate) fn pack_band<S: Number, B: Number>(a: MatRef<'_, S>, band: &mut [B], layout: BandLayout, bandwidth: usize) {
    each(band.chunks_mut(layout.ld()).enumerate(), |(j, column)| {
        let first = j.saturating_sub(bandwidth);
        for i in first..=j {
            column[layout.ku + i - j] = B::from_complex(a[(i, j)].to_complex());
        }
    });
}
