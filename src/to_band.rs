//! Stage 1: dense to band.
//!
//! ```text
//! A = Q1 B P1^H        A m x n, m >= n;  B n x n upper triangular with b superdiagonals
//! ```
//!
//! For each diagonal tile k: a QR sweep zeroes column panel k below its diagonal tile, an LQ sweep zeroes row panel k right of its
//! superdiagonal tile. The LQ sweep is the QR sweep on the transpose, one tile further: the same kernels on swapped strides.
//! (Unified-kernels paper, section 3, with its chain of tiles replaced by a reduction tree as in communication-avoiding QR: Demmel,
//! Grigori, Hoemmen and Langou 2012.)

use crate::{
    error::Result,
    kernels::{Level, TileKernels, levels},
    options::Tuning,
};

/// Reduces the m x n matrix `a` (m >= n) to the upper band of width `tuning.tile_size` in its leading n x n part.
pub(crate) fn to_band<K: TileKernels>(kernels: &K, a: &mut K::Dense, m: usize, n: usize, tuning: &Tuning) -> Result<()> {
    let b = tuning.tile_size;
    for k in (0..n).step_by(b) {
        sweep(kernels, a, false, Panel { row: k, rows: m - k, col: k, width: b.min(n - k) }, tuning)?;
        if k + b < n {
            sweep(kernels, a, true, Panel { row: k + b, rows: n - k - b, col: k, width: b }, tuning)?;
        }
    }
    Ok(())
}

/// Tall-and-skinny QR: reduces the m x n matrix `a` (m >= n) to its n x n triangular factor, zeros below.
pub(crate) fn triangular_factor<K: TileKernels>(
    kernels: &K,
    a: &mut K::Dense,
    m: usize,
    n: usize,
    tuning: &Tuning,
) -> Result<()> {
    let b = tuning.tile_size;
    for k in (0..n).step_by(b) {
        sweep(kernels, a, false, Panel { row: k, rows: m - k, col: k, width: b.min(n - k) }, tuning)?;
    }
    Ok(())
}

/// Columns `col..col + width` from row `row` down, of A or of its transpose.
struct Panel {
    row: usize,
    rows: usize,
    col: usize,
    width: usize,
}

/// Makes a panel upper triangular and updates the columns right of it, level after level of the panel's tree.
fn sweep<K: TileKernels>(kernels: &K, a: &mut K::Dense, transposed: bool, panel: Panel, tuning: &Tuning) -> Result<()> {
    let Panel { row, rows, col, width } = panel;
    for map in levels(tuning.tree, row, rows, width, tuning.leaf, tuning.arity()) {
        let level = Level { transposed, col, width, map };
        kernels.geqrt(a, &level)?;
        kernels.unmqr(a, &level)?;
    }
    Ok(())
}
