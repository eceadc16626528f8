//! Stage 2: band to bidiagonal.
//!
//! ```text
//! B = Q2 C P2^H        B n x n upper band;  C n x n upper bidiagonal
//! ```
//!
//! Successive band reduction: each step removes `tile_width` superdiagonals by bulge chasing (bulge-chasing paper, section III).

use crate::{
    base::error::Result,
    tile::{chase_schedule::ReductionStep, kernels::StageKernels},
};

/// Reduces `band` of order `n` with `bandwidth` superdiagonals to bidiagonal form.
pub fn band_to_bidiag<K: StageKernels>(
    kernels: &K,
    band: &mut K::Banded,
    n: usize,
    bandwidth: usize,
    tile_width: usize,
) -> Result<()> {
    for step in ReductionStep::all(n, bandwidth, tile_width) {
        kernels.chase(band, &step)?;
    }
    Ok(())
}
