//! Stage 1 with deferred updates.
//!
//! A stays as it is while reflectors accumulate: the trailing matrix is A - L R, and each panel adds to L and R, as in LAPACK's `gebrd`, but by blocks. A is
//! read twice for each tile, by products with a panel, and written once for several. A panel's tree of reflectors is joined into one block
//! reflector I - V T V^H for that.
//!
//! ```text
//! update      P <- P - L R                             the panel, brought up to date
//! factor      P = Q [S; 0]                             by the levels of its tree
//! join        I - V T V^H, whose first columns are Q   by LU factorisation of Q's square part without its signs: no pivot is less than 1. V goes to L
//! multiply    R <- (V T)^H (A - L R)                   (V T)^H A and (V T)^H L, in parts of rows, then the correction by the product of the latter
//! subtract    A <- A - L R                             when L has as many columns as it has room for
//! ```
//!
//! Sources: Wang and others, arXiv 2410.02170 (2024), for the deferred updates of a symmetric band reduction; Ballard and others, "Reconstructing Householder
//! vectors from tall-skinny QR" (2015), for the joining. Below `deferred_from` columns the rest is that of [`to_band`](crate::algo::to_band).

use crate::{
    algo::{svdvals::qr_first, to_band::rest_to_band},
    base::{element_kind::ElementKind, error::Result},
    tile::{
        deferred::{DeferredPanel, DeferredProduct, joins},
        kernels::DeferredKernels,
        panel_tree::{Level, PanelTree, levels},
        tuning::Tuning,
    },
};

/// Most rows whose levels are one piece, and most entries of an augmented matrix: more cannot be indexed.
const MOST_ROWS: usize = 1 << 17;
const MOST_ENTRIES: u64 = 1 << 32;

/// The columns of L in stage 1 of an m x n matrix, m >= n, stored as `kind`, by kernels that can put updates off; 0: none are.
pub(crate) fn deferred_columns(kind: ElementKind, (m, n): (usize, usize), tuning: &Tuning) -> usize {
    let (whole, m) = (m, if qr_first(m, n) { n } else { m });
    let pair = 2 * stride(tuning);
    let most = tuning.gpu.deferred_columns.min(MOST_ROWS) / pair * pair;
    let fits = most > 0
        && tuning.tree == PanelTree::Reduction
        && !kind.is_half()
        && n > tuning.tile_size
        && n >= tuning.gpu.deferred_from
        && m <= MOST_ROWS
        && (whole.saturating_add(most + 3) as u64).saturating_mul((n + most + 3) as u64) < MOST_ENTRIES
        && joins(&levels_of_longest((m, n), tuning));
    if fits { most } else { 0 }
}

/// Columns of L that a panel appends.
fn stride(tuning: &Tuning) -> usize {
    tuning.tile_size.next_multiple_of(4)
}

/// The levels of the first panel of an m x n matrix, m >= n, the longest one.
pub(crate) fn levels_of_longest((m, n): (usize, usize), tuning: &Tuning) -> Vec<Level> {
    let width = tuning.tile_size.min(n);
    let first = DeferredPanel { transposed: false, row: 0, rows: m, col: 0, width, cols: n, pending: 0, stride: stride(tuning) };
    levels_of(&first, tuning)
}

/// The levels of a panel's tree.
fn levels_of(panel: &DeferredPanel, tuning: &Tuning) -> Vec<Level> {
    let &DeferredPanel { transposed, row, col, width, .. } = panel;
    let maps = levels(PanelTree::Reduction, row, panel.len(), width, tuning.leaf, tuning.arity());
    maps.map(|map| Level { transposed, col, width, map }).collect()
}

/// Reduces an m x n matrix, m >= n, to an upper band as [`to_band`](crate::algo::to_band::to_band) does, with room for `most` columns of L.
pub(crate) fn to_band_deferred<K: DeferredKernels>(
    kernels: &K,
    a: &mut K::Dense,
    (m, n): (usize, usize),
    tuning: &Tuning,
    most: usize,
) -> Result<()> {
    let (b, stride, from) = (tuning.tile_size, stride(tuning), tuning.gpu.deferred_from.max(1));
    let (mut k, mut pending) = (0, 0);
    while n.saturating_sub(k) >= from {
        let width = b.min(n - k);
        let columns = DeferredPanel { transposed: false, row: k, rows: m, col: k, width, cols: n, pending, stride };
        eliminate(kernels, a, &columns, tuning)?;
        pending += stride;
        if k + b < n {
            let rows = DeferredPanel { transposed: true, row: k + b, rows: n, col: k, width, cols: m, pending, stride };
            eliminate(kernels, a, &rows, tuning)?;
            pending += stride;
        }
        k += b;
        let left = n.saturating_sub(k);
        if left > 0 && (pending + 2 * stride > most || left < from) {
            let all = DeferredProduct { transposed: false, size: (m, n), rows: k..m, cols: k..n, inner: pending };
            kernels.subtract_deferred(a, &all)?;
            pending = 0;
        }
    }
    rest_to_band(kernels, a, (m, n), k, tuning)
}

/// Factors a panel, and appends its reflectors and their products.
fn eliminate<K: DeferredKernels>(kernels: &K, a: &mut K::Dense, panel: &DeferredPanel, tuning: &Tuning) -> Result<()> {
    if panel.pending > 0 {
        kernels.subtract_deferred(a, &panel.update())?;
    }
    let levels = levels_of(panel, tuning);
    for (k, level) in levels.iter().enumerate() {
        kernels.factor_level(a, k, level)?;
    }
    if panel.trailing().is_empty() {
        return Ok(());
    }
    kernels.join_reflectors(a, panel, &levels)?;
    kernels.multiply_panel(a, panel)?;
    if panel.pending > 0 {
        kernels.subtract_deferred(a, &panel.correction())?;
    }
    Ok(())
}
