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
    algo::to_band::{band_levels, qr_first, rest_to_band},
    base::{
        blas::{Op, Side},
        element_kind::ElementKind,
        error::Result,
    },
    tile::{
        deferred::{DeferredPanel, DeferredProduct, joins},
        kernels::DeferredKernels,
        panel_tree::{Level, PanelTree, levels},
        tuning::Tuning,
    },
};

/// Most rows of a matrix, whose levels are then one piece each, and most entries with L, R and G: more cannot be indexed.
const MOST_ROWS: usize = 1 << 17;
const MOST_ENTRIES: u64 = 1 << 32;

/// The columns of L in a call for an m x n matrix, m >= n, stored as `kind`, by kernels that can defer updates; 0: none are deferred. Of a tall matrix the
/// triangular factor is reduced.
pub(crate) fn deferred_columns_of_call(kind: ElementKind, (m, n): (usize, usize), tuning: &Tuning) -> usize {
    let rows = if qr_first(m, n) { n } else { m };
    let most = deferred_columns(kind, (rows, n), tuning);
    let entries = (m.saturating_add(most + 3) as u64).saturating_mul((n + most + 3) as u64);
    if entries < MOST_ENTRIES { most } else { 0 }
}

/// The columns of L in stage 1 of an m x n matrix, m >= n.
pub(crate) fn deferred_columns(kind: ElementKind, (m, n): (usize, usize), tuning: &Tuning) -> usize {
    let pair = 2usize.saturating_mul(stride(tuning)).max(1);
    let most = tuning.gpu.deferred_columns.min(MOST_ROWS) / pair * pair;
    let fits = most > 0
        && tuning.tree == PanelTree::Reduction
        && !kind.is_half()
        && n > tuning.tile_size
        && n >= tuning.gpu.deferred_from
        && m <= MOST_ROWS
        && joins(&levels_of_longest((m, n), tuning));
    if fits { most } else { 0 }
}

/// Columns of L that a panel appends.
fn stride(tuning: &Tuning) -> usize {
    tuning.tile_size.checked_next_multiple_of(4).unwrap_or(usize::MAX)
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

/// The diagonal entry with which the rest begins, whose updates are not deferred.
fn first_of_rest(n: usize, tuning: &Tuning) -> usize {
    let (b, from) = (tuning.tile_size, tuning.gpu.deferred_from.max(1));
    (n + 1).saturating_sub(from).div_ceil(b) * b
}

/// The levels whose reflectors stage 1 of an m x n matrix, m >= n, keeps, in order. If updates are `deferred`, a panel's joined reflectors are a level of
/// one block.
pub(crate) fn kept_levels((m, n): (usize, usize), tuning: &Tuning, rows_at_once: usize, deferred: bool) -> Vec<Level> {
    let rest = if deferred { first_of_rest(n, tuning) } else { 0 };
    let mut levels = Vec::new();
    for k in (0..n.min(rest)).step_by(tuning.tile_size.max(1)) {
        levels.extend(panels((m, n), k, 0, tuning).iter().flatten().map(DeferredPanel::level));
    }
    levels.extend(band_levels(m, n, tuning, rows_at_once).skip_while(|level| level.col < rest));
    levels
}

/// Those of one side with their numbers, in the order in which op(Q1) or op(P1) applies them.
pub(crate) fn applied_levels(levels: Vec<Level>, side: Side, op: Op) -> Vec<(usize, Level)> {
    let mut levels: Vec<_> = levels.into_iter().enumerate().collect();
    levels.retain(|(_, level)| level.transposed == (side == Side::Right));
    if op == Op::NoTrans {
        levels.reverse();
    }
    levels
}

/// The panels of columns and of rows that begin at diagonal entry `k`.
fn panels((m, n): (usize, usize), k: usize, pending: usize, tuning: &Tuning) -> [Option<DeferredPanel>; 2] {
    let (b, stride) = (tuning.tile_size, stride(tuning));
    let width = b.min(n - k);
    let columns = DeferredPanel { transposed: false, row: k, rows: m, col: k, width, cols: n, pending, stride };
    let of_rows =
        DeferredPanel { transposed: true, row: k + b, rows: n, col: k, width, cols: m, pending: pending + stride, stride };
    [Some(columns), (k + b < n).then_some(of_rows)]
}

/// Reduces an m x n matrix, m >= n, to an upper band as [`to_band`](crate::algo::to_band::to_band) does, with room for `most` columns of L.
pub(crate) fn to_band_deferred<K: DeferredKernels>(
    kernels: &K,
    a: &mut K::Dense,
    (m, n): (usize, usize),
    tuning: &Tuning,
    most: usize,
) -> Result<()> {
    let (b, rest) = (tuning.tile_size, first_of_rest(n, tuning));
    let (mut k, mut pending) = (0, 0);
    while k < n.min(rest) {
        for panel in panels((m, n), k, pending, tuning).into_iter().flatten() {
            eliminate(kernels, a, &panel, tuning)?;
            pending = panel.pending + panel.stride;
        }
        k += b;
        if k < n && (pending + 2 * stride(tuning) > most || k >= rest) {
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
    kernels.join_reflectors(a, panel, &levels)?;
    if panel.trailing().is_empty() {
        return Ok(());
    }
    kernels.multiply_panel(a, panel)?;
    if panel.pending > 0 {
        kernels.subtract_deferred(a, &panel.correction())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
